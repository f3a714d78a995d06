/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How busy CUDA programs keep a GPU: what the device daemon has measured, for the simulated NVML to say.
 *
 * The busy time is a counter, by the real clock however fast the simulated one goes. The daemon tells it some
 * four times a second; in between, a reader goes on at the rate of the last quarter.
 * The samples are those of process utilization: for each process one a second and one at its end, in whole
 * percents, and what rounding took from one is given to the next. As in the driver there is room for 72.
 * Writer: the device daemon alone. Thread: any.
 */
#include "sim/state.h"

#define SIM_LOAD_SAMPLES 72 /* as a driver has (measured) */

struct sim_load_sample {
	uint32_t pid, percent; /* of the time since the process's sample before */
	uint64_t at_us;        /* wall clock */
};

struct sim_load {
	uint64_t busy_ns; /* up to at_ns */
	uint64_t at_ns;   /* monotonic; 0: nothing was ever measured */
	uint32_t rate;    /* millionths, of the last quarter of a second */
	uint32_t count; /* of samples, ever; the newest is at (count - 1) % SIM_LOAD_SAMPLES */
	struct sim_load_sample samples[SIM_LOAD_SAMPLES];
};

void sim_load_write(struct sim_state *s, uint32_t slot, const struct sim_load *load);
void sim_load_read(const struct sim_state *s, uint32_t slot, struct sim_load *load);

/* Adds a sample; two of one process at one moment are one. */
void sim_load_add(struct sim_load *load, uint32_t pid, uint32_t percent, uint64_t at_us);

/* The counter at @mono_ns. False: there is no daemon that measures. */
bool sim_load_busy_ns(const struct sim_load *load, uint64_t mono_ns, uint64_t *ret);
