/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What came in the last minutes: why clocks were limited, for DCGM_EXP_CLOCK_EVENTS_COUNT and _TOTAL, and which
 * XIDs there were, for DCGM_EXP_XID_ERRORS_COUNT. A view has only counters. So the maker of the views passes each
 * view to metrics_clocks_update() and metrics_xids_update(). The first records the reasons in each new sample of a
 * GPU, the second the growth since the view before, both with the time.
 *
 * Limits. METRICS_CLOCK_SAMPLES samples of a GPU are kept, then the oldest is dropped: more than five hours at
 * one sample in 5 s. Of more than METRICS_CLOCK_GPUS GPUs, those with the newest samples are kept. At most
 * METRICS_XIDS_MAX records (XID, GPU, time) are kept; the oldest are dropped first.
 * Thread: any (one lock inside each, held briefly; no other lock is taken under it).
 */
#include "lib/base/error.h"
#include "node/view/view.h"

/* --- clocks --- */

#define METRICS_CLOCK_SAMPLES 4096
#define METRICS_CLOCK_GPUS    64

/* Named bits of DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, from bit 0 on. */
#define METRICS_CLOCK_EVENTS 9
const char *metrics_clock_event(size_t bit); /* "gpu_idle" */

struct metrics_clocks;

/* Without samples. ERR_NOMEM. */
int metrics_clocks_new(struct metrics_clocks **ret, struct error *err) MUST_USE;
struct metrics_clocks *metrics_clocks_free(struct metrics_clocks *c); /* returns NULL */
DEFINE_CLEANUP(struct metrics_clocks *, metrics_clocks_free)

/* Called with each view, in order. A sample that an earlier view had is not counted again. */
void metrics_clocks_update(struct metrics_clocks *c, const struct view *v);

/* Drops all samples: the next samples come after a gap. */
void metrics_clocks_forget(struct metrics_clocks *c);

/* How many samples of a GPU had each reason, in the @window_ns before @now_ns (monotonic, the time of a view). */
void metrics_clocks_within(struct metrics_clocks *c, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, uint64_t ret[METRICS_CLOCK_EVENTS]);

/* How often each reason appeared that the sample before did not have. */
void metrics_clocks_total(struct metrics_clocks *c, const char *uuid,
	uint64_t ret[METRICS_CLOCK_EVENTS]);

/* --- XIDs --- */

#define METRICS_XIDS_MAX 512

struct metrics_xids;

/* Without records. ERR_NOMEM. */
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
