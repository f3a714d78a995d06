/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why clocks were not higher in the last minutes, for DCGM_EXP_CLOCK_EVENTS_COUNT and _TOTAL: who makes the views shows
 * each here, and the reasons that each look at a GPU has seen are remembered with its time.
 *
 * Of a GPU METRICS_CLOCK_SAMPLES looks are kept, the oldest go first: more than five hours of them at one in 5 s. Of more
 * than METRICS_CLOCK_GPUS GPUs those that were seen last are kept.
 * Thread: any (one lock inside, held for short; no other is taken under it).
 */
#include "lib/base/error.h"
#include "node/view/view.h"

#define METRICS_CLOCK_SAMPLES 4096
#define METRICS_CLOCK_GPUS    64

/* Bits of DCGM_FI_DEV_CLOCK_THROTTLE_REASONS that have a name, from 0 on. */
#define METRICS_CLOCK_EVENTS 9
const char *metrics_clock_event(size_t bit); /* "gpu_idle" */

struct metrics_clocks;

int metrics_clocks_new(struct metrics_clocks **ret, struct error *err) MUST_USE;
struct metrics_clocks *metrics_clocks_free(struct metrics_clocks *c); /* returns NULL */
DEFINE_CLEANUP(struct metrics_clocks *, metrics_clocks_free)

/* Each view, in order. A sample that was in an earlier one is no new look. */
void metrics_clocks_update(struct metrics_clocks *c, const struct view *v);

/* What was seen goes: the looks that come are after a gap. */
void metrics_clocks_forget(struct metrics_clocks *c);

/* How many looks at a GPU in the @window_ns before @now_ns (monotonic, a view's) had each reason. */
void metrics_clocks_within(struct metrics_clocks *c, const char *uuid, uint64_t now_ns,
	uint64_t window_ns, uint64_t ret[METRICS_CLOCK_EVENTS]);

/* How often each came that was not there at the look before. */
void metrics_clocks_total(struct metrics_clocks *c, const char *uuid,
	uint64_t ret[METRICS_CLOCK_EVENTS]);
