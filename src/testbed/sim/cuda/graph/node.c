/* SPDX-License-Identifier: Apache-2.0 */

/* Nodes of each kind: add, query and change, in a graph and in an instantiated one. */
#include <stdlib.h>
#include <string.h>

#include "testbed/sim/cuda/graph/graph.h"
#include "testbed/sim/cuda/module/module.h"

/* Work from the parameters of a node. */

static CUresult from_kernel(const CUDA_KERNEL_NODE_PARAMS *p, struct cuda_work *w)
{
	const void *f = p->func ? (const void *)p->func : (const void *)p->kern;

	return kernel_work(f, (unsigned[]){ p->gridDimX, p->gridDimY, p->gridDimZ },
		(unsigned[]){ p->blockDimX, p->blockDimY, p->blockDimZ }, p->sharedMemBytes,
		p->kernelParams, p->extra, w);
}

static CUDA_KERNEL_NODE_PARAMS convert_kernel_params_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = p->func,
		.gridDimX = p->gridDimX,
		.gridDimY = p->gridDimY,
		.gridDimZ = p->gridDimZ,
		.blockDimX = p->blockDimX,
		.blockDimY = p->blockDimY,
		.blockDimZ = p->blockDimZ,
		.sharedMemBytes = p->sharedMemBytes,
		.kernelParams = p->kernelParams,
		.extra = p->extra };
}

static CUresult from_copy(const CUDA_MEMCPY3D *c, struct cuda_work *w)
{
	*w = (struct cuda_work){ .kind = WORK_COPY, .copy = *c };
	return CUDA_SUCCESS;
}

static CUresult from_set(const CUDA_MEMSET_NODE_PARAMS *s, struct cuda_work *w)
{
	*w = (struct cuda_work){ .kind = WORK_SET, .set = *s };
	return s->elementSize == 1 || s->elementSize == 2 || s->elementSize == 4
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

static CUresult from_host(const CUDA_HOST_NODE_PARAMS *h, struct cuda_work *w)
{
	*w = (struct cuda_work){ .kind = WORK_HOST, .host = *h };
	return h->fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult from_event(CUevent e, enum work_kind kind, struct cuda_work *w)
{
	*w = (struct cuda_work){ .kind = kind };
	w->event.event = (struct sim_cuda_event *)e;
	return obj_is(e, OBJ_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult from_child(CUgraph h, struct cuda_work *w)
{
	CUresult r;

	if (!obj_is(h, OBJ_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	*w = (struct cuda_work){ .kind = WORK_CHILD };
	r = graph_clone((struct graph *)h, &w->child);
	if (r == CUDA_SUCCESS)
		w->child->is_child = true;
	return r;
}

/* --- adds --- */

static CUresult enter_graph_for_add(CUgraph h, bool args_ok)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	return obj_is(h, OBJ_GRAPH) && args_ok ? CUDA_SUCCESS
					       : sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

/* The end of an add: frees the lock. */
static CUresult finish_node_add(CUresult r, CUgraph h, const CUgraphNode *deps, size_t n,
	struct cuda_work *w, CUgraphNode *ret)
{
	struct graph_node *node;

	if (r == CUDA_SUCCESS)
		r = node_add((struct graph *)h, (struct graph_node *const *)deps, n, w, &node);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphNode)node;
	return sim_cuda_leave(r);
}

#define ADD(name, params, args_ok, make)                                   \
	EXPORT CUresult name params                                        \
	{                                                                  \
		struct cuda_work w = { .kind = WORK_EMPTY };               \
		CUresult r = enter_graph_for_add(h, ret && (args_ok));     \
                                                                           \
		return r ? r : finish_node_add(make, h, deps, n, &w, ret); \
	}

ADD(cuGraphAddEmptyNode, (CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n),
	true, CUDA_SUCCESS)
ADD(cuGraphAddKernelNode_v2,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n,
		const CUDA_KERNEL_NODE_PARAMS *p),
	p, from_kernel(p, &w))
ADD(cuGraphAddMemcpyNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n,
		const CUDA_MEMCPY3D *p, CUcontext c),
	p &&c, from_copy(p, &w))
ADD(cuGraphAddMemsetNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n,
		const CUDA_MEMSET_NODE_PARAMS *p, CUcontext c),
	p &&c, from_set(p, &w))
ADD(cuGraphAddHostNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n,
		const CUDA_HOST_NODE_PARAMS *p),
	p, from_host(p, &w))
ADD(cuGraphAddEventRecordNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n, CUevent e), true,
	from_event(e, WORK_RECORD, &w))
ADD(cuGraphAddEventWaitNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n, CUevent e), true,
	from_event(e, WORK_WAIT_EVENT, &w))
ADD(cuGraphAddChildGraphNode,
	(CUgraphNode * ret, CUgraph h, const CUgraphNode *deps, size_t n, CUgraph child), true,
	from_child(child, &w))

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *ret, CUgraph h, const CUgraphNode *deps,
	size_t n, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	wide = convert_kernel_params_v1(p);
	return cuGraphAddKernelNode_v2(ret, h, deps, n, &wide);
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *ret, CUgraph h, const CUgraphNode *deps,
	size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	struct graph_node *node;
	CUresult r = enter_graph_for_add(h, ret && p);

	if (r)
		return r;
	r = node_alloc((struct graph *)h, (struct graph_node *const *)deps, n, p, &node);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphNode)node;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *ret, CUgraph h, const CUgraphNode *deps,
	size_t n, CUdeviceptr p)
{
	struct cuda_work w = { .kind = WORK_FREE, .free = p };
	const struct address_range *range;
	CUresult r = enter_graph_for_add(h, ret != NULL);

	if (r)
		return r;
	range = range_at(p);
	r = range && range->start == p && range->kind == RANGE_GRAPH ? CUDA_SUCCESS
								     : CUDA_ERROR_INVALID_VALUE;
	return finish_node_add(r, h, deps, n, &w, ret);
}

/* Members of the union of cuGraphAddNode(), which differ from the structs above in the fields around them. */
struct copy_params {
	int flags, reserved;
	CUcontext ctx;
	CUDA_MEMCPY3D copy;
};

EXPORT CUresult cuGraphAddNode(CUgraphNode *ret, CUgraph h, const CUgraphNode *deps, size_t n,
	CUgraphNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS kernel;
	CUDA_MEMSET_NODE_PARAMS set;
	CUDA_HOST_NODE_PARAMS host;
	struct copy_params copy;
	CUcontext any = (CUcontext)1; /* ignored */
	void *one;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&one, p->reserved1, sizeof(one));
	switch (p->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		memcpy(&kernel, p->reserved1, sizeof(kernel));
		return cuGraphAddKernelNode_v2(ret, h, deps, n, &kernel);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		memcpy(&copy, p->reserved1, sizeof(copy));
		return cuGraphAddMemcpyNode(ret, h, deps, n, &copy.copy, any);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		memcpy(&set, p->reserved1, sizeof(set));
		return cuGraphAddMemsetNode(ret, h, deps, n, &set, any);
	case CU_GRAPH_NODE_TYPE_HOST:
		memcpy(&host, p->reserved1, sizeof(host));
		return cuGraphAddHostNode(ret, h, deps, n, &host);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return cuGraphAddChildGraphNode(ret, h, deps, n, (CUgraph)one);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return cuGraphAddEmptyNode(ret, h, deps, n);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return cuGraphAddEventWaitNode(ret, h, deps, n, (CUevent)one);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return cuGraphAddEventRecordNode(ret, h, deps, n, (CUevent)one);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return cuGraphAddMemAllocNode(ret, h, deps, n, &p->alloc);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return cuGraphAddMemFreeNode(ret, h, deps, n, p->free.dptr);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *ret, CUgraph h, const CUgraphNode *deps,
	const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p)
{
	(void)data;
	return cuGraphAddNode(ret, h, deps, n, p);
}

/* --- queries --- */

