/* SPDX-License-Identifier: Apache-2.0 */

/* Stream-ordered memory. */
#include "testbed/sim/cuda/memory/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT UINT64_C(512)

/* A block of a pool: in use, or freed in a queue that may not have reached the free yet. */
struct sim_pool_block {
	struct sim_pool_block *next; /* by address */
	struct address_range *range;
	struct sim_cuda_pool *pool;
	struct sim_cuda_queue *queue; /* freed: a reference; NULL: in use */
	uint64_t seq;
};

/*
 * A pool has addresses for all memory of its device. It has memory behind as many slots of 32 MiB as it needs. A
 * block may reach from one slot into the next (measured).
 */
struct sim_cuda_pool {
	struct sim_cuda_object obj;
	struct sim_cuda_pool *next; /* of all */
	struct sim_cuda_device *device;
	CUmemPoolProps props;
	bool is_default, destroyed, imported;
	int reuse[3];
	uint64_t threshold, reserved, reserved_high, used, used_high;
	CUdeviceptr start;
	size_t slot_count;
	struct physical_memory **slots; /* NULL: no memory there now */
	struct sim_pool_block *blocks;
	struct ghost *ghosts;
	unsigned access[MAX_DEVICES];
};

static struct sim_cuda_pool *pools;

static CUresult pool_new(struct sim_cuda_device *d, const CUmemPoolProps *props,
	struct sim_cuda_pool **ret)
{
	uint64_t bytes = (d->keys.memory_total + POOL_GROWTH - 1) / POOL_GROWTH * POOL_GROWTH;
	struct sim_cuda_pool *p = obj_new(OBJ_POOL, sizeof(struct sim_cuda_pool));

	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	p->start = space_reserve(bytes, GRANULE, 0);
	p->slot_count = bytes / POOL_GROWTH;
	p->slots = p->start ? calloc(p->slot_count, sizeof(struct physical_memory *)) : NULL;
	if (!p->slots) {
		if (p->start)
			space_release(p->start);
		obj_drop(p, OBJ_POOL);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	p->device = d;
	p->props = *props;
	for (int i = 0; i < 3; i++)
		p->reuse[i] = 1;
	p->access[d - sim_cuda.devices] = 3;
	p->next = pools;
	pools = p;
	*ret = p;
	return CUDA_SUCCESS;
}

static struct sim_cuda_pool *pool_default(struct sim_cuda_device *d)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, (int)(d - sim_cuda.devices) } };

	if (!d->default_pool && pool_new(d, &props, &d->default_pool) == CUDA_SUCCESS)
		d->default_pool->is_default = true;
	return d->default_pool;
}

/* NULL: no memory. */
static struct sim_cuda_pool *pool_current(struct sim_cuda_device *d)
{
	return d->current_pool ? d->current_pool : pool_default(d);
}

/* Whether work of @by, or of any queue if @by is NULL, may reuse the memory of a freed block. */
static bool is_block_reusable(const struct sim_pool_block *b, const struct sim_cuda_queue *by)
{
	return b->queue && (b->queue == by || queue_done(b->queue, b->seq));
}

static void block_drop(struct sim_pool_block **link)
{
	struct sim_pool_block *b = *link;

	*link = b->next;
	range_remove(b->range);
	if (b->queue)
		queue_drop(b->queue);
	free(b);
}

static bool add_block_ghost(const struct sim_pool_block *b)
{
	CUdeviceptr start = b->range->start;

	return ghost_add(&b->pool->ghosts, start, start + b->range->span, b->queue, b->seq);
}

bool pool_ghost_at(CUdeviceptr at, uint64_t *bytes, struct physical_memory **slot,
	uint64_t *offset)
{
	for (const struct sim_cuda_pool *p = pools; p; p = p->next) {
		CUdeviceptr end = ghost_end(p->ghosts, at, at + 1);

		if (!end)
			continue;
		*bytes = end - at;
		*offset = (at - p->start) % POOL_GROWTH;
		*slot = p->slots[(at - p->start) / POOL_GROWTH];
		return true;
	}
	return false;
}

static void reclaim_freed_blocks(struct sim_cuda_pool *p, const struct sim_cuda_queue *by)
{
	ghosts_expire(&p->ghosts);
	for (struct sim_pool_block **link = &p->blocks; *link;) {
		if (is_block_reusable(*link, by) &&
			(queue_done((*link)->queue, (*link)->seq) || add_block_ghost(*link)))
			block_drop(link);
		else
			link = &(*link)->next;
	}
}

