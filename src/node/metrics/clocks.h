/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts why clocks were limited in the last minutes, for DCGM_EXP_CLOCK_EVENTS_COUNT and _TOTAL. The maker of
 * the views passes each view to metrics_clocks_update(), which records the reasons in each new sample of a GPU,
 * with the time.
 *
 * Limits. METRICS_CLOCK_SAMPLES samples of a GPU are kept, then the oldest is dropped: more than five hours at
 * one sample in 5 s. Of more than METRICS_CLOCK_GPUS GPUs, those with the newest samples are kept.
 * Thread: any (one lock inside, held briefly; no other lock is taken under it).
 */
#include "lib/base/error.h"
#include "node/view/view.h"

#define METRICS_CLOCK_SAMPLES 4096
#define METRICS_CLOCK_GPUS    64

/* Named bits of DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, from bit 0 on. */
#define METRICS_CLOCK_EVENTS 9
const char *metrics_clock_event(size_t bit); /* "gpu_idle" */

struct metrics_clocks;

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
