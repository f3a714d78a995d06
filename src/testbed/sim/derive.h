/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What NVML shows of a GPU beyond its keys: pure functions of the keys, the load and the time. The same state
 * always gives the same answer, so tests can predict the answer.
 *
 *	load         the larger of util_gpu and the sum of the processes' shares, percent
 *	power        idle + 90 % of (limit - idle) x load
 *	temperature  idle + (load temperature - idle) x load
 *	clocks       idle values without load, the maximum with any load
 *	energy       sum of power over time; sim_settle() rebases it whenever the load changes
 *
 * Thread: any.
 */
#include "testbed/sim/model.h"

/* Percent, 0 to 100. The memory load is util_memory, or half of the load if that is 0. */
uint32_t sim_load_percent(const struct sim_gpu *g);
uint32_t sim_memory_load_percent(const struct sim_gpu *g);
/* The keys power_mw and temperature_c, or a value from the load if the key is 0. */
uint32_t sim_power_mw(const struct sim_gpu *g);
uint32_t sim_temperature_c(const struct sim_gpu *g);
/* @type: NVML_CLOCK_*. */
uint32_t sim_clock_mhz(const struct sim_gpu *g, uint32_t type);
uint32_t sim_clock_max_mhz(const struct sim_gpu *g, uint32_t type);
/* NVML_CLOCKS_REASON_*: the key clock_reasons; if that is 0: idle without load, or the power cap at the power limit. */
uint64_t sim_clock_reasons(const struct sim_gpu *g);
uint32_t sim_pstate(const struct sim_gpu *g);            /* pstate_idle without load, else 0 */
uint64_t sim_memory_used_bytes(const struct sim_gpu *g); /* without memory_reserved */
/* Millijoules until @wall_ns of the wall clock. */
uint64_t sim_energy_mj(const struct sim_gpu *g, uint64_t wall_ns);

/* KB/s now, and KB since the GPU was created; direction 0: sent, 1: received. */
uint32_t sim_pcie_kbps(const struct sim_gpu *g, uint32_t direction);
uint64_t sim_pcie_kb(const struct sim_gpu *g, uint32_t direction, uint64_t wall_ns);

/* Adds up the counters until @wall_ns. The caller calls it before any change of the load. */
void sim_settle(struct sim_gpu *g, uint64_t wall_ns);
