/* SPDX-License-Identifier: Apache-2.0 */

/* The calls for the state of a GPU at the moment: memory, clocks, temperature, power, load, PCIe, errors. */
#include "io/nvml/sample/source.h"

#include "lib/base/units.h"

#include <stdio.h>
#include <string.h>

#define CALL(name, ...) PROBE_CALL(a->p, a->gpu, name, __VA_ARGS__)

/* A call that returns one number, without or with one further argument. */
#define NUMBER(function, name)                                                               \
	nvmlReturn_t function(struct source_query *a, uint32_t arg, union source_value *ret) \
	{                                                                                    \
		unsigned int v = 0;                                                          \
		nvmlReturn_t r = CALL(name, a->device, &v);                                  \
                                                                                             \
		(void)arg;                                                                   \
		ret->i = v;                                                                  \
		return r;                                                                    \
	}
#define NUMBER_OF(function, name)                                                            \
	nvmlReturn_t function(struct source_query *a, uint32_t arg, union source_value *ret) \
	{                                                                                    \
		unsigned int v = 0;                                                          \
		nvmlReturn_t r = CALL(name, a->device, arg, &v);                             \
                                                                                             \
		ret->i = v;                                                                  \
		return r;                                                                    \
	}
/* A call that returns milliwatts. */
#define WATTS(function, name)                                                                \
	nvmlReturn_t function(struct source_query *a, uint32_t arg, union source_value *ret) \
	{                                                                                    \
		unsigned int mw = 0;                                                         \
		nvmlReturn_t r = CALL(name, a->device, &mw);                                 \
                                                                                             \
		(void)arg;                                                                   \
		ret->real = mw / 1000.0;                                                     \
		return r;                                                                    \
	}

NUMBER_OF(source_clock, nvmlDeviceGetClockInfo)
NUMBER_OF(source_app_clock, nvmlDeviceGetApplicationsClock)
NUMBER_OF(source_max_clock, nvmlDeviceGetMaxClockInfo)
NUMBER_OF(source_temperature, nvmlDeviceGetTemperature)
NUMBER_OF(source_threshold, nvmlDeviceGetTemperatureThreshold)
NUMBER_OF(source_pcie_throughput, nvmlDeviceGetPcieThroughput)
NUMBER(source_fan, nvmlDeviceGetFanSpeed)
NUMBER(source_pcie_replay, nvmlDeviceGetPcieReplayCounter)
NUMBER(source_pcie_max_gen, nvmlDeviceGetMaxPcieLinkGeneration)
NUMBER(source_pcie_max_width, nvmlDeviceGetMaxPcieLinkWidth)
NUMBER(source_pcie_gen, nvmlDeviceGetCurrPcieLinkGeneration)
NUMBER(source_pcie_width, nvmlDeviceGetCurrPcieLinkWidth)
WATTS(source_power, nvmlDeviceGetPowerUsage)
WATTS(source_power_limit, nvmlDeviceGetPowerManagementLimit)
WATTS(source_power_default, nvmlDeviceGetPowerManagementDefaultLimit)
WATTS(source_power_enforced, nvmlDeviceGetEnforcedPowerLimit)

/* --- memory --- */

/* Drivers before 510 have only the older call, which counts memory reserved by the driver as used. */
nvmlReturn_t source_memory(struct source_query *a)
{
	struct source_memo *m = &a->memo;
	nvmlMemory_t v1 = { .total = 0 };

	if (m->has_memory)
		return m->memory_r;
	m->has_memory = true;
	m->memory = (nvmlMemory_v2_t){ .version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2) };
	m->memory_r = CALL(nvmlDeviceGetMemoryInfo_v2, a->device, &m->memory);
	m->reserved_known = m->memory_r == NVML_SUCCESS;
	if (m->memory_r != NVML_ERROR_NOT_SUPPORTED &&
		m->memory_r != NVML_ERROR_FUNCTION_NOT_FOUND &&
		m->memory_r != NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
		return m->memory_r;
	m->memory_r = CALL(nvmlDeviceGetMemoryInfo, a->device, &v1);
	m->memory = (nvmlMemory_v2_t){ .total = v1.total, .used = v1.used, .free = v1.free };
	return m->memory_r;
}

