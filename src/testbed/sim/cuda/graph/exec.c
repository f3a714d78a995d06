/* SPDX-License-Identifier: Apache-2.0 */

/* Instantiated graphs: a list of work in an order that satisfies all dependencies. */
#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/graph/graph.h"

#include "lib/base/array.h"

enum { AUTO_FREE = 1, UPLOAD = 2, DEVICE_LAUNCH = 4, NODE_PRIORITY = 8, FLAGS = 15 };

static CUresult add_exec_entry(struct exec *e, struct graph_node *n)
{
	struct entry_of_exec *at;

	if (!ARRAY_GROW(&e->entries, e->count, &e->room, ARRAY_NO_LIMIT))
		return CUDA_ERROR_OUT_OF_MEMORY;
	at = &e->entries[e->count];
	*at = (struct entry_of_exec){ .node = n, .alloc = n->alloc, .enabled = true };
	if (!work_copy(&at->work, &n->work))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (at->alloc)
		at->alloc->refs++;
	e->count++;
	return CUDA_SUCCESS;
}

/* Adds all nodes; the nodes of a child graph take its place. */
static CUresult flatten_graph(struct exec *e, struct graph *g)
{
	struct graph_node **list = graph_sort(g);
	CUresult r = list ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;

	for (size_t i = 0; !r && i < g->count; i++)
		r = list[i]->work.kind == WORK_CHILD ? flatten_graph(e, list[i]->work.child)
						     : add_exec_entry(e, list[i]);
	free(list);
	return r;
}

static void exec_clear(struct exec *e)
{
	for (size_t i = 0; i < e->count; i++) {
		work_clear(&e->entries[i].work);
		graph_alloc_drop(e->entries[i].alloc);
	}
	free(e->entries);
	e->entries = NULL;
	e->count = e->room = 0;
}

static void exec_drop(struct exec *e)
{
	exec_clear(e);
	graph_block_drop(e->block);
	if (e->queue)
		queue_drop(e->queue);
	if (e->graph && obj_is(e->graph, OBJ_GRAPH) && e->graph->obj.serial == e->graph_serial)
		e->graph->execs--;
	obj_drop(e, OBJ_EXEC);
}

static CUresult instantiate_graph(CUgraph h, uint64_t flags, struct exec **ret)
{
	struct graph *g = (struct graph *)h;
	struct exec *e;
	CUresult r;

	if (!obj_is(h, OBJ_GRAPH) || flags > FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (g->has_memory && g->execs)
		return CUDA_ERROR_NOT_SUPPORTED; /* one exec at a time */
	e = obj_new(OBJ_EXEC, sizeof(*e));
	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->flags = flags & ~(uint64_t)UPLOAD;
	r = flatten_graph(e, g);
	if (r) {
		exec_drop(e);
		return r;
	}
	if (g->has_memory) {
		e->graph = g;
		e->graph_serial = g->obj.serial;
		g->execs++;
	}
	*ret = e;
	return CUDA_SUCCESS;
}

/* Takes the memory that a launch needs. */
static CUresult reserve_exec_memory(struct exec *e)
{
	uint64_t total = 0;
	struct sim_cuda_device *d = NULL;

	for (size_t i = 0; i < e->count; i++)
		if (e->entries[i].alloc) {
			d = e->entries[i].alloc->device;
			total += e->entries[i].alloc->range->span;
		}
	return d && !e->block ? graph_block_new(d, total, &e->block) : CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret, CUgraph h,
	unsigned long long flags)
{
	struct exec *e;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = ret && !(flags & UPLOAD) ? instantiate_graph(h, flags, &e)
				     : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphExec)e;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *ret, CUgraph h, CUgraphNode *bad, char *log,
	size_t len)
{
	if (bad)
		*bad = NULL;
	if (log && len)
		*log = '\0';
	return cuGraphInstantiateWithFlags(ret, h, 0);
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *ret, CUgraph h, CUgraphNode *bad, char *log,
	size_t len)
{
	return cuGraphInstantiate_v2(ret, h, bad, log, len);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *ret, CUgraph h,
	CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	struct exec *e;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = ret && p ? instantiate_graph(h, p->flags, &e) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS && p->flags & UPLOAD) {
		r = reserve_exec_memory(e);
		if (r)
			exec_drop(e);
	}
	if (p) {
		p->result_out = r ? 1 : 0;
		p->hErrNode_out = NULL;
	}
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphExec)e;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *ret, CUgraph h,
	CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	return cuGraphInstantiateWithParams(ret, h, p);
}

