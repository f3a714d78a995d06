/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs with memory nodes.
 *
 * Model. A memory node takes no memory when it is made or captured, or when its graph is instantiated. The memory
 * comes at the upload or the first launch. It stays with the device, and all graphs of the device share it.
 * (Measured: a graph of 128 MiB, then one of 224 MiB in the same stream. Together they held 224 MiB, also when
 * launched again in another stream.) The memory is charged as a pool reservation of the device
 * (memory/pool-reservation.h).
 *
 * Launch. A launch takes the bound of its graph, with one exception. If the graph has been launched since the last
 * trim, and all launches since then were in one stream, all memory of the graph is resident. The launch then takes
 * no bound.
 *
 * Limit. If a program trims while another of its threads launches, the memory can grow without a bound at that
 * moment. The growth is charged afterwards.
 *
 * Nodes. The hook walks the nodes of a graph at instantiation, so clones, child graphs and captures need no rows.
 * While no graph of the process has memory nodes, a launch costs a load and a branch.
 */
#include "container/cuda/work/work.h"

#include "container/cuda/device.h"
#include "container/cuda/driver.h"
#include "container/cuda/memory/pool-reservation.h"
#include "container/cuda/stream.h"
#include "container/client/link.h"
#include "container/charges/alloc-table.h"

#include <sys/mman.h>

#define DEPTH_MAX          16   /* nesting of child graphs */
#define NODE_BYTES         2560 /* per node of an instantiated graph */
#define INSTANTIATE_UPLOAD 2

static _Atomic bool memory_nodes;

void graph_expect_memory(void)
{
	if (!atomic_load_explicit(&memory_nodes, memory_order_relaxed))
		atomic_store(&memory_nodes, true);
}

static bool may_have_memory_nodes(void)
{
	return __builtin_expect(atomic_load_explicit(&memory_nodes, memory_order_relaxed), 0);
}

static uint64_t add_graph_bytes(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void graph_need_add(struct graph_need *n, uint64_t bytes)
{
	if (bytes < POOL_RESERVATION_PIECE)
		n->small = add_graph_bytes(n->small, bytes);
	else
		n->large = add_graph_bytes(n->large, pool_reservation_growth(bytes));
}

uint64_t graph_need_bound(const struct graph_need *n)
{
	/* Nodes that fit into one piece need no second piece. */
	uint64_t small = n->small > POOL_RESERVATION_PIECE / 2
				 ? add_graph_bytes(n->small, n->small)
				 : n->small;

	return add_graph_bytes(n->large, pool_reservation_growth(small));
}

uint64_t graph_code_bound(uint64_t nodes)
{
	return nodes > UINT64_MAX / NODE_BYTES ? UINT64_MAX
					       : round_up_to_granule(nodes * NODE_BYTES);
}

/* Memory that a graph needs, by device. */
struct needs {
	struct graph_need on[SLICE_GPUS_MAX]; /* index: CUdevice; a slice has no more */
	uint32_t devices;                     /* one bit for each */
};

static void walk_graph_nodes(CUgraph graph, struct needs *needs, int depth);

static void walk_node(CUgraphNode node, struct needs *needs, int depth)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { 0 };
	unsigned int type;
	CUgraph child;
	int device;

	if (REAL(cuGraphNodeGetType)(node, &type))
		return;
	if (type == CU_GRAPH_NODE_TYPE_GRAPH && depth < DEPTH_MAX &&
		!REAL(cuGraphChildGraphNodeGetGraph)(node, &child))
		walk_graph_nodes(child, needs, depth + 1);
	if (type != CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
		REAL(cuGraphMemAllocNodeGetParams)(node, &p))
		return;
	device = p.poolProps.location.id;
	if (p.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || device < 0 ||
		device >= SLICE_GPUS_MAX)
		return;
	graph_need_add(&needs->on[device], p.bytesize);
	needs->devices |= UINT32_C(1) << device;
}

static void walk_graph_nodes(CUgraph graph, struct needs *needs, int depth)
{
	CUgraphNode *nodes;
	size_t n = 0, room;

	if (REAL(cuGraphGetNodes)(graph, NULL, &n) || !n)
		return;
	room = n * sizeof(CUgraphNode);
	nodes = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nodes == MAP_FAILED)
		return;
	if (!REAL(cuGraphGetNodes)(graph, nodes, &n))
		for (size_t i = 0; i < n && i < room / sizeof(CUgraphNode); i++)
			walk_node(nodes[i], needs, depth);
	(void)munmap(nodes, room);
}

static struct pool_reservation *get_graph_reservation(CUdevice device)
{
	return pool_reservation_get(POOL_RESERVATION_GRAPH, (uint64_t)device + 1, device,
		device_find_gpu(device), CHARGE_SEEN);
}

