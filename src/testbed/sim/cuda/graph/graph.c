/* SPDX-License-Identifier: Apache-2.0 */

/* Graphs and their nodes. */
#include "testbed/sim/cuda/graph/graph.h"

#include "lib/base/array.h"

#include <stdlib.h>
#include <string.h>

CUresult graph_new(struct graph **ret)
{
	struct graph *g = obj_new(OBJ_GRAPH, sizeof(*g));

	if (!g)
		return CUDA_ERROR_OUT_OF_MEMORY;
	g->nodes_end = &g->nodes;
	*ret = g;
	return CUDA_SUCCESS;
}

static void node_clear(struct graph_node *n)
{
	if (n->work.kind == WORK_CHILD)
		graph_drop(n->work.child);
	else
		work_clear(&n->work);
	graph_alloc_drop(n->alloc);
	free(n->deps);
	free(n->params);
	obj_drop(n, OBJ_NODE);
}

void graph_drop(struct graph *g)
{
	struct graph_node *n;

	while ((n = g->nodes)) {
		g->nodes = n->next;
		node_clear(n);
	}
	obj_drop(g, OBJ_GRAPH);
}

static CUresult node_link(struct graph_node *to, struct graph_node *from)
{
	for (size_t i = 0; i < to->dep_count; i++)
		if (to->deps[i] == from)
			return CUDA_SUCCESS;
	if (!ARRAY_EXTEND(&to->deps, to->dep_count, 1, ARRAY_NO_LIMIT))
		return CUDA_ERROR_OUT_OF_MEMORY;
	to->deps[to->dep_count++] = from;
	return CUDA_SUCCESS;
}

static void drop_work(struct cuda_work *w)
{
	if (w->kind == WORK_CHILD)
		graph_drop(w->child);
	else
		work_clear(w);
}

CUresult node_add(struct graph *g, struct graph_node *const *deps, size_t count,
	struct cuda_work *w, struct graph_node **ret)
{
	struct graph_node *n;
	CUresult r = count && !deps ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

	for (size_t i = 0; i < count && !r; i++)
		if (!obj_is(deps[i], OBJ_NODE) || deps[i]->graph != g)
			r = CUDA_ERROR_INVALID_VALUE;
	n = r ? NULL : obj_new(OBJ_NODE, sizeof(*n));
	if (!n) {
		drop_work(w);
		return r ? r : CUDA_ERROR_OUT_OF_MEMORY;
	}
	n->graph = g;
	n->work = *w;
	*w = (struct cuda_work){ .kind = WORK_EMPTY };
	for (size_t i = 0; i < count && !r; i++)
		r = node_link(n, deps[i]);
	if (r) {
		node_clear(n);
		return r;
	}
	if (n->work.kind == WORK_ALLOC || n->work.kind == WORK_FREE)
		g->has_memory = true;
	*g->nodes_end = n;
	g->nodes_end = &n->next;
	g->count++;
	*ret = n;
	return CUDA_SUCCESS;
}

CUresult node_alloc(struct graph *g, struct graph_node *const *deps, size_t n,
	CUDA_MEM_ALLOC_NODE_PARAMS *p, struct graph_node **ret)
{
	struct cuda_work w = { .kind = WORK_ALLOC, .alloc = *p };
	struct graph_alloc *a;
	int id = p->poolProps.location.id;
	CUresult r;

	if (!p->bytesize || p->poolProps.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
		p->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE || id < 0 ||
		(unsigned)id >= sim_cuda.device_count || g->is_child)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_alloc_new(&sim_cuda.devices[id], p->bytesize, &a);
	if (r)
		return r;
	w.alloc.dptr = a->range->start;
	w.alloc.accessDescs = NULL;
	w.alloc.accessDescCount = 0;
	r = node_add(g, deps, n, &w, ret);
	if (r) {
		graph_alloc_drop(a);
		return r;
	}
	(*ret)->alloc = a;
	p->dptr = a->range->start;
	return CUDA_SUCCESS;
}

