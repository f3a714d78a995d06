/* SPDX-License-Identifier: Apache-2.0 */

/* What a GPU does at the moment: memory, load, power, temperature, clocks, PCIe, modes. */
#include <unistd.h>

#include "lib/base/time.h"
#include "testbed/sim/mig.h"
#include "testbed/sim/nvml/lib.h"

#define SAMPLING_PERIOD_US 100000 /* of the engine utilization (measured) */

/* --- memory --- */

/* Total, reserved and used bytes. A MIG device has those of its GPU instance. */
struct sim_memory_amounts {
	uint64_t total, reserved, used;
};

static struct sim_memory_amounts get_target_memory(const struct sim_gpu *g,
	const struct target *t)
{
	const struct sim_mig_table *table = sim_mig_table(&g->keys);
	struct sim_memory_amounts m = { .total = g->keys.memory_total,
		.reserved = g->keys.memory_reserved,
		.used = sim_memory_used_bytes(g) };

	if (t->kind == HANDLE_GPU || !table)
		return m;
	m.reserved = 0;
	m.total = (uint64_t)sim_gi_profile(g, t->gi)->memory_mib << 20;
	m.used = ((uint64_t)table->idle_mib << 20) +
		 sim_mig_process_bytes(g, t->gi->id, SIM_NO_INSTANCE);
	m.used = m.used < m.total ? m.used : m.total;
	return m;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *memory)
{
	struct sim_gpu g;
	struct target t;
	struct sim_memory_amounts m;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_MEMORY, memory != NULL, &g, &t);

	if (r)
		return r;
	m = get_target_memory(&g, &t);
	memory->total = m.total;
	memory->used = m.used + m.reserved;
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *memory)
{
	struct sim_gpu g;
	struct target t;
	struct sim_memory_amounts m;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_MEMORY, memory != NULL, &g, &t);

	if (r)
		return r;
	if (memory->version != NVML_STRUCT_VERSION(*memory, 2))
		return NVML_ERROR_FUNCTION_NOT_FOUND; /* not 25 (measured) */
	m = get_target_memory(&g, &t);
	memory->total = m.total;
	memory->reserved = m.reserved;
	memory->used = m.used;
	memory->free = memory->total - memory->reserved - memory->used;
	return NVML_SUCCESS;
}

/* A MIG device has the share of its memory slots, less 1 MiB (as listed for a 1g of H100). */
static uint64_t bar1_total(const struct sim_gpu *g, const struct target *t)
{
	const struct sim_mig_table *table = sim_mig_table(&g->keys);

	if (t->kind == HANDLE_GPU || !table)
		return g->keys.bar1_total;
	return g->keys.bar1_total * sim_gi_profile(g, t->gi)->size / table->layout->slots -
	       (1U << 20);
}

EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *memory)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_BAR1, memory != NULL, &g, &t);
	uint64_t used;

	if (r)
		return r;
	used = t.kind == HANDLE_GPU ? g.keys.bar1_used : 0;
	memory->bar1Total = bar1_total(&g, &t);
	memory->bar1Used = used < memory->bar1Total ? used : memory->bar1Total;
	memory->bar1Free = memory->bar1Total - memory->bar1Used;
	return NVML_SUCCESS;
}

/* Load. With MIG on the whole GPU has none, and an instance has one only by GPM. */

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *rates)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_UTILIZATION, rates != NULL, &g);

	if (r == NVML_SUCCESS && g.mig.enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (r == NVML_SUCCESS) {
		rates->gpu = sim_load_percent(&g);
		rates->memory = sim_memory_load_percent(&g);
	}
	return r;
}

