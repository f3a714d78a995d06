/* SPDX-License-Identifier: Apache-2.0 */

/* Graphs: captured in each mode while other threads work, made by hand, changed, launched. */
#include "cuda/mix/mix.h"

#include <string.h>

#define MEMORY_DEVICE 2

enum { GLOBAL, THREAD_LOCAL, RELAXED };

static void count_graph_call(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* One kernel, a fill, a copy, a call, and another kernel beside them in a second stream. */
struct recipe {
	struct mix_span one, two;
	struct mix_launch first, beside;
	uint32_t fill;
};

static void write_recipe(struct mix *m, struct recipe *r)
{
	r->one = (struct mix_span){ .buffer = MIX_X, .count = MIX_WORDS };
	r->two = (struct mix_span){ .buffer = MIX_Y, .count = MIX_WORDS / 2 };
	mix_launch_init(m, &r->first, r->one);
	mix_launch_init(m, &r->beside, r->two);
	r->fill = mix_random(m, UINT32_MAX);
}

/* What one launch of it does. */
static void follow_recipe(struct mix *m, const struct recipe *r)
{
	mix_stepped(m, r->one, r->first.c);
	mix_stepped(m, r->two, r->beside.c);
	for (unsigned int i = 0; i < 64; i++)
		m->shadow[MIX_X][i] = r->fill;
	memcpy(m->shadow[MIX_Y] + MIX_WORDS / 2, m->shadow[MIX_X],
		(size_t)MIX_WORDS / 2 * sizeof(uint32_t));
	m->host_expected++;
}

static void submit_recipe(struct mix *m, struct recipe *r, CUstream a, CUstream b, CUevent fork,
	CUevent join)
{
	must(cu.cuEventRecord(fork, a), "cuEventRecord");
	must(cu.cuStreamWaitEvent(b, fork, 0), "cuStreamWaitEvent");
	must(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, a, r->first.params, NULL),
		"cuLaunchKernel");
	must(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, b, r->beside.params, NULL),
		"cuLaunchKernel");
	must(cu.cuMemsetD32Async(m->at[MIX_X], r->fill, 64, a), "cuMemsetD32Async");
	must(cu.cuEventRecord(join, b), "cuEventRecord");
	must(cu.cuStreamWaitEvent(a, join, 0), "cuStreamWaitEvent");
	must(cu.cuMemcpyDtoDAsync_v2(m->at[MIX_Y] + (CUdeviceptr)MIX_WORDS / 2 * 4,
		     m->at[MIX_X], (size_t)MIX_WORDS / 2 * 4, a),
		"cuMemcpyDtoDAsync_v2");
	must(cu.cuLaunchHostFunc(a, count_graph_call, &m->host_calls), "cuLaunchHostFunc");
}

static bool run_capture(struct mix *m, unsigned int mode)
{
	unsigned int launches = 1 + mix_random(m, 3);
	CUevent fork, join;
	struct recipe r;
	CUgraphExec x;
	CUgraph g;

	write_recipe(m, &r);
	must(cu.cuEventCreate(&fork, EVENT_NO_TIME), "cuEventCreate");
	must(cu.cuEventCreate(&join, EVENT_NO_TIME), "cuEventCreate");
	MIX_TRY(cu.cuStreamBeginCapture_v2(m->stream, mode));
	submit_recipe(m, &r, m->stream, m->second, fork, join);
	MIX_TRY(cu.cuStreamEndCapture(m->stream, &g));
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, g, 0));
	for (unsigned int i = 0; i < launches; i++) {
		MIX_TRY(cu.cuGraphLaunch(x, m->stream));
		follow_recipe(m, &r);
	}
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(g));
	must(cu.cuEventDestroy_v2(fork), "cuEventDestroy_v2");
	must(cu.cuEventDestroy_v2(join), "cuEventDestroy_v2");
	return true;
}

static bool run_captured(struct mix *m)
{
	return run_capture(m, GLOBAL);
}

