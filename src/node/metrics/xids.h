/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Records which XIDs came in the last minutes, for DCGM_EXP_XID_ERRORS_COUNT. A view has only counters. So the
 * maker of the views passes each view to metrics_xids_update(), which records the growth since the view before,
 * with the time.
 *
 * At most METRICS_XIDS_MAX records (XID, GPU, time) are kept; the oldest are dropped first.
 * Thread: any (one lock inside, held briefly; no other lock is taken under it).
 */
#include "lib/base/error.h"
#include "node/view/view.h"

#define METRICS_XIDS_MAX 512

struct metrics_xids;

int metrics_xids_new(struct metrics_xids **ret, struct error *err) MUST_USE;
struct metrics_xids *metrics_xids_free(struct metrics_xids *x); /* returns NULL */
DEFINE_CLEANUP(struct metrics_xids *, metrics_xids_free)

/* Called with each view, in order; holds a reference to the last one. The counts of the first view are not
 * recorded. */
void metrics_xids_update(struct metrics_xids *x, struct view *v);

struct metrics_xid {
	uint32_t xid;
	uint64_t count;
};

/* The XIDs of a GPU in the @window_ns before @now_ns (monotonic, the time of a view), by number. Returns how many
 * of @max were written. */
size_t metrics_xids_within(struct metrics_xids *x, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, struct metrics_xid *ret, size_t max);
