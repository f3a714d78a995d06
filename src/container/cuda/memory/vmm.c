/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: physical memory as handles, mapped at separately reserved addresses.
 *
 * Charge. The memory costs from cuMemCreate until its last handle and its last mapping are gone. It is charged on
 * the device in the properties, even with another context or none current (PyTorch's worker threads). Host memory
 * is not charged.
 *
 * Rows. A handle's row counts handles and mappings.
 *
 *	1. The mapping thread counts the mapping in, then calls the driver.
 *	2. The releasing or unmapping thread calls the driver, then counts the handle or mapping out.
 *
 * So the row outlives the memory. Within step 2 the driver may give the same handle to new memory. So each row has
 * its own number (.context), which must match.
 *
 * Lent memory. Exported memory may be held by its receiver, or by the descriptor. Memory mapped into a sparse
 * array is held by the array. When the last reference of this process goes, only NVML tells whether such memory is
 * gone.
 */
#include "container/cuda/device.h"
#include "container/cuda/memory/memory.h"
#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/charges/alloc-table.h"

/* Odd, so never the address of a context. A child of fork may reuse numbers, because its table is empty. */
static uint64_t next_number(void)
{
	static _Atomic uint64_t last;

	return 2 * atomic_fetch_add(&last, 1) + 1;
}

static enum charge_kind get_handle_charge_kind(const struct alloc_row *handle)
{
	return handle->other & HANDLE_UNSEEN ? CHARGE_UNSEEN : CHARGE_SEEN;
}

/* The last reference is gone in the driver. The caller has an operation in progress. */
static void release_handle_charge(const struct alloc_row *handle)
{
	if (handle->other & HANDLE_LENT && get_handle_charge_kind(handle) == CHARGE_SEEN)
		charge_disown(handle->gpu, handle->bytes);
	else
		charge_release(handle->gpu, handle->bytes, get_handle_charge_kind(handle));
}

static void count_out(uint64_t handle, uint64_t number)
{
	struct alloc_row row;

	if (!alloc_table_count_of(ALLOC_HANDLE, handle, number, -1, &row))
		release_handle_charge(&row);
}

/* An unmapped range may contain memory of any GPU. */
struct operation {
	struct charge charges[SLICE_GPUS_MAX];
};

static void operation_begin(struct operation *o)
{
	for (int i = 0; i < SLICE_GPUS_MAX; i++)
		charge_free_begin(&o->charges[i],
			(uint32_t)i < link_welcome()->gpu_count ? i : CHARGES_NO_GPU,
			CHARGE_SEEN);
}

static void operation_end(struct operation *o)
{
	for (int i = 0; i < SLICE_GPUS_MAX; i++)
		charge_free_end(&o->charges[i], 0);
}

HOOK CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct alloc_row row = { .count = 1 }, old;
	struct charge c;
	CUresult r;

	if (!handle || !bytes || !prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		!charges_active())
		return REAL(cuMemCreate)(handle, bytes, prop, flags);
	row.gpu = device_find_gpu(prop->location.id);
	row.bytes = round_up_to_granule(bytes);
	row.other = prop->type == CU_MEM_ALLOCATION_TYPE_MANAGED ? HANDLE_UNSEEN : 0;
	row.context = next_number();
	r = charge_begin(&c, row.gpu, row.bytes, get_handle_charge_kind(&row));
	if (r)
		return r;
	r = REAL(cuMemCreate)(handle, bytes, prop, flags);
	if (c.gpu == CHARGES_NO_GPU)
		return r;
	if (!r) {
		/* Another thread's last reference is gone in the driver, but not yet counted out. */
		if (alloc_table_remove(ALLOC_HANDLE, *handle, &old)) {
			old.other |= HANDLE_LENT; /* only NVML tells */
			release_handle_charge(&old);
		}
		if (!alloc_table_put(ALLOC_HANDLE, *handle, &row))
			c.kind = CHARGE_HIDDEN;
	}
	charge_end(&c, r ? 0 : row.bytes);
	return r;
}

HOOK CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct charge c;
	struct alloc_row row;
	CUresult r;

	if (!charges_active() || !alloc_table_get(ALLOC_HANDLE, handle, &row))
		return REAL(cuMemRelease)(handle);
	charge_free_begin(&c, row.gpu, CHARGE_SEEN);
	r = REAL(cuMemRelease)(handle);
	if (!r)
		count_out(handle, row.context);
	charge_free_end(&c, 0);
	return r;
}

HOOK CUresult cuMemMap(CUdeviceptr dptr, size_t bytes, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct alloc_row row = { .other = handle,
		.bytes = bytes,
		.count = 1,
		.gpu = CHARGES_NO_GPU };
	struct alloc_row memory;
	CUresult r;

	if (!charges_active())
		return REAL(cuMemMap)(dptr, bytes, offset, handle, flags);
	/* A mapping of uncounted memory also has a row, so that drop_mappings() can step from one to the
	 * next. */
	if (alloc_table_count(ALLOC_HANDLE, handle, 1, &memory) > 0) {
		row.gpu = memory.gpu;
		row.context = memory.context;
	}
	r = REAL(cuMemMap)(dptr, bytes, offset, handle, flags);
	if (!r)
		(void)alloc_table_put(ALLOC_MAPPING, dptr,
			&row); /* else the handle counts forever */
	else if (row.gpu != CHARGES_NO_GPU)
		count_out(handle, row.context);
	return r;
}

