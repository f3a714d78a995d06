/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Async pools. A pool is charged as a lump (lump.h) with what it holds, used or cached. An allocation
 * that may let it grow takes a bound first. When that does not fit, the cached memory of all pools
 * goes back to the system (lumps_trim), then it is tried again: what the pool had cached it now takes
 * anew, within the limit. Frees that the GPU has not come to yet keep their memory from being trimmed,
 * so the last try waits for the stream, as the allocation would have in its order. So an allocation
 * that a pool could have served from its cache still works at the limit, only slower; but for one that
 * fits into no whole piece of 32 MiB and only between others in a piece that is in use, which needs
 * room for a piece under the limit.
 *
 * Host pools and imported pools cost nothing here. A captured allocation takes nothing until its
 * graph is launched (work/graph.c). Which pool is current the driver knows best: it is asked each time.
 */
#include "container/cuda/memory/pool.h"

#include "abi/slice-page.h"

#include "container/cuda/driver.h"
#include "container/cuda/work/graph.h"
#include "container/cuda/memory/lump.h"
#include "container/cuda/quiet.h"
#include "container/cuda/stream.h"
#include "container/charges/rows.h"

size_t pool_max(size_t wanted, uint64_t limit)
{
	uint64_t max = limit / LUMP_PIECE * LUMP_PIECE;

	if (limit == SLICE_NO_LIMIT)
		return wanted;
	if (!max)
		max = LUMP_PIECE;
	return wanted && wanted < max ? wanted : max;
}

static uint64_t key_of(CUmemoryPool pool)
{
	return (uint64_t)(uintptr_t)pool;
}

static struct lump *note(CUmemoryPool pool, const CUmemLocation *at, unsigned int type)
{
	enum charge_kind counts =
		type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CHARGE_UNSEEN : CHARGE_SEEN;

	if (!pool)
		return NULL;
	if (at->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return lump_of(LUMP_POOL, key_of(pool), -1, LEDGER_NONE, counts);
	return lump_of(LUMP_POOL, key_of(pool), at->id, ledger_device_gpu(at->id), counts);
}

static struct lump *note_device(CUmemoryPool pool, CUdevice device)
{
	CUmemLocation at = { CU_MEM_LOCATION_TYPE_DEVICE, device };

	return note(pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED);
}

/* A pool that came by a way that no hook saw: a default one, or else it is taken to be of the
 * device that the stream runs on. */
static struct lump *unknown_pool(CUmemoryPool pool, CUdevice device)
{
	CUmemoryPool other;
	int n = 0;

	if (REAL(cuDeviceGetCount)(&n))
		n = 0;
	for (CUdevice d = 0; d < n; d++)
		if (!REAL(cuDeviceGetDefaultMemPool)(&other, d) && other == pool)
			return note_device(pool, d);
	return note_device(pool, device);
}

/* The pool of an allocation: the one named, or the current one of the stream's device. */
static struct lump *find(CUmemoryPool pool, CUstream stream, bool own)
{
	struct lump *l = pool ? lump_find(LUMP_POOL, key_of(pool)) : NULL;
	CUdevice device;

	if (l || stream_device(stream, own, &device))
		return l;
	if (pool)
		return unknown_pool(pool, device);
	if (REAL(cuDeviceGetMemPool)(&pool, device))
		return NULL;
	l = lump_find(LUMP_POOL, key_of(pool));
	return l ? l : note_device(pool, device);
}

/* The variants: with a pool or of the current one, stream 0 as of old or the thread's own. */
struct request {
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
	bool from_pool, own;
};

static CUresult real_alloc(CUdeviceptr *ptr, const struct request *q)
{
	if (q->from_pool)
		return q->own ? REAL(cuMemAllocFromPoolAsync_ptsz)(ptr, q->bytes, q->pool,
					q->stream)
			      : REAL(cuMemAllocFromPoolAsync)(ptr, q->bytes, q->pool,
					q->stream);
	return q->own ? REAL(cuMemAllocAsync_ptsz)(ptr, q->bytes, q->stream)
		      : REAL(cuMemAllocAsync)(ptr, q->bytes, q->stream);
}

static CUresult alloc(CUdeviceptr *ptr, const struct request *q)
{
	struct lump_op op;
	struct lump *l;
	CUresult r;

	if (!ledger_active() || (q->from_pool && !q->pool))
		return real_alloc(ptr, q);
	if (stream_captures(q->stream, q->own)) {
		graph_expect_memory();
		return real_alloc(ptr, q);
	}
	l = find(q->pool, q->stream, q->own);
	r = lump_begin(&op, l, lump_growth(q->bytes));
	if (r && stream_wait(q->stream, q->own))
		r = lump_begin(&op, l, lump_growth(q->bytes));
	if (r)
		return r;
	r = real_alloc(ptr, q);
	lump_end(&op);
	return r;
}

HOOK CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct request q = { .bytes = bytes, .stream = stream };

	return alloc(ptr, &q);
}

HOOK CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct request q = { .bytes = bytes, .stream = stream, .own = true };

	return alloc(ptr, &q);
}

HOOK CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	struct request q = { .bytes = bytes,
		.pool = pool,
		.stream = stream,
		.from_pool = true };

	return alloc(ptr, &q);
}

HOOK CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	struct request q = { bytes, pool, stream, true, true };

	return alloc(ptr, &q);
}

/*
 * A free in a stream's order gives the pool's memory to the pool: nothing to do. But the driver takes
 * pointers of cuMemAlloc as well, and then nobody could say when they are free; those are freed the
 * plain way, which waits for the GPU.
 */