/* @arg: 0 total, 1 free, 2 used, 3 reserved; MiB, truncated. */
nvmlReturn_t source_fb(struct source_query *a, uint32_t arg, union source_value *ret)
{
	const nvmlMemory_v2_t *m = &a->memo.memory;
	nvmlReturn_t r = source_memory(a);
	uint64_t bytes = arg == 0   ? m->total
			 : arg == 1 ? m->free
			 : arg == 2 ? m->used
				    : m->reserved;

	if (r == NVML_SUCCESS && arg == 3 && !a->memo.reserved_known)
		return NVML_ERROR_NOT_SUPPORTED;
	ret->i = (int64_t)(bytes / MIB);
	return r;
}

nvmlReturn_t source_fb_ratio(struct source_query *a, uint32_t arg, union source_value *ret)
{
	const nvmlMemory_v2_t *m = &a->memo.memory;
	nvmlReturn_t r = source_memory(a);

	(void)arg;
	if (r != NVML_SUCCESS)
		return r;
	if (m->total <= m->reserved)
		return NVML_ERROR_NO_DATA;
	ret->real = (double)m->used / (double)(m->total - m->reserved);
	return NVML_SUCCESS;
}

/* @arg: 0 total, 1 used, 2 free. */
nvmlReturn_t source_bar1_bytes(struct source_query *a, uint32_t arg, union source_value *ret)
{
	struct source_memo *m = &a->memo;
	uint64_t bytes;

	if (!m->has_bar1)
		m->bar1_r = CALL(nvmlDeviceGetBAR1MemoryInfo, a->device, &m->bar1);
	m->has_bar1 = true;
	bytes = arg == 0 ? m->bar1.bar1Total : arg == 1 ? m->bar1.bar1Used : m->bar1.bar1Free;
	ret->i = (int64_t)bytes;
	return m->bar1_r;
}

/* In MiB, truncated. */
nvmlReturn_t source_bar1(struct source_query *a, uint32_t arg, union source_value *ret)
{
	nvmlReturn_t r = source_bar1_bytes(a, arg, ret);

	ret->i /= (int64_t)MIB;
	return r;
}

/* --- clocks, temperature, power --- */

nvmlReturn_t source_reasons(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned long long v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetCurrentClocksEventReasons, a->device, &v);

	(void)arg;
	ret->i = (int64_t)v;
	return r;
}

nvmlReturn_t source_margin(struct source_query *a, uint32_t arg, union source_value *ret)
{
	nvmlMarginTemperature_v1_t v = { .version = NVML_STRUCT_VERSION(
						 nvmlMarginTemperature_v1_t, 1) };
	nvmlReturn_t r = CALL(nvmlDeviceGetMarginTemperature, a->device, &v);

	(void)arg;
	ret->i = v.marginTemperature;
	return r;
}

/* @arg: 0 the smallest limit that can be set, 1 the largest. */
nvmlReturn_t source_power_range(struct source_query *a, uint32_t arg, union source_value *ret)
{
	struct source_memo *m = &a->memo;

	if (!m->has_limits)
		m->limits_r = CALL(nvmlDeviceGetPowerManagementLimitConstraints, a->device,
			&m->limits[0], &m->limits[1]);
	m->has_limits = true;
	ret->real = m->limits[arg & 1] / 1000.0;
	return m->limits_r;
}

nvmlReturn_t source_pstate(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int v = 32;
	nvmlReturn_t r = CALL(nvmlDeviceGetPerformanceState, a->device, &v);

	(void)arg;
	ret->i = v;
	return r == NVML_SUCCESS && v > 15 ? NVML_ERROR_NO_DATA : r; /* 32: unknown */
}

/* --- load --- */

nvmlReturn_t source_rates(struct source_query *a)
{
	struct source_memo *m = &a->memo;

	if (!m->has_rates)
		m->rates_r = CALL(nvmlDeviceGetUtilizationRates, a->device, &m->rates);
	m->has_rates = true;
	return m->rates_r;
}

/* @arg: 0 utilization of the GPU, 1 of its memory. */
nvmlReturn_t source_utilization(struct source_query *a, uint32_t arg, union source_value *ret)
{
	nvmlReturn_t r = source_rates(a);

	ret->i = arg == 0 ? a->memo.rates.gpu : a->memo.rates.memory;
	return r;
}

