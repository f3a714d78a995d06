/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU memory that a program sees: the size of the slice and its free bytes. Never more than the GPU has.
 * NVML's answers agree to the byte (container/nvml). */
#include "container/charges/charges.h"

#include "container/cuda/driver.h"
#include "container/client/link.h"
#include "container/sys.h"

/* Replaces the driver's figures by those of the slice. False: the slice's figures are not known. */
static bool to_slice(int gpu, uint64_t *free_bytes, uint64_t *total)
{
	uint64_t limit, used;

	if (gpu == CHARGES_NO_GPU)
		return true;
	if (!charges_read_usage(gpu, &limit, &used))
		return false;
	*total = min_u64(*total, limit);
	*free_bytes = min_u64(*free_bytes, limit > used ? limit - used : 0);
	return true;
}

/* In a slice whose arbiter is unavailable, no allocation could succeed. So the hook fails here, at the
 * start. */
HOOK CUresult cuInit(unsigned int flags)
{
	CUresult r = REAL(cuInit)(flags);

	if (!r && charges_active() && !link_page())
		return CUDA_ERROR_SYSTEM_NOT_READY;
	return r;
}

HOOK CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	CUresult r = REAL(cuMemGetInfo_v2)(free_bytes, total);
	uint64_t f, t;

	if (r || !free_bytes || !total || !charges_active())
		return r;
	f = *free_bytes;
	t = *total;
	if (!to_slice(charges_current_gpu(), &f, &t))
		return CUDA_ERROR_SYSTEM_NOT_READY;
	*free_bytes = f;
	*total = t;
	return CUDA_SUCCESS;
}

HOOK CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
	CUresult r = REAL(cuMemGetInfo)(free_bytes, total);
	uint64_t f, t;

	if (r || !free_bytes || !total || !charges_active())
		return r;
	f = *free_bytes;
	t = *total;
	if (!to_slice(charges_current_gpu(), &f, &t))
		return CUDA_ERROR_SYSTEM_NOT_READY;
	*free_bytes = (unsigned int)f;
	*total = (unsigned int)t;
	return CUDA_SUCCESS;
}

HOOK CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
	CUresult r = REAL(cuDeviceTotalMem_v2)(bytes, device);
	uint64_t limit;

	if (!r && bytes && charges_active() &&
		charges_read_limit(charges_device_gpu(device), &limit))
		*bytes = min_u64(*bytes, limit);
	return r;
}

HOOK CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	CUresult r = REAL(cuDeviceTotalMem)(bytes, device);
	uint64_t limit;

	if (!r && bytes && charges_active() &&
		charges_read_limit(charges_device_gpu(device), &limit))
		*bytes = (unsigned int)min_u64(*bytes, limit);
	return r;
}