static bool plain(CUdeviceptr ptr, CUstream stream, bool own)
{
	struct row row;

	return ptr && ledger_active() &&
	       (row_get(ROW_POINTER, ptr, &row) || row_get(ROW_MANAGED, ptr, &row)) &&
	       !stream_captures(stream, own);
}

static CUresult free_plain(CUdeviceptr ptr)
{
	unsigned int mode = quiet_begin();
	CUresult r = cuMemFree_v2(ptr);

	quiet_end(mode);
	return r;
}

HOOK CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream)
{
	return plain(ptr, stream, false) ? free_plain(ptr) : REAL(cuMemFreeAsync)(ptr, stream);
}

HOOK CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	return plain(ptr, stream, true) ? free_plain(ptr)
					: REAL(cuMemFreeAsync_ptsz)(ptr, stream);
}

HOOK CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUmemPoolProps mine;
	uint64_t limit, used;
	struct lump *l;
	CUresult r;
	int gpu;

	if (!pool || !props || !ledger_active())
		return REAL(cuMemPoolCreate)(pool, props);
	mine = *props;
	gpu = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
		      ? ledger_device_gpu(props->location.id)
		      : LEDGER_NONE;
	if (gpu >= 0 && ledger_view(gpu, &limit, &used))
		mine.maxSize = pool_max(props->maxSize, limit);
	r = REAL(cuMemPoolCreate)(pool, &mine);
	/* Before CUDA 12.2 these bytes had to be zero. */
	if (r == CUDA_ERROR_INVALID_VALUE && mine.maxSize != props->maxSize)
		r = REAL(cuMemPoolCreate)(pool, props);
	if (r)
		return r;
	l = note(*pool, &props->location, props->allocType);
	if (l)
		atomic_fetch_or(&l->flags, LUMP_OURS);
	return CUDA_SUCCESS;
}

HOOK CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct lump *l = lump_find(LUMP_POOL, key_of(pool));
	uint32_t flags = l ? atomic_load(&l->flags) : 0;
	CUresult r;

	/* CUDA 11.2 does not tell what a pool holds: no use waiting for nothing there. */
	if (flags & LUMP_OURS && flags & LUMP_READ && atomic_load(&l->gpu) >= 0)
		return lump_retire(l);
	r = REAL(cuMemPoolDestroy)(pool);
	if (!r && l)
		lump_forget(l);
	return r;
}

HOOK CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct lump *l = lump_find(LUMP_POOL, key_of(pool));
	struct lump_op op;
	CUresult r;

	/* A bound of 0 is always granted. */
	(void)lump_begin(&op, l, 0);
	r = REAL(cuMemPoolTrimTo)(pool, keep);
	lump_end(&op);
	return r;
}

HOOK CUresult cuMemPoolSetAttribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	struct lump *l = lump_find(LUMP_POOL, key_of(pool));
	struct lump_op op;
	CUresult r;

	(void)lump_begin(&op, l, 0);
	r = REAL(cuMemPoolSetAttribute)(pool, attribute, value);
	lump_end(&op);
	return r;
}

HOOK CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
	unsigned int type, unsigned long long flags)
{
	CUresult r = REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);

	/* Its creator pays; nothing can be allocated from it here. */
	if (!r && pool && ledger_active())
		(void)lump_of(LUMP_POOL, key_of(*pool), -1, LEDGER_NONE, CHARGE_SEEN);
	return r;
}

/* Ways to a pool: which device it is of is known here. */

HOOK CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult r = REAL(cuDeviceGetDefaultMemPool)(pool, device);

	if (!r && pool && ledger_active())
		(void)note_device(*pool, device);
	return r;
}

HOOK CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *at, unsigned int type)
{
	CUresult r = REAL(cuMemGetDefaultMemPool)(pool, at, type);

	if (!r && pool && at && ledger_active())
		(void)note(*pool, at, type);
	return r;
}

HOOK CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *at, unsigned int type)
{
	CUresult r = REAL(cuMemGetMemPool)(pool, at, type);

	if (!r && pool && at && ledger_active())
		(void)note(*pool, at, type);
	return r;
}

/* Waits: pools give back what is free. */

HOOK CUresult cuStreamSynchronize(CUstream stream)
{
	struct lump_wait w;
	CUresult r;

	lump_wait_begin(&w);
	r = REAL(cuStreamSynchronize)(stream);
	lump_wait_end(&w);
	return r;
}

HOOK CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	struct lump_wait w;
	CUresult r;

	lump_wait_begin(&w);
	r = REAL(cuStreamSynchronize_ptsz)(stream);
	lump_wait_end(&w);
	return r;
}

HOOK CUresult cuEventSynchronize(CUevent event)
{
	struct lump_wait w;
	CUresult r;

	lump_wait_begin(&w);
	r = REAL(cuEventSynchronize)(event);
	lump_wait_end(&w);
	return r;
}

HOOK CUresult cuCtxSynchronize(void)
{
	struct lump_wait w;
	CUresult r;

	lump_wait_begin(&w);
	r = REAL(cuCtxSynchronize)();
	lump_wait_end(&w);
	return r;
}

HOOK CUresult cuCtxSynchronize_v2(CUcontext context)
{
	struct lump_wait w;
	CUresult r;

	lump_wait_begin(&w);
	r = REAL(cuCtxSynchronize_v2)(context);
	lump_wait_end(&w);
	return r;
}
