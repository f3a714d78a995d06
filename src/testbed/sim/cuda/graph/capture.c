/* SPDX-License-Identifier: Apache-2.0 */

/* Streams that capture: work for them becomes nodes of a graph. */
#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/graph/graph.h"

/* References: the list of captures until the capture ends, each stream in it, and each event recorded in it. */
struct capture {
	unsigned refs;
	struct capture *next;
	uint64_t id, thread;
	unsigned mode;
	struct graph *graph;
	struct sim_cuda_stream *origin;
	bool broken, ended;
	bool to_graph; /* into a graph that the program made before */
};

enum { MODE_GLOBAL, MODE_THREAD, MODE_RELAXED };
enum { STATUS_NONE, STATUS_ACTIVE, STATUS_INVALIDATED };

static struct capture *captures; /* not ended */

static _Thread_local unsigned thread_mode;

static void drop_some(struct capture *c, unsigned refs)
{
	c->refs -= refs;
	if (!c->refs)
		free(c);
}

static void drop_capture_ref(struct capture *c)
{
	if (c)
		drop_some(c, 1);
}

static CUresult check_capture_intact(const struct capture *c)
{
	return c->broken ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

static CUresult break_it(struct capture *c, CUresult r)
{
	CUresult before = check_capture_intact(c);

	c->broken = true;
	return before ? before : r;
}

/* Sets the dependencies of a stream's next node. */

static bool set_deps(struct sim_cuda_stream *s, struct graph_node *const *deps, size_t n)
{
	struct graph_node **copy = n ? malloc(n * sizeof(struct graph_node *)) : NULL;

	if (n && !copy)
		return false;
	if (n)
		memcpy(copy, deps, n * sizeof(struct graph_node *));
	free(s->deps);
	s->deps = copy;
	s->dep_count = n;
	return true;
}

static bool add_deps(struct sim_cuda_stream *s, struct graph_node *const *deps, size_t n)
{
	struct graph_node **all = malloc((s->dep_count + n + 1) * sizeof(struct graph_node *));
	size_t count = s->dep_count;
	bool ok;

	if (!all)
		return false;
	if (count)
		memcpy(all, s->deps, count * sizeof(struct graph_node *));
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < count && all[k] != deps[i])
			k++;
		if (k == count)
			all[count++] = deps[i];
	}
	ok = set_deps(s, all, count);
	free(all);
	return ok;
}

/* Whether all @n nodes belong to @g. */
static bool are_nodes_of(const CUgraphNode *nodes, size_t n, const struct graph *g)
{
	for (size_t i = 0; i < n; i++)
		if (!obj_is(nodes[i], OBJ_NODE) ||
			((const struct graph_node *)nodes[i])->graph != g)
			return false;
	return true;
}

/* Takes the stream out of its capture. */
static void detach_capture_stream(struct sim_cuda_stream *s)
{
	struct capture *c = s->capture;

	(void)set_deps(s, NULL, 0);
	s->capture = NULL;
	drop_capture_ref(c);
}

static void attach_capture_stream(struct sim_cuda_stream *s, struct capture *c)
{
	s->capture = c;
	c->refs++;
}

/* Ends the capture, and takes all its streams out of it. */
static void close_capture(struct capture *c)
{
	struct capture **link = &captures;

	c->refs++;
	while (*link && *link != c)
		link = &(*link)->next;
	if (*link)
		*link = c->next;
	c->ended = true;
	for (struct sim_cuda_ctx *ctx = sim_cuda.contexts; ctx; ctx = ctx->next)
		for (struct sim_cuda_stream *s = ctx->streams; s; s = s->next)
			if (s->capture == c)
				detach_capture_stream(s);
	drop_some(c, 2); /* the list's, and this function's */
}

/* A stream ends. If it began a capture, the capture ends too. */
void capture_forget(struct sim_cuda_stream *s)
{
	struct capture *c = s->capture;
	struct graph *g = c->to_graph ? NULL : c->graph;
	bool began = s == c->origin;

	detach_capture_stream(s); /* first, as its context's list has it no more */
	if (!began)
		return;
	close_capture(c);
	if (g)
		graph_drop(g);
}

