/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory management: physical memory as handles, mapped at addresses that are reserved apart.
 * It costs from cuMemCreate until its last handle and its last mapping are gone, on the device that
 * the properties name, whatever context is current or none (PyTorch's worker threads). Memory of the
 * host is not ours.
 *
 * A handle's row counts both. Mappings are counted in before the driver's call and all is counted out
 * after it, so the row outlives the memory; by then the driver may have given the same handle for
 * other memory, so rows carry a number of their own (.context) that must match.
 *
 * Memory that was exported may be held by whoever got it, or by the descriptor itself; memory that was
 * mapped into a sparse array is held by that. When the last of our own references goes, only NVML can
 * tell whether the memory is gone.
 */
#include "container/cuda/device.h"
#include "container/cuda/memory/vmm.h"
#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/charges/alloc-table.h"

/* Not the address of any context. Numbers that a child uses again are of rows that it has not. */
static uint64_t next_number(void)
{
	static _Atomic uint64_t last;

	return 2 * atomic_fetch_add(&last, 1) + 1;
}

static enum charge_kind get_handle_charge_kind(const struct alloc_row *handle)
{
	return handle->other & HANDLE_UNSEEN ? CHARGE_UNSEEN : CHARGE_SEEN;
}

/* Its last reference is gone in the driver; within an operation of the caller's. */
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

/* What is unmapped may be of any GPU. */
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
	row.gpu = charges_device_gpu(prop->location.id);
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
		/* The last reference of another has gone in the driver, and not here yet. */
		if (alloc_table_remove(ALLOC_HANDLE, *handle, &old)) {
			old.other |= HANDLE_LENT; /* for NVML to tell */
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
	/* One of memory that is not ours has a row too: so a range is walked from one to the next. */
	if (alloc_table_count(ALLOC_HANDLE, handle, 1, &memory) > 0) {
		row.gpu = memory.gpu;
		row.context = memory.context;
	}
	r = REAL(cuMemMap)(dptr, bytes, offset, handle, flags);
	if (!r)
		(void)alloc_table_put(ALLOC_MAPPING, dptr,
			&row); /* else it is in use for good */
	else if (row.gpu != CHARGES_NO_GPU)
		count_out(handle, row.context);
	return r;
}

/* The mappings in a range are gone. Each address of it is the caller's alone until it returns. */
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

/* Drivers refuse it while something is mapped there; one that does not would unmap. The addresses may
 * be reserved by another thread at once, so what is dropped is what was there before. */
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

	/* What is mapped at the address cannot go meanwhile: the caller relies on it. */
	if (!r && handle && charges_active())
		(void)alloc_table_count(ALLOC_HANDLE, *handle, 1, NULL);
	return r;
}

bool mapping_lend(CUdeviceptr dptr, size_t bytes)
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

/* Before the call: what is mapped may be released by another thread as soon as it is there. */
static void mark_mapped_handles_lent(const CUarrayMapInfo *maps, unsigned int n)
{
	for (unsigned int i = 0; maps && i < n; i++)
		if (maps[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			(void)alloc_table_set_bits(ALLOC_HANDLE, maps[i].memHandle,
				HANDLE_LENT);
}

/* What is unmapped is free, if at all, when the stream has come to it. */
static CUresult compare_after_array_map(CUresult r)
{
	int gpu = r ? CHARGES_NO_GPU : charges_current_gpu();

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

/* Whoever made it pays. If that was this process the driver may give the handle that is known. */
HOOK CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
	unsigned int type)
{
	CUresult r = REAL(cuMemImportFromShareableHandle)(handle, shared, type);

	if (!r && handle && charges_active())
		(void)alloc_table_count(ALLOC_HANDLE, *handle, 1, NULL);
	return r;
}
