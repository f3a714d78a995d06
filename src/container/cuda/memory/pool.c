/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Async pools.
 *
 * Charge. A pool is charged as a pool reservation (pool-reservation.h) with what it holds, used or cached. An
 * allocation that may let it grow takes a bound first. If the bound does not fit:
 *
 *	1. All pools give their cached memory back to the system (pool_reservations_trim).
 *	2. The hook tries again. Within the limit, the pool takes again what it had cached.
 *	3. The GPU may not have reached some frees yet, and a trim leaves their memory. So the last try waits
 *	   for the stream, as the allocation would have waited in stream order.
 *
 * So at the limit, an allocation that a pool can serve from its cache still works, only slower. There is one
 * exception: an allocation that fits only between others in a piece in use, and into no free piece of 32 MiB. It
 * needs space for one piece under the limit.
 *
 * Not charged here. Host pools and imported pools cost nothing. A captured allocation takes nothing until the
 * launch of its graph (work/graph.c).
 *
 * Current pool. Only the driver knows which pool is current, so the hook asks the driver each time.
 */
#include "container/cuda/memory/memory.h"

#include "abi/slice-page.h"

#include "container/cuda/device.h"
#include "container/cuda/driver.h"
#include "container/cuda/work/work.h"
#include "container/cuda/memory/pool-reservation.h"
#include "container/cuda/stream.h"
#include "container/charges/alloc-table.h"

size_t pool_max_bytes(size_t wanted, uint64_t limit)
{
	uint64_t max = limit / POOL_RESERVATION_PIECE * POOL_RESERVATION_PIECE;

	if (limit == SLICE_NO_LIMIT)
		return wanted;
	if (!max)
		max = POOL_RESERVATION_PIECE;
	return wanted && wanted < max ? wanted : max;
}

static uint64_t get_pool_key(CUmemoryPool pool)
{
	return (uint64_t)(uintptr_t)pool;
}

static struct pool_reservation *add_pool_reservation(CUmemoryPool pool, const CUmemLocation *at,
	unsigned int type)
{
	enum charge_kind counts =
		type == CU_MEM_ALLOCATION_TYPE_MANAGED ? CHARGE_UNSEEN : CHARGE_SEEN;

	if (!pool)
		return NULL;
	if (at->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return pool_reservation_get(POOL_RESERVATION_POOL, get_pool_key(pool), -1,
			CHARGES_NO_GPU, counts);
	return pool_reservation_get(POOL_RESERVATION_POOL, get_pool_key(pool), at->id,
		device_find_gpu(at->id), counts);
}

static struct pool_reservation *add_device_reservation(CUmemoryPool pool, CUdevice device)
{
	CUmemLocation at = { CU_MEM_LOCATION_TYPE_DEVICE, device };

	return add_pool_reservation(pool, &at, CU_MEM_ALLOCATION_TYPE_PINNED);
}

/* A pool that no hook saw: a default pool, or else a pool that counts for the device of the stream. */
static struct pool_reservation *unknown_pool(CUmemoryPool pool, CUdevice device)
{
	CUmemoryPool other;
	int n = 0;

	if (REAL(cuDeviceGetCount)(&n))
		n = 0;
	for (CUdevice d = 0; d < n; d++)
		if (!REAL(cuDeviceGetDefaultMemPool)(&other, d) && other == pool)
			return add_device_reservation(pool, d);
	return add_device_reservation(pool, device);
}

/* The pool of an allocation: the named pool, or the current pool of the stream's device. */
static struct pool_reservation *find_pool_reservation(CUmemoryPool pool, CUstream stream,
	bool own)
{
	struct pool_reservation *reservation =
		pool ? pool_reservation_find(POOL_RESERVATION_POOL, get_pool_key(pool)) : NULL;
	CUdevice device;

	if (reservation || stream_device(stream, own, &device))
		return reservation;
	if (pool)
		return unknown_pool(pool, device);
	if (REAL(cuDeviceGetMemPool)(&pool, device))
		return NULL;
	reservation = pool_reservation_find(POOL_RESERVATION_POOL, get_pool_key(pool));
	return reservation ? reservation : add_device_reservation(pool, device);
}

/* Variants of the call: from a named pool or the current one; stream 0 as legacy stream or the thread's own. */
struct pool_request {
	size_t bytes;
	CUmemoryPool pool;
	CUstream stream;
	bool from_pool, own;
};

static CUresult real_alloc(CUdeviceptr *ptr, const struct pool_request *request)
{
	if (request->from_pool)
		return request->own ? REAL(cuMemAllocFromPoolAsync_ptsz)(ptr, request->bytes,
					      request->pool, request->stream)
				    : REAL(cuMemAllocFromPoolAsync)(ptr, request->bytes,
					      request->pool, request->stream);
	return request->own ? REAL(cuMemAllocAsync_ptsz)(ptr, request->bytes, request->stream)
			    : REAL(cuMemAllocAsync)(ptr, request->bytes, request->stream);
}

static CUresult alloc_from_pool(CUdeviceptr *ptr, const struct pool_request *request)
{
	struct pool_reservation_op op;
	struct pool_reservation *reservation;
	CUresult r;

	if (!charges_active() || (request->from_pool && !request->pool))
		return real_alloc(ptr, request);
	if (stream_captures(request->stream, request->own)) {
		graph_expect_memory();
		return real_alloc(ptr, request);
	}
	reservation = find_pool_reservation(request->pool, request->stream, request->own);
	r = pool_reservation_begin(&op, reservation, pool_reservation_growth(request->bytes));
	if (r && stream_wait_idle(request->stream, request->own))
		r = pool_reservation_begin(&op, reservation,
			pool_reservation_growth(request->bytes));
	if (r)
		return r;
	r = real_alloc(ptr, request);
	pool_reservation_end(&op);
	return r;
}

HOOK CUresult cuMemAllocAsync(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct pool_request request = { .bytes = bytes, .stream = stream };

	return alloc_from_pool(ptr, &request);
}

HOOK CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	struct pool_request request = { .bytes = bytes, .stream = stream, .own = true };

	return alloc_from_pool(ptr, &request);
}

