/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts of the directory of slices. Thread: loop. */
#include "node/arbiter/internal.h"

/* ---- slice.c: one slice ----------------------------------------------------------------------- */

/* Compares its directory with what is served of it. */
void slice_sync_dir(struct arbiter_slice *s);

/* Its directory is away: nobody may come any more, who is there stays. */
void slice_stop_serving(struct arbiter_slice *s);

/* Why the present file is not in force: in .refused, and logged once for each reason. */
void slice_refuse(struct arbiter_slice *s, const struct error *err);

/* The book's data of it. What was refused goes on from its accounts. */
void slice_attach_grants(struct arbiter_slice *s, struct grants_slice *b);

/* NULL. It is in no list any more. */
struct arbiter_slice *slice_free(struct arbiter_slice *s);

/* ---- slices.c: what wakes us ------------------------------------------------------------------ */

/* Changes in @dir mark the slice, or NULL: all of them. NULL: the kernel gives no events of it. */
uv_fs_event_t *slices_events_start(struct arbiter *a, const char *dir, struct arbiter_slice *s);
uv_fs_event_t *slices_events_stop(uv_fs_event_t *h); /* NULL */
