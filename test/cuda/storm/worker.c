/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/time.h"
#include "cuda/storm/storm.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELD_MAX    24 /* allocations of one thread */
#define TAG_BYTES   64
#define THREADS_MAX 64

struct held {
	const struct kind *kind;
	CUdeviceptr at;
	uint64_t size;
	uint64_t handle;
	unsigned char tag;
};

struct worker {
	const struct storm_options *o;
	pthread_t thread;
	CUcontext context;
	CUdevice device;
	CUstream stream;
	CUmemoryPool pool;
	uint64_t random;
	struct held held[HELD_MAX];
	unsigned int count;
	unsigned long allocated, refused, freed, wrong, errors;
	CUresult last_error;
	const char *error_in;
};

/* How a kind of memory is allocated and freed. .at is 0 where there is no address to write to. */
struct kind {
	const char *name;
	CUresult (*take)(struct worker *w, struct held *h);
	CUresult (*give)(struct worker *w, struct held *h);
	unsigned int weight;
};

static uint64_t draw_number(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random;
}

static CUresult plain_take(struct worker *w, struct held *h)
{
	(void)w;
	return cu.cuMemAlloc_v2(&h->at, h->size);
}

static CUresult plain_give(struct worker *w, struct held *h)
{
	(void)w;
	return cu.cuMemFree_v2(h->at);
}

static CUresult small_take(struct worker *w, struct held *h)
{
	h->size = 64 + draw_number(w) % 100000;
	return cu.cuMemAlloc_v2(&h->at, h->size);
}

static CUresult pitch_take(struct worker *w, struct held *h)
{
	size_t row;

	(void)w;
	return cu.cuMemAllocPitch_v2(&h->at, &row, 1000, h->size / 1024 + 1, 4);
}

static CUresult managed_take(struct worker *w, struct held *h)
{
	if (!w->o->managed)
		return cu.cuMemAlloc_v2(&h->at, h->size);
	return cu.cuMemAllocManaged(&h->at, h->size, CU_MEM_ATTACH_GLOBAL);
}

static CUresult array_take(struct worker *w, struct held *h)
{
	CUDA_ARRAY_DESCRIPTOR d = { 1024, h->size / 4096 % 8192 + 1, 0x20, 1 };
	CUarray a = NULL;
	CUresult r = cu.cuArrayCreate_v2(&a, &d);

	(void)w;
	h->at = 0;
	h->handle = (uintptr_t)a;
	return r;
}

static CUresult array_give(struct worker *w, struct held *h)
{
	(void)w;
	return cu.cuArrayDestroy((CUarray)(uintptr_t)h->handle);
}

static CUresult virtual_take(struct worker *w, struct held *h)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } };
	CUmemAccessDesc access = { prop.location, 3 };
	CUmemGenericAllocationHandle handle;
	CUresult r;

	h->size = (h->size / (2 * MIB) + 1) * 2 * MIB;
	r = cu.cuMemCreate(&handle, h->size, &prop, 0);
	if (r)
		return r;
	h->handle = handle;
	r = cu.cuMemAddressReserve(&h->at, h->size, 0, 0, 0);
	if (r == CUDA_SUCCESS) {
		r = cu.cuMemMap(h->at, h->size, 0, handle, 0);
		if (r == CUDA_SUCCESS)
			r = cu.cuMemSetAccess(h->at, h->size, &access, 1);
	}
	/* Released with the mapping, as PyTorch does it. */
	(void)cu.cuMemRelease(handle);
	return r;
}

static CUresult virtual_give(struct worker *w, struct held *h)
{
	CUresult r = cu.cuMemUnmap(h->at, h->size);

	(void)w;
	return r ? r : cu.cuMemAddressFree(h->at, h->size);
}

static CUresult async_take(struct worker *w, struct held *h)
{
	return cu.cuMemAllocAsync(&h->at, h->size, w->stream);
}

static CUresult pool_take(struct worker *w, struct held *h)
{
	return cu.cuMemAllocFromPoolAsync(&h->at, h->size, w->pool, w->stream);
}

static CUresult async_give(struct worker *w, struct held *h)
{
	CUresult r = cu.cuMemFreeAsync(h->at, w->stream);

	if (draw_number(w) % 8 == 0)
		(void)cu.cuStreamSynchronize(w->stream);
	if (draw_number(w) % 32 == 0)
		(void)cu.cuMemPoolTrimTo(w->pool, 0);
	return r;
}

