/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs with memory nodes. Such a node takes nothing when it is made or captured, nor when its graph
 * is instantiated; the memory comes at upload or first launch and stays with the device, where all
 * graphs share it (measured: one of 128 MiB, then one of 224 in the same stream, held 224 together,
 * also when launched again in another stream). It is charged as a lump of the device (memory/lump.h). A
 * launch takes the graph's bound, unless the graph has been launched since the last trim and all
 * launches since then were in one stream: then all that it needs is there. A program that trims by
 * itself while another of its threads launches can grow unbounded in that moment; it is charged after.
 *
 * The graphs are asked for their nodes at instantiation, so clones, child graphs and captures need no
 * books. While no graph of the process has memory nodes, a launch costs a load and a branch.
 */
#include "container/cuda/work/graph.h"

#include "container/cuda/driver.h"
#include "container/cuda/memory/lump.h"
#include "container/cuda/stream.h"
#include "container/cuda/work/submit.h"
#include "container/client/link.h"
#include "container/charges/rows.h"

#include <sys/mman.h>

#define DEPTH_MAX          16   /* of child graphs */
#define NODE_BYTES         2560 /* of an instantiated graph */
#define INSTANTIATE_UPLOAD 2

static _Atomic bool memory_nodes;

void graph_expect_memory(void)
{
	if (!atomic_load_explicit(&memory_nodes, memory_order_relaxed))
		atomic_store(&memory_nodes, true);
}