/* Pool reservations that a launch uses. A row has one bound: the largest of its devices. */
struct graph_launch {
	struct pool_reservation_op ops[SLICE_GPUS_MAX];
	uint32_t devices; /* those with an entry in .ops */
};

static void launch_end(struct graph_launch *l)
{
	for (int d = 0; d < SLICE_GPUS_MAX; d++)
		if (l->devices >> d & 1)
			pool_reservation_end(&l->ops[d]);
	l->devices = 0;
}

static CUresult launch_begin(struct graph_launch *l, uint32_t devices, uint64_t bound)
{
	CUresult r = CUDA_SUCCESS;

	l->devices = 0;
	for (int d = 0; d < SLICE_GPUS_MAX && !r; d++) {
		if (!(devices >> d & 1))
			continue;
		r = pool_reservation_begin(&l->ops[d], get_graph_reservation(d), bound);
		if (!r)
			l->devices |= UINT32_C(1) << d;
	}
	if (r)
		launch_end(l);
	return r;
}

/* A word for the stream order of the launch, equal for the same order; 0: none. */
static uint64_t get_stream_order(CUstream stream, bool own)
{
	if (stream == CU_STREAM_PER_THREAD || (!stream && own))
		return 0;
	return stream ? (uint64_t)(uintptr_t)stream : (uint64_t)(uintptr_t)CU_STREAM_LEGACY;
}

/* Begins without a bound if all memory of the graph is resident. */
static bool begin_resident(struct graph_launch *l, const struct alloc_row *row, uint64_t order)
{
	uint32_t devices = (uint32_t)row->other;
	struct pool_reservation *reservation;

	if (!order || !row->count || (devices & (devices - 1)))
		return false;
	reservation = get_graph_reservation(__builtin_ctz(devices));
	if (!reservation || launch_begin(l, devices, 0))
		return false;
	/* Pairs with trim_pool_reservation() of memory/pool-reservation.c: this thread reads the epoch after
	 * it has entered .users. */
	if (atomic_load(&reservation->epoch) == row->count &&
		atomic_load(&reservation->stream) == order)
		return true;
	launch_end(l);
	return false;
}

/* After a launch: the memory of the graph is resident for this stream order. */
static void record_resident(CUgraphExec exec, struct alloc_row *row, uint64_t order)
{
	uint32_t devices = (uint32_t)row->other;
	struct pool_reservation *reservation =
		devices & (devices - 1) ? NULL : get_graph_reservation(__builtin_ctz(devices));

	if (!reservation)
		return;
	if (atomic_exchange(&reservation->stream, order) != order)
		atomic_fetch_add(&reservation->epoch, 1);
	row->count = order ? atomic_load(&reservation->epoch) : 0;
	(void)alloc_table_put(ALLOC_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, row);
}

typedef CUresult (*run_fn)(CUgraphExec exec, CUstream stream);

static CUresult launch_reserved_graph(run_fn fn, CUgraphExec exec, CUstream stream, bool own)
{
	uint64_t order = get_stream_order(stream, own);
	struct graph_launch l = { .devices = 0 };
	struct alloc_row row;
	bool fresh;
	CUresult r;

	if (!alloc_table_get(ALLOC_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, &row) ||
		stream_captures(stream, own))
		return fn(exec, stream);
	fresh = !begin_resident(&l, &row, order);
	if (fresh) {
		r = launch_begin(&l, (uint32_t)row.other, row.bytes);
		if (r && stream_wait_idle(stream, own))
			r = launch_begin(&l, (uint32_t)row.other, row.bytes);
		if (r)
			return r;
	}
	r = fn(exec, stream);
	/* This thread is still in .users, so no hook has trimmed since the launch. */
	if (!r && fresh)
		record_resident(exec, &row, order);
	launch_end(&l);
	return r;
}

/* The gate comes before the reservation: a launch that waits at the gate does not block trims of other
 * threads. */
#define RUN(name, own, end)                                                         \
	HOOK CUresult name(CUgraphExec exec, CUstream stream)                       \
	{                                                                           \
		struct turn_gpu_page *p;                                            \
		CUresult r;                                                         \
                                                                                    \
		if (submit_off())                                                   \
			return REAL(name)(exec, stream);                            \
		p = gate_begin_kind(stream, (own) ? GATE_OWN : 0, (uintptr_t)exec); \
		r = may_have_memory_nodes()                                         \
			    ? launch_reserved_graph(REAL(name), exec, stream, own)  \
			    : REAL(name)(exec, stream);                             \
		end;                                                                \
		return r;                                                           \
	}

RUN(cuGraphLaunch, false, gate_end(p))
RUN(cuGraphLaunch_ptsz, true, gate_end(p))
/* An upload copies the description of the graph. Its size is not known. */
RUN(cuGraphUpload, false, gate_end_copy(p, 0))
RUN(cuGraphUpload_ptsz, true, gate_end_copy(p, 0))

/* --- instantiation --- */

