/* SPDX-License-Identifier: Apache-2.0 */

/* Plain, pitched, managed and host memory, and its sizes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

#define PITCH UINT64_C(512)

/* The lock is taken on success, and no stream captures. */
static CUresult enter_alloc_context(bool args_ok, struct sim_cuda_ctx **c)
{
	CUresult r = sim_cuda_enter_ctx(c);

	if (r)
		return r;
	if (!args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = capture_unsafe();
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
}

/* If the device is full, pools first free their unused memory. */
static CUresult alloc_plain_range(struct sim_cuda_ctx *c, uint64_t bytes,
	struct address_range **ret)
{
	CUresult r = plain_new(c, bytes, RANGE_PLAIN, ret);

	if (r == CUDA_ERROR_OUT_OF_MEMORY && pools_release(c->device))
		r = plain_new(c, bytes, RANGE_PLAIN, ret);
	return r;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *ret, size_t bytes)
{
	struct sim_cuda_ctx *c;
	struct address_range *range;
	CUresult r = enter_alloc_context(ret && bytes, &c);

	if (r)
		return r;
	r = alloc_plain_range(c, bytes, &range);
	if (r == CUDA_SUCCESS)
		*ret = range->start;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *ret, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	struct sim_cuda_ctx *c;
	struct address_range *range;
	uint64_t row;
	CUresult r =
		enter_alloc_context(ret && pitch && width && height &&
					    (element == 4 || element == 8 || element == 16),
			&c);

	if (r)
		return r;
	row = (width + PITCH - 1) & ~(PITCH - 1);
	if (width > UINT32_MAX || height > UINT64_MAX / 4 / row)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = alloc_plain_range(c, row * height, &range);
	if (r == CUDA_SUCCESS) {
		*ret = range->start;
		*pitch = row;
	}
	return sim_cuda_leave(r);
}

/* The first interface has 32-bit addresses. No address of the simulator fits. */
EXPORT CUresult cuMemAlloc(CUdeviceptr_v1 *ret, unsigned int bytes)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	return sim_cuda_leave(
		ret && bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE);
}

/* Managed memory has one address for the CPU and the device, and takes no device memory. */

/* Maps new pages in place of what is there. */
static bool map_at(CUdeviceptr at, uint64_t bytes, int prot)
{
	void *want = (void *)(uintptr_t)at;
	const void *p = mmap(want, bytes, prot,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);

	return p == want;
}