static bool expected(void)
{
	return __builtin_expect(atomic_load_explicit(&memory_nodes, memory_order_relaxed), 0);
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void graph_need_add(struct graph_need *n, uint64_t bytes)
{
	if (bytes < LUMP_PIECE)
		n->small = add(n->small, bytes);
	else
		n->large = add(n->large, lump_growth(bytes));
}

uint64_t graph_need_bound(const struct graph_need *n)
{
	/* What fits into one piece needs no second. */
	uint64_t small = n->small > LUMP_PIECE / 2 ? add(n->small, n->small) : n->small;

	return add(n->large, lump_growth(small));
}

uint64_t graph_code_bound(uint64_t nodes)
{
	return nodes > UINT64_MAX / NODE_BYTES ? UINT64_MAX : granules(nodes * NODE_BYTES);
}

/* What a graph needs, by device. */
struct needs {
	struct graph_need on[SLICE_GPUS_MAX]; /* by CUdevice: a slice has no more */
	uint32_t devices;                     /* a bit for each */
};

static void walk(CUgraph graph, struct needs *needs, int depth);

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
		walk(child, needs, depth + 1);
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

static void walk(CUgraph graph, struct needs *needs, int depth)
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

static struct lump *lump_on(CUdevice device)
{
	return lump_of(LUMP_GRAPH, (uint64_t)device + 1, device, ledger_device_gpu(device),
		CHARGE_SEEN);
}

/* What a launch holds: a row has one bound, the largest of its devices'. */
struct launch {
	struct lump_op ops[SLICE_GPUS_MAX];
	uint32_t devices; /* that .ops has one for */
};

static void launch_end(struct launch *l)
{
	for (int d = 0; d < SLICE_GPUS_MAX; d++)
		if (l->devices >> d & 1)
			lump_end(&l->ops[d]);
	l->devices = 0;
}

static CUresult launch_begin(struct launch *l, uint32_t devices, uint64_t bound)
{
	CUresult r = CUDA_SUCCESS;

	l->devices = 0;
	for (int d = 0; d < SLICE_GPUS_MAX && !r; d++) {
		if (!(devices >> d & 1))
			continue;
		r = lump_begin(&l->ops[d], lump_on(d), bound);
		if (!r)
			l->devices |= UINT32_C(1) << d;
	}
	if (r)
		launch_end(l);
	return r;
}

/* A word for a stream, the same for the same order of work; 0: there is none. */
static uint64_t order_of(CUstream stream, bool own)
{
	if (stream == CU_STREAM_PER_THREAD || (!stream && own))
		return 0;
	return stream ? (uint64_t)(uintptr_t)stream : (uint64_t)(uintptr_t)CU_STREAM_LEGACY;
}

/* Begins without a bound if all is there that the graph needs. */
static bool begin_resident(struct launch *l, const struct row *row, uint64_t order)
{
	uint32_t devices = (uint32_t)row->other;
	struct lump *lump;

	if (!order || !row->count || (devices & (devices - 1)))
		return false;
	lump = lump_on(__builtin_ctz(devices));
	if (!lump || launch_begin(l, devices, 0))
		return false;
	/* Pairs with trim() of memory/lump.c: read after we are one of the lump's users. */
	if (atomic_load(&lump->epoch) == row->count && atomic_load(&lump->stream) == order)
		return true;
	launch_end(l);
	return false;
}

/* The graph has been launched: what it needs is there, in this order of work. */
static void note_resident(CUgraphExec exec, struct row *row, uint64_t order)
{
	uint32_t devices = (uint32_t)row->other;
	struct lump *lump = devices & (devices - 1) ? NULL : lump_on(__builtin_ctz(devices));

	if (!lump)
		return;
	if (atomic_exchange(&lump->stream, order) != order)
		atomic_fetch_add(&lump->epoch, 1);
	row->count = order ? atomic_load(&lump->epoch) : 0;
	(void)row_put(ROW_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, row);
}

typedef CUresult (*run_fn)(CUgraphExec exec, CUstream stream);

static CUresult run(run_fn fn, CUgraphExec exec, CUstream stream, bool own)
{
	uint64_t order = order_of(stream, own);
	struct launch l = { .devices = 0 };
	struct row row;
	bool fresh;
	CUresult r;

	if (!row_get(ROW_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, &row) ||
		stream_captures(stream, own))
		return fn(exec, stream);
	fresh = !begin_resident(&l, &row, order);
	if (fresh) {
		r = launch_begin(&l, (uint32_t)row.other, row.bytes);
		if (r && stream_wait(stream, own))
			r = launch_begin(&l, (uint32_t)row.other, row.bytes);
		if (r)
			return r;
	}
	r = fn(exec, stream);
	/* Still one of the lump's users, so nothing of ours has trimmed since. */
	if (!r && fresh)
		note_resident(exec, &row, order);
	launch_end(&l);
	return r;
}

/* The gate first: a launch that waits there keeps no memory from others' trims. */
#define RUN(name, own, end)                                                         \
	HOOK CUresult name(CUgraphExec exec, CUstream stream)                       \
	{                                                                           \
		struct turn_gpu_page *p;                                            \
		CUresult r;                                                         \
                                                                                    \
		if (submit_off())                                                   \
			return REAL(name)(exec, stream);                            \
		p = gate_begin_kind(stream, (own) ? GATE_OWN : 0, (uintptr_t)exec); \
		r = expected() ? run(REAL(name), exec, stream, own)                 \
			       : REAL(name)(exec, stream);                          \
		end;                                                                \
		return r;                                                           \
	}

RUN(cuGraphLaunch, false, gate_end(p))
RUN(cuGraphLaunch_ptsz, true, gate_end(p))
/* Copies what describes the graph: nobody says how much that is. */
RUN(cuGraphUpload, false, gate_end_copy(p, 0))
RUN(cuGraphUpload_ptsz, true, gate_end_copy(p, 0))

/* Instantiation. */

struct making {
	struct charge code;
	struct launch upload;
	struct row row;
	bool active;
};

static CUresult make_begin(struct making *m, CUgraph graph, unsigned long long flags)
{
	struct needs needs = { .devices = 0 };
	size_t nodes = 0;
	CUresult r;

	*m = (struct making){ .active = ledger_active() };
	if (!m->active)
		return CUDA_SUCCESS;
	if (expected())
		walk(graph, &needs, 0);
	m->row.other = needs.devices;
	for (int d = 0; d < SLICE_GPUS_MAX; d++) {
		uint64_t bound = graph_need_bound(&needs.on[d]);

		if (bound > m->row.bytes)
			m->row.bytes = bound;
	}
	if (REAL(cuGraphGetNodes)(graph, NULL, &nodes))
		nodes = 0;
	r = charge_begin(&m->code, ledger_current_gpu(), graph_code_bound(nodes),
		CHARGE_HIDDEN);
	if (r || !(flags & INSTANTIATE_UPLOAD))
		return r;
	r = launch_begin(&m->upload, needs.devices, m->row.bytes);
	if (r)
		charge_end(&m->code, 0);
	return r;
}

static void make_end(struct making *m, CUresult r, const CUgraphExec *exec)
{
	struct row old;

	if (!m->active)
		return;
	if (!r && m->row.other)
		(void)row_put(ROW_GRAPH_EXEC, (uint64_t)(uintptr_t)*exec, &m->row);
	else if (!r && expected()) /* what went with its context left its row behind */
		(void)row_take(ROW_GRAPH_EXEC, (uint64_t)(uintptr_t)*exec, &old);
	launch_end(&m->upload);
	charge_end(&m->code, r ? 0 : m->code.bytes);
}

HOOK CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, CUgraphNode *error,
	char *text, size_t len)
{
	struct making m;
	CUresult r = make_begin(&m, graph, 0);

	if (r)
		return r;
	r = REAL(cuGraphInstantiate)(exec, graph, error, text, len);
	make_end(&m, r, exec);
	return r;
}

