/* SPDX-License-Identifier: Apache-2.0 */
#include "container/cuda/mps.h"

#include "container/cuda/driver.h"
#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/sys.h"

void mps_probe_mode(CUdevice device, int gpu, bool anew)
{
	struct slice_page *page = gpu >= 0 && gpu < SLICE_GPUS_MAX ? link_page() : NULL;
	_Atomic uint32_t *at = page ? &page->gpus[gpu].mps : NULL;
	int on = 0;

	if (!at || (!anew && atomic_load_explicit(at, memory_order_relaxed)))
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

void mps_probe_current(void)
{
	CUdevice device = 0;

	if (!REAL(cuCtxGetDevice)(&device))
		mps_probe_mode(device, charges_device_gpu(device), false);
}
