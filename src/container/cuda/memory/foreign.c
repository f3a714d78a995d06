/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that somebody else allocated: of another API (external memory), and what several GPUs share
 * (multicast). Nothing is charged for it, as its owner pays, but the driver may keep books of its own
 * on the GPU: the arbiter is asked to look.
 *
 * Not hooked, as they take nothing of this process: the opening of IPC handles (who opens one maps its
 * owner's memory, which NVML counts for the owner while that has it), pools' exported pointers, and
 * graphics (GL, EGL, VDPAU): mapped for each frame, found by the regular comparison.
 */
#include "container/cuda/driver.h"
#include "container/cuda/memory/vmm.h"
#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/charges/alloc-table.h"

static CUresult request_foreign_compare(CUresult r, int gpu)
{
	if (!r && gpu >= 0)
		link_compare((unsigned int)gpu);
	return r;
}

static CUresult compared_here(CUresult r)
{
	return r || !charges_active() ? r : request_foreign_compare(r, charges_current_gpu());
}

HOOK CUresult cuImportExternalMemory(CUexternalMemory *memory,
	const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle)
{
	return compared_here(REAL(cuImportExternalMemory)(memory, handle));
}

HOOK CUresult cuDestroyExternalMemory(CUexternalMemory memory)
{
	return compared_here(REAL(cuDestroyExternalMemory)(memory));
}

/* The memory is counted for who closes it, if its owner has freed it meanwhile. */
HOOK CUresult cuIpcCloseMemHandle(CUdeviceptr memory)
{
	return compared_here(REAL(cuIpcCloseMemHandle)(memory));
}

HOOK CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle multicast, CUdevice device)
{
	CUresult r = REAL(cuMulticastAddDevice)(multicast, device);

	return r || !charges_active() ? r
				      : request_foreign_compare(r, charges_device_gpu(device));
}

/* What is bound may stay after its last handle and mapping are gone here. */
HOOK CUresult cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t at,
	CUmemGenericAllocationHandle memory, size_t offset, size_t bytes,
	unsigned long long flags)
{
	if (charges_active())
		(void)alloc_table_set_bits(ALLOC_HANDLE, memory, HANDLE_LENT);
	return compared_here(
		REAL(cuMulticastBindMem)(multicast, at, memory, offset, bytes, flags));
}

HOOK CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle multicast, size_t at,
	CUdeviceptr memory, size_t bytes, unsigned long long flags)
{
	struct alloc_row row;

	if (charges_active() && alloc_table_get(ALLOC_MAPPING, memory, &row))
		(void)alloc_table_set_bits(ALLOC_HANDLE, row.other, HANDLE_LENT);
	return compared_here(REAL(cuMulticastBindAddr)(multicast, at, memory, bytes, flags));
}

HOOK CUresult cuMulticastUnbind(CUmemGenericAllocationHandle multicast, CUdevice device,
	size_t at, size_t bytes)
{
	CUresult r = REAL(cuMulticastUnbind)(multicast, device, at, bytes);

	return r || !charges_active() ? r
				      : request_foreign_compare(r, charges_device_gpu(device));
}
