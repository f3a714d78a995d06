/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/container/cuda/fake-driver.h"

#include "container/charges/charges.h"
#include "container/cuda/device.h"

#include <pthread.h>

#define PIECE    (32 * MIB)
#define POOLS    64
#define POINTERS 4096
#define GRAPHS   64
#define NODES    64
#define RELAXED  2U

struct fake fake;
struct slice_page fake_page;
_Atomic bool link_off;
void *forward_slots[2048];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local unsigned int mode; /* 0 global, 1 thread-local, 2 relaxed */

static struct pool {
	bool there, dying;
	uint64_t reserved, used, pending, threshold, max;
	unsigned int at, type;
} pools[POOLS]; /* 1: the default one */

static struct pointer {
	uint64_t bytes;
	int pool; /* 0: free */
} pointers[POINTERS];

static struct node {
	unsigned int type;
	size_t bytes;
	int child;
} nodes[GRAPHS][NODES];
static size_t node_count[GRAPHS];
static int graphs, execs[GRAPHS], exec_count;

static struct stream {
	bool capturing;
	unsigned int mode;
	int graph;
} streams[8];

static uint64_t graph_reserved, other;
static int current_pool;

static uint64_t round_to_pieces(uint64_t bytes)
{
	return (bytes + PIECE - 1) / PIECE * PIECE;
}

/* The caller has the lock. */
static uint64_t physical(void)
{
	uint64_t sum = graph_reserved + other;

	for (int i = 0; i < POOLS; i++)
		if (pools[i].there && pools[i].at == CU_MEM_LOCATION_TYPE_DEVICE)
			sum += pools[i].reserved;
	return sum;
}

static void check_growth(void)
{
	uint64_t now = physical();

	if (fake.state == LINK_UP && (now > fake_used() || now > fake_page.gpus[0].limit))
		fake.over++;
}

