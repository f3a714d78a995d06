/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory that this process did not allocate: memory of another API (external memory), and memory that several GPUs
 * share (multicast). The owner pays, so the hooks charge nothing. But the driver may keep data of its own on the
 * GPU, so the hooks request a comparison.
 *
 * Without hooks. Some calls take nothing of this process. A process that opens an IPC handle maps the owner's
 * memory. NVML counts that memory for the owner while the owner has it. Exported pointers of pools need no hook
 * either. Graphics (GL, EGL, VDPAU) map memory for each frame; the regular comparison finds it.
 */
#include "container/cuda/driver.h"
#include "container/cuda/memory/memory.h"
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

/* NVML counts the memory for this process if its owner freed it meanwhile. */
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

/* Bound memory may stay after its last handle and mapping in this process are gone. */
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
