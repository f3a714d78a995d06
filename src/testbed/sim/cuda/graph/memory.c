/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory of graphs. A launch (or an upload) takes the memory of all its allocations at once, in multiples of 32
 * MiB. All of it counts as used (measured). When no allocation uses it any more, the device keeps it for the next
 * graph of that size, until a trim.
 */
#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/graph/graph.h"

struct cached {
	struct cached *next;
	struct physical_memory *phys;
};

static struct {
	struct cached *cached;
	uint64_t used, used_high, reserved, reserved_high;
} memory[MAX_DEVICES];

static uint64_t round_up_graph_bytes(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

static void release_graph_phys(struct sim_cuda_device *d, struct physical_memory *p)
{
	memory[d - sim_cuda.devices].reserved -= p->bytes;
	phys_drop(p);
}

/* True: some memory was freed. */
static bool graph_memory_trim(struct sim_cuda_device *d)
{
	struct cached **link = &memory[d - sim_cuda.devices].cached, *c;
	bool some = false;

	while ((c = *link)) {
		*link = c->next;
		release_graph_phys(d, c->phys);
		free(c);
		some = true;
	}
	return some;
}

static CUresult graph_memory_acquire(struct sim_cuda_device *d, uint64_t bytes,
	struct physical_memory **ret)
{
	size_t at = (size_t)(d - sim_cuda.devices);
	CUresult r;

	bytes = round_up_graph_bytes(bytes, POOL_GROWTH);
	for (struct cached **link = &memory[at].cached; *link; link = &(*link)->next)
		if ((*link)->phys->bytes == bytes) {
			struct cached *c = *link;

			*link = c->next;
			*ret = c->phys;
			free(c);
			return CUDA_SUCCESS;
		}
	r = phys_new(d, bytes, 0, ret);
	if (r == CUDA_ERROR_OUT_OF_MEMORY && (graph_memory_trim(d) || pools_release(d)))
		r = phys_new(d, bytes, 0, ret);
	if (r)
		return r;
	memory[at].reserved += bytes;
	if (memory[at].reserved > memory[at].reserved_high)
		memory[at].reserved_high = memory[at].reserved;
	return CUDA_SUCCESS;
}

static void graph_memory_release(struct sim_cuda_device *d, struct physical_memory *p)
{
	struct cached *c = malloc(sizeof(*c));

	if (!c) {
		release_graph_phys(d, p);
		return;
	}
	*c = (struct cached){ .next = memory[d - sim_cuda.devices].cached, .phys = p };
	memory[d - sim_cuda.devices].cached = c;
}

static void graph_memory_used(struct sim_cuda_device *d, int64_t change)
{
	size_t at = (size_t)(d - sim_cuda.devices);

	memory[at].used += (uint64_t)change;
	if (memory[at].used > memory[at].used_high)
		memory[at].used_high = memory[at].used;
}

/* --- blocks and allocations --- */

CUresult graph_block_new(struct sim_cuda_device *d, uint64_t bytes, struct graph_block **ret)
{
	struct graph_block *b = malloc(sizeof(*b));
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (!b)
		return r;
	*b = (struct graph_block){ .refs = 1, .device = d };
	r = graph_memory_acquire(d, bytes, &b->phys);
	if (r) {
		free(b);
		return r;
	}
	graph_memory_used(d, (int64_t)b->phys->bytes);
	*ret = b;
	return CUDA_SUCCESS;
}

void graph_block_drop(struct graph_block *b)
{
	if (!b || --b->refs)
		return;
	graph_memory_used(b->device, -(int64_t)b->phys->bytes);
	graph_memory_release(b->device, b->phys);
	free(b);
}

CUresult graph_alloc_new(struct sim_cuda_device *d, uint64_t bytes, struct graph_alloc **ret)
{
	uint64_t span = round_up_graph_bytes(bytes, GRANULE);
	struct graph_alloc *a = calloc(1, sizeof(*a));
	CUdeviceptr at = a && bytes < UINT64_MAX / 4 ? space_reserve(span, GRANULE, 0) : 0;

	if (!at) {
		free(a);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->refs = 1;
	a->device = d;
	a->range = range_add((struct address_range){ .start = at,
		.bytes = bytes,
		.span = span,
		.kind = RANGE_GRAPH,
		.ctx = d->primary,
		.device = d,
		.owner = a });
	if (!a->range) {
		space_release(at);
		free(a);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret = a;
	return CUDA_SUCCESS;
}

static void maybe_free(struct graph_alloc *a)
{
	CUdeviceptr at = a->range->start;

	if (a->refs || a->live)
		return;
	range_remove(a->range);
	space_release(at);
	graph_block_drop(a->block);
	free(a);
}

void graph_alloc_drop(struct graph_alloc *a)
{
	if (!a)
		return;
	a->refs--;
	maybe_free(a);
}

CUresult graph_alloc_begin(struct graph_alloc *a, struct graph_block *b, uint64_t offset)
{
	if (a->live)
		return CUDA_ERROR_INVALID_VALUE;
	if (a->block != b) {
		phys_drop(a->range->phys);
		a->range->phys = phys_ref(b->phys);
		graph_block_drop(a->block);
		a->block = b;
		b->refs++;
	}
	a->range->offset = offset;
	a->live = true;
	return CUDA_SUCCESS;
}

/* The memory behind the address stays, as work submitted before still uses it. */
void graph_alloc_end(struct graph_alloc *a)
{
	if (!a->live)
		return;
	a->live = false;
	maybe_free(a);
}

CUresult graph_free(struct address_range *r)
{
	struct graph_alloc *a = r->owner;

	if (!a->live)
		return CUDA_ERROR_INVALID_VALUE;
	phys_drop(r->phys);
	r->phys = NULL;
	graph_block_drop(a->block);
	a->block = NULL;
	graph_alloc_end(a);
	return CUDA_SUCCESS;
}

/* --- API functions --- */

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice dev, unsigned int attribute, void *ret)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (!ret || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(ret,
		(uint64_t[]){ memory[dev].used, memory[dev].used_high, memory[dev].reserved,
			memory[dev].reserved_high } +
			attribute,
		sizeof(uint64_t));
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice dev, unsigned int attribute, void *from)
{
	struct sim_cuda_device *d;
	uint64_t v = 1;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	if (from)
		memcpy(&v, from, sizeof(v));
	if (!from || v)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		memory[dev].used_high = memory[dev].used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		memory[dev].reserved_high = memory[dev].reserved;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice dev)
{
	struct sim_cuda_device *d;
	CUresult r = sim_cuda_enter_device(dev, &d);

	if (r)
		return r;
	(void)graph_memory_trim(d);
	return sim_cuda_leave(CUDA_SUCCESS);
}
