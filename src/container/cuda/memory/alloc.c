/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain, pitched and managed memory.
 *
 * Facts (H100, driver 580.159.04). cuMemAlloc of more than 1 MiB takes whole granules of 2 MiB. The driver rounds
 * smaller requests to 512 bytes and places them, first fit, in chunks of one granule. A chunk goes back with its
 * last pointer. So the address of a small pointer tells its chunk.
 *
 * Small pointers. The row of a chunk counts the pointers in the chunk.
 *
 *	1. The allocating thread charges a granule, then the driver allocates.
 *	2. The thread counts the pointer in. The thread that makes the row leaves its granule there. Every other
 *	   thread gives its granule back.
 *	3. The driver frees, then the freeing thread counts the pointer out. The thread that counts the last
 *	   pointer out removes the row and gives the granule back.
 *
 * So while any pointer of a chunk exists, a thread is charged for the chunk, and two threads only for a short
 * time. The driver may free a chunk and make it again at the same address before a thread counts the last pointer
 * out. The new pointer then joins the old row, and the granule stays charged.
 *
 * Frees. A thread removes a pointer's own row before the driver frees, because another thread may get the same
 * address at once. If the driver refuses the free, the thread puts the row back. A free waits for the GPU, and it
 * frees a pool's pointer for good. So pools may shrink (pool-reservation.h).
 *
 * IPC. Memory that other processes opened by an IPC handle stays while one of them has it open. After the owner's
 * free, NVML counts the memory for such a process (H100). So the owner's free leaves the charge to the comparison
 * with NVML.
 */
#include "container/cuda/device.h"
#include "container/cuda/memory/pool-reservation.h"
#include "container/cuda/memory/memory.h"
#include "container/charges/charges.h"
#include "container/charges/alloc-table.h"

#define SMALL_MAX     (UINT64_C(1) << 20)
#define LENT          UINT64_C(1) /* in .other of pointers and chunks, beside an address */
#define PITCH_ALIGN   512         /* of a row; on all GPUs since 2012 */
#define MANAGED_ALIGN (UINT64_C(64) << 10) /* GPU pages that a small allocation takes */

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
	return bytes > UINT64_MAX - to ? UINT64_MAX / to * to : (bytes + to - 1) / to * to;
}

/* The most that record_allocation() charges for an allocation. */
static uint64_t bound_of(uint64_t bytes, enum charge_kind kind)
{
	if (kind == CHARGE_UNSEEN && bytes <= SMALL_MAX)
		return round_up(bytes, MANAGED_ALIGN);
	return round_up_to_granule(bytes);
}

/* Records the pointer of a successful call and ends its charge. */
static void record_allocation(struct charge *c, uint64_t pointer, uint64_t bytes)
{
	uint64_t chunk = pointer & ~(CHARGES_GRANULE - 1), taken = bound_of(bytes, c->kind);
	bool managed = c->kind == CHARGE_UNSEEN;
	struct alloc_row row = { .context = device_current_context(),
		.bytes = taken,
		.count = 1,
		.gpu = c->gpu };

	if (!managed && bytes <= SMALL_MAX) {
		int64_t n = -1;

		if (pointer + bytes <= chunk + CHARGES_GRANULE)
			n = alloc_table_join(ALLOC_CHUNK, chunk, &row);
		else
			row.bytes = taken = 2 * CHARGES_GRANULE; /* no known driver does this */
		if (n > 0) {
			taken = n == 1 ? row.bytes : 0;
			row.bytes = 0;
			row.other = chunk;
		}
	}
	/* Without a row, the free finds nothing: only NVML will tell that the memory is gone. */
	if (!alloc_table_put(managed ? ALLOC_MANAGED : ALLOC_POINTER, pointer, &row))
		c->kind = CHARGE_HIDDEN;
	charge_end(c, taken);
}

static CUresult begin_alloc_charge(struct charge *c, uint64_t bytes, enum charge_kind kind)
{
	return charge_begin(c, device_current_gpu(), bound_of(bytes, kind), kind);
}

/* After the driver's call. */
static CUresult end_alloc_charge(struct charge *c, CUresult r, uint64_t pointer, uint64_t bytes)
{
	if (c->gpu == CHARGES_NO_GPU)
		return r;
	if (r)
		charge_end(c, 0);
	else
		record_allocation(c, pointer, bytes);
	return r;
}

HOOK CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes)
{
	struct charge c;
	CUresult r;

	if (!dptr || !bytes || !charges_active())
		return REAL(cuMemAlloc_v2)(dptr, bytes);
	r = begin_alloc_charge(&c, bytes, CHARGE_SEEN);
	if (r)
		return r;
	r = REAL(cuMemAlloc_v2)(dptr, bytes);
	return end_alloc_charge(&c, r, r ? 0 : *dptr, bytes);
}

HOOK CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytes)
{
	struct charge c;
	CUresult r;

	if (!dptr || !bytes || !charges_active())
		return REAL(cuMemAlloc)(dptr, bytes);
	r = begin_alloc_charge(&c, bytes, CHARGE_SEEN);
	if (r)
		return r;
	r = REAL(cuMemAlloc)(dptr, bytes);
	return end_alloc_charge(&c, r, r ? 0 : *dptr, bytes);
}

