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

uint32_t sim_load_percent(const struct sim_gpu *g);
uint32_t sim_memory_load_percent(const struct sim_gpu *g);
uint32_t sim_power_mw(const struct sim_gpu *g);
uint32_t sim_temperature_c(const struct sim_gpu *g);
uint32_t sim_clock_mhz(const struct sim_gpu *g, uint32_t type); /* NVML_CLOCK_* */
uint32_t sim_clock_max_mhz(const struct sim_gpu *g, uint32_t type);
uint64_t sim_clock_reasons(const struct sim_gpu *g);
uint32_t sim_pstate(const struct sim_gpu *g);
uint64_t sim_memory_used_bytes(const struct sim_gpu *g); /* without memory_reserved */
uint64_t sim_energy_mj(const struct sim_gpu *g, uint64_t wall_ns);

/* KB/s now, and KB since the GPU was created; direction 0: sent, 1: received. */
uint32_t sim_pcie_kbps(const struct sim_gpu *g, uint32_t direction);
uint64_t sim_pcie_kb(const struct sim_gpu *g, uint32_t direction, uint64_t wall_ns);

/* Adds up the counters until @wall_ns. The caller calls it before any change of the load. */
void sim_settle(struct sim_gpu *g, uint64_t wall_ns);