#define ENGINE_GETTER(function, group, key)                                                 \
	EXPORT nvmlReturn_t function(nvmlDevice_t d, unsigned int *percent,                 \
		unsigned int *period_us)                                                    \
	{                                                                                   \
		struct sim_gpu g;                                                           \
		nvmlReturn_t r = gpu_enter(d, SIM_GROUP_##group, percent && period_us, &g); \
                                                                                            \
		if (r == NVML_SUCCESS && g.mig.enabled)                                     \
			return NVML_ERROR_NOT_SUPPORTED;                                    \
		if (r == NVML_SUCCESS) {                                                    \
			*percent = g.keys.key;                                              \
			*period_us = SAMPLING_PERIOD_US;                                    \
		}                                                                           \
		return r;                                                                   \
	}

ENGINE_GETTER(nvmlDeviceGetEncoderUtilization, VIDEO, util_encoder)
ENGINE_GETTER(nvmlDeviceGetDecoderUtilization, VIDEO, util_decoder)
ENGINE_GETTER(nvmlDeviceGetJpgUtilization, JPG_OFA, util_jpg)
ENGINE_GETTER(nvmlDeviceGetOfaUtilization, JPG_OFA, util_ofa)

/* --- power and temperature --- */

GETTER_U32(nvmlDeviceGetPowerUsage, POWER, sim_power_mw(&g))
GETTER_U32(nvmlDeviceGetEnforcedPowerLimit, POWER_LIMIT, g.keys.power_limit_mw)
GETTER_U32(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT, g.keys.power_limit_mw)
GETTER_U32(nvmlDeviceGetPowerManagementDefaultLimit, POWER_LIMIT, g.keys.power_default_mw)
GETTER_U32(nvmlDeviceGetPowerManagementMode, POWER_LIMIT, NVML_FEATURE_ENABLED)

EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t d,
	unsigned int *min_mw, unsigned int *max_mw)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_POWER_LIMIT, min_mw && max_mw, &g);

	if (r == NVML_SUCCESS) {
		*min_mw = g.keys.power_min_mw;
		*max_mw = g.keys.power_max_mw;
	}
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *mj)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_ENERGY, mj != NULL, &g);

	if (r == NVML_SUCCESS)
		*mj = sim_energy_mj(&g, time_wall_ns());
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, unsigned int sensor,
	unsigned int *celsius)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_TEMPERATURE,
		celsius && sensor == NVML_TEMPERATURE_GPU, &g);

	if (r == NVML_SUCCESS)
		*celsius = sim_temperature_c(&g);
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t d, nvmlTemperature_v1_t *t)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_TEMPERATURE, t != NULL, &g);

	if (r)
		return r;
	if (t->version != NVML_STRUCT_VERSION(*t, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	if (t->sensorType != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	t->temperature = (int)sim_temperature_c(&g);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t d, unsigned int which,
	unsigned int *celsius)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_THRESHOLDS, celsius && which <= 7, &g);
	uint32_t value = 0;

	if (r)
		return r;
	if (which == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN)
		value = g.keys.temperature_shutdown_c;
	else if (which == NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
		value = g.keys.temperature_slowdown_c;
	else if (which == NVML_TEMPERATURE_THRESHOLD_MEM_MAX)
		value = g.keys.temperature_mem_max_c;
	else if (which == NVML_TEMPERATURE_THRESHOLD_GPU_MAX)
		value = g.keys.temperature_gpu_max_c;
	if (!value)
		return NVML_ERROR_NOT_SUPPORTED;
	*celsius = value;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t d,
	nvmlMarginTemperature_v1_t *margin)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_MARGIN, margin != NULL, &g);

	if (r)
		return r;
	if (margin->version != NVML_STRUCT_VERSION(*margin, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	margin->marginTemperature =
		(int)g.keys.temperature_gpu_max_c - (int)sim_temperature_c(&g);
	return NVML_SUCCESS;
}

GETTER_U32(nvmlDeviceGetFanSpeed, FAN, g.keys.fan_percent)

EXPORT nvmlReturn_t nvmlDeviceGetNumFans(nvmlDevice_t d, unsigned int *count)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_FAN, count != NULL, &g);

	/* A passive board has no fan speed, but it reports its number of fans: none (measured). */
	if (r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED)
		*count = g.keys.fans;
	return r == NVML_ERROR_NOT_SUPPORTED ? NVML_SUCCESS : r;
}

/* --- clocks --- */

EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, unsigned int type, unsigned int *mhz)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_CLOCKS, mhz != NULL, &g);

	if (r)
		return r;
	if (type > NVML_CLOCK_VIDEO)
		return NVML_ERROR_NOT_SUPPORTED; /* not 2, unlike its siblings (measured) */
	*mhz = sim_clock_mhz(&g, type);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, unsigned int type,
	unsigned int *mhz)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_CLOCKS, mhz && type <= NVML_CLOCK_VIDEO, &g);

	if (r == NVML_SUCCESS)
		*mhz = sim_clock_max_mhz(&g, type);
	return r;
}

/* Application clocks are at the maximum; video has none. */
EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t d, unsigned int type,
	unsigned int *mhz)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_CLOCKS, mhz && type <= NVML_CLOCK_VIDEO, &g);

	if (r)
		return r;
	if (type == NVML_CLOCK_VIDEO)
		return NVML_ERROR_NOT_SUPPORTED;
	*mhz = sim_clock_max_mhz(&g, type);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t d, unsigned int type,
	unsigned int *mhz)
{
	return nvmlDeviceGetApplicationsClock(d, type, mhz);
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t d, unsigned int type,
	unsigned int *mhz)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_CLOCKS, mhz && type <= NVML_CLOCK_VIDEO, &g);

	if (r)
		return r;
	if (type > NVML_CLOCK_SM)
		return NVML_ERROR_NOT_SUPPORTED;
	*mhz = sim_clock_max_mhz(&g, type);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t d, unsigned int type, unsigned int id,
	unsigned int *mhz)
{
	if (id == NVML_CLOCK_ID_CURRENT)
		return nvmlDeviceGetClockInfo(d, type, mhz);
	if (id == NVML_CLOCK_ID_CUSTOMER_BOOST_MAX)
		return nvmlDeviceGetMaxCustomerBoostClock(d, type, mhz);
	if (id == NVML_CLOCK_ID_APP_CLOCK_TARGET || id == NVML_CLOCK_ID_APP_CLOCK_DEFAULT)
		return nvmlDeviceGetApplicationsClock(d, type, mhz);
	return nvmlDeviceGetMaxClockInfo(d, type, NULL); /* 1 or 2 */
}