static void pool_drop(struct sim_cuda_pool *p)
{
	struct sim_cuda_pool **link = &pools;

	while (*link && *link != p)
		link = &(*link)->next;
	if (*link)
		*link = p->next;
	space_release(p->start);
	free(p->slots);
	obj_drop(p, OBJ_POOL);
}

static void slot_drop(struct sim_cuda_pool *p, size_t i)
{
	p->reserved -= POOL_GROWTH;
	phys_drop(p->slots[i]);
	p->slots[i] = NULL;
}

/* Frees unused memory, down to @keep bytes. */
static bool trim_pool(struct sim_cuda_pool *p, uint64_t keep)
{
	CUdeviceptr free_from = p->start; /* behind the previous block */
	const struct sim_pool_block *b;
	bool some = false;

	reclaim_freed_blocks(p, NULL);
	b = p->blocks;
	for (size_t i = 0; i < p->slot_count && p->reserved > keep; i++) {
		CUdeviceptr from = p->start + i * POOL_GROWTH, to = from + POOL_GROWTH;

		while (b && b->range->start < to) {
			free_from = b->range->start + b->range->span;
			b = b->next;
		}
		if (!p->slots[i] || free_from > from || p->reserved - POOL_GROWTH < keep ||
			ghost_end(p->ghosts, from, to))
			continue;
		slot_drop(p, i);
		some = true;
	}
	if (p->destroyed && !p->blocks && !p->ghosts)
		pool_drop(p);
	return some;
}

void pools_trim_all(void)
{
	struct sim_cuda_pool *next;

	for (struct sim_cuda_pool *p = pools; p; p = next) {
		next = p->next;
		if (p->reserved > p->threshold || p->destroyed)
			(void)trim_pool(p, p->threshold);
	}
}

bool pools_release(struct sim_cuda_device *d)
{
	bool some = false;
	struct sim_cuda_pool *next;

	for (struct sim_cuda_pool *p = pools; p; p = next) {
		next = p->next;
		if (p->device == d)
			some = trim_pool(p, 0) || some;
	}
	return some;
}

/* The link of the first gap of @bytes. NULL: none. */
static struct sim_pool_block **find_gap(struct sim_cuda_pool *p, uint64_t bytes,
	CUdeviceptr *at)
{
	struct sim_pool_block **link = &p->blocks;

	*at = p->start;
	for (; *link; link = &(*link)->next) {
		if ((*link)->range->start - *at >= bytes)
			return link;
		*at = (*link)->range->start + (*link)->range->span;
	}
	return p->start + p->slot_count * POOL_GROWTH - *at >= bytes ? link : NULL;
}

/* Takes memory for all slots of a piece, or for none. */
static CUresult populate_pool_slots(struct sim_cuda_pool *p, CUdeviceptr at, uint64_t bytes)
{
	size_t first = (at - p->start) / POOL_GROWTH;
	size_t last = (at + bytes - 1 - p->start) / POOL_GROWTH;
	uint64_t need = 0, before = p->reserved;
	CUresult r = CUDA_SUCCESS;

	for (size_t i = first; i <= last; i++)
		need += p->slots[i] ? 0 : POOL_GROWTH;
	if (need && p->props.maxSize && before + need > p->props.maxSize)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = first; i <= last && !r; i++) {
		if (p->slots[i])
			continue;
		r = phys_new(p->device, POOL_GROWTH, 0, &p->slots[i]);
		if (r)
			p->slots[i] = NULL;
		else
			p->reserved += POOL_GROWTH;
	}
	if (r)
		(void)trim_pool(p, before);
	else if (p->reserved > p->reserved_high)
		p->reserved_high = p->reserved;
	return r;
}

struct physical_memory *pool_slot(const struct address_range *r, CUdeviceptr at,
	uint64_t *offset)
{
	const struct sim_cuda_pool *p = ((const struct sim_pool_block *)r->owner)->pool;

	*offset = (at - p->start) % POOL_GROWTH;
	return p->slots[(at - p->start) / POOL_GROWTH];
}

