/* SPDX-License-Identifier: Apache-2.0 */
/* Maps a CUDA device to its number in the slice, by UUID: ordinals differ between containers. */
#include "container/cuda/device.h"

#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/sys.h"

#include <string.h>

#define DEVICES_MAX 128 /* devices in the cache */

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
static bool find_device_gpu(CUdevice device, int *ret)
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

int charges_device_gpu(CUdevice device)
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
	if (find_device_gpu(device, &gpu) && d && cached)
		atomic_store_explicit(&d->gpu[device], (int8_t)(gpu + 2), memory_order_relaxed);
	return gpu;
}

int charges_current_gpu(void)
{
	CUdevice device = 0;

	/* Without a context, the driver refuses the call of the hook. */
	if (REAL(cuCtxGetDevice)(&device))
		return CHARGES_NO_GPU;
	return charges_device_gpu(device);
}

uint64_t current_context(void)
{
	CUcontext context = NULL;

	return REAL(cuCtxGetCurrent)(&context) ? 0 : (uintptr_t)context;
}