nvmlReturn_t source_encoder(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int percent = 0, period_us = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetEncoderUtilization, a->device, &percent, &period_us);

	(void)arg;
	ret->i = percent;
	return r;
}

nvmlReturn_t source_decoder(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned int percent = 0, period_us = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetDecoderUtilization, a->device, &percent, &period_us);

	(void)arg;
	ret->i = percent;
	return r;
}

/* --- fabric --- */

static nvmlReturn_t read_fabric_info(struct source_query *a)
{
	struct source_memo *m = &a->memo;

	if (!m->has_fabric) {
		m->fabric = (nvmlGpuFabricInfo_v2_t){ .version = NVML_STRUCT_VERSION(
							      nvmlGpuFabricInfo_v2_t, 2) };
		m->fabric_r = CALL(nvmlDeviceGetGpuFabricInfoV, a->device, &m->fabric);
	}
	m->has_fabric = true;
	return m->fabric_r;
}

/*
 * @arg: 0 the state, in DCGM's numbers: 0 not supported, 1 not started, 2 in progress, 3 success, 4 failure; 1 the
 * error, known only in the state "completed"; 2 the clique; 3 the health mask.
 */
nvmlReturn_t source_fabric(struct source_query *a, uint32_t arg, union source_value *ret)
{
	const nvmlGpuFabricInfo_v2_t *f = &a->memo.fabric;
	nvmlReturn_t r = read_fabric_info(a);
	bool complete = f->state == NVML_GPU_FABRIC_STATE_COMPLETED;

	if (r != NVML_SUCCESS)
		return r;
	if (arg == 0) {
		if (f->state > NVML_GPU_FABRIC_STATE_COMPLETED)
			return NVML_ERROR_NO_DATA;
		ret->i = f->state + (complete && f->status != NVML_SUCCESS);
	} else if (arg == 1) {
		ret->i = f->status;
		return complete ? NVML_SUCCESS : NVML_ERROR_NO_DATA;
	} else {
		ret->i = arg == 2 ? f->cliqueId : f->healthMask;
	}
	return NVML_SUCCESS;
}

nvmlReturn_t source_fabric_cluster(struct source_query *a, uint32_t arg,
	union source_value *ret)
{
	nvmlReturn_t r = read_fabric_info(a);
	char *to = ret->text;

	(void)arg;
	for (int i = 0; r == NVML_SUCCESS && i < NVML_GPU_FABRIC_UUID_LEN; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		(void)snprintf(to, 3, "%02x", a->memo.fabric.clusterUuid[i]);
		to += 2;
	}
	return r;
}

/* --- errors --- */

/* @arg: 0 now, 1 after the next reset. */
nvmlReturn_t source_ecc_mode(struct source_query *a, uint32_t arg, union source_value *ret)
{
	struct source_memo *m = &a->memo;

	if (!m->has_ecc)
		m->ecc_r = CALL(nvmlDeviceGetEccMode, a->device, &m->ecc[0], &m->ecc[1]);
	m->has_ecc = true;
	ret->i = m->ecc[arg & 1];
	return m->ecc_r;
}

/* @arg: type << 8 | counter << 4 | location, as ECC() of source.c packs them. */
nvmlReturn_t source_ecc_location(struct source_query *a, uint32_t arg, union source_value *ret)
{
	unsigned long long v = 0;
	nvmlReturn_t r = CALL(nvmlDeviceGetMemoryErrorCounter, a->device, arg >> 8,
		arg >> 4 & 0xf, arg & 0xf, &v);

	ret->i = (int64_t)v;
	return r;
}

/* @arg: number of banks with 0 all of their spare rows, 1 most, 2 some, 3 few, 4 none. */
nvmlReturn_t source_rows(struct source_query *a, uint32_t arg, union source_value *ret)
{
	struct source_memo *m = &a->memo;

	if (!m->has_rows)
		m->rows_r = CALL(nvmlDeviceGetRowRemapperHistogram, a->device, &m->rows);
	m->has_rows = true;
	ret->i = arg == 0   ? m->rows.max
		 : arg == 1 ? m->rows.high
		 : arg == 2 ? m->rows.partial
		 : arg == 3 ? m->rows.low
			    : m->rows.none;
	return m->rows_r;
}
