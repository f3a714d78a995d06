/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of the directory of slices. Thread: loop. */
#include "node/arbiter/internal.h"

/* ---- slice.c: one slice ----------------------------------------------------------------------- */

/* Compares its directory with what is served of it. */
void slice_look(struct slice *s);

/* Its directory is away: nobody may come any more, who is there stays. */
void slice_gone(struct slice *s);

/* Why the present file is not in force: in .refused, and logged once for each reason. */
void slice_refuse(struct slice *s, const struct error *err);

/* The book's data of it. What was refused goes on from its accounts. */
void slice_take_book(struct slice *s, struct book_slice *b);

/* NULL. It is in no list any more. */
struct slice *slice_free(struct slice *s);

/* ---- slices.c: what wakes us ------------------------------------------------------------------ */

/* Changes in @dir mark the slice, or NULL: all of them. NULL: the kernel gives no events of it. */
uv_fs_event_t *slices_events_start(struct arbiter *a, const char *dir, struct slice *s);
uv_fs_event_t *slices_events_stop(uv_fs_event_t *h); /* NULL */