EXPORT CUresult cuMemAllocManaged(CUdeviceptr *ret, size_t bytes, unsigned int flags)
{
	uint64_t span = (bytes + GRANULE - 1) & ~(GRANULE - 1);
	struct sim_cuda_ctx *c;
	CUdeviceptr at;
	CUresult r = enter_alloc_context(
		ret && bytes && (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST),
		&c);

	if (r)
		return r;
	at = bytes < UINT64_MAX / 4 ? space_reserve(span, GRANULE, 0) : 0;
	if (!at)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	if (!map_at(at, span, PROT_READ | PROT_WRITE) ||
		!range_add((struct address_range){ .start = at,
			.bytes = bytes,
			.span = span,
			.kind = RANGE_MANAGED,
			.ctx = c,
			.device = c->device,
			.cpu = (unsigned char *)(uintptr_t)at,
			.flags = flags })) {
		space_release(at);
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*ret = at;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static void managed_drop(struct address_range *r)
{
	CUdeviceptr at = r->start;

	(void)map_at(at, r->span, PROT_NONE);
	range_remove(r);
	space_release(at);
}

static void host_drop(struct address_range *r)
{
	if (r->kind == RANGE_HOST)
		(void)munmap(r->cpu, r->span);
	range_remove(r);
}

static void foreign_drop(struct address_range *r)
{
	CUdeviceptr at = r->kind == RANGE_IPC ? r->start - r->offset : r->start;

	range_remove(r);
	space_release(at);
}

static CUresult free_range(struct address_range *r)
{
	switch ((int)r->kind) {
	case RANGE_PLAIN:
		plain_drop(r);
		return CUDA_SUCCESS;
	case RANGE_MANAGED:
		managed_drop(r);
		return CUDA_SUCCESS;
	case RANGE_EXTERNAL:
		foreign_drop(r);
		return CUDA_SUCCESS;
	case RANGE_POOL:
	case RANGE_GRAPH:
		return pool_free_now(r);
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Waits for all running work, as any of it may use the memory. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr p)
{
	struct sim_cuda_ctx *c;
	struct address_range *r;
	CUresult err;

	err = sim_cuda_enter();
	if (err)
		return err;
	err = capture_unsafe();
	if (err || !p)
		return sim_cuda_leave(err);
	r = range_at(p);
	if (!r || r->start != p || r->freeing ||
		(r->kind != RANGE_PLAIN && r->kind != RANGE_MANAGED && r->kind != RANGE_POOL &&
			r->kind != RANGE_GRAPH && r->kind != RANGE_EXTERNAL))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	c = r->ctx;
	r->freeing = true; /* other threads must not free it */
	if (c->active)
		err = device_wait_free(c);
	r->freeing = false;
	if (err)
		return sim_cuda_leave(err);
	return sim_cuda_leave(free_range(r));
}

EXPORT CUresult cuMemFree(CUdeviceptr_v1 p)
{
	return cuMemFree_v2(p);
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	uint64_t left, all;
	struct sim_cuda_ctx *c;
	CUresult r = sim_cuda_enter_ctx(&c);

	if (r)
		return r;
	r = gpu_info(c->device, &left, &all);
	if (r == CUDA_SUCCESS && free_bytes)
		*free_bytes = left;
	if (r == CUDA_SUCCESS && total)
		*total = all;
	return sim_cuda_leave(r);
}

static unsigned clamp_bytes_u32(size_t v)
{
	return v > UINT32_MAX ? UINT32_MAX : (unsigned)v;
}

EXPORT CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
	size_t left, all;
	CUresult r = cuMemGetInfo_v2(&left, &all);

	if (r == CUDA_SUCCESS && free_bytes)
		*free_bytes = clamp_bytes_u32(left);
	if (r == CUDA_SUCCESS && total)
		*total = clamp_bytes_u32(all);
	return r;
}

/* Host memory. */

#define PAGE UINT64_C(4096)

EXPORT CUresult cuMemHostAlloc(void **ret, size_t bytes, unsigned int flags)
{
	uint64_t span = (bytes + PAGE - 1) & ~(PAGE - 1);
	struct sim_cuda_ctx *c;
	void *p;
	CUresult r = enter_alloc_context(ret && bytes && flags <= 7, &c);

	if (r)
		return r;
	p = bytes < UINT64_MAX / 4 ? mmap(NULL, span, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_ANONYMOUS, -1, 0)
				   : MAP_FAILED;
	if (p == MAP_FAILED)
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	if (!range_add((struct address_range){ .start = (uintptr_t)p,
		    .bytes = bytes,
		    .span = span,
		    .kind = RANGE_HOST,
		    .ctx = c,
		    .device = c->device,
		    .cpu = p,
		    .flags = flags })) {
		(void)munmap(p, span);
		return sim_cuda_leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*ret = p;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemAllocHost_v2(void **ret, size_t bytes)
{
	return cuMemHostAlloc(ret, bytes, 0);
}

EXPORT CUresult cuMemAllocHost(void **ret, unsigned int bytes)
{
	return cuMemHostAlloc(ret, bytes, 0);
}

EXPORT CUresult cuMemFreeHost(void *p)
{
	struct address_range *r;
	CUresult err = sim_cuda_enter();

	if (err)
		return err;
	err = capture_unsafe();
	if (err || !p)
		return sim_cuda_leave(err);
	r = range_at((uintptr_t)p);
	if (!r || r->start != (uintptr_t)p || r->freeing || r->kind != RANGE_HOST)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r->freeing = true;
	if (r->ctx->active)
		(void)device_wait_free(r->ctx);
	host_drop(r);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytes, unsigned int flags)
{
	struct sim_cuda_ctx *c;
	CUresult r = enter_alloc_context(p && bytes && flags <= 15, &c);

	if (r)
		return r;
	if (!range_clear((uintptr_t)p, bytes))
		return sim_cuda_leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	if (space_contains((uintptr_t)p) ||
		!range_add((struct address_range){ .start = (uintptr_t)p,
			.bytes = bytes,
			.kind = RANGE_REGISTERED,
			.ctx = c,
			.device = c->device,
			.cpu = p,
			.flags = flags }))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostRegister(void *p, size_t bytes, unsigned int flags)
{
	return cuMemHostRegister_v2(p, bytes, flags);
}

EXPORT CUresult cuMemHostUnregister(void *p)
{
	struct address_range *r;
	CUresult err = sim_cuda_enter();

	if (err)
		return err;
	r = range_at((uintptr_t)p);
	if (!r || r->start != (uintptr_t)p || r->kind != RANGE_REGISTERED)
		return sim_cuda_leave(
			p ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE);
	range_remove(r);
	return sim_cuda_leave(CUDA_SUCCESS);
}

static const struct address_range *host_at(const void *p)
{
	const struct address_range *r = range_at((uintptr_t)p);

	return r && (r->kind == RANGE_HOST || r->kind == RANGE_REGISTERED) ? r : NULL;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ret, void *p, unsigned int flags)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || flags || !host_at(p))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = (uintptr_t)p;
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *ret, void *p)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !host_at(p))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = host_at(p)->flags | 2; /* always mapped where addresses are unified */
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* --- hints --- */

EXPORT CUresult cuMemAdvise(CUdeviceptr p, size_t bytes, unsigned int advice, CUdevice dev)
{
	CUresult r = sim_cuda_enter();

	(void)dev;
	if (r)
		return r;
	return sim_cuda_leave(bytes && advice >= 1 && advice <= 6 && range_at(p)
				      ? CUDA_SUCCESS
				      : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemAdvise_v2(CUdeviceptr p, size_t bytes, unsigned int advice,
	CUmemLocation at)
{
	return cuMemAdvise(p, bytes, advice, at.id);
}

static CUresult check_managed_prefetch(CUdeviceptr p, size_t bytes, CUstream h)
{
	struct sim_cuda_stream *s;
	const struct address_range *range;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	range = range_at(p);
	if (r == CUDA_SUCCESS && (!bytes || !range || range->kind != RANGE_MANAGED))
		r = CUDA_ERROR_INVALID_VALUE;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemPrefetchAsync(CUdeviceptr p, size_t bytes, CUdevice dev, CUstream h)
{
	(void)dev;
	return check_managed_prefetch(p, bytes, h);
}

EXPORT CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr p, size_t bytes, CUdevice dev, CUstream h)
{
	(void)dev;
	return check_managed_prefetch(p, bytes, PER_THREAD(h));
}

EXPORT CUresult cuMemPrefetchAsync_v2(CUdeviceptr p, size_t bytes, CUmemLocation at,
	unsigned int flags, CUstream h)
{
	(void)at;
	return flags ? CUDA_ERROR_INVALID_VALUE : check_managed_prefetch(p, bytes, h);
}

EXPORT CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr p, size_t bytes, CUmemLocation at,
	unsigned int flags, CUstream h)
{
	return cuMemPrefetchAsync_v2(p, bytes, at, flags, PER_THREAD(h));
}

/* Frees all memory of a context, at its end. */
void memory_drop_all(struct sim_cuda_ctx *c)
{
	struct address_range *r;

	for (size_t i = 0; (r = range_nth(i));) {
		if (r->ctx != c) {
			i++;
			continue;
		}
		switch ((int)r->kind) {
		case RANGE_PLAIN:
		case RANGE_MODULE:
		case RANGE_ARRAY:
			plain_drop(r);
			break;
		case RANGE_MANAGED:
			managed_drop(r);
			break;
		case RANGE_HOST:
		case RANGE_REGISTERED:
			host_drop(r);
			break;
		case RANGE_IPC:
		case RANGE_EXTERNAL:
			foreign_drop(r);
			break;
		default:
			i++; /* belongs to the device */
		}
		/* This may have removed other ranges too, so @i stays. */
	}
}
