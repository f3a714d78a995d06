/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which XIDs came in the last minutes, for DCGM_EXP_XID_ERRORS_COUNT: a view has counters only, so who makes the
 * views shows each here, and what has grown since the one before is remembered with its time.
 *
 * At most METRICS_XIDS_MAX kinds of XID and GPU and moment are kept; the oldest go first.
 * Thread: any (one lock inside, held for short; no other is taken under it).
 */
#include "lib/base/error.h"
#include "node/view/view.h"

#define METRICS_XIDS_MAX 512

struct metrics_xids;

int metrics_xids_new(struct metrics_xids **ret, struct error *err) MUST_USE;
struct metrics_xids *metrics_xids_free(struct metrics_xids *x); /* returns NULL */
DEFINE_CLEANUP(struct metrics_xids *, metrics_xids_free)

/* Each view, in order; a reference to the last is kept. What the first one has is old. */
void metrics_xids_update(struct metrics_xids *x, struct view *v);

struct metrics_xid {
	uint32_t xid;
	uint64_t count;
};

/* Those of a GPU in the @window_ns before @now_ns (monotonic, a view's), by number; returns how many
 * of @max were written. */
size_t metrics_xids_within(struct metrics_xids *x, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, struct metrics_xid *ret, size_t max);