#define MASK_GETTER(function, expression)                                                    \
	EXPORT nvmlReturn_t function(nvmlDevice_t d, unsigned long long *reasons)            \
	{                                                                                    \
		struct sim_gpu g;                                                            \
		nvmlReturn_t r = gpu_enter(d, SIM_GROUP_CLOCK_REASONS, reasons != NULL, &g); \
                                                                                             \
		if (r == NVML_SUCCESS)                                                       \
			*reasons = (expression);                                             \
		return r;                                                                    \
	}

MASK_GETTER(nvmlDeviceGetCurrentClocksEventReasons, sim_clock_reasons(&g))
MASK_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, sim_clock_reasons(&g))
MASK_GETTER(nvmlDeviceGetSupportedClocksEventReasons, 0x1FF)
MASK_GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, 0x1FF)

GETTER_U32(nvmlDeviceGetPerformanceState, PSTATE, sim_pstate(&g))
GETTER_U32(nvmlDeviceGetPowerState, PSTATE, sim_pstate(&g))

/*
 * Times under each limit, by policy: power, thermal, sync boost, board limit, low utilization, reliability; 6 to 9
 * do not exist; application and base clocks.
 */
EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t d, unsigned int policy,
	nvmlViolationTime_t *t)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_VIOLATION,
		t && (policy <= 5 || policy == 10 || policy == 11), &g);

	if (r)
		return r;
	t->referenceTime = time_wall_ns() / 1000;
	t->violationTime = policy == 0    ? g.keys.violation_power_ns
			   : policy == 1  ? g.keys.violation_thermal_ns
			   : policy == 11 ? g.keys.violation_base_ns
					  : 0;
	return NVML_SUCCESS;
}

/* --- PCIe --- */

GETTER_U32(nvmlDeviceGetPcieReplayCounter, PCIE, g.keys.pcie_replays)
GETTER_U32(nvmlDeviceGetCurrPcieLinkGeneration, PCIE, g.keys.pcie_gen)
GETTER_U32(nvmlDeviceGetMaxPcieLinkGeneration, PCIE, g.keys.pcie_gen_max)
GETTER_U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, PCIE, g.keys.pcie_gen_max)
GETTER_U32(nvmlDeviceGetCurrPcieLinkWidth, PCIE, g.keys.pcie_width)
GETTER_U32(nvmlDeviceGetMaxPcieLinkWidth, PCIE, g.keys.pcie_width_max)

/* A real driver measures for 20 ms inside the call; the simulator has the figure at once. */
EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, unsigned int counter,
	unsigned int *kb_per_s)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_PCIE,
		kb_per_s && counter <= NVML_PCIE_UTIL_RX_BYTES, &g);

	if (r == NVML_SUCCESS)
		*kb_per_s = sim_pcie_kbps(&g, counter);
	return r;
}

/* --- modes --- */

GETTER_U32(nvmlDeviceGetPersistenceMode, PERSISTENCE, g.keys.persistence)

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, unsigned int *mode)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_COMPUTE_MODE, mode != NULL, &g, &t);

	if (r == NVML_SUCCESS)
		*mode = t.ci ? t.ci->compute_mode : g.keys.compute_mode;
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t d, unsigned int mode)
{
	return gpu_set_u32(d, SIM_GROUP_PERSISTENCE, mode <= 1,
		offsetof(struct sim_keys, persistence), mode);
}

/* With MIG on each MIG device has its own mode; the mode of the GPU cannot be set. */
EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t d, unsigned int mode)
{
	CLEANUP(sim_txn_end) struct sim_txn txn = SIM_TXN_INIT;
	struct sim_gpu g, *now;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_COMPUTE_MODE,
		mode <= NVML_COMPUTEMODE_EXCLUSIVE_PROCESS, &g, &t);

	if (r)
		return r;
	if (geteuid() != 0)
		return NVML_ERROR_NO_PERMISSION;
	if (t.kind == HANDLE_GPU && g.mig.enabled)
		return NVML_ERROR_NOT_SUPPORTED;
	if (mode ==
		NVML_COMPUTEMODE_EXCLUSIVE_THREAD) /* obsolete; works as exclusive process */
		mode = NVML_COMPUTEMODE_EXCLUSIVE_PROCESS;
	r = lib_change(&t, &txn, &now);
	if (r)
		return r;
	if (t.kind == HANDLE_GPU)
		now->keys.compute_mode = mode;
	else
		sim_ci_find(sim_gi_find(now, t.handle.gi), t.handle.ci)->compute_mode = mode;
	sim_txn_commit(&txn);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t d, unsigned int mw)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_again(d, SIM_GROUP_POWER_LIMIT, &g);

	if (r)
		return r;
	return gpu_set_u32(d, SIM_GROUP_POWER_LIMIT,
		mw >= g.keys.power_min_mw && mw <= g.keys.power_max_mw,
		offsetof(struct sim_keys, power_limit_mw), mw);
}

EXPORT nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t d, unsigned int mode)
{
	return gpu_set_u32(d, SIM_GROUP_ECC, mode <= 1, offsetof(struct sim_keys, ecc_pending),
		mode);
}
