/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of the slice as CUDA devices.
 *
 * Number. A device has its number in the slice by UUID, as ordinals differ between containers.
 *
 * Memory. A program sees the size of the slice and its free bytes, never more than the GPU has. NVML's answers
 * agree to the byte (container/nvml).
 */
#include "container/cuda/device.h"

#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/sys.h"

#include <string.h>

#define DEVICES_MAX 128 /* devices in the cache */

/* --- its number, and the current context --- */

struct devices {
	_Atomic int8_t gpu[DEVICES_MAX]; /* 0: not known yet; otherwise the number + 2 */
};

static _Atomic(void *) root;

static int gpu_of_uuid(const CUuuid *uuid)
{
	const struct slice_welcome *w = link_welcome();

	for (uint32_t i = 0; i < w->gpu_count; i++)
		if (!memcmp(w->gpus[i].uuid, uuid->bytes, SLICE_UUID_BYTES))
			return (int)i;
	return CHARGES_NO_GPU;
}

/* For a MIG device, cuDeviceGetUuid_v2() returns the UUID of the MIG device and cuDeviceGetUuid() that of
 * the GPU. False: the driver does not tell (not initialized, no such device). */
static bool probe_device_gpu(CUdevice device, int *ret)
{
	CUuuid uuid = { 0 };
	bool known = false;

	*ret = CHARGES_NO_GPU;
	if (!REAL(cuDeviceGetUuid_v2)(&uuid, device)) {
		known = true;
		*ret = gpu_of_uuid(&uuid);
	}
	if (*ret == CHARGES_NO_GPU && !REAL(cuDeviceGetUuid)(&uuid, device)) {
		known = true;
		*ret = gpu_of_uuid(&uuid);
	}
	return known;
}

int device_find_gpu(CUdevice device)
{
	bool cached = device >= 0 && device < DEVICES_MAX;
	struct devices *d;
	int gpu;

	if (!charges_active())
		return CHARGES_NO_GPU;
	if (!link_page())
		return CHARGES_GPU_UNKNOWN;
	d = wiped_get(&root, sizeof(*d));
	if (d && cached) {
		gpu = atomic_load_explicit(&d->gpu[device], memory_order_relaxed);
		if (__builtin_expect(gpu != 0, 1))
			return gpu - 2;
	}
	if (probe_device_gpu(device, &gpu) && d && cached)
		atomic_store_explicit(&d->gpu[device], (int8_t)(gpu + 2), memory_order_relaxed);
	return gpu;
}

int device_current_gpu(void)
{
	CUdevice device = 0;

	/* Without a context, the driver refuses the call of the hook. */
	if (REAL(cuCtxGetDevice)(&device))
		return CHARGES_NO_GPU;
	return device_find_gpu(device);
}

uint64_t device_current_context(void)
{
	CUcontext context = NULL;

	return REAL(cuCtxGetCurrent)(&context) ? 0 : (uintptr_t)context;
}

/* --- its memory --- */

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
	if (!to_slice(device_current_gpu(), &f, &t))
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
	if (!to_slice(device_current_gpu(), &f, &t))
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
		charges_read_limit(device_find_gpu(device), &limit))
		*bytes = min_u64(*bytes, limit);
	return r;
}

HOOK CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device)
{
	CUresult r = REAL(cuDeviceTotalMem)(bytes, device);
	uint64_t limit;

	if (!r && bytes && charges_active() &&
		charges_read_limit(device_find_gpu(device), &limit))
		*bytes = (unsigned int)min_u64(*bytes, limit);
	return r;
}

/* --- MPS --- */

void device_probe_mps(CUdevice device, int gpu, bool refresh)
{
	struct slice_page *page = gpu >= 0 && gpu < SLICE_GPUS_MAX ? link_page() : NULL;
	_Atomic uint32_t *at = page ? &page->gpus[gpu].mps : NULL;
	int on = 0;

	if (!at || (!refresh && atomic_load_explicit(at, memory_order_relaxed)))
		return;
	/* With a driver that does not know the attribute, the page keeps its value. */
	if (REAL(cuDeviceGetAttribute)(&on, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device))
		return;
	atomic_store(at, on ? SLICE_MPS_INSIDE : SLICE_MPS_OUTSIDE);
	if (!on && atomic_load(&page->turns) == SLICE_TURNS_MPS)
		warn_once(WARN_NO_MPS,
			"this slice is to run under MPS, but the driver runs this process "
			"without: no limit of MPS holds (is CUDA_MPS_PIPE_DIRECTORY as the "
			"container was given it?)");
}

void device_probe_current_mps(void)
{
	CUdevice device = 0;

	if (!REAL(cuCtxGetDevice)(&device))
		device_probe_mps(device, device_find_gpu(device), false);
}