HOOK CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *error,
	char *text, size_t len)
{
	struct making m;
	CUresult r = make_begin(&m, graph, 0);

	if (r)
		return r;
	r = REAL(cuGraphInstantiate_v2)(exec, graph, error, text, len);
	make_end(&m, r, exec);
	return r;
}

HOOK CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
	unsigned long long flags)
{
	struct making m;
	CUresult r = make_begin(&m, graph, 0);

	if (r)
		return r;
	r = REAL(cuGraphInstantiateWithFlags)(exec, graph, flags);
	make_end(&m, r, exec);
	return r;
}

HOOK CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph,
	CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct making m;
	CUresult r = make_begin(&m, graph, params ? params->flags : 0);

	if (r)
		return r;
	r = REAL(cuGraphInstantiateWithParams)(exec, graph, params);
	make_end(&m, r, exec);
	return r;
}

HOOK CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph,
	CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	struct making m;
	CUresult r = make_begin(&m, graph, params ? params->flags : 0);

	if (r)
		return r;
	r = REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params);
	make_end(&m, r, exec);
	return r;
}

HOOK CUresult cuGraphExecDestroy(CUgraphExec exec)
{
	struct lump_wait w;
	struct row row;
	CUresult r;
	int gpu;

	if (!ledger_active())
		return REAL(cuGraphExecDestroy)(exec);
	lump_wait_begin(&w);
	/* Before the call: after it another thread may be given the same handle. */
	if (expected())
		(void)row_take(ROW_GRAPH_EXEC, (uint64_t)(uintptr_t)exec, &row);
	r = REAL(cuGraphExecDestroy)(exec);
	lump_wait_end(&w);
	gpu = ledger_current_gpu();
	if (!r && gpu >= 0)
		link_compare((unsigned int)gpu);
	return r;
}

HOOK CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	struct lump *l = lump_find(LUMP_GRAPH, (uint64_t)device + 1);
	struct lump_op op;
	CUresult r;

	(void)lump_begin(&op, l, 0);
	if (l)
		atomic_fetch_add(&l->epoch, 1);
	r = REAL(cuDeviceGraphMemTrim)(device);
	lump_end(&op);
	return r;
}

/* Where memory nodes come from, besides captured allocations (memory/pool.c). */

HOOK CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	if (ledger_active())
		graph_expect_memory();
	return REAL(cuGraphAddMemAllocNode)(node, graph, after, n, params);
}

HOOK CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	size_t n, CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && ledger_active())
		graph_expect_memory();
	return REAL(cuGraphAddNode)(node, graph, after, n, params);
}

HOOK CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
	const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && ledger_active())
		graph_expect_memory();
	return REAL(cuGraphAddNode_v2)(node, graph, after, edges, n, params);
}
