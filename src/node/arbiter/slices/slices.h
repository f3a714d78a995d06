/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices of this node: the directory of slices, and when each slice is compared with its own directory.
 * slice.h has one slice, file.h its file. Thread: loop. Blocks: on small files of local disks.
 */
#include "node/arbiter/slices/slice.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define SLICE_BUCKETS 1024

struct arbiter;

/* Called by slices/, implemented by clients/ (clients/conn.h). */
struct arbiter_slices_ops {
	/* A process connects to .listener. @slice: struct arbiter_slice. */
	void (*accept)(void *slice);
	/* Closes .listener and the connections in its queue. Does nothing without a listener. */
	void (*stop_listening)(struct arbiter_slice *s);
	/* Closes the slice's connections that have neither memory nor quanta. */
	void (*stop_slice)(struct arbiter_slice *s);
	/* Closes the slice's connections that have quanta. */
	void (*stop_sched)(struct arbiter_slice *s);
	/* Periodic: closes connections whose first packet is overdue. @now_ns: monotonic. */
	void (*expire)(struct arbiter *a, uint64_t now_ns);
};

/*
 * Creates the directory of slices if it is missing, serves what is there, and watches it. @ops must stay valid.
 * Call arbiter_slices_stop() after a failure too. Errors: a path that is too long; the system's.
 */
int arbiter_slices_start(struct arbiter *a, const struct arbiter_slices_ops *ops,
	struct error *err) MUST_USE;

/* Frees all slices. No connection may be open. Handles close as the loop runs. */
void arbiter_slices_stop(struct arbiter *a);

/*
 * Compares the directory of slices with the slices served, and each slice with its directory. False: some
 * slices could not be seen or added, so the caller must not treat a slice that was not found as gone. The
 * periodic scan retries.
 */
bool arbiter_slices_scan(struct arbiter *a);

/*
 * The slice with this ID, or NULL. slice_id_valid(@id) must hold, since the hash is of the last 8 of its 32
 * digits. The arbiter owns the slice, which lives until it has no directory, no connection and no grants any
 * more.
 */
struct arbiter_slice *arbiter_slices_find(struct arbiter *a, const char *id);

/* The slice of the process, or of its nearest ancestor that has one (process/proc.h). NULL: none is known. */
struct arbiter_slice *arbiter_slices_find_by_pid(struct arbiter *a, uint32_t pid);

/* arbiter_slice_save_refusals() of all slices. */
void arbiter_slices_save_refusals(struct arbiter *a);

/*
 * Stops waking the loop for this slice's listener for a while, since its connections cannot be accepted. errno
 * has the reason, which is logged. The slice has a listener.
 */
void arbiter_slices_pause(struct arbiter_slice *s);

/*
 * Watches @dir: a change marks @s, or with NULL all slices, for the next sync. The caller owns the result and
 * ends it with arbiter_slices_events_stop(). NULL: the kernel gives no events of @dir, or no memory; the
 * periodic scan finds changes.
 */
uv_fs_event_t *arbiter_slices_events_start(struct arbiter *a, const char *dir,
	struct arbiter_slice *s);

/* @h may be NULL. Returns NULL. */
uv_fs_event_t *arbiter_slices_events_stop(uv_fs_event_t *h);