CUresult capture_add_work(struct sim_cuda_stream *s, struct cuda_work *w)
{
	CUresult r = check_capture_intact(s->capture);
	struct graph_node *n;

	if (!r && w->kind == WORK_CALLBACK)
		r = break_it(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (!r && w->kind == WORK_FREE) {
		const struct address_range *range = range_at(w->free);

		if (!range || range->kind != RANGE_GRAPH || range->start != w->free)
			r = CUDA_ERROR_INVALID_VALUE;
	}
	if (r) {
		work_clear(w);
		return r;
	}
	r = node_add(s->capture->graph, s->deps, s->dep_count, w, &n);
	if (r == CUDA_SUCCESS && !set_deps(s, &n, 1))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	return r;
}

CUresult capture_alloc(struct sim_cuda_stream *s, const CUmemPoolProps *props, uint64_t bytes,
	CUdeviceptr *ret)
{
	CUDA_MEM_ALLOC_NODE_PARAMS p = { .poolProps = *props, .bytesize = bytes };
	struct graph_node *n;
	CUresult r = check_capture_intact(s->capture);

	if (r == CUDA_SUCCESS)
		r = node_alloc(s->capture->graph, s->deps, s->dep_count, &p, &n);
	if (r == CUDA_SUCCESS && !set_deps(s, &n, 1))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		*ret = p.dptr;
	return r;
}

/* --- calls that are forbidden during captures --- */

CUresult capture_unsafe(void)
{
	CUresult r = CUDA_SUCCESS;

	for (struct capture *c = captures; c; c = c->next) {
		bool own = c->thread == thread_id();

		if (c->mode == MODE_RELAXED || thread_mode == MODE_RELAXED)
			continue;
		if (own || (thread_mode == MODE_GLOBAL && c->mode == MODE_GLOBAL)) {
			c->broken = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return r;
}

CUresult capture_unsafe_in(struct sim_cuda_stream *s)
{
	return break_it(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult capture_unsafe_ctx(struct sim_cuda_ctx *ctx)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sim_cuda_stream *s = captures ? ctx->streams : NULL; s; s = s->next)
		if (s->capture) {
			s->capture->broken = true;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	return r;
}

CUresult capture_legacy(struct sim_cuda_ctx *ctx)
{
	CUresult r = CUDA_SUCCESS;

	for (struct sim_cuda_stream *s = captures ? ctx->streams : NULL; s; s = s->next)
		if (s->capture && !(s->flags & 1)) {
			s->capture->broken = true;
			r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	return r;
}

/* Events in captures hold the nodes after which they were recorded. */

void capture_event_forget(struct sim_cuda_event *e)
{
	drop_capture_ref(e->capture);
	free(e->nodes);
	e->capture = NULL;
	e->nodes = NULL;
	e->node_count = 0;
}

CUresult capture_event_touched(struct sim_cuda_event *e)
{
	if (!e->capture->ended)
		e->capture->broken = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult capture_record(struct sim_cuda_stream *s, struct sim_cuda_event *e)
{
	CUresult r = check_capture_intact(s->capture);
	struct graph_node **nodes;

	if (r)
		return r;
	nodes = malloc((s->dep_count + 1) * sizeof(struct graph_node *));
	if (!nodes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (s->dep_count)
		memcpy(nodes, s->deps, s->dep_count * sizeof(struct graph_node *));
	capture_event_forget(e);
	e->nodes = nodes;
	e->node_count = s->dep_count;
	e->capture = s->capture;
	e->capture->refs++;
	return CUDA_SUCCESS;
}

CUresult capture_wait(struct sim_cuda_stream *s, struct sim_cuda_event *e)
{
	struct capture *c = e->capture && !e->capture->ended ? e->capture : NULL;
	CUresult r;

	if (!c && !s->capture)
		return e->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
	if (!c)
		return break_it(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	r = check_capture_intact(c);
	if (r)
		return r;
	if (s->capture && s->capture != c) {
		s->capture->broken = true;
		return break_it(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (s->kind == STREAM_LEGACY)
		return break_it(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	if (!s->capture)
		attach_capture_stream(s, c);
	return add_deps(s, e->nodes, e->node_count) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- begin and end --- */

static CUresult begin_stream_capture(struct sim_cuda_stream *s, struct graph *g, unsigned mode)
{
	struct capture *c;
	CUresult r = CUDA_SUCCESS;

	if (mode > MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->kind == STREAM_LEGACY)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (s->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!g)
		r = graph_new(&g);
	if (r) {
		free(c);
		return r;
	}
	*c = (struct capture){ .refs = 1,
		.id = ++sim_cuda.last_id,
		.mode = mode,
		.thread = thread_id(),
		.graph = g,
		.origin = s,
		.next = captures };
	captures = c;
	attach_capture_stream(s, c);
	return CUDA_SUCCESS;
}

/* Marks @n and all nodes before it. */
static void mark_ancestors(struct graph_node *n)
{
	if (n->mark)
		return;
	n->mark = 1;
	for (size_t i = 0; i < n->dep_count; i++)
		mark_ancestors(n->deps[i]);
}

static bool all_joined(struct capture *c)
{
	for (struct graph_node *n = c->graph->nodes; n; n = n->next)
		n->mark = 0;
	for (size_t i = 0; i < c->origin->dep_count; i++)
		mark_ancestors(c->origin->deps[i]);
	for (struct sim_cuda_ctx *ctx = sim_cuda.contexts; ctx; ctx = ctx->next)
		for (struct sim_cuda_stream *s = ctx->streams; s; s = s->next)
			for (size_t i = 0; s->capture == c && i < s->dep_count; i++)
				if (!s->deps[i]->mark)
					return false;
	return true;
}

static CUresult end_stream_capture(struct sim_cuda_stream *s, CUgraph *ret)
{
	struct capture *c = s->capture;
	struct graph *g;
	bool keep;
	CUresult r;

	if (!c)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (c->mode != MODE_RELAXED && c->thread != thread_id())
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	if (c->origin != s)
		return break_it(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	g = c->graph;
	keep = c->to_graph;
	r = check_capture_intact(c);
	if (r == CUDA_SUCCESS && !all_joined(c))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	close_capture(c);
	*ret = r ? NULL : (CUgraph)g;
	if (r && !keep)
		graph_drop(g);
	return r;
}

/* --- API functions --- */

static CUresult enter_capture_stream(CUstream h, bool args_ok, struct sim_cuda_stream **s)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = sim_cuda_find_stream(h, s);
	if (r == CUDA_SUCCESS && !args_ok)
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? sim_cuda_leave(r) : CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream h, unsigned int mode)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, true, &s);

	return r ? r : sim_cuda_leave(begin_stream_capture(s, NULL, mode));
}

EXPORT CUresult cuStreamBeginCapture(CUstream h)
{
	return cuStreamBeginCapture_v2(h, MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCapture_ptsz(CUstream h)
{
	return cuStreamBeginCapture_v2(PER_THREAD(h), MODE_GLOBAL);
}

EXPORT CUresult cuStreamBeginCapture_v2_ptsz(CUstream h, unsigned int mode)
{
	return cuStreamBeginCapture_v2(PER_THREAD(h), mode);
}

EXPORT CUresult cuStreamBeginCaptureToGraph(CUstream h, CUgraph g, const CUgraphNode *deps,
	const CUgraphEdgeData *data, size_t n, unsigned int mode)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, deps || !n, &s);

	(void)data;
	if (r)
		return r;
	if (!obj_is(g, OBJ_GRAPH) || !are_nodes_of(deps, n, (struct graph *)g))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = begin_stream_capture(s, (struct graph *)g, mode);
	if (r)
		return sim_cuda_leave(r);
	s->capture->to_graph = true;
	if (!set_deps(s, (struct graph_node *const *)deps, n)) {
		close_capture(s->capture);
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream h, CUgraph g, const CUgraphNode *deps,
	const CUgraphEdgeData *data, size_t n, unsigned int mode)
{
	return cuStreamBeginCaptureToGraph(PER_THREAD(h), g, deps, data, n, mode);
}

EXPORT CUresult cuStreamEndCapture(CUstream h, CUgraph *ret)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, ret != NULL, &s);

	return r ? r : sim_cuda_leave(end_stream_capture(s, ret));
}

EXPORT CUresult cuStreamEndCapture_ptsz(CUstream h, CUgraph *ret)
{
	return cuStreamEndCapture(PER_THREAD(h), ret);
}

static unsigned status_of(const struct sim_cuda_stream *s)
{
	if (!s->capture)
		return STATUS_NONE;
	return s->capture->broken ? STATUS_INVALIDATED : STATUS_ACTIVE;
}

/* The default stream has no status while a stream that it waits for captures. */
static CUresult legacy_status(const struct sim_cuda_stream *s)
{
	for (const struct sim_cuda_stream *o = s->ctx->streams;
		captures && s->kind == STREAM_LEGACY && o; o = o->next)
		if (o->capture && !(o->flags & 1))
			return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream h, unsigned int *ret)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, ret != NULL, &s);

	if (r)
		return r;
	r = legacy_status(s);
	if (r == CUDA_SUCCESS)
		*ret = status_of(s);
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamIsCapturing_ptsz(CUstream h, unsigned int *ret)
{
	return cuStreamIsCapturing(PER_THREAD(h), ret);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream h, unsigned int *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **deps, size_t *n)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, status != NULL, &s);

	if (r)
		return r;
	r = legacy_status(s);
	if (r)
		return sim_cuda_leave(r);
	*status = status_of(s);
	if (s->capture && id)
		*id = s->capture->id;
	if (s->capture && graph)
		*graph = (CUgraph)s->capture->graph;
	if (s->capture && deps)
		*deps = (const CUgraphNode *)s->deps;
	if (s->capture && n)
		*n = s->dep_count;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream h, unsigned int *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **data, size_t *n)
{
	if (data)
		*data = NULL; /* all edges are plain */
	return cuStreamGetCaptureInfo_v2(h, status, id, graph, deps, n);
}

EXPORT CUresult cuStreamGetCaptureInfo(CUstream h, unsigned int *status, uint64_t *id)
{
	return cuStreamGetCaptureInfo_v2(h, status, id, NULL, NULL, NULL);
}

EXPORT CUresult cuStreamGetCaptureInfo_ptsz(CUstream h, unsigned int *status, uint64_t *id)
{
	return cuStreamGetCaptureInfo(PER_THREAD(h), status, id);
}

EXPORT CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream h, unsigned int *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **deps, size_t *n)
{
	return cuStreamGetCaptureInfo_v2(PER_THREAD(h), status, id, graph, deps, n);
}

EXPORT CUresult cuStreamGetCaptureInfo_v3_ptsz(CUstream h, unsigned int *status, uint64_t *id,
	CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **data, size_t *n)
{
	return cuStreamGetCaptureInfo_v3(PER_THREAD(h), status, id, graph, deps, data, n);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream h, CUgraphNode *deps, size_t n,
	unsigned int flags)
{
	struct sim_cuda_stream *s;
	CUresult r = enter_capture_stream(h, (deps || !n) && flags <= 1, &s);
	bool ok;

	if (r)
		return r;
	if (!s->capture)
		return sim_cuda_leave(CUDA_ERROR_ILLEGAL_STATE);
	if (!are_nodes_of(deps, n, s->capture->graph))
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	ok = flags ? set_deps(s, (struct graph_node **)deps, n)
		   : add_deps(s, (struct graph_node **)deps, n);
	return sim_cuda_leave(ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_ptsz(CUstream h, CUgraphNode *deps, size_t n,
	unsigned int flags)
{
	return cuStreamUpdateCaptureDependencies(PER_THREAD(h), deps, n, flags);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream h, CUgraphNode *deps,
	const CUgraphEdgeData *data, size_t n, unsigned int flags)
{
	(void)data;
	return cuStreamUpdateCaptureDependencies(h, deps, n, flags);
}

EXPORT CUresult cuStreamUpdateCaptureDependencies_v2_ptsz(CUstream h, CUgraphNode *deps,
	const CUgraphEdgeData *data, size_t n, unsigned int flags)
{
	(void)data;
	return cuStreamUpdateCaptureDependencies(PER_THREAD(h), deps, n, flags);
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(unsigned int *mode)
{
	unsigned before = thread_mode;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!mode || *mode > MODE_RELAXED)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	thread_mode = *mode;
	*mode = before;
	return sim_cuda_leave(CUDA_SUCCESS);
}