struct graph_instantiation {
	struct charge code;
	struct graph_launch upload;
	struct alloc_row row;
	bool active;
};

static CUresult begin_graph_instantiate(struct graph_instantiation *instantiation,
	CUgraph graph, unsigned long long flags)
{
	struct needs needs = { .devices = 0 };
	size_t nodes = 0;
	CUresult r;

	*instantiation = (struct graph_instantiation){ .active = charges_active() };
	if (!instantiation->active)
		return CUDA_SUCCESS;
	if (may_have_memory_nodes())
		walk_graph_nodes(graph, &needs, 0);
	instantiation->row.other = needs.devices;
	for (int d = 0; d < SLICE_GPUS_MAX; d++) {
		uint64_t bound = graph_need_bound(&needs.on[d]);

		if (bound > instantiation->row.bytes)
			instantiation->row.bytes = bound;
	}
	if (REAL(cuGraphGetNodes)(graph, NULL, &nodes))
		nodes = 0;
	r = charge_begin(&instantiation->code, device_current_gpu(), graph_code_bound(nodes),
		CHARGE_HIDDEN);
	if (r || !(flags & INSTANTIATE_UPLOAD))
		return r;
	r = launch_begin(&instantiation->upload, needs.devices, instantiation->row.bytes);
	if (r)
		charge_end(&instantiation->code, 0);
	return r;
}

static void end_graph_instantiate(struct graph_instantiation *instantiation, CUresult r,
	const CUgraphExec *exec)
{
	struct alloc_row old;

	if (!instantiation->active)
		return;
	if (!r && instantiation->row.other)
		(void)alloc_table_put(ALLOC_GRAPH_EXEC, (uint64_t)(uintptr_t)*exec,
			&instantiation->row);
	else if (!r && may_have_memory_nodes()) /* a graph that went with its context left it */
		(void)alloc_table_remove(ALLOC_GRAPH_EXEC, (uint64_t)(uintptr_t)*exec, &old);
	launch_end(&instantiation->upload);
	charge_end(&instantiation->code, r ? 0 : instantiation->code.bytes);
}

/* @parameters have an @exec, where the driver stores the executable graph, and a @graph. */
#define INSTANTIATE(name, parameters, arguments, flags)                 \
	HOOK CUresult name parameters                                   \
	{                                                               \
		struct graph_instantiation m;                           \
		CUresult r = begin_graph_instantiate(&m, graph, flags); \
                                                                        \
		if (r)                                                  \
			return r;                                       \
		r = REAL(name) arguments;                               \
		end_graph_instantiate(&m, r, exec);                     \
		return r;                                               \
	}

INSTANTIATE(cuGraphInstantiate,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *error, char *text, size_t len),
	(exec, graph, error, text, len), 0)
INSTANTIATE(cuGraphInstantiate_v2,
	(CUgraphExec * exec, CUgraph graph, CUgraphNode *error, char *text, size_t len),
	(exec, graph, error, text, len), 0)
INSTANTIATE(cuGraphInstantiateWithFlags,
	(CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags), 0)
INSTANTIATE(cuGraphInstantiateWithParams,
	(CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	(exec, graph, params), params ? params->flags : 0)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz,
	(CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	(exec, graph, params), params ? params->flags : 0)

HOOK CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct pool_reservation_wait w;
	struct alloc_row row;
	CUresult r;
	int gpu;

	if (!charges_active())
		return REAL(cuGraphExecDestroy)(exec);
	pool_reservation_wait_begin(&w);
	/* Before the driver call: after it, another thread may be given the same handle. */
	if (may_have_memory_nodes())
		(void)alloc_table_remove(ALLOC_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, &row);
	r = REAL(cuGraphExecDestroy)(exec);
	pool_reservation_wait_end(&w);
	gpu = device_current_gpu();
	if (!r && gpu >= 0)
		link_compare((unsigned int)gpu);
	return r;
}

HOOK CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct pool_reservation *reservation =
		pool_reservation_find(POOL_RESERVATION_GRAPH, (uint64_t)device + 1);
	struct pool_reservation_op op;
	CUresult r;

	(void)pool_reservation_begin(&op, reservation, 0);
	if (reservation)
		atomic_fetch_add(&reservation->epoch, 1);
	r = REAL(cuDeviceGraphMemTrim)(device);
	pool_reservation_end(&op);
	return r;
}

/* Where memory nodes come from, in addition to captured allocations (memory/pool.c). */

HOOK CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	if (charges_active())
		graph_expect_memory();
	return REAL(cuGraphAddMemAllocNode)(node, graph, after, n, params);
}

HOOK CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t n, CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && charges_active())
		graph_expect_memory();
	return REAL(cuGraphAddNode)(node, graph, after, n, params);
}

HOOK CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && charges_active())
		graph_expect_memory();
	return REAL(cuGraphAddNode_v2)(node, graph, after, edges, n, params);
}
