/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How busy CUDA programs keep a GPU: what the device daemon has measured, for the simulated NVML to say.
 *
 * The busy time is a counter, by the real clock however fast the simulated one goes. The daemon tells it some
 * four times a second, at a tick; in between, a reader goes on at the rate of the last tick.
 * Process utilization is as driver 580 has it (measured on an H100): of each process that has computed since the moment that
 * the caller names one percentage, of the time from then until now, with the time of the last tick in which it did; of a
 * process that has ended nothing. Nobody knows more than the last SIM_LOAD_TICKS.
 * Writer: the device daemon alone. Thread: any.
 */
#include "testbed/sim/state.h"

#define SIM_LOAD_ROOM  72 /* what a driver asks a caller to have room for (measured) */
#define SIM_LOAD_TICKS 64
#define SIM_LOAD_PARTS 384 /* of all processes and ticks; more make the memory shorter */

struct sim_load_part {
	uint32_t pid, busy_us; /* of the tick */
	uint64_t at_us;        /* wall clock: its end */
};

struct sim_load_tick {
	uint64_t at_us, real_us; /* its end, wall clock, and how long it was */
};

struct sim_load {
	uint64_t busy_ns; /* up to at_ns */
	uint64_t at_ns;   /* monotonic; 0: nothing was ever measured */
	uint32_t rate;    /* millionths, of the last tick */
	uint32_t n_ticks,
		n_parts; /* ever; the newest is at (n - 1) % room. A part of PID 0 is none */
	uint32_t padding;
	uint64_t gone_us; /* parts up to then are not known any more */
	struct sim_load_tick ticks[SIM_LOAD_TICKS];
	struct sim_load_part parts[SIM_LOAD_PARTS];
};

/* What a process did since a moment. */
struct sim_load_share {
	uint32_t pid, percent;
	uint64_t at_us;
};

void sim_load_write(struct sim_state *s, uint32_t slot, const struct sim_load *load);
void sim_load_read(const struct sim_state *s, uint32_t slot, struct sim_load *load);

void sim_load_tick(struct sim_load *load, uint64_t at_us, uint64_t real_us);
/* What @pid did in the tick that ends at @at_us; parts of one process in one tick are added. */
void sim_load_add(struct sim_load *load, uint32_t pid, uint64_t busy_us, uint64_t at_us);
void sim_load_forget(struct sim_load *load, uint32_t pid);

/* Who computed after @since_us; SIM_LOAD_ROOM of them at most. */
uint32_t sim_load_shares(const struct sim_load *load, uint64_t since_us,
	struct sim_load_share ret[SIM_LOAD_ROOM]);

/* The counter at @mono_ns. False: there is no daemon that measures. */
bool sim_load_busy_ns(const struct sim_load *load, uint64_t mono_ns, uint64_t *ret);