/* The exec of a handle and a stream; the lock is taken on success. */
static CUresult enter_exec_stream(CUgraphExec h, CUstream stream, struct exec **e,
	struct sim_cuda_stream **s)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*e = (struct exec *)h;
	r = obj_is(h, OBJ_EXEC) ? sim_cuda_find_stream(stream, s) : CUDA_ERROR_INVALID_VALUE;
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec h, CUstream stream)
{
	struct sim_cuda_stream *s;
	struct exec *e;
	CUresult r = enter_exec_stream(h, stream, &e, &s);

	return r ? r : sim_cuda_leave(reserve_exec_memory(e));
}

EXPORT CUresult cuGraphUpload_ptsz(CUgraphExec h, CUstream stream)
{
	return cuGraphUpload(h, PER_THREAD(stream));
}

/* A launch waits for the exec's previous launch, in whatever stream. */
static CUresult queue_launch_wait(struct exec *e, struct sim_cuda_stream *s)
{
	if (!e->queue || e->queue == s->queue || queue_done(e->queue, e->seq))
		return CUDA_SUCCESS;
	return queue_push(s->queue, (struct sim_device_command){ .kind = SIM_DEVICE_WAIT_STREAM,
					    .object = e->queue->id,
					    .amount = e->seq });
}

static CUresult enqueue_exec_entry(struct exec *e, struct entry_of_exec *at,
	struct sim_cuda_stream *s, uint64_t *offset)
{
	struct cuda_work w = { .kind = WORK_EMPTY };
	struct address_range *range;
	CUresult r;