void node_set(struct graph_node *n, struct cuda_work *w)
{
	drop_work(&n->work);
	free(n->params);
	n->params = NULL;
	n->work = *w;
	*w = (struct cuda_work){ .kind = WORK_EMPTY };
}

static unsigned graph_node_type(const struct cuda_work *w)
{
	static const unsigned types[] = {
		[WORK_EMPTY] = CU_GRAPH_NODE_TYPE_EMPTY,
		[WORK_KERNEL] = CU_GRAPH_NODE_TYPE_KERNEL,
		[WORK_COPY] = CU_GRAPH_NODE_TYPE_MEMCPY,
		[WORK_SET] = CU_GRAPH_NODE_TYPE_MEMSET,
		[WORK_HOST] = CU_GRAPH_NODE_TYPE_HOST,
		[WORK_CALLBACK] = CU_GRAPH_NODE_TYPE_HOST,
		[WORK_RECORD] = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
		[WORK_WAIT_EVENT] = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		[WORK_WAIT_VALUE] = 12, /* batch memory operation */
		[WORK_WRITE_VALUE] = 12,
		[WORK_FREE] = CU_GRAPH_NODE_TYPE_MEM_FREE,
		[WORK_ALLOC] = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
		[WORK_CHILD] = CU_GRAPH_NODE_TYPE_GRAPH,
	};

	return types[w->kind];
}

/* --- sorting --- */

static bool visit_graph_node(struct graph_node *n, struct graph_node **list, size_t *count)
{
	if (n->mark)
		return n->mark == 2; /* 1: a cycle */
	n->mark = 1;
	for (size_t i = 0; i < n->dep_count; i++)
		if (!visit_graph_node(n->deps[i], list, count))
			return false;
	n->mark = 2;
	list[(*count)++] = n;
	return true;
}

struct graph_node **graph_sort(struct graph *g)
{
	struct graph_node **list = calloc(g->count + 1, sizeof(struct graph_node *));
	size_t count = 0;

	for (struct graph_node *n = g->nodes; n; n = n->next)
		n->mark = 0;
	for (struct graph_node *n = list ? g->nodes : NULL; n; n = n->next)
		if (!visit_graph_node(n, list, &count)) {
			free(list);
			return NULL;
		}
	return list;
}

/* --- clones --- */

static struct graph_node *clone_of(const struct graph *g, const struct graph_node *original)
{
	struct graph_node *n = g->nodes;

	while (n && n->original != original)
		n = n->next;
	return n;
}

CUresult graph_clone(const struct graph *g, struct graph **ret)
{
	struct graph *new;
	CUresult r = g->has_memory ? CUDA_ERROR_NOT_SUPPORTED : graph_new(&new);

	if (r)
		return r;
	for (struct graph_node *n = g->nodes; n && !r; n = n->next) {
		struct graph_node *copy;
		struct cuda_work w = { .kind = WORK_CHILD };

		if (n->work.kind == WORK_CHILD)
			r = graph_clone(n->work.child, &w.child);
		else
			r = work_copy(&w, &n->work) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
		if (r == CUDA_SUCCESS && w.kind == WORK_CHILD)
			w.child->is_child = true;
		if (r == CUDA_SUCCESS)
			r = node_add(new, NULL, 0, &w, &copy);
		if (r == CUDA_SUCCESS) {
			copy->original = n; /* for comparison only */
		}
	}
	for (struct graph_node *n = g->nodes; n && !r; n = n->next)
		for (size_t i = 0; i < n->dep_count && !r; i++)
			r = node_link(clone_of(new, n), clone_of(new, n->deps[i]));
	if (r)
		graph_drop(new);
	else
		*ret = new;
	return r;
}

/* --- API functions --- */

/* The graph of a handle; the lock is taken on success. */
static CUresult enter_graph(const void *h, bool args_ok, struct graph **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_GRAPH) || !args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(ret, &h, sizeof(h));
	return CUDA_SUCCESS;
}