/* A call that may wait: forbidden while a stream captures, except in the relaxed mode. */
static CUresult make_unsafe_call(void)
{
	fake.calls++;
	for (int i = 0; i < 8; i++)
		if (streams[i].capturing && streams[i].mode != RELAXED && mode != RELAXED) {
			fake.spoiled++;
			return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return CUDA_SUCCESS;
}

#define LOCKED                                                                               \
	__attribute__((cleanup(unlock_fake_driver))) int locked = pthread_mutex_lock(&lock); \
	(void)locked

static void unlock_fake_driver(int *unused)
{
	(void)unused;
	(void)pthread_mutex_unlock(&lock);
}

static void others(void (**what)(void))
{
	void (*fn)(void) = *what;

	if (fn) {
		*what = NULL;
		fn();
	}
}

/* --- the arbiter --- */

struct slice_page *link_page(void)
{
	return fake.state == LINK_UP ? &fake_page : NULL;
}

enum link_state link_open(bool memory)
{
	(void)memory;
	return fake.state;
}

int link_request_bytes(unsigned int gpu, uint64_t bytes, uint64_t *free_bytes)
{
	(void)gpu, (void)bytes, (void)free_bytes;

	return SLICE_NO_ROOM;
}

int link_view(unsigned int first, struct slice_viewed *ret)
{
	(void)first, (void)ret;
	return -1;
}

/* The used bytes become the physical ones, if no operation is under way. */
static void compare_with_driver(void)
{
	struct slice_gpu_page *g = &fake_page.gpus[0];

	if (atomic_load(&g->begun) == atomic_load(&g->done))
		atomic_store(&g->credit, g->limit - physical() - atomic_load(&g->unseen));
}

void link_compare(unsigned int gpu)
{
	LOCKED;
	assert_int_equal(gpu, 0);
	fake.compares++;
	compare_with_driver();
}

int device_find_gpu(CUdevice device)
{
	return device == 0 ? 0 : CHARGES_NO_GPU;
}

int device_current_gpu(void)
{
	return 0;
}

uint64_t device_current_context(void)
{
	return 0xc0;
}

uint64_t fake_used(void)
{
	struct slice_gpu_page *g = &fake_page.gpus[0];

	return atomic_load(&g->granted) - atomic_load(&g->credit);
}

uint64_t fake_physical(void)
{
	LOCKED;
	return physical();
}

void fake_hidden(uint64_t bytes)
{
	LOCKED;
	other += bytes;
	atomic_fetch_sub(&fake_page.gpus[0].credit, bytes);
}

/* The driver: pools. */

static int pool_number(CUmemoryPool pool)
{
	return (int)((uintptr_t)pool / 4096);
}

static CUmemoryPool pool_handle(int n)
{
	return (CUmemoryPool)((uintptr_t)n * 4096);
}

CUmemoryPool fake_default_pool(void)
{
	return pool_handle(1);
}

static struct stream *stream_of(CUstream s)
{
	return (uintptr_t)s <= 2 ? &streams[0] : &streams[(uintptr_t)s / 4096];
}

CUstream fake_stream(int n)
{
	return (CUstream)((uintptr_t)n * 4096);
}

static CUresult pool_alloc(CUdeviceptr *ptr, size_t bytes, int n, CUstream stream)
{
	struct stream *s = stream_of(stream);
	struct pool *p = &pools[n];
	CUresult r;

	others(&fake.meanwhile);
	LOCKED;
	if (s->capturing) {
		nodes[s->graph][node_count[s->graph]++] =
			(struct node){ .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .bytes = bytes };
		*ptr = 0xffff0000;
		return CUDA_SUCCESS;
	}
	r = make_unsafe_call();
	if (r)
		return r;
	if (!p->there || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (p->max && round_to_pieces(p->used + bytes) > round_to_pieces(p->max))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (int i = 1; i < POINTERS; i++)
		if (!pointers[i].pool) {
			pointers[i] = (struct pointer){ bytes, n };
			*ptr = (CUdeviceptr)i << 32;
			p->used += bytes;
			/* The allocation takes memory that is free in the stream's order. */
			p->pending = p->pending > bytes ? p->pending - bytes : 0;
			if (round_to_pieces(p->used) > p->reserved) {
				p->reserved = round_to_pieces(p->used);
				check_growth();
			}
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult real_alloc(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	CUresult r = pool_alloc(ptr, bytes, current_pool, stream);

	others(&fake.after);
	return r;
}

static CUresult real_alloc_own(CUdeviceptr *ptr, size_t bytes, CUstream stream)
{
	fake.own_calls++;
	return pool_alloc(ptr, bytes, current_pool, stream);
}

static CUresult real_from(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream)
{
	return pool_alloc(ptr, bytes, pool_number(pool), stream);
}

static CUresult real_from_own(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
	CUstream stream)
{
	fake.own_calls++;
	return pool_alloc(ptr, bytes, pool_number(pool), stream);
}

static CUresult real_free(CUdeviceptr ptr, CUstream stream)
{
	struct pointer *p = &pointers[ptr >> 32];

	(void)stream;
	LOCKED;
	if (!p->pool)
		return CUDA_ERROR_INVALID_VALUE;
	pools[p->pool].used -= p->bytes;
	pools[p->pool].pending += p->bytes;
	p->pool = 0;
	return CUDA_SUCCESS;
}

static void settle_pools(void)
{
	for (int i = 0; i < POOLS; i++) {
		struct pool *p = &pools[i];

		p->pending = 0;
		if (p->there && p->reserved > p->threshold &&
			p->reserved > round_to_pieces(p->used))
			p->reserved = round_to_pieces(p->used);
	}
}

void fake_unseen_sync(void)
{
	LOCKED;
	settle_pools();
}

void fake_reset(void)
{
	LOCKED;
	for (int i = 2; i < POOLS; i++)
		pools[i].there = false;
}

static CUresult real_sync(CUstream stream)
{
	CUresult r;

	(void)stream;
	LOCKED;
	r = make_unsafe_call();
	if (!r)
		settle_pools();
	return r;
}

static CUresult real_ctx_sync(void)
{
	return real_sync(NULL);
}

static CUresult real_query(CUstream stream)
{
	CUresult r;

	(void)stream;
	LOCKED;
	r = make_unsafe_call();
	if (!r && fake.never_idle && fake.never_idle--)
		return CUDA_ERROR_NOT_READY;
	return r;
}

static CUresult real_pool_create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	LOCKED;
	fake.max_size = props->maxSize;
	if (fake.old_driver && props->maxSize)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 2; i < POOLS; i++)
		if (!pools[i].there) {
			pools[i] = (struct pool){ .there = true,
				.max = props->maxSize,
				.at = props->location.type,
				.type = props->allocType };
			*pool = pool_handle(i);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_UNKNOWN;
}

static CUresult real_pool_destroy(CUmemoryPool pool)
{
	int n = pool_number(pool);
	CUresult r;

	LOCKED;
	r = make_unsafe_call();
	if (r)
		return r;
	if (n < 2 || !pools[n].there)
		return CUDA_ERROR_INVALID_VALUE;
	fake.destroyed++;
	if (pools[n].reserved && pools[n].at == CU_MEM_LOCATION_TYPE_DEVICE)
		fake.over++; /* from here on the library cannot know its size */
	pools[n].there = false;
	if (current_pool == n)
		current_pool = 1;
	return CUDA_SUCCESS;
}

static CUresult real_get_attribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	struct pool *p = &pools[pool_number(pool)];
	CUresult r;

	LOCKED;
	r = make_unsafe_call();
	if (r || !p->there || fake.old_driver)
		return r ? r : CUDA_ERROR_INVALID_VALUE;
	assert_int_equal(attribute, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	*(uint64_t *)value = p->reserved;
	return CUDA_SUCCESS;
}

static CUresult real_set_attribute(CUmemoryPool pool, unsigned int attribute, void *value)
{
	CUresult r;

	LOCKED;
	r = make_unsafe_call();
	if (!r && attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pools[pool_number(pool)].threshold = *(uint64_t *)value;
	return r;
}

static CUresult real_trim(CUmemoryPool pool, size_t keep)
{
	struct pool *p = &pools[pool_number(pool)];
	CUresult r;

	LOCKED;
	r = make_unsafe_call();
	if (r)
		return r;
	fake.trims++;
	if (p->reserved > round_to_pieces(p->used + p->pending))
		p->reserved = round_to_pieces(p->used + p->pending) > keep
				      ? round_to_pieces(p->used + p->pending)
				      : round_to_pieces(keep);
	return CUDA_SUCCESS;
}

static CUresult real_pool_of(CUmemoryPool *pool, CUdevice device)
{
	fake.calls++;
	*pool = pool_handle(current_pool);
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult real_default_of(CUmemoryPool *pool, CUdevice device)
{
	*pool = pool_handle(1);
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult real_set_pool(CUdevice device, CUmemoryPool pool)
{
	current_pool = pool_number(pool);
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult real_import(CUmemoryPool *pool, void *handle, unsigned int type,
	unsigned long long flags)
{
	(void)handle, (void)type, (void)flags;
	*pool = pool_handle(POOLS - 1);
	return CUDA_SUCCESS;
}

/* --- streams and contexts --- */

static CUresult real_exchange(unsigned int *m)
{
	unsigned int was = mode;

	mode = *m;
	*m = was;
	return CUDA_SUCCESS;
}

unsigned int fake_thread_mode(void)
{
	return mode;
}

static CUresult real_is_capturing(CUstream stream, unsigned int *status)
{
	LOCKED;
	fake.calls++;
	*status = stream_of(stream)->capturing;
	return CUDA_SUCCESS;
}

static CUresult real_device(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

static CUresult real_count(int *n)
{
	*n = 1;
	return CUDA_SUCCESS;
}

static CUresult real_current(CUcontext *context)
{
	*context = (CUcontext)0xc0;
	return CUDA_SUCCESS;
}

static CUresult real_stream_context(CUstream stream, CUcontext *context)
{
	(void)stream;
	return real_current(context);
}

/* Graphs. A graph's handle is its number, an instantiated one's too. */

static int graph_number(const void *graph)
{
	return (int)((uintptr_t)graph / 4096);
}

CUgraph fake_graph(void)
{
	LOCKED;
	node_count[++graphs] = 0;
	return (CUgraph)((uintptr_t)graphs * 4096);
}

void fake_node_alloc(CUgraph graph, size_t bytes)
{
	int n = graph_number(graph);

	nodes[n][node_count[n]++] =
		(struct node){ .type = CU_GRAPH_NODE_TYPE_MEM_ALLOC, .bytes = bytes };
}

void fake_node_child(CUgraph graph, CUgraph child)
{
	int n = graph_number(graph);

	nodes[n][node_count[n]++] =
		(struct node){ .type = CU_GRAPH_NODE_TYPE_GRAPH, .child = graph_number(child) };
}

void fake_capture(CUstream stream, unsigned int how)
{
	CUgraph g = fake_graph();

	*stream_of(stream) =
		(struct stream){ .capturing = true, .mode = how, .graph = graph_number(g) };
}

CUgraph fake_capture_end(CUstream stream)
{
	struct stream *s = stream_of(stream);

	s->capturing = false;
	return (CUgraph)((uintptr_t)s->graph * 4096);
}

static CUresult real_nodes(CUgraph graph, CUgraphNode *ret, size_t *n)
{
	int g = graph_number(graph);

	fake.calls++;
	for (size_t i = 0; ret && i < node_count[g] && i < *n; i++)
		ret[i] = (CUgraphNode)&nodes[g][i];
	*n = node_count[g];
	return CUDA_SUCCESS;
}

static CUresult real_node_type(CUgraphNode node, unsigned int *type)
{
	*type = ((struct node *)node)->type;
	return CUDA_SUCCESS;
}

static CUresult real_node_child(CUgraphNode node, CUgraph *child)
{
	*child = (CUgraph)((uintptr_t)((struct node *)node)->child * 4096);
	return CUDA_SUCCESS;
}

static CUresult real_node_params(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	*p = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.poolProps.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
		.bytesize = ((struct node *)node)->bytes,
	};
	return CUDA_SUCCESS;
}

/* Nodes of a piece or more have pieces of their own, and small ones share pieces, as measured. */
static uint64_t graph_bytes(int g)
{
	uint64_t large = 0, small = 0;

	for (size_t i = 0; i < node_count[g]; i++) {
		struct node *n = &nodes[g][i];

		if (n->type == CU_GRAPH_NODE_TYPE_GRAPH)
			large += graph_bytes(n->child);
		else if (n->bytes < PIECE)
			small += n->bytes;
		else
			large += round_to_pieces(n->bytes);
	}
	return large + round_to_pieces(small);
}

static CUresult real_instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	LOCKED;
	execs[++exec_count] = graph_number(graph);
	*exec = (CUgraphExec)((uintptr_t)exec_count * 4096);
	if (flags & 2 && graph_bytes(graph_number(graph)) > graph_reserved) {
		graph_reserved = graph_bytes(graph_number(graph));
		check_growth();
	}
	return CUDA_SUCCESS;
}

static CUresult real_instantiate_params(CUgraphExec *exec, CUgraph graph,
	CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return real_instantiate(exec, graph, params->flags);
}

static CUresult real_launch(CUgraphExec exec, CUstream stream)
{
	uint64_t need;

	others(&fake.meanwhile);
	LOCKED;
	fake.calls++;
	if (stream_of(stream)->capturing)
		return CUDA_SUCCESS;
	need = graph_bytes(execs[graph_number(exec)]);
	if (need > graph_reserved) {
		graph_reserved = need;
		check_growth();
	}
	return CUDA_SUCCESS;
}

static CUresult real_exec_destroy(CUgraphExec exec)
{
	LOCKED;
	execs[graph_number(exec)] = 0;
	return CUDA_SUCCESS;
}

static CUresult real_graph_trim(CUdevice device)
{
	LOCKED;
	fake.trims++;
	graph_reserved = 0;
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult real_graph_attribute(CUdevice device, unsigned int attribute, void *value)
{
	LOCKED;
	fake.calls++;
	assert_int_equal(device, 0);
	assert_int_equal(attribute, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT);
	*(uint64_t *)value = graph_reserved;
	return CUDA_SUCCESS;
}

static CUresult real_add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	(void)node, (void)after, (void)n;
	fake_node_alloc(graph, params->bytesize);
	return CUDA_SUCCESS;
}

/* Arrays: the size of the last description, which a test sets. */

static CUresult real_array(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	static _Atomic uintptr_t last = 0x100000;

	(void)d;
	*array = (CUarray)atomic_fetch_add(&last, 256);
	return CUDA_SUCCESS;
}

static CUresult real_mipmap(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d,
	unsigned int levels)
{
	(void)levels;
	return real_array((CUarray *)array, d);
}

static CUresult real_array_destroy(CUarray array)
{
	return array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult real_mipmap_destroy(CUmipmappedArray array)
{
	return array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

void *forward_resolve(unsigned int slot)
{
	(void)slot;
	return (void *)missing;
}

/* Stands for the hook in memory/alloc.c. */
CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	(void)ptr;
	fake.own_calls++;
	return CUDA_SUCCESS;
}

#define REALS(X)                                                 \
	X(cuMemAllocAsync, real_alloc)                           \
	X(cuMemAllocAsync_ptsz, real_alloc_own)                  \
	X(cuMemAllocFromPoolAsync, real_from)                    \
	X(cuMemAllocFromPoolAsync_ptsz, real_from_own)           \
	X(cuMemFreeAsync, real_free)                             \
	X(cuMemFreeAsync_ptsz, real_free)                        \
	X(cuMemPoolCreate, real_pool_create)                     \
	X(cuMemPoolDestroy, real_pool_destroy)                   \
	X(cuMemPoolGetAttribute, real_get_attribute)             \
	X(cuMemPoolSetAttribute, real_set_attribute)             \
	X(cuMemPoolTrimTo, real_trim)                            \
	X(cuMemPoolImportFromShareableHandle, real_import)       \
	X(cuDeviceGetMemPool, real_pool_of)                      \
	X(cuDeviceGetDefaultMemPool, real_default_of)            \
	X(cuDeviceSetMemPool, real_set_pool)                     \
	X(cuDeviceGetCount, real_count)                          \
	X(cuStreamSynchronize, real_sync)                        \
	X(cuStreamSynchronize_ptsz, real_sync)                   \
	X(cuCtxSynchronize, real_ctx_sync)                       \
	X(cuStreamQuery, real_query)                             \
	X(cuStreamQuery_ptsz, real_query)                        \
	X(cuStreamIsCapturing, real_is_capturing)                \
	X(cuStreamIsCapturing_ptsz, real_is_capturing)           \
	X(cuStreamGetCtx, real_stream_context)                   \
	X(cuStreamGetCtx_ptsz, real_stream_context)              \
	X(cuCtxGetCurrent, real_current)                         \
	X(cuCtxGetDevice, real_device)                           \
	X(cuThreadExchangeStreamCaptureMode, real_exchange)      \
	X(cuGraphGetNodes, real_nodes)                           \
	X(cuGraphNodeGetType, real_node_type)                    \
	X(cuGraphChildGraphNodeGetGraph, real_node_child)        \
	X(cuGraphMemAllocNodeGetParams, real_node_params)        \
	X(cuGraphInstantiateWithFlags, real_instantiate)         \
	X(cuGraphInstantiateWithParams, real_instantiate_params) \
	X(cuGraphLaunch, real_launch)                            \
	X(cuGraphUpload, real_launch)                            \
	X(cuGraphExecDestroy, real_exec_destroy)                 \
	X(cuGraphAddMemAllocNode, real_add_node)                 \
	X(cuDeviceGraphMemTrim, real_graph_trim)                 \
	X(cuDeviceGetGraphMemAttribute, real_graph_attribute)    \
	X(cuArray3DCreate_v2, real_array)                        \
	X(cuArrayDestroy, real_array_destroy)                    \
	X(cuMipmappedArrayCreate, real_mipmap)                   \
	X(cuMipmappedArrayDestroy, real_mipmap_destroy)

void fake_new(uint64_t limit)
{
	fake = (struct fake){ .state = LINK_UP };
	link_off = false;
	memset(&fake_page, 0, sizeof(fake_page));
	fake_page.gpu_count = 1;
	fake_page.gpus[0].limit = fake_page.gpus[0].granted = fake_page.gpus[0].credit = limit;
	memset(pools, 0, sizeof(pools));
	memset(pointers, 0, sizeof(pointers));
	memset(streams, 0, sizeof(streams));
	pools[1] = (struct pool){ .there = true, .at = CU_MEM_LOCATION_TYPE_DEVICE };
	current_pool = 1;
	graphs = exec_count = 0;
	graph_reserved = other = 0;
	mode = 0;
#define X(name, fn)                                         \
	{                                                   \
		__typeof__(&name) typed = fn;               \
		forward_slots[SLOT_##name] = (void *)typed; \
	}
	REALS(X)
#undef X
}