static bool captured_in_thread(struct mix *m)
{
	return run_capture(m, THREAD_LOCAL);
}

static bool captured_relaxed(struct mix *m)
{
	return run_capture(m, RELAXED);
}

/* Work in another stream continues while one captures. */
static bool beside_a_capture(struct mix *m)
{
	struct mix_span s = { .buffer = MIX_Y, .count = MIX_WORDS };
	struct mix_span own = { .buffer = MIX_X, .count = MIX_WORDS };
	struct mix_launch l, in;
	CUgraphExec x;
	CUgraph g;

	mix_settle(m);
	mix_launch_init(m, &l, s);
	mix_launch_init(m, &in, own);
	MIX_TRY(cu.cuStreamBeginCapture_v2(m->stream, RELAXED));
	MIX_TRY(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, in.params,
		NULL));
	MIX_TRY(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, m->second, l.params,
		NULL));
	MIX_TRY(cu.cuStreamEndCapture(m->stream, &g));
	mix_stepped(m, s, l.c);
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, g, 0));
	MIX_TRY(cu.cuGraphLaunch(x, m->stream));
	mix_stepped(m, own, in.c);
	must(cu.cuStreamSynchronize(m->second), "cuStreamSynchronize");
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(g));
	return true;
}

static CUDA_KERNEL_NODE_PARAMS node_of(const struct mix *m, struct mix_launch *l)
{
	return (CUDA_KERNEL_NODE_PARAMS){ .func = m->step,
		.gridDimX = 2,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = MIX_BLOCK,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = l->params };
}

static bool by_hand(struct mix *m)
{
	CUDA_HOST_NODE_PARAMS host = { .fn = count_graph_call, .userData = &m->host_calls };
	CUDA_MEMSET_NODE_PARAMS fill = { .dst = m->at[MIX_X],
		.elementSize = 4,
		.width = 64,
		.height = 1 };
	CUDA_MEMCPY3D copy = { .srcMemoryType = MEMORY_DEVICE,
		.srcDevice = m->at[MIX_X],
		.dstMemoryType = MEMORY_DEVICE,
		.dstDevice = m->at[MIX_Y] + (CUdeviceptr)MIX_WORDS / 2 * 4,
		.WidthInBytes = (size_t)MIX_WORDS / 2 * 4,
		.Height = 1,
		.Depth = 1 };
	CUDA_KERNEL_NODE_PARAMS first, beside;
	CUgraphNode n[6];
	struct recipe r;
	CUgraphExec x;
	CUgraph g;

	MIX_NEED(cuGraphAddKernelNode_v2);
	write_recipe(m, &r);
	first = node_of(m, &r.first);
	beside = node_of(m, &r.beside);
	fill.value = r.fill;
	MIX_TRY(cu.cuGraphCreate(&g, 0));
	MIX_TRY(cu.cuGraphAddEmptyNode(&n[0], g, NULL, 0));
	MIX_TRY(cu.cuGraphAddKernelNode_v2(&n[1], g, &n[0], 1, &first));
	MIX_TRY(cu.cuGraphAddKernelNode_v2(&n[2], g, &n[0], 1, &beside));
	MIX_TRY(cu.cuGraphAddMemsetNode(&n[3], g, &n[1], 1, &fill, m->context));
	MIX_TRY(cu.cuGraphAddMemcpyNode(&n[4], g, &n[2], 2, &copy, m->context));
	MIX_TRY(cu.cuGraphAddHostNode(&n[5], g, &n[4], 1, &host));
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, g, 0));
	MIX_TRY(cu.cuGraphUpload(x, m->stream));
	MIX_TRY(cu.cuGraphLaunch(x, m->stream));
	follow_recipe(m, &r);
	/* The next launches have another argument. */
	r.first.c ^= 0x55;
	MIX_TRY(cu.cuGraphExecKernelNodeSetParams_v2(x, n[1], &first));
	MIX_TRY(cu.cuGraphLaunch(x, m->stream));
	follow_recipe(m, &r);
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(g));
	return true;
}

