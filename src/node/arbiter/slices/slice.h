/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files of slices/. Thread: loop. */
#include "node/arbiter/internal.h"

/* ---- slice.c: one slice ----------------------------------------------------------------------- */

/* Compares the slice's directory with what is served. */
void arbiter_slice_sync_dir(struct arbiter_slice *s);

/* The slice's directory no longer exists: no process may register any more. Registered processes stay. */
void arbiter_slice_stop_serving(struct arbiter_slice *s);

/* Returns NULL. The caller has removed the slice from all lists. */
struct arbiter_slice *arbiter_slice_free(struct arbiter_slice *s);

/* ---- slices.c: events -------------------------------------------------------------------------- */

/* Changes in @dir mark @s, or with NULL all slices, for the next sync. Returns NULL if the kernel gives no events
 * of @dir. */
uv_fs_event_t *arbiter_slices_events_start(struct arbiter *a, const char *dir,
	struct arbiter_slice *s);
uv_fs_event_t *arbiter_slices_events_stop(uv_fs_event_t *h); /* NULL */