HOOK CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	struct pool_request request = { .bytes = bytes,
		.pool = pool,
		.stream = stream,
		.from_pool = true };

	return alloc_from_pool(ptr, &request);
}

HOOK CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	struct pool_request request = { bytes, pool, stream, true, true };

	return alloc_from_pool(ptr, &request);
}

/*
 * A free in stream order gives the memory to its pool, so the hook does nothing. But the driver also accepts
 * pointers of cuMemAlloc there, and no hook could tell when these are free. So the hook frees such pointers by
 * cuMemFree, which waits for the GPU.
 */
static bool needs_plain_free(CUdeviceptr ptr, CUstream stream, bool own)
{
	struct alloc_row row;

	return ptr && charges_active() &&
	       (alloc_table_get(ALLOC_POINTER, ptr, &row) ||
		       alloc_table_get(ALLOC_MANAGED, ptr, &row)) &&
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
	return needs_plain_free(ptr, stream, false) ? free_plain(ptr)
						    : REAL(cuMemFreeAsync)(ptr, stream);
}

HOOK CUresult cuMemFreeAsync_ptsz(CUdeviceptr ptr, CUstream stream)
{
	return needs_plain_free(ptr, stream, true) ? free_plain(ptr)
						   : REAL(cuMemFreeAsync_ptsz)(ptr, stream);
}

HOOK CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CUmemPoolProps mine;
	uint64_t limit, used;
	struct pool_reservation *reservation;
	CUresult r;
	int gpu;

	if (!pool || !props || !charges_active())
		return REAL(cuMemPoolCreate)(pool, props);
	mine = *props;
	gpu = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
		      ? device_find_gpu(props->location.id)
		      : CHARGES_NO_GPU;
	if (gpu >= 0 && charges_read_usage(gpu, &limit, &used))
		mine.maxSize = pool_max_bytes(props->maxSize, limit);
	r = REAL(cuMemPoolCreate)(pool, &mine);
	/* Before CUDA 12.2 these bytes had to be zero. */
	if (r == CUDA_ERROR_INVALID_VALUE && mine.maxSize != props->maxSize)
		r = REAL(cuMemPoolCreate)(pool, props);
	if (r)
		return r;
	reservation = add_pool_reservation(*pool, &props->location, props->allocType);
	if (reservation)
		atomic_fetch_or(&reservation->flags, POOL_RESERVATION_OURS);
	return CUDA_SUCCESS;
}