/* After the mappings in a range are gone. No other thread uses these addresses until the caller returns. */
static void drop_mappings(uint64_t at, uint64_t bytes)
{
	uint64_t end = at + bytes < at ? UINT64_MAX : at + bytes;
	struct alloc_row row;

	while (at < end) {
		uint64_t step = CHARGES_GRANULE;

		if (alloc_table_remove(ALLOC_MAPPING, at, &row)) {
			step = row.bytes ? row.bytes : step;
			if (row.gpu != CHARGES_NO_GPU)
				count_out(row.other, row.context);
		}
		if (step >= end - at)
			break;
		at += step;
	}
}

HOOK CUresult cuMemUnmap(CUdeviceptr dptr, size_t bytes)
{
	struct operation o;
	CUresult r;

	if (!charges_active() || !link_page())
		return REAL(cuMemUnmap)(dptr, bytes);
	operation_begin(&o);
	r = REAL(cuMemUnmap)(dptr, bytes);
	if (!r)
		drop_mappings(dptr, bytes);
	operation_end(&o);
	return r;
}

/*
 * A driver refuses this call while memory is mapped there; a driver that accepts the call would unmap the memory.
 * Another thread may reserve the addresses at once. So the hook drops rows only if a mapping began at @dptr before
 * the call.
 */
HOOK CUresult cuMemAddressFree(CUdeviceptr dptr, size_t bytes)
{
	struct operation o;
	struct alloc_row first;
	CUresult r;

	if (!charges_active() || !link_page() || !alloc_table_get(ALLOC_MAPPING, dptr, &first))
		return REAL(cuMemAddressFree)(dptr, bytes);
	operation_begin(&o);
	r = REAL(cuMemAddressFree)(dptr, bytes);
	if (!r)
		drop_mappings(dptr, bytes);
	operation_end(&o);
	return r;
}

HOOK CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address)
{
	CUresult r = REAL(cuMemRetainAllocationHandle)(handle, address);

	/* The mapping at the address cannot go meanwhile: the caller relies on it. */
	if (!r && handle && charges_active())
		(void)alloc_table_count(ALLOC_HANDLE, *handle, 1, NULL);
	return r;
}

bool vmm_lend_mapping(CUdeviceptr dptr, size_t bytes)
{
	CUdeviceptr at = dptr;
	struct alloc_row row;

	while (at - dptr < bytes && alloc_table_get(ALLOC_MAPPING, at, &row) && row.bytes) {
		(void)alloc_table_set_bits(ALLOC_HANDLE, row.other, HANDLE_LENT);
		at += row.bytes;
	}
	return at != dptr;
}

HOOK CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
	unsigned int type, unsigned long long flags)
{
	if (charges_active())
		(void)alloc_table_set_bits(ALLOC_HANDLE, handle, HANDLE_LENT);
	return REAL(cuMemExportToShareableHandle)(shared, handle, type, flags);
}

/* Before the driver call: another thread may release the mapped memory as soon as the mapping exists. */
static void mark_mapped_handles_lent(const CUarrayMapInfo *maps, unsigned int n)
{
	for (unsigned int i = 0; maps && i < n; i++)
		if (maps[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			(void)alloc_table_set_bits(ALLOC_HANDLE, maps[i].memHandle,
				HANDLE_LENT);
}

/* Unmapped memory is free, if at all, when the stream reaches the operation. */
static CUresult compare_after_array_map(CUresult r)
{
	int gpu = r ? CHARGES_NO_GPU : device_current_gpu();

	if (gpu >= 0)
		charges_request_compare(gpu);
	return r;
}

HOOK CUresult cuMemMapArrayAsync(CUarrayMapInfo *maps, unsigned int n, CUstream stream)
{
	if (!charges_active())
		return REAL(cuMemMapArrayAsync)(maps, n, stream);
	mark_mapped_handles_lent(maps, n);
	return compare_after_array_map(REAL(cuMemMapArrayAsync)(maps, n, stream));
}

HOOK CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *maps, unsigned int n, CUstream stream)
{
	if (!charges_active())
		return REAL(cuMemMapArrayAsync_ptsz)(maps, n, stream);
	mark_mapped_handles_lent(maps, n);
	return compare_after_array_map(REAL(cuMemMapArrayAsync_ptsz)(maps, n, stream));
}

/* The creator pays. If this process is the creator, the driver may return a handle that has a row. */
HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
	unsigned int type)
{
	CUresult r = REAL(cuMemImportFromShareableHandle)(handle, shared, type);

	if (!r && handle && charges_active())
		(void)alloc_table_count(ALLOC_HANDLE, *handle, 1, NULL);
	return r;
}