/* A graph with an allocation of its own, launched once; what it took goes with the trim. */
static CUresult graph_take(struct worker *w, struct held *h)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } },
		.bytesize = h->size,
	};
	CUgraphNode alloc, release;
	CUgraphExec exec = NULL;
	CUgraph g;
	CUresult r = cu.cuGraphCreate(&g, 0);

	h->at = 0;
	h->handle = 0;
	if (r)
		return r;
	r = cu.cuGraphAddMemAllocNode(&alloc, g, NULL, 0, &params);
	if (r == CUDA_SUCCESS)
		r = cu.cuGraphAddMemFreeNode(&release, g, &alloc, 1, params.dptr);
	if (r == CUDA_SUCCESS)
		r = cu.cuGraphInstantiateWithFlags(&exec, g, 0);
	if (r == CUDA_SUCCESS)
		r = cu.cuGraphLaunch(exec, w->stream);
	if (r == CUDA_SUCCESS)
		r = cu.cuStreamSynchronize(w->stream);
	if (r && exec) {
		(void)cu.cuGraphExecDestroy(exec);
		exec = NULL;
	}
	(void)cu.cuGraphDestroy(g);
	h->handle = (uintptr_t)exec;
	return r;
}

static CUresult graph_give(struct worker *w, struct held *h)
{
	CUresult r = cu.cuGraphExecDestroy((CUgraphExec)(uintptr_t)h->handle);

	(void)cu.cuDeviceGraphMemTrim(w->device);
	return r;
}

static const struct kind kinds[] = {
	{ "plain", plain_take, plain_give, 6 },
	{ "small", small_take, plain_give, 6 },
	{ "pitch", pitch_take, plain_give, 2 },
	{ "managed", managed_take, plain_give, 1 },
	{ "array", array_take, array_give, 2 },
	{ "virtual", virtual_take, virtual_give, 4 },
	{ "async", async_take, async_give, 4 },
	{ "pool", pool_take, async_give, 3 },
	{ "graph", graph_take, graph_give, 1 },
};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static const struct kind *any_kind(struct worker *w)
{
	unsigned int sum = 0, at;

	for (unsigned int i = 0; i < KINDS; i++)
		sum += kinds[i].weight;
	at = (unsigned int)(draw_number(w) % sum);
	for (unsigned int i = 0;; i++) {
		if (at < kinds[i].weight)
			return &kinds[i];
		at -= kinds[i].weight;
	}
}

static void record_failure(struct worker *w, const struct kind *kind, CUresult r)
{
	w->errors++;
	w->last_error = r;
	w->error_in = kind->name;
}

static void take(struct worker *w)
{
	struct held h = { .kind = any_kind(w),
		.tag = (unsigned char)(1 + draw_number(w) % 255) };
	uint64_t scale = draw_number(w) % 10;
	CUresult r;

	/* Sizes of all magnitudes alike. */
	h.size = (w->o->largest >> scale) / 2 + draw_number(w) % (w->o->largest >> scale) / 2 +
		 1;
	r = h.kind->take(w, &h);
	if (r == CUDA_ERROR_OUT_OF_MEMORY) {
		w->refused++;
		return;
	}
	if (r) {
		record_failure(w, h.kind, r);
		return;
	}
	w->allocated++;
	if (h.size < TAG_BYTES)
		h.at = h.kind->give == plain_give ? h.at : 0;
	if (h.at && h.size >= TAG_BYTES &&
		cu.cuMemsetD8Async(h.at, h.tag, TAG_BYTES, w->stream) != CUDA_SUCCESS)
		record_failure(w, h.kind, CUDA_ERROR_UNKNOWN);
	w->held[w->count++] = h;
}

static void free_random(struct worker *w)
{
	unsigned int i = (unsigned int)(draw_number(w) % w->count);
	struct held h = w->held[i];
	unsigned char tag[TAG_BYTES];
	CUresult r;

	w->held[i] = w->held[--w->count];
	if (h.at && h.size >= TAG_BYTES) {
		r = cu.cuMemcpyDtoHAsync_v2(tag, h.at, TAG_BYTES, w->stream);
		if (r == CUDA_SUCCESS)
			r = cu.cuStreamSynchronize(w->stream);
		if (r)
			record_failure(w, h.kind, r);
		for (unsigned int b = 0; !r && b < TAG_BYTES; b++)
			w->wrong += tag[b] != h.tag;
	}
	r = h.kind->give(w, &h);
	if (r)
		record_failure(w, h.kind, r);
	w->freed++;
}