static uint64_t compute_pitched_bytes(uint64_t width, uint64_t height)
{
	uint64_t bytes;

	return __builtin_mul_overflow(round_up(width, PITCH_ALIGN), height, &bytes) ? UINT64_MAX
										    : bytes;
}

HOOK CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	struct charge c;
	CUresult r;

	if (!dptr || !pitch || !width || !height || !charges_active())
		return REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	r = begin_alloc_charge(&c, compute_pitched_bytes(width, height), CHARGE_SEEN);
	if (r)
		return r;
	r = REAL(cuMemAllocPitch_v2)(dptr, pitch, width, height, element);
	return end_alloc_charge(&c, r, r ? 0 : *dptr, r ? 0 : (uint64_t)*pitch * height);
}

HOOK CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pitch, unsigned int width,
	unsigned int height, unsigned int element)
{
	struct charge c;
	CUresult r;

	if (!dptr || !pitch || !width || !height || !charges_active())
		return REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	r = begin_alloc_charge(&c, compute_pitched_bytes(width, height), CHARGE_SEEN);
	if (r)
		return r;
	r = REAL(cuMemAllocPitch)(dptr, pitch, width, height, element);
	return end_alloc_charge(&c, r, r ? 0 : *dptr, r ? 0 : (uint64_t)*pitch * height);
}

/* Charged in full, wherever the pages are: a slice has no more managed memory than its limit. */
HOOK CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytes, unsigned int flags)
{
	struct charge c;
	CUresult r;

	if (!dptr || !bytes || !charges_active())
		return REAL(cuMemAllocManaged)(dptr, bytes, flags);
	r = begin_alloc_charge(&c, bytes, CHARGE_UNSEEN);
	if (r)
		return r;
	r = REAL(cuMemAllocManaged)(dptr, bytes, flags);
	return end_alloc_charge(&c, r, r ? 0 : *dptr, bytes);
}

struct pointer_free {
	enum alloc_kind kind; /* ALLOC_FREE: no row */
	uint64_t pointer;
	struct alloc_row row;
	struct charge charge;
	struct pool_reservation_wait pools;
};

static void free_begin(struct pointer_free *f, uint64_t pointer)
{
	f->kind = ALLOC_FREE;
	f->pointer = pointer;
	pool_reservation_wait_begin(&f->pools);
	if (alloc_table_remove(ALLOC_POINTER, pointer, &f->row))
		f->kind = ALLOC_POINTER;
	else if (alloc_table_remove(ALLOC_MANAGED, pointer, &f->row))
		f->kind = ALLOC_MANAGED;
	else
		return;
	charge_free_begin(&f->charge, f->row.gpu,
		f->kind == ALLOC_MANAGED ? CHARGE_UNSEEN : CHARGE_SEEN);
}

static void free_end(struct pointer_free *f, CUresult r)
{
	struct alloc_row gone = f->row;
	uint64_t bytes;

	pool_reservation_wait_end(&f->pools);
	if (f->kind == ALLOC_FREE)
		return;
	bytes = gone.bytes;
	if (r) {
		bytes = 0;
		if (!alloc_table_put(f->kind, f->pointer, &f->row))
			charge_disown(f->row.gpu, f->row.bytes);
	} else if (gone.other & ~LENT) {
		bytes = alloc_table_count(ALLOC_CHUNK, gone.other & ~LENT, -1, &gone)
				? 0
				: gone.bytes;
	}
	if (bytes && gone.other & LENT) {
		charge_disown(gone.gpu, bytes);
		bytes = 0;
	}
	charge_free_end(&f->charge, bytes);
}

HOOK CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	struct pointer_free f;
	CUresult r;

	if (!dptr || !charges_active())
		return REAL(cuMemFree_v2)(dptr);
	free_begin(&f, dptr);
	r = REAL(cuMemFree_v2)(dptr);
	free_end(&f, r);
	return r;
}

HOOK CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
	struct pointer_free f;
	CUresult r;

	if (!dptr || !charges_active())
		return REAL(cuMemFree)(dptr);
	free_begin(&f, dptr);
	r = REAL(cuMemFree)(dptr);
	free_end(&f, r);
	return r;
}

/* From now on another process may have the memory open: this marks the pointer and its chunk. */
static void mark_pointer_lent(CUdeviceptr dptr)
{
	CUdeviceptr base = dptr;
	struct alloc_row row;
	size_t bytes;

	if (REAL(cuMemGetAddressRange_v2)(&base, &bytes, dptr))
		base = dptr;
	if (alloc_table_get(ALLOC_POINTER, base, &row)) {
		(void)alloc_table_set_bits(ALLOC_POINTER, base, LENT);
		if (row.other & ~LENT)
			(void)alloc_table_set_bits(ALLOC_CHUNK, row.other & ~LENT, LENT);
	}
}

HOOK CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr dptr)
{
	if (charges_active())
		mark_pointer_lent(dptr);
	return REAL(cuIpcGetMemHandle)(handle, dptr);
}

/* A dma-buf, for a network card or another program. For mappings, the mark is on the handle (vmm.c). */
HOOK CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t bytes,
	unsigned int type, unsigned long long flags)
{
	if (charges_active() && !vmm_lend_mapping(dptr, bytes))
		mark_pointer_lent(dptr);
	return REAL(cuMemGetHandleForAddressRange)(handle, dptr, bytes, type, flags);
}
