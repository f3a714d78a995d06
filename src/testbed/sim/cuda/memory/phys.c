/* SPDX-License-Identifier: Apache-2.0 */

/* Device memory, and the driver's placement of plain allocations in it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "testbed/sim/cuda/node.h"
#include "testbed/sim/cuda/memory/memory.h"

static unsigned char *map_fd(int fd, uint64_t bytes)
{
	void *p = MAP_FAILED;

	if (fd >= 0) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
			0);
		(void)close(fd);
	}
	return p == MAP_FAILED ? NULL : p;
}

CUresult phys_adopt(struct sim_cuda_device *d, uint64_t id, uint64_t bytes, int fd,
	struct physical_memory **ret)
{
	struct physical_memory *p = malloc(sizeof(*p));

	if (!p) {
		if (fd >= 0)
			(void)close(fd);
		(void)gpu_call(
			(struct sim_device_request){ .op = SIM_DEVICE_MEM_RELEASE, .id = id },
			NULL, -1, NULL);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*p = (struct physical_memory){ .device = d, .id = id, .bytes = bytes, .refs = 1 };
	p->cpu = map_fd(fd, bytes);
	*ret = p;
	return CUDA_SUCCESS;
}

CUresult phys_new(struct sim_cuda_device *d, uint64_t bytes, unsigned flags,
	struct physical_memory **ret)
{
	struct sim_device_reply r;
	CUresult err;
	int fd;

	err = gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_ALLOC,
			       .slot = d->slot,
			       .bytes = bytes,
			       .flags = flags },
		&r, -1, &fd);
	if (err)
		return err;
	err = phys_adopt(d, r.id, r.bytes, fd, ret);
	if (err == CUDA_SUCCESS)
		(*ret)->cookie = r.cookie;
	return err;
}

CUresult phys_new_host(uint64_t bytes, struct physical_memory **ret)
{
	struct physical_memory *p = malloc(sizeof(*p));
	void *cpu = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!p || cpu == MAP_FAILED) {
		if (cpu != MAP_FAILED)
			(void)munmap(cpu, bytes);
		free(p);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*p = (struct physical_memory){ .bytes = bytes, .refs = 1, .cpu = cpu };
	*ret = p;
	return CUDA_SUCCESS;
}

struct physical_memory *phys_ref(struct physical_memory *p)
{
	p->refs++;
	return p;
}

void phys_drop(struct physical_memory *p)
{
	if (!p || --p->refs)
		return;
	if (p->cpu)
		(void)munmap(p->cpu, p->bytes);
	if (p->device)
		(void)gpu_call((struct sim_device_request){ .op = SIM_DEVICE_MEM_RELEASE,
				       .id = p->id },
			NULL, -1, NULL);
	free(p);
}

unsigned char *phys_cpu(struct physical_memory *p)
{
	return p->cpu;
}

/*
 * Plain memory, arrays and variables of modules (measured). Up to 1 MiB: units of 512 bytes, in the first free run
 * of any of the context's chunks of this kind. A chunk is one granule. Larger: granules of its own. A chunk
 * without users is freed at once.
 */
#define SMALL_MAX MIB
#define UNIT      UINT64_C(512)
#define UNITS     (GRANULE / UNIT)

struct phys_chunk {
	struct phys_chunk *next, **link;
	struct sim_cuda_ctx *ctx;
	enum range_kind kind;
	CUdeviceptr start;
	struct physical_memory *phys;
	unsigned used;
	bool taken[UNITS];
};

static struct phys_chunk *chunks, **chunks_end = &chunks;