	if (!at->enabled)
		return CUDA_SUCCESS;
	if (at->alloc) {
		r = graph_alloc_begin(at->alloc, e->block, *offset);
		*offset += at->alloc->range->span;
		return r;
	}
	switch ((int)at->work.kind) {
	case WORK_FREE:
		range = range_at(at->work.free);
		if (!range || range->kind != RANGE_GRAPH)
			return CUDA_ERROR_INVALID_VALUE;
		graph_alloc_end(range->owner);
		return CUDA_SUCCESS;
	case WORK_RECORD:
		return event_record(s, at->work.event.event, true);
	case WORK_WAIT_EVENT:
		w = at->work;
		w.event.generation = w.event.event->recorded;
		return w.event.generation ? stream_add_work(s, &w) : CUDA_SUCCESS;
	default:
		return work_copy(&w, &at->work) ? stream_add_work(s, &w)
						: CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static CUresult launch_graph_exec(struct exec *e, struct sim_cuda_stream *s)
{
	uint64_t offset = 0;
	CUresult r = reserve_exec_memory(e);

	for (size_t i = 0; !r && i < e->count; i++) {
		struct graph_alloc *a = e->entries[i].alloc;

		if (a && a->live && e->flags & AUTO_FREE)
			graph_alloc_end(a);
		else if (a && a->live)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r == CUDA_SUCCESS)
		r = queue_launch_wait(e, s);
	for (size_t i = 0; !r && i < e->count; i++)
		r = enqueue_exec_entry(e, &e->entries[i], s, &offset);
	if (e->queue)
		queue_drop(e->queue);
	e->queue = queue_ref(s->queue);
	e->seq = s->queue->last;
	return r;
}

/* While @s captures, a launch adds the exec's work as nodes. */
static CUresult capture_exec(struct exec *e, struct sim_cuda_stream *s)
{
	CUresult r = e->graph ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;

	for (size_t i = 0; !r && i < e->count; i++) {
		struct cuda_work w;

		r = work_copy(&w, &e->entries[i].work) ? capture_add_work(s, &w)
						       : CUDA_ERROR_OUT_OF_MEMORY;
	}
	return r;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec h, CUstream stream)
{
	struct sim_cuda_stream *s;
	struct exec *e;
	CUresult r;

	lib_spin(sim_cuda.launch_ns);
	for (bool waited = true; waited;) {
		waited = false;
		r = enter_exec_stream(h, stream, &e, &s);
		if (r)
			return r;
		r = s->capture ? CUDA_SUCCESS : queue_wait_launch_slot(s->queue, &waited);
		/* Other threads may have changed the handles while the lock was free. */
		if (r || waited)
			(void)sim_cuda_leave(r);
		if (r)
			return r;
	}
	if (s->capture)
		return sim_cuda_leave(capture_exec(e, s));
	r = launch_graph_exec(e, s);
	if (r == CUDA_SUCCESS)
		queue_launched(s->queue);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphLaunch_ptsz(CUgraphExec h, CUstream stream)
{
	return cuGraphLaunch(h, PER_THREAD(stream));
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec h)
{
	struct exec *e = (struct exec *)h;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_EXEC))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	if (e->queue && e->block && !e->queue->gone)
		(void)queue_wait(e->queue, e->seq);
	exec_drop(e);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphExecGetFlags(CUgraphExec h, uint64_t *ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || !obj_is(h, OBJ_EXEC))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	*ret = ((struct exec *)h)->flags;
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Updates: the same kinds of nodes in the same order, with other parameters. */

struct CUgraphExecUpdateResultInfo {
	unsigned result;
	CUgraphNode node, from;
};

enum { UPDATE_SUCCESS = 0, UPDATE_ERROR = 1, UPDATE_TOPOLOGY = 2, UPDATE_NODE_TYPE = 3 };

static CUresult update_graph_exec(struct exec *e, struct graph *g, unsigned *why,
	CUgraphNode *node)
{
	struct exec fresh = { .flags = e->flags };
	CUresult r = g->has_memory ? CUDA_ERROR_NOT_SUPPORTED : flatten_graph(&fresh, g);

	*why = r ? UPDATE_ERROR : UPDATE_SUCCESS;
	if (!r && fresh.count != e->count)
		*why = UPDATE_TOPOLOGY;
	for (size_t i = 0; !*why && i < e->count; i++)
		if (fresh.entries[i].work.kind != e->entries[i].work.kind) {
			*why = UPDATE_NODE_TYPE;
			*node = (CUgraphNode)fresh.entries[i].node;
		}
	for (size_t i = 0; !*why && i < e->count; i++) {
		work_clear(&e->entries[i].work);
		e->entries[i].work = fresh.entries[i].work;
		fresh.entries[i].work = (struct cuda_work){ .kind = WORK_EMPTY };
	}
	exec_clear(&fresh);
	if (r)
		return r;
	return *why ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : CUDA_SUCCESS;
}

static CUresult exec_update(CUgraphExec h, CUgraph graph, CUgraphNode *node, unsigned *why)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*node = NULL;
	*why = UPDATE_ERROR;
	if (!obj_is(h, OBJ_EXEC) || !obj_is(graph, OBJ_GRAPH))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	return sim_cuda_leave(
		update_graph_exec((struct exec *)h, (struct graph *)graph, why, node));
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec h, CUgraph g, CUgraphNode *node,
	unsigned int *why)
{
	return node && why ? exec_update(h, g, node, why) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec h, CUgraph g, CUgraphExecUpdateResultInfo *ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	ret->from = NULL;
	return exec_update(h, g, &ret->node, &ret->result);
}
