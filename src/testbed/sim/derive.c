/* SPDX-License-Identifier: Apache-2.0 */
#include "testbed/sim/derive.h"

#include "lib/base/time.h"
#include "abi/nvml-api.h"

static uint32_t interpolate_percent(uint32_t low, uint32_t high, uint32_t percent)
{
	return high > low ? low + (uint32_t)((uint64_t)(high - low) * percent / 100) : low;
}

uint32_t sim_load_percent(const struct sim_gpu *g)
{
	uint32_t load = g->keys.util_gpu > g->process_load ? g->keys.util_gpu : g->process_load;

	return load > 100 ? 100 : load;
}

uint32_t sim_memory_load_percent(const struct sim_gpu *g)
{
	/* Unless util_memory is set, work keeps the memory busy for half of its time. */
	return g->keys.util_memory ? g->keys.util_memory : sim_load_percent(g) / 2;
}

uint32_t sim_power_mw(const struct sim_gpu *g)
{
	const struct sim_keys *k = &g->keys;
	uint32_t full = k->power_idle_mw;

	if (k->power_mw)
		return k->power_mw;
	full = interpolate_percent(k->power_idle_mw, k->power_limit_mw, 90);
	return interpolate_percent(k->power_idle_mw, full, sim_load_percent(g));
}

uint32_t sim_temperature_c(const struct sim_gpu *g)
{
	const struct sim_keys *k = &g->keys;

	if (k->temperature_c)
		return k->temperature_c;
	return interpolate_percent(k->temperature_idle_c, k->temperature_load_c,
		sim_load_percent(g));
}

uint32_t sim_clock_max_mhz(const struct sim_gpu *g, uint32_t type)
{
	const struct sim_keys *k = &g->keys;

	if (type == NVML_CLOCK_MEM)
		return k->clock_mem_max_mhz;
	return type == NVML_CLOCK_VIDEO ? k->clock_video_max_mhz : k->clock_sm_max_mhz;
}

uint32_t sim_clock_mhz(const struct sim_gpu *g, uint32_t type)
{
	const struct sim_keys *k = &g->keys;

	if (sim_load_percent(g))
		return sim_clock_max_mhz(g, type);
	if (type == NVML_CLOCK_MEM)
		return k->clock_mem_idle_mhz;
	return type == NVML_CLOCK_VIDEO ? k->clock_video_idle_mhz : k->clock_idle_mhz;
}

uint64_t sim_clock_reasons(const struct sim_gpu *g)
{
	if (g->keys.clock_reasons)
		return g->keys.clock_reasons;
	if (!sim_load_percent(g))
		return NVML_CLOCKS_REASON_GPU_IDLE;
	return sim_power_mw(g) >= g->keys.power_limit_mw ? NVML_CLOCKS_REASON_SW_POWER_CAP : 0;
}

uint32_t sim_pstate(const struct sim_gpu *g)
{
	return sim_load_percent(g) ? 0 : g->keys.pstate_idle;
}

uint64_t sim_memory_used_bytes(const struct sim_gpu *g)
{
	const struct sim_keys *k = &g->keys;
	uint64_t room =
		k->memory_total > k->memory_reserved ? k->memory_total - k->memory_reserved : 0;
	uint64_t used = g->process_memory + g->mig.idle_bytes + k->memory_other;

	return used < room ? used : room;
}

/* rate per second x time, without overflow for some centuries. */
static uint64_t accumulate_rate(uint64_t base, uint64_t rate, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;

	return base + rate * (ns / NS_PER_SEC) + rate * (ns % NS_PER_SEC) / NS_PER_SEC;
}

uint64_t sim_energy_mj(const struct sim_gpu *g, uint64_t wall_ns)
{
	return accumulate_rate(g->energy_mj, sim_power_mw(g), g->energy_at_ns, wall_ns);
}

uint32_t sim_pcie_kbps(const struct sim_gpu *g, uint32_t direction)
{
	uint32_t full = direction ? g->keys.pcie_rx_kbps : g->keys.pcie_tx_kbps;

	return (uint32_t)((uint64_t)full * sim_load_percent(g) / 100);
}

uint64_t sim_pcie_kb(const struct sim_gpu *g, uint32_t direction, uint64_t wall_ns)
{
	return accumulate_rate(g->pcie_kb[direction], sim_pcie_kbps(g, direction),
		g->energy_at_ns, wall_ns);
}

void sim_settle(struct sim_gpu *g, uint64_t wall_ns)
{
	uint64_t mj = sim_energy_mj(g, wall_ns);
	uint64_t tx = sim_pcie_kb(g, 0, wall_ns), rx = sim_pcie_kb(g, 1, wall_ns);

	g->energy_mj = mj;
	g->pcie_kb[0] = tx;
	g->pcie_kb[1] = rx;
	g->energy_at_ns = wall_ns;
}