/* The first run of @n free units; UNITS: none. */
static size_t find_run(const struct phys_chunk *c, size_t n)
{
	size_t run = 0;

	if (UNITS - c->used < n)
		return UNITS;
	for (size_t i = 0; i < UNITS; i++) {
		run = c->taken[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return UNITS;
}

static CUresult chunk_new(struct sim_cuda_ctx *ctx, enum range_kind kind,
	struct phys_chunk **ret)
{
	struct phys_chunk *c = calloc(1, sizeof(*c));
	CUresult err = CUDA_ERROR_OUT_OF_MEMORY;

	if (!c)
		return err;
	c->start = space_reserve(GRANULE, GRANULE, 0);
	if (c->start)
		err = phys_new(ctx->device, GRANULE, 0, &c->phys);
	if (err) {
		if (c->start)
			space_release(c->start);
		free(c);
		return err;
	}
	c->ctx = ctx;
	c->kind = kind;
	c->link = chunks_end;
	*chunks_end = c;
	chunks_end = &c->next;
	*ret = c;
	return CUDA_SUCCESS;
}

static void chunk_drop(struct phys_chunk *c)
{
	*c->link = c->next;
	if (c->next)
		c->next->link = c->link;
	else
		chunks_end = c->link;
	phys_drop(c->phys);
	space_release(c->start);
	free(c);
}

static CUresult small_new(struct sim_cuda_ctx *ctx, uint64_t bytes, enum range_kind kind,
	struct address_range **ret)
{
	size_t n = (bytes + UNIT - 1) / UNIT, at = UNITS;
	struct phys_chunk *c;

	for (c = chunks; c; c = c->next)
		if (c->ctx == ctx && c->kind == kind && (at = find_run(c, n)) < UNITS)
			break;
	if (!c) {
		CUresult err = chunk_new(ctx, kind, &c);

		if (err)
			return err;
		at = 0;
	}
	*ret = range_add((struct address_range){ .start = c->start + at * UNIT,
		.bytes = bytes,
		.span = n * UNIT,
		.kind = kind,
		.ctx = ctx,
		.device = ctx->device,
		.phys = phys_ref(c->phys),
		.offset = at * UNIT,
		.owner = c });
	if (!*ret) {
		phys_drop(c->phys);
		if (!c->used)
			chunk_drop(c);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	memset(&c->taken[at], true, n);
	c->used += (unsigned)n;
	return CUDA_SUCCESS;
}

static CUresult big_new(struct sim_cuda_ctx *ctx, uint64_t bytes, enum range_kind kind,
	struct address_range **ret)
{
	uint64_t span = (bytes + GRANULE - 1) & ~(GRANULE - 1);
	CUdeviceptr at = space_reserve(span, GRANULE, 0);
	struct physical_memory *p;
	CUresult err;

	if (!at)
		return CUDA_ERROR_OUT_OF_MEMORY;
	err = phys_new(ctx->device, span, 0, &p);
	if (err == CUDA_SUCCESS) {
		*ret = range_add((struct address_range){ .start = at,
			.bytes = bytes,
			.span = span,
			.kind = kind,
			.ctx = ctx,
			.device = ctx->device,
			.phys = p });
		if (*ret)
			return CUDA_SUCCESS;
		phys_drop(p);
		err = CUDA_ERROR_OUT_OF_MEMORY;
	}
	space_release(at);
	return err;
}

CUresult plain_new(struct sim_cuda_ctx *ctx, uint64_t bytes, enum range_kind kind,
	struct address_range **ret)
{
	if (bytes > UINT64_MAX / 4)
		return CUDA_ERROR_OUT_OF_MEMORY;
	return bytes <= SMALL_MAX ? small_new(ctx, bytes, kind, ret)
				  : big_new(ctx, bytes, kind, ret);
}

void plain_drop(struct address_range *r)
{
	struct phys_chunk *c = r->owner;
	CUdeviceptr start = r->start;

	if (c) {
		size_t at = (r->start - c->start) / UNIT, n = r->span / UNIT;

		memset(&c->taken[at], false, n);
		c->used -= (unsigned)n;
	}
	range_remove(r);
	if (!c)
		space_release(start);
	else if (!c->used)
		chunk_drop(c);
}