static void *run_storm_worker(void *arg)
{
	struct worker *w = arg;
	uint64_t end = time_mono_ns() + w->o->seconds * NS_PER_SEC;
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device } };

	must(cu.cuCtxSetCurrent(w->context), "cuCtxSetCurrent");
	must(cu.cuStreamCreate(&w->stream, 1), "cuStreamCreate");
	must(cu.cuMemPoolCreate(&w->pool, &props), "cuMemPoolCreate");
	while (time_mono_ns() < end) {
		/* Mostly full, as the limits are under test. */
		if (w->count == HELD_MAX || (w->count > 0 && draw_number(w) % 5 < 2))
			free_random(w);
		else
			take(w);
	}
	while (w->count > 0)
		free_random(w);
	(void)cu.cuStreamSynchronize(w->stream);
	must(cu.cuMemPoolDestroy(w->pool), "cuMemPoolDestroy");
	must(cu.cuStreamDestroy_v2(w->stream), "cuStreamDestroy_v2");
	return NULL;
}

int storm_worker(const struct storm_options *o)
{
	static struct worker workers[THREADS_MAX];
	struct worker sum = { .errors = 0 };
	CUmemoryPool pool;
	CUcontext context;
	CUdevice device;
	char line[64];

	cuda_open();
	device = cuda_start(o->ordinal, &context);
	(void)printf("ready\n");
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (unsigned int i = 0; i < o->threads; i++) {
		workers[i] = (struct worker){ .o = o,
			.context = context,
			.device = device,
			.random = (o->seed * 1000 + i) * UINT64_C(0x9E3779B97F4A7C15) | 1 };
		if (pthread_create(&workers[i].thread, NULL, run_storm_worker, &workers[i]) !=
			0)
			die("no thread");
	}
	for (unsigned int i = 0; i < o->threads; i++) {
		const struct worker *w = &workers[i];

		(void)pthread_join(w->thread, NULL);
		sum.allocated += w->allocated;
		sum.refused += w->refused;
		sum.freed += w->freed;
		sum.wrong += w->wrong;
		sum.errors += w->errors;
		if (w->error_in) {
			sum.last_error = w->last_error;
			sum.error_in = w->error_in;
		}
	}
	(void)cu.cuCtxSynchronize();
	if (cu.cuDeviceGetDefaultMemPool(&pool, device) == CUDA_SUCCESS)
		(void)cu.cuMemPoolTrimTo(pool, 0);
	(void)cu.cuDeviceGraphMemTrim(device);
	(void)printf("%lu %lu %lu %lu %lu %u %s\n", sum.allocated, sum.refused, sum.freed,
		sum.wrong, sum.errors, sum.last_error, sum.error_in ? sum.error_in : "none");
	(void)fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}

#define TENANT_BYTES (8 * MIB)
#define TENANT_LOOK  4096

int storm_tenant(const struct storm_options *o)
{
	static unsigned int part[TENANT_LOOK / 4];
	unsigned long rounds = 0, wrong = 0, errors = 0;
	CUcontext context;
	CUdeviceptr p;

	cuda_open();
	(void)cuda_start(o->ordinal, &context);
	must(cu.cuMemAlloc_v2(&p, TENANT_BYTES), "cuMemAlloc_v2");
	(void)printf("ready\n");
	(void)fflush(stdout);
	for (;; rounds++) {
		struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
		uint64_t at = rounds * 7919 * TENANT_LOOK % (TENANT_BYTES - TENANT_LOOK);
		CUdeviceptr extra;
		char line[64];

		errors += cu.cuMemsetD32_v2(p, (unsigned int)rounds, TENANT_BYTES / 4) != 0;
		errors += cu.cuMemAlloc_v2(&extra, 3 * MIB) != 0;
		errors += cu.cuMemFree_v2(extra) != 0;
		errors += cu.cuMemcpyDtoH_v2(part, p + at / 4 * 4, TENANT_LOOK) != 0;
		for (unsigned int i = 0; i < TENANT_LOOK / 4; i++)
			wrong += part[i] != (unsigned int)rounds;
		if (poll(&in, 1, 0) <= 0)
			continue;
		if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		(void)printf("%lu %lu %lu\n", rounds, wrong, errors);
		(void)fflush(stdout);
	}
	return wrong || errors;
}
