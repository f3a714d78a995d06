/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How busy CUDA programs keep a GPU: the device daemon measures it, the simulated NVML reports it.
 *
 * Busy time. A counter on the real clock, whatever the speed of the simulated clock. The daemon updates it about
 * four times a second, at a tick. Between two ticks a reader extrapolates at the rate of the last tick, for 500 ms
 * at most.
 *
 * Process utilization, as of driver 580 (measured on an H100). The caller names a moment. Each process that has
 * computed since that moment gets one percentage of the time from then until now. Its time stamp is the end of the
 * last tick in which it computed. A process that has ended gets nothing. The history reaches back SIM_LOAD_TICKS
 * ticks at most.
 *
 * Writer: the device daemon alone. Thread: any.
 */
#include "testbed/sim/state.h"

#define SIM_LOAD_ROOM  72 /* entries that the driver requests (measured) */
#define SIM_LOAD_TICKS 64
#define SIM_LOAD_PARTS 384 /* of all processes and ticks; bounds the history */

struct sim_load_part {
	uint32_t pid, busy_us; /* of the tick */
	uint64_t at_us;        /* end of the tick; wall clock */
};

struct sim_load_tick {
	uint64_t at_us, real_us; /* end of the tick, wall clock; its length */
};

struct sim_load {
	uint64_t busy_ns; /* up to at_ns */
	uint64_t at_ns;   /* monotonic clock; 0: never measured */
	uint32_t rate;    /* millionths; of the last tick */
	/* Totals; the newest entry is at (n - 1) % capacity. A part of PID 0 is empty. */
	uint32_t n_ticks, n_parts;
	uint32_t padding;
	uint64_t gone_us; /* end of the last tick of which something was overwritten */
	struct sim_load_tick ticks[SIM_LOAD_TICKS];
	struct sim_load_part parts[SIM_LOAD_PARTS];
};

/* The work of one process since a moment. */
struct sim_load_share {
	uint32_t pid, percent;
	uint64_t at_us;
};

/*
 * Store and read the load of the GPU in @slot. Only the device daemon writes. A reader copies again if a write
 * came between; it gives up after some tries, then *load may be mixed.
 */
void sim_load_write(struct sim_state *s, uint32_t slot, const struct sim_load *load);
void sim_load_read(const struct sim_state *s, uint32_t slot, struct sim_load *load);

/*
 * Begins a tick that ends at @at_us and lasted @real_us of real time, before the sim_load_add() calls for it.
 */
void sim_load_tick(struct sim_load *load, uint64_t at_us, uint64_t real_us);
/* Adds the work of @pid in the tick that ends at @at_us; several calls for one process and tick add up. */
void sim_load_add(struct sim_load *load, uint32_t pid, uint64_t busy_us, uint64_t at_us);
/* The process has ended: removes its work from all ticks. */
void sim_load_forget(struct sim_load *load, uint32_t pid);

/* The processes that computed after @since_us. Returns their number, SIM_LOAD_ROOM at most. */
uint32_t sim_load_shares(const struct sim_load *load, uint64_t since_us,
	struct sim_load_share ret[SIM_LOAD_ROOM]);

/* The counter at @mono_ns. False: no daemon has written it in the last 2 s. */
bool sim_load_busy_ns(const struct sim_load *load, uint64_t mono_ns, uint64_t *ret);