static CUresult enter_graph_node(const void *h, bool args_ok, struct graph_node **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!obj_is(h, OBJ_NODE) || !args_ok)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	memcpy(ret, &h, sizeof(h));
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphCreate(CUgraph *ret, unsigned int flags)
{
	struct graph *g;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	if (!ret || flags)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	r = graph_new(&g);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraph)g;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphDestroy(CUgraph h)
{
	struct graph *g = NULL;
	CUresult r = enter_graph(h, true, &g);

	if (r)
		return r;
	if (g->is_child)
		return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
	graph_drop(g);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphClone(CUgraph *ret, CUgraph h)
{
	struct graph *g = NULL, *new;
	CUresult r = enter_graph(h, ret != NULL, &g);

	if (r)
		return r;
	r = graph_clone(g, &new);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraph) new;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *ret, CUgraphNode original, CUgraph h)
{
	struct graph *g = NULL;
	CUresult r = enter_graph(h, ret && obj_is(original, OBJ_NODE), &g);

	if (r)
		return r;
	*ret = (CUgraphNode)clone_of(g, (struct graph_node *)original);
	return sim_cuda_leave(*ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode h, unsigned int *ret)
{
	struct graph_node *n = NULL;
	CUresult r = enter_graph_node(h, ret != NULL, &n);

	if (r)
		return r;
	*ret = graph_node_type(&n->work);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode h)
{
	struct graph_node *n = NULL, **link;
	CUresult r = enter_graph_node(h, true, &n);

	if (r)
		return r;
	if (n->work.kind == WORK_ALLOC || n->work.kind == WORK_FREE)
		return sim_cuda_leave(CUDA_ERROR_NOT_SUPPORTED);
	for (link = &n->graph->nodes; *link != n;)
		link = &(*link)->next;
	*link = n->next;
	if (!*link)
		n->graph->nodes_end = link;
	n->graph->count--;
	for (struct graph_node *o = n->graph->nodes; o; o = o->next)
		for (size_t i = 0; i < o->dep_count; i++)
			if (o->deps[i] == n)
				o->deps[i--] = o->deps[--o->dep_count];
	node_clear(n);
	return sim_cuda_leave(CUDA_SUCCESS);
}

/* Adds a node to the caller's list if there is room. *have counts all nodes. */
static void append_node_handle(CUgraphNode *list, size_t room, size_t *have,
	struct graph_node *n)
{
	if (list && *have < room)
		list[*have] = (CUgraphNode)n;
	(*have)++;
}

/* Ends a list: fills the rest with NULL. Without a list returns only the number. */
static void end_list(CUgraphNode *list, size_t *room, size_t have)
{
	for (size_t i = have; list && i < *room; i++)
		list[i] = NULL;
	if (!list || have < *room)
		*room = have;
}

static CUresult list_nodes(CUgraph h, CUgraphNode *list, size_t *room, bool roots)
{
	struct graph *g = NULL;
	size_t have = 0;
	CUresult r = enter_graph(h, room != NULL, &g);

	if (r)
		return r;
	for (struct graph_node *n = g->nodes; n; n = n->next)
		if (!roots || !n->dep_count)
			append_node_handle(list, *room, &have, n);
	end_list(list, room, have);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphGetNodes(CUgraph h, CUgraphNode *list, size_t *n)
{
	return list_nodes(h, list, n, false);
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph h, CUgraphNode *list, size_t *n)
{
	return list_nodes(h, list, n, true);
}

EXPORT CUresult cuGraphGetEdges(CUgraph h, CUgraphNode *from, CUgraphNode *to, size_t *n)
{
	struct graph *g = NULL;
	size_t have = 0, count;
	CUresult r = enter_graph(h, n && !from == !to, &g);

	if (r)
		return r;
	for (struct graph_node *o = g->nodes; o; o = o->next)
		for (size_t i = 0; i < o->dep_count; i++) {
			count = have;
			append_node_handle(from, *n, &have, o->deps[i]);
			append_node_handle(to, *n, &count, o);
		}
	count = *n;
	end_list(from, &count, have);
	end_list(to, n, have);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode h, CUgraphNode *list, size_t *n)
{
	struct graph_node *node = NULL;
	size_t have = 0;
	CUresult r = enter_graph_node(h, n != NULL, &node);

	if (r)
		return r;
	for (size_t i = 0; i < node->dep_count; i++)
		append_node_handle(list, *n, &have, node->deps[i]);
	end_list(list, n, have);
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode h, CUgraphNode *list, size_t *n)
{
	struct graph_node *node = NULL;
	size_t have = 0;
	CUresult r = enter_graph_node(h, n != NULL, &node);

	if (r)
		return r;
	for (struct graph_node *o = node->graph->nodes; o; o = o->next)
		for (size_t i = 0; i < o->dep_count; i++)
			if (o->deps[i] == node)
				append_node_handle(list, *n, &have, o);
	end_list(list, n, have);
	return sim_cuda_leave(CUDA_SUCCESS);
}

struct CUgraphEdgeData {
	unsigned char from_port, to_port, type, reserved[5];
};

EXPORT CUresult cuGraphGetEdges_v2(CUgraph h, CUgraphNode *from, CUgraphNode *to,
	CUgraphEdgeData *data, size_t *n)
{
	CUresult r = cuGraphGetEdges(h, from, to, n);

	if (r == CUDA_SUCCESS && data && from)
		memset(data, 0, *n * sizeof(*data));
	return r;
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode h, CUgraphNode *list,
	CUgraphEdgeData *data, size_t *n)
{
	CUresult r = cuGraphNodeGetDependencies(h, list, n);

	if (r == CUDA_SUCCESS && data && list)
		memset(data, 0, *n * sizeof(*data));
	return r;
}

EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode h, CUgraphNode *list,
	CUgraphEdgeData *data, size_t *n)
{
	CUresult r = cuGraphNodeGetDependentNodes(h, list, n);

	if (r == CUDA_SUCCESS && data && list)
		memset(data, 0, *n * sizeof(*data));
	return r;
}

EXPORT CUresult cuGraphAddDependencies(CUgraph h, const CUgraphNode *from,
	const CUgraphNode *to, size_t n)
{
	struct graph *g = NULL;
	CUresult r = enter_graph(h, !n || (from && to), &g);

	if (r)
		return r;
	for (size_t i = 0; i < n && !r; i++) {
		struct graph_node *a = (struct graph_node *)from[i],
				  *b = (struct graph_node *)to[i];

		r = obj_is(a, OBJ_NODE) && obj_is(b, OBJ_NODE) && a->graph == g &&
				    b->graph == g && a != b
			    ? node_link(b, a)
			    : CUDA_ERROR_INVALID_VALUE;
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphRemoveDependencies(CUgraph h, const CUgraphNode *from,
	const CUgraphNode *to, size_t n)
{
	struct graph *g;
	CUresult r = enter_graph(h, !n || (from && to), &g);

	if (r)
		return r;
	for (size_t i = 0; i < n && !r; i++) {
		struct graph_node *b = (struct graph_node *)to[i];

		r = obj_is(b, OBJ_NODE) && b->graph == g ? CUDA_SUCCESS
							 : CUDA_ERROR_INVALID_VALUE;
		for (size_t k = 0; !r && k < b->dep_count; k++)
			if (b->deps[k] == (struct graph_node *)from[i])
				b->deps[k--] = b->deps[--b->dep_count];
	}
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph h, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
	(void)data;
	return cuGraphAddDependencies(h, from, to, n);
}

EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph h, const CUgraphNode *from,
	const CUgraphNode *to, const CUgraphEdgeData *data, size_t n)
{
	(void)data;
	return cuGraphRemoveDependencies(h, from, to, n);
}