HOOK CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	struct pool_reservation *reservation =
		pool_reservation_find(POOL_RESERVATION_POOL, get_pool_key(pool));
	uint32_t flags = reservation ? atomic_load(&reservation->flags) : 0;
	CUresult r;

	/* CUDA 11.2 does not tell what a pool holds, so there is nothing to wait for. */
	if (flags & POOL_RESERVATION_OURS && flags & POOL_RESERVATION_READ &&
		atomic_load(&reservation->gpu) >= 0)
		return pool_reservation_retire(reservation);
	r = REAL(cuMemPoolDestroy)(pool);
	if (!r && reservation)
		pool_reservation_forget(reservation);
	return r;
}

HOOK CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
	struct pool_reservation *reservation =
		pool_reservation_find(POOL_RESERVATION_POOL, get_pool_key(pool));
	struct pool_reservation_op op;
	CUresult r;

	/* A bound of 0 is always granted. */
	(void)pool_reservation_begin(&op, reservation, 0);
	r = REAL(cuMemPoolTrimTo)(pool, keep);
	pool_reservation_end(&op);
	return r;
}

HOOK CUresult cuMemPoolSetAttribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	struct pool_reservation *reservation =
		pool_reservation_find(POOL_RESERVATION_POOL, get_pool_key(pool));
	struct pool_reservation_op op;
	CUresult r;

	(void)pool_reservation_begin(&op, reservation, 0);
	r = REAL(cuMemPoolSetAttribute)(pool, attribute, value);
	pool_reservation_end(&op);
	return r;
}

HOOK CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
	unsigned int type, unsigned long long flags)
{
	CUresult r = REAL(cuMemPoolImportFromShareableHandle)(pool, handle, type, flags);

	/* The creator pays. No allocation from an imported pool is possible here. */
	if (!r && pool && charges_active())
		(void)pool_reservation_get(POOL_RESERVATION_POOL, get_pool_key(*pool), -1,
			CHARGES_NO_GPU, CHARGE_SEEN);
	return r;
}

/* Calls that return a pool: here the device of the pool is known. */

HOOK CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CUresult r = REAL(cuDeviceGetDefaultMemPool)(pool, device);

	if (!r && pool && charges_active())
		(void)add_device_reservation(*pool, device);
	return r;
}

HOOK CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *at, unsigned int type)
{
	CUresult r = REAL(cuMemGetDefaultMemPool)(pool, at, type);

	if (!r && pool && at && charges_active())
		(void)add_pool_reservation(*pool, at, type);
	return r;
}

HOOK CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *at, unsigned int type)
{
	CUresult r = REAL(cuMemGetMemPool)(pool, at, type);

	if (!r && pool && at && charges_active())
		(void)add_pool_reservation(*pool, at, type);
	return r;
}

/* Calls that wait: pools then give free memory back. */

HOOK CUresult cuStreamSynchronize(CUstream stream)
{
	struct pool_reservation_wait w;
	CUresult r;

	pool_reservation_wait_begin(&w);
	r = REAL(cuStreamSynchronize)(stream);
	pool_reservation_wait_end(&w);
	return r;
}

HOOK CUresult cuStreamSynchronize_ptsz(CUstream stream)
{
	struct pool_reservation_wait w;
	CUresult r;

	pool_reservation_wait_begin(&w);
	r = REAL(cuStreamSynchronize_ptsz)(stream);
	pool_reservation_wait_end(&w);
	return r;
}

HOOK CUresult cuEventSynchronize(CUevent event)
{
	struct pool_reservation_wait w;
	CUresult r;

	pool_reservation_wait_begin(&w);
	r = REAL(cuEventSynchronize)(event);
	pool_reservation_wait_end(&w);
	return r;
}

HOOK CUresult cuCtxSynchronize(void)
{
	struct pool_reservation_wait w;
	CUresult r;

	pool_reservation_wait_begin(&w);
	r = REAL(cuCtxSynchronize)();
	pool_reservation_wait_end(&w);
	return r;
}

HOOK CUresult cuCtxSynchronize_v2(CUcontext context)
{
	struct pool_reservation_wait w;
	CUresult r;

	pool_reservation_wait_begin(&w);
	r = REAL(cuCtxSynchronize_v2)(context);
	pool_reservation_wait_end(&w);
	return r;
}