static CUresult pool_alloc(struct sim_cuda_pool *p, struct sim_cuda_stream *stream,
	uint64_t bytes, CUdeviceptr *ret)
{
	uint64_t span = (bytes + UNIT - 1) & ~(UNIT - 1);
	struct sim_pool_block **link, *b;
	CUdeviceptr at = 0;
	CUresult r;

	if (bytes > UINT64_MAX / 4)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reclaim_freed_blocks(p, stream->queue);
	link = find_gap(p, span, &at);
	if (!link)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = populate_pool_slots(p, at, span);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && pools_release(p->device)) {
		link = find_gap(p, span, &at); /* blocks may have gone */
		r = populate_pool_slots(p, at, span);
	}
	if (r)
		return r;
	/* Taking memory may have removed blocks, so find the gap again. */
	link = find_gap(p, span, &at);
	b = calloc(1, sizeof(*b));
	if (b)
		b->range = range_add((struct address_range){ .start = at,
			.bytes = bytes,
			.span = span,
			.kind = RANGE_POOL,
			.ctx = stream->ctx,
			.device = p->device,
			.owner = b });
	if (!b || !b->range) {
		free(b);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	b->pool = p;
	b->next = *link;
	*link = b;
	p->used += bytes;
	if (p->used > p->used_high)
		p->used_high = p->used;
	*ret = at;
	return CUDA_SUCCESS;
}

static void set_range_freeing(struct address_range *r)
{
	struct sim_pool_block *b = r->owner;

	r->freeing = true;
	b->pool->used -= r->bytes;
}

CUresult memory_free_in(struct sim_cuda_stream *s, CUdeviceptr p)
{
	struct address_range *r = range_at(p);
	struct sim_pool_block *b;

	if (!r || r->start != p || r->freeing)
		return CUDA_ERROR_INVALID_VALUE;
	if (r->kind == RANGE_GRAPH) {
		CUresult err = queue_wait(s->queue, s->queue->last);

		r = range_at(p);
		return err || !r ? err : graph_free(r);
	}
	if (r->kind != RANGE_POOL)
		return CUDA_ERROR_INVALID_VALUE;
	b = r->owner;
	set_range_freeing(r);
	b->queue = queue_ref(s->queue);
	b->seq = s->queue->last;
	return CUDA_SUCCESS;
}

CUresult pool_free_now(struct address_range *r)
{
	struct sim_pool_block *b = r->owner, **link;
	struct sim_cuda_pool *p;

	if (r->kind == RANGE_GRAPH)
		return graph_free(r);
	set_range_freeing(r);
	p = b->pool;
	for (link = &p->blocks; *link != b;)
		link = &(*link)->next;
	block_drop(link);
	if (p->reserved > p->threshold || p->destroyed)
		(void)trim_pool(p, p->threshold);
	return CUDA_SUCCESS;
}

/* --- API functions --- */

static CUresult alloc_async(CUdeviceptr *ret, size_t bytes, struct sim_cuda_pool *p, CUstream h)
{
	struct sim_cuda_stream *s;
	CUresult r = sim_cuda_find_stream(h, &s);

	if (r)
		return r;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes) {
		*ret = 0; /* no error here (measured) */
		return CUDA_SUCCESS;
	}
	p = p ? p : pool_current(s->ctx->device);
	if (!p)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (p->imported || p->destroyed)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture)
		return capture_alloc(s, &p->props, bytes, ret);
	if (s->kind == STREAM_LEGACY)
		r = capture_legacy(s->ctx);
	return r ? r : pool_alloc(p, s, bytes, ret);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *ret, size_t bytes, CUstream h)
{
	CUresult r = sim_cuda_enter();

	return r ? r : sim_cuda_leave(alloc_async(ret, bytes, NULL, h));
}

EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *ret, size_t bytes, CUstream h)
{
	return cuMemAllocAsync(ret, bytes, PER_THREAD(h));
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *ret, size_t bytes, CUmemoryPool pool,
	CUstream h)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(pool, OBJ_POOL))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(alloc_async(ret, bytes, (struct sim_cuda_pool *)pool, h));
}

EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *ret, size_t bytes, CUmemoryPool pool,
	CUstream h)
{
	return cuMemAllocFromPoolAsync(ret, bytes, pool, PER_THREAD(h));
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr p, CUstream h)
{
	struct cuda_work w = { .kind = WORK_FREE, .free = p };
	struct sim_cuda_stream *s;
	struct address_range *range;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, &s);
	if (r || !p)
		return sim_cuda_leave(r);
	range = range_at(p);
	if (!s->capture && range && range->start == p && !range->freeing &&
		(range->kind == RANGE_PLAIN || range->kind == RANGE_MANAGED ||
			range->kind == RANGE_EXTERNAL)) {
		/* Also frees memory of cuMemAlloc(); waits, as cuMemFree() does. */
		(void)sim_cuda_leave(r);
		r = cuStreamSynchronize(h);
		return r ? r : cuMemFree_v2(p);
	}
	return sim_cuda_leave(stream_add_work(s, &w));
}

EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr p, CUstream h)
{
	return cuMemFreeAsync(p, PER_THREAD(h));
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *ret, const CUmemPoolProps *props)
{
	struct sim_cuda_pool *p;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (props->location.id < 0 || (unsigned)props->location.id >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	r = pool_new(&sim_cuda.devices[props->location.id], props, &p);
	if (r == CUDA_SUCCESS)
		*ret = (CUmemoryPool)p;
	return sim_cuda_leave(r);
}

/* The pool of a handle; the lock is taken on success. */
static CUresult enter_pool(CUmemoryPool h, bool args_ok, struct sim_cuda_pool **p)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*p = (struct sim_cuda_pool *)h;
	if (!obj_is(h, OBJ_POOL) || (*p)->destroyed || !args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool h)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, true, &p);

	if (r)
		return r;
	if (p->is_default)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (p->device->current_pool == p)
		p->device->current_pool = NULL;
	p->destroyed = true; /* blocks in use stay until they are freed */
	p->threshold = 0;
	(void)trim_pool(p, 0);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t keep)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, true, &p);

	if (r)
		return r;
	(void)trim_pool(p, keep);
	return sim_cuda_leave(CUDA_SUCCESS);
}

static uint64_t *attribute_of(struct sim_cuda_pool *p, unsigned attribute)
{
	switch (attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		return &p->reserved;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		return &p->reserved_high;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &p->used;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &p->used_high;
	default:
		return NULL;
	}
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool h, unsigned int attribute, void *ret)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, ret && attribute >= 1 && attribute <= 8, &p);

	if (r)
		return r;
	if (attribute <= 3)
		memcpy(ret, &p->reuse[attribute - 1], sizeof(int));
	else
		memcpy(ret, attribute_of(p, attribute), sizeof(uint64_t));
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool h, unsigned int attribute, void *from)
{
	struct sim_cuda_pool *p;
	uint64_t v;
	CUresult r = enter_pool(h, from && attribute >= 1 && attribute <= 8, &p);

	if (r)
		return r;
	if (attribute <= 3) {
		memcpy(&p->reuse[attribute - 1], from, sizeof(int));
		return sim_cuda_leave(CUDA_SUCCESS);
	}
	memcpy(&v, from, sizeof(v));
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		p->threshold = v;
	else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && v == 0)
		p->reserved_high = p->reserved;
	else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && v == 0)
		p->used_high = p->used;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool h, const CUmemAccessDesc *access, size_t n)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, access || !n, &p);

	if (r)
		return r;
	for (size_t i = 0; i < n; i++) {
		int id = access[i].location.id;

		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
		if (id < 0 || (unsigned)id >= sim_cuda.device_count)
			return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
		p->access[id] = access[i].flags;
	}
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolGetAccess(unsigned int *ret, CUmemoryPool h, CUmemLocation *at)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, ret && at && at->type == CU_MEM_LOCATION_TYPE_DEVICE, &p);

	if (r)
		return r;
	if (at->id < 0 || (unsigned)at->id >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	*ret = p->access[at->id];
	return sim_cuda_leave(CUDA_SUCCESS);
}

/*
 * Sharing. The descriptor of a pool identifies no memory; the export data of a pointer does. A block across two
 * slots cannot be shared here.
 */
struct pool_data {
	uint64_t id, cookie, offset, bytes;
	uint32_t slot, unused;
};

_Static_assert(sizeof(struct pool_data) <= sizeof(CUmemPoolPtrExportData), "it holds it");

EXPORT CUresult cuMemPoolExportToShareableHandle(void *ret, CUmemoryPool h, unsigned int type,
	unsigned long long flags)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, ret && !flags, &p);
	int fd;

	if (r)
		return r;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		!(p->props.handleTypes & type) || p->imported)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		memcpy(ret, &fd, sizeof(fd));
	return sim_cuda_leave(fd >= 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}

EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *ret, void *os_handle,
	unsigned int type, unsigned long long flags)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = type,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	struct sim_cuda_pool *p;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
		fcntl((int)(intptr_t)os_handle, F_GETFD) < 0)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = pool_new(&sim_cuda.devices[0], &props, &p);
	if (r == CUDA_SUCCESS) {
		p->imported = true;
		*ret = (CUmemoryPool)p;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *ret, CUdeviceptr p)
{
	struct address_range *range;
	struct physical_memory *first, *last;
	struct pool_data data = { 0 };
	uint64_t end;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	range = range_at(p);
	if (!ret || !range || range->kind != RANGE_POOL || range->freeing)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	first = pool_slot(range, range->start, &data.offset);
	last = pool_slot(range, range->start + range->bytes - 1, &end);
	if (first != last)
		return sim_cuda_leave(CUDA_ERROR_NOT_SUPPORTED);
	data.id = first->id;
	data.cookie = first->cookie;
	data.bytes = range->bytes;
	data.slot = range->device->slot;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret, &data, sizeof(data));
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *ret, CUmemoryPool h,
	CUmemPoolPtrExportData *from)
{
	struct sim_device_reply reply;
	struct pool_data data;
	struct sim_cuda_ctx *c;
	struct physical_memory *phys;
	struct sim_cuda_pool *p;
	CUdeviceptr at;
	int fd = -1;
	CUresult r = enter_pool(h, ret && from, &p);

	if (r)
		return r;
	memcpy(&data, from, sizeof(data));
	c = ctx_current(&r);
	if (!r && !p->imported)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_OPEN,
				   .id = data.id,
				   .cookie = data.cookie },
			  &reply, -1, &fd))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = phys_adopt(p->device, reply.id, reply.bytes, fd, &phys);
	if (r)
		return sim_cuda_leave(r);
	at = data.offset < phys->bytes && data.bytes <= phys->bytes - data.offset
		     ? space_reserve(data.bytes, GRANULE, 0)
		     : 0;
	if (at && range_add((struct address_range){ .start = at,
			  .bytes = data.bytes,
			  .kind = RANGE_EXTERNAL,
			  .ctx = c,
			  .device = p->device,
			  .phys = phys,
			  .offset = data.offset })) {
		*ret = at;
		return sim_cuda_leave(CUDA_SUCCESS);
	}
	if (at)
		space_release(at);
	phys_drop(phys);
	return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

/* --- the pools of a device --- */

static CUresult get_pool(CUmemoryPool *ret, CUdevice dev,
	struct sim_cuda_pool *(*which)(struct sim_cuda_device *d))
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!ret)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = (CUmemoryPool)which(d);
	return sim_cuda_leave(*ret ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *ret, CUdevice dev)
{
	return get_pool(ret, dev, pool_default);
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *ret, CUdevice dev)
{
	return get_pool(ret, dev, pool_current);
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool h)
{
	struct sim_cuda_pool *p;
	CUresult r = enter_pool(h, dev >= 0, &p);

	if (r)
		return r;
	if ((unsigned)dev >= sim_cuda.device_count)
		return sim_cuda_leave(CUDA_ERROR_INVALID_DEVICE);
	if (p->device != &sim_cuda.devices[dev])
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	p->device->current_pool = p;
	return sim_cuda_leave(CUDA_SUCCESS);
}

static bool pool_location(const CUmemLocation *at, unsigned type)
{
	return at && at->type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       type == CU_MEM_ALLOCATION_TYPE_PINNED;
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *ret, CUmemLocation *at, unsigned int type)
{
	return pool_location(at, type) ? cuDeviceGetDefaultMemPool(ret, at->id)
				       : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *ret, CUmemLocation *at, unsigned int type)
{
	return pool_location(at, type) ? cuDeviceGetMemPool(ret, at->id)
				       : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *at, unsigned int type, CUmemoryPool h)
{
	return pool_location(at, type) ? cuDeviceSetMemPool(at->id, h)
				       : CUDA_ERROR_INVALID_VALUE;
}

void *pool_handle_of(const struct address_range *r)
{
	return r->kind == RANGE_POOL ? ((const struct sim_pool_block *)r->owner)->pool : NULL;
}
