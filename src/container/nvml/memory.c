/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The memory of the slice in place of the GPU's. A hook calls the driver first, so that the driver's errors stay
 * errors. The caller gets the driver's figures only after those of the slice have replaced them.
 */
#include "container/nvml/hooks.h"
#include "container/nvml/slice.h"

static nvmlReturn_t read_memory_info(nvmlDevice_t device, nvmlMemory_t *ret)
{
	return REAL(nvmlDeviceGetMemoryInfo)(device, ret);
}

static nvmlReturn_t ask_v2(nvmlDevice_t device, nvmlMemory_v2_t *ret)
{
	return REAL(nvmlDeviceGetMemoryInfo_v2)(device, ret);
}

/* Replaces the GPU's figures by those of the slice, if the slice has a limit on this GPU. */
static nvmlReturn_t limit_memory_figures(nvmlDevice_t device, struct memory_figures *gpu,
	bool *slice, bool with_reserved)
{
	int n = nvml_slice_gpu(device);
	uint64_t limit, used;

	*slice = false;
	if (n == NVML_SLICE_GPU_NOT_OURS)
		return NVML_SUCCESS;
	if (n == NVML_SLICE_GPU_UNKNOWN || !nvml_slice_memory(n, &limit, &used))
		return NVML_ERROR_UNKNOWN;
	if (limit == SLICE_NO_LIMIT)
		return NVML_SUCCESS;
	/* CUDA's total excludes the driver's reserved memory. That is small, so it matters only for limits near
	 * the GPU's total. */
	if (with_reserved && limit > gpu->total / 2) {
		nvmlMemory_v2_t v2 = { .version = NVML_STRUCT_VERSION(v2, 2) };

		if (ask_v2(device, &v2) == NVML_SUCCESS && v2.reserved < gpu->total)
			gpu->total -= v2.reserved;
	}
	*gpu = figures_memory(limit, used, gpu->total, gpu->free);
	*slice = true;
	return NVML_SUCCESS;
}

HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	struct memory_figures f;
	nvmlMemory_t real;
	nvmlReturn_t r;
	bool slice;

	if (!nvml_slice_is_active() || !memory)
		return read_memory_info(device, memory);
	r = read_memory_info(device, &real);
	if (r)
		return r;
	f = (struct memory_figures){ real.total, real.free, real.used };
	r = limit_memory_figures(device, &f, &slice, true);
	if (r == NVML_SUCCESS)
		*memory = (nvmlMemory_t){ .total = f.total, .free = f.free, .used = f.used };
	return r;
}

HOOK nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct memory_figures f;
	nvmlMemory_v2_t real;
	nvmlReturn_t r;
	bool slice;

	if (!nvml_slice_is_active() || !memory)
		return ask_v2(device, memory);
	if (memory->version != NVML_STRUCT_VERSION(real, 2))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	real = *memory;
	r = ask_v2(device, &real);
	if (r)
		return r;
	f = (struct memory_figures){ real.total - real.reserved, real.free, real.used };
	r = limit_memory_figures(device, &f, &slice, false);
	if (r)
		return r;
	if (slice) {
		real.total = f.total;
		real.reserved = 0;
		real.free = f.free;
		real.used = f.used;
	}
	*memory = real;
	return NVML_SUCCESS;
}