static bool run_child_graph(struct mix *m)
{
	struct mix_span s = mix_span(m);
	CUDA_KERNEL_NODE_PARAMS p;
	CUgraph outer, inner;
	CUgraphNode n[3];
	struct mix_launch l;
	CUgraphExec x;

	MIX_NEED(cuGraphAddKernelNode_v2);
	mix_launch_init(m, &l, s);
	p = node_of(m, &l);
	MIX_TRY(cu.cuGraphCreate(&inner, 0));
	MIX_TRY(cu.cuGraphAddKernelNode_v2(&n[0], inner, NULL, 0, &p));
	MIX_TRY(cu.cuGraphCreate(&outer, 0));
	MIX_TRY(cu.cuGraphAddChildGraphNode(&n[1], outer, NULL, 0, inner));
	MIX_TRY(cu.cuGraphAddChildGraphNode(&n[2], outer, &n[1], 1, inner));
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, outer, 0));
	MIX_TRY(cu.cuGraphLaunch_ptsz(x, m->stream));
	mix_stepped(m, s, l.c);
	mix_stepped(m, s, l.c);
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(outer));
	MIX_TRY(cu.cuGraphDestroy(inner));
	return true;
}

/* Memory that lives from one node to another. */
static bool with_memory(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;
	CUdeviceptr between;
	CUgraphExec x;
	CUgraph g;

	mix_launch_init(m, &l, s);
	l.p = 0;
	MIX_TRY(cu.cuStreamBeginCapture_v2(m->stream, RELAXED));
	must(cu.cuMemAllocAsync(&between, MIX_BYTES(s), m->stream), "cuMemAllocAsync");
	must(cu.cuMemcpyDtoDAsync_v2(between, mix_at(m, s), MIX_BYTES(s), m->stream), "copy");
	l.p = between;
	must(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, l.params, NULL),
		"cuLaunchKernel");
	must(cu.cuMemcpyDtoDAsync_v2(mix_at(m, s), between, MIX_BYTES(s), m->stream), "copy");
	must(cu.cuMemFreeAsync(between, m->stream), "cuMemFreeAsync");
	MIX_TRY(cu.cuStreamEndCapture(m->stream, &g));
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, g, 0));
	for (int i = 0; i < 2; i++) {
		MIX_TRY(cu.cuGraphLaunch(x, m->stream));
		mix_stepped(m, s, l.c);
	}
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(g));
	return true;
}

/* One graph many times, as a decoder does. */
static bool replay_graph(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l[8];
	CUgraphExec x;
	CUgraph g;

	MIX_TRY(cu.cuStreamBeginCapture_v2(m->stream, THREAD_LOCAL));
	for (int i = 0; i < 8; i++) {
		mix_launch_init(m, &l[i], s);
		must(cu.cuLaunchKernel(m->step, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream,
			     l[i].params, NULL),
			"cuLaunchKernel");
	}
	MIX_TRY(cu.cuStreamEndCapture(m->stream, &g));
	MIX_TRY(cu.cuGraphInstantiateWithFlags(&x, g, 0));
	for (int k = 0; k < 20; k++) {
		MIX_TRY(cu.cuGraphLaunch(x, m->stream));
		for (int i = 0; i < 8; i++)
			mix_stepped(m, s, l[i].c);
	}
	mix_settle(m);
	MIX_TRY(cu.cuGraphExecDestroy(x));
	MIX_TRY(cu.cuGraphDestroy(g));
	return true;
}

const struct mix_step mix_graph_steps[] = {
	{ "graph-captured", run_captured },
	{ "graph-captured-thread", captured_in_thread },
	{ "graph-captured-relaxed", captured_relaxed },
	{ "graph-beside", beside_a_capture },
	{ "graph-by-hand", by_hand },
	{ "graph-child", run_child_graph },
	{ "graph-memory", with_memory },
	{ "graph-replay", replay_graph },
	{ NULL, NULL },
};