static CUresult enter_node_of_kind(CUgraphNode h, enum work_kind kind, bool args_ok,
	struct graph_node **ret)
{
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	*ret = (struct graph_node *)h;
	return obj_is(h, OBJ_NODE) && (*ret)->work.kind == kind && args_ok
		       ? CUDA_SUCCESS
		       : sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Pointers to each argument; the node owns them. */
static void **params_of(struct graph_node *n)
{
	const struct function *f = n->work.kernel.function;

	if (!n->params && f->param_count)
		n->params = calloc(f->param_count, sizeof(void *));
	for (size_t i = 0; n->params && i < f->param_count; i++)
		n->params[i] = n->work.kernel.args + f->offsets[i];
	return n->params;
}

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode h, CUDA_KERNEL_NODE_PARAMS *ret)
{
	struct graph_node *n;
	CUresult r = enter_node_of_kind(h, WORK_KERNEL, ret != NULL, &n);

	if (r)
		return r;
	*ret = (CUDA_KERNEL_NODE_PARAMS){ .func = (CUfunction)n->work.kernel.function,
		.gridDimX = n->work.kernel.grid[0],
		.gridDimY = n->work.kernel.grid[1],
		.gridDimZ = n->work.kernel.grid[2],
		.blockDimX = n->work.kernel.block[0],
		.blockDimY = n->work.kernel.block[1],
		.blockDimZ = n->work.kernel.block[2],
		.sharedMemBytes = n->work.kernel.shared,
		.kernelParams = params_of(n),
		.ctx = (CUcontext)n->work.kernel.function->module->ctx };
	return sim_cuda_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode h, CUDA_KERNEL_NODE_PARAMS_v1 *ret)
{
	CUDA_KERNEL_NODE_PARAMS wide;
	CUresult r = ret ? cuGraphKernelNodeGetParams_v2(h, &wide) : CUDA_ERROR_INVALID_VALUE;

	if (r == CUDA_SUCCESS)
		memcpy(ret, &wide, sizeof(*ret)); /* a prefix of the newer struct */
	return r;
}

#define GET(name, work_kind, type, expression)                                  \
	EXPORT CUresult name(CUgraphNode h, type *ret)                          \
	{                                                                       \
		struct graph_node *n;                                           \
		CUresult r = enter_node_of_kind(h, work_kind, ret != NULL, &n); \
                                                                                \
		if (r)                                                          \
			return r;                                               \
		*ret = (expression);                                            \
		return sim_cuda_leave(CUDA_SUCCESS);                            \
	}

GET(cuGraphMemcpyNodeGetParams, WORK_COPY, CUDA_MEMCPY3D, n->work.copy)
GET(cuGraphMemsetNodeGetParams, WORK_SET, CUDA_MEMSET_NODE_PARAMS, n->work.set)
GET(cuGraphHostNodeGetParams, WORK_HOST, CUDA_HOST_NODE_PARAMS, n->work.host)
GET(cuGraphChildGraphNodeGetGraph, WORK_CHILD, CUgraph, (CUgraph)n->work.child)
GET(cuGraphEventRecordNodeGetEvent, WORK_RECORD, CUevent, (CUevent)n->work.event.event)
GET(cuGraphEventWaitNodeGetEvent, WORK_WAIT_EVENT, CUevent, (CUevent)n->work.event.event)
GET(cuGraphMemAllocNodeGetParams, WORK_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS, n->work.alloc)
GET(cuGraphMemFreeNodeGetParams, WORK_FREE, CUdeviceptr, n->work.free)

/* Changes of a node, and of its work in an exec. */

static CUresult finish_node_set(CUresult r, struct graph_node *n, struct cuda_work *w)
{
	if (r == CUDA_SUCCESS)
		node_set(n, w);
	else
		work_clear(w);
	return sim_cuda_leave(r);
}

static CUresult enter_exec(CUgraphExec h, CUgraphNode node, enum work_kind kind, bool args_ok,
	struct entry_of_exec **ret)
{
	struct exec *e = (struct exec *)h;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	for (size_t i = 0; obj_is(h, OBJ_EXEC) && args_ok && i < e->count; i++)
		if (e->entries[i].node == (struct graph_node *)node &&
			e->entries[i].work.kind == kind) {
			*ret = &e->entries[i];
			return CUDA_SUCCESS;
		}
	return sim_cuda_leave(CUDA_ERROR_INVALID_VALUE);
}

static CUresult set_exec(CUresult r, struct entry_of_exec *e, struct cuda_work *w)
{
	if (r == CUDA_SUCCESS) {
		work_clear(&e->work);
		e->work = *w;
	} else {
		work_clear(w);
	}
	return sim_cuda_leave(r);
}

