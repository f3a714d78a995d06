/* SPDX-License-Identifier: Apache-2.0 */

/* Memory errors and their consequences: ECC counters, retired pages, remapped rows. */
#include "testbed/sim/nvml/lib.h"

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, unsigned int *current,
	unsigned int *pending)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_ECC, current && pending, &g);

	if (r == NVML_SUCCESS) {
		*current = g.keys.ecc;
		*pending = g.keys.ecc_pending;
	}
	return r;
}

GETTER_U32(nvmlDeviceGetDefaultEccMode, ECC, NVML_FEATURE_ENABLED)

/* type: corrected, uncorrected; counter: volatile, aggregate. */
static unsigned long long ecc_count(const struct sim_keys *k, unsigned int type,
	unsigned int counter)
{
	if (counter == NVML_VOLATILE_ECC)
		return type ? k->ecc_uncorrected_volatile : k->ecc_corrected_volatile;
	return type ? k->ecc_uncorrected_aggregate : k->ecc_corrected_aggregate;
}

static bool ecc_args(unsigned int type, unsigned int counter)
{
	return type <= NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter <= NVML_AGGREGATE_ECC;
}

EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, unsigned int type,
	unsigned int counter, unsigned long long *n)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_ECC_COUNTERS, n && ecc_args(type, counter), &g);

	if (r)
		return r;
	if (!g.keys.ecc)
		return NVML_ERROR_NOT_SUPPORTED;
	*n = ecc_count(&g.keys, type, counter);
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t d, unsigned int type,
	unsigned int counter, unsigned int location, unsigned long long *n)
{
	struct sim_gpu g;
	struct target t;
	nvmlReturn_t r = device_enter(d, SIM_GROUP_ECC_COUNTERS,
		n && ecc_args(type, counter) && location <= NVML_MEMORY_LOCATION_SRAM, &g, &t);
	bool old;

	if (r)
		return r;
	/* Since Ampere the driver separates only DRAM and SRAM; before, each memory inside the chip. */
	old = g.keys.architecture < NVML_DEVICE_ARCH_AMPERE;
	if (!g.keys.ecc || (old ? location == NVML_MEMORY_LOCATION_SRAM
				: location != NVML_MEMORY_LOCATION_DRAM &&
						   location != NVML_MEMORY_LOCATION_SRAM))
		return NVML_ERROR_NOT_SUPPORTED;
	/* The GPU has the error counts; an instance has none. */
	*n = location == NVML_MEMORY_LOCATION_DRAM && t.kind == HANDLE_GPU
		     ? ecc_count(&g.keys, type, counter)
		     : 0;
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetDetailedEccErrors(nvmlDevice_t d, unsigned int type,
	unsigned int counter, nvmlEccErrorCounts_t *counts)
{
	struct sim_gpu g;
	nvmlReturn_t r =
		gpu_enter(d, SIM_GROUP_ECC_COUNTERS, counts && ecc_args(type, counter), &g);

	if (r)
		return r;
	if (!g.keys.ecc)
		return NVML_ERROR_NOT_SUPPORTED;
	*counts = (nvmlEccErrorCounts_t){ .deviceMemory = ecc_count(&g.keys, type, counter) };
	return NVML_SUCCESS;
}

/* The state has no addresses of retired pages; the first ones of the memory represent them. */
static nvmlReturn_t retired_pages(nvmlDevice_t d, unsigned int cause, unsigned int *n,
	unsigned long long *addresses, unsigned long long *times)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_RETIRED_PAGES, n && cause <= 1, &g);
	unsigned int room, have;

	if (r)
		return r;
	room = *n;
	have = cause ? g.keys.retired_dbe : g.keys.retired_sbe;
	*n = have;
	if (room < have)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < have && addresses; i++) {
		addresses[i] = (cause * 64ULL + i) << 16;
		if (times)
			times[i] = 0;
	}
	return NVML_SUCCESS;
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t d, unsigned int cause,
	unsigned int *n, unsigned long long *addresses)
{
	return retired_pages(d, cause, n, addresses, NULL);
}

EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t d, unsigned int cause,
	unsigned int *n, unsigned long long *addresses, unsigned long long *times)
{
	return retired_pages(d, cause, n, addresses, times);
}

GETTER_U32(nvmlDeviceGetRetiredPagesPendingStatus, RETIRED_PAGES, g.keys.retired_pending)

EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *corrected,
	unsigned int *uncorrected, unsigned int *pending, unsigned int *failed)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_REMAPPED_ROWS,
		corrected && uncorrected && pending && failed, &g);

	if (r == NVML_SUCCESS && g.mig.gi_count)
		return NVML_ERROR_NOT_SUPPORTED;
	if (r == NVML_SUCCESS) {
		*corrected = g.keys.remapped_corrected;
		*uncorrected = g.keys.remapped_uncorrected;
		*pending = g.keys.remapped_pending;
		*failed = g.keys.remapped_failure;
	}
	return r;
}

EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t d,
	nvmlRowRemapperHistogramValues_t *v)
{
	struct sim_gpu g;
	nvmlReturn_t r = gpu_enter(d, SIM_GROUP_REMAPPED_ROWS, v != NULL, &g);
	unsigned int used;

	if (r)
		return r;
	used = g.keys.remapped_corrected + g.keys.remapped_uncorrected;
	if (used > g.keys.remap_banks)
		used = g.keys.remap_banks;
	*v = (nvmlRowRemapperHistogramValues_t){ .max = g.keys.remap_banks - used,
		.high = used };
	return NVML_SUCCESS;
}