#define SET(name, exec_name, work_kind, node_params, exec_params, args_ok, make) \
	EXPORT CUresult name node_params                                         \
	{                                                                        \
		struct cuda_work w = { .kind = WORK_EMPTY };                     \
		struct graph_node *n;                                            \
		CUresult r = enter_node_of_kind(h, work_kind, args_ok, &n);      \
                                                                                 \
		return r ? r : finish_node_set(make, n, &w);                     \
	}                                                                        \
	EXPORT CUresult exec_name exec_params                                    \
	{                                                                        \
		struct cuda_work w = { .kind = WORK_EMPTY };                     \
		struct entry_of_exec *e = NULL;                                  \
		CUresult r = enter_exec(x, h, work_kind, args_ok, &e);           \
                                                                                 \
		return r ? r : set_exec(make, e, &w);                            \
	}

SET(cuGraphKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams_v2, WORK_KERNEL,
	(CUgraphNode h, const CUDA_KERNEL_NODE_PARAMS *p),
	(CUgraphExec x, CUgraphNode h, const CUDA_KERNEL_NODE_PARAMS *p), p, from_kernel(p, &w))
SET(cuGraphMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, WORK_COPY,
	(CUgraphNode h, const CUDA_MEMCPY3D *p),
	(CUgraphExec x, CUgraphNode h, const CUDA_MEMCPY3D *p,
		CUcontext c __attribute__((unused))),
	p, from_copy(p, &w))
SET(cuGraphMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, WORK_SET,
	(CUgraphNode h, const CUDA_MEMSET_NODE_PARAMS *p),
	(CUgraphExec x, CUgraphNode h, const CUDA_MEMSET_NODE_PARAMS *p,
		CUcontext c __attribute__((unused))),
	p, from_set(p, &w))
SET(cuGraphHostNodeSetParams, cuGraphExecHostNodeSetParams, WORK_HOST,
	(CUgraphNode h, const CUDA_HOST_NODE_PARAMS *p),
	(CUgraphExec x, CUgraphNode h, const CUDA_HOST_NODE_PARAMS *p), p, from_host(p, &w))
SET(cuGraphEventRecordNodeSetEvent, cuGraphExecEventRecordNodeSetEvent, WORK_RECORD,
	(CUgraphNode h, CUevent ev), (CUgraphExec x, CUgraphNode h, CUevent ev), true,
	from_event(ev, WORK_RECORD, &w))
SET(cuGraphEventWaitNodeSetEvent, cuGraphExecEventWaitNodeSetEvent, WORK_WAIT_EVENT,
	(CUgraphNode h, CUevent ev), (CUgraphExec x, CUgraphNode h, CUevent ev), true,
	from_event(ev, WORK_WAIT_EVENT, &w))

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode h, const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	wide = convert_kernel_params_v1(p);
	return cuGraphKernelNodeSetParams_v2(h, &wide);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec x, CUgraphNode h,
	const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	CUDA_KERNEL_NODE_PARAMS wide;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	wide = convert_kernel_params_v1(p);
	return cuGraphExecKernelNodeSetParams_v2(x, h, &wide);
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode h, CUgraphNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS kernel;

	if (!p || p->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	memcpy(&kernel, p->reserved1, sizeof(kernel));
	return cuGraphKernelNodeSetParams_v2(h, &kernel);
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec x, CUgraphNode h, CUgraphNodeParams *p)
{
	CUDA_KERNEL_NODE_PARAMS kernel;

	if (!p || p->type != CU_GRAPH_NODE_TYPE_KERNEL)
		return p ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	memcpy(&kernel, p->reserved1, sizeof(kernel));
	return cuGraphExecKernelNodeSetParams_v2(x, h, &kernel);
}

static CUresult find_any(CUgraphExec x, CUgraphNode h, struct entry_of_exec **ret)
{
	struct exec *e = (struct exec *)x;

	for (size_t i = 0; obj_is(x, OBJ_EXEC) && i < e->count; i++)
		if (e->entries[i].node == (struct graph_node *)h) {
			*ret = &e->entries[i];
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec x, CUgraphNode h, unsigned int enabled)
{
	struct entry_of_exec *e;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = find_any(x, h, &e);
	if (r == CUDA_SUCCESS && e->work.kind != WORK_KERNEL && e->work.kind != WORK_COPY &&
		e->work.kind != WORK_SET)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		e->enabled = enabled;
	return sim_cuda_leave(r);
}

EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec x, CUgraphNode h, unsigned int *ret)
{
	struct entry_of_exec *e;
	CUresult r = sim_cuda_enter();

	if (r)
		return r;
	r = ret ? find_any(x, h, &e) : CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		*ret = e->enabled;
	return sim_cuda_leave(r);
}
