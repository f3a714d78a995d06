/* SPDX-License-Identifier: Apache-2.0 */

/* Work that is neither a launch nor a copy: events, host functions, values in memory, memory in order. */
#include "cuda/mix/mix.h"

#include <string.h>

#define PINNED_WORD 0 /* of the pinned buffer */

static void count_host_call(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

static void called_back(CUstream s, CUresult r, void *arg)
{
	(void)s;
	if (r == CUDA_SUCCESS)
		atomic_fetch_add((atomic_uint *)arg, 1);
}

static CUevent new_event(unsigned int flags)
{
	CUevent e;

	must(cu.cuEventCreate(&e, flags), "cuEventCreate");
	return e;
}

static void step_in(struct mix *m, CUstream s, struct mix_span span)
{
	struct mix_launch l;

	mix_launch_init(m, &l, span);
	must(cu.cuLaunchKernel(m->step, 2, 1, 1, MIX_BLOCK, 1, 1, 0, s, l.params, NULL),
		"cuLaunchKernel");
	mix_stepped(m, span, l.c);
}

/* There and back between two streams, ordered by events alone. */
static bool order_by_events(struct mix *m)
{
	struct mix_span s = mix_span(m);
	CUevent e[4];
	float ms = -1;

	for (int i = 0; i < 4; i++)
		e[i] = new_event(i < 2 ? EVENT_NO_TIME : 0);
	must(cu.cuEventRecord(e[2], m->stream), "cuEventRecord");
	for (int i = 0; i < 5; i++) {
		step_in(m, m->stream, s);
		must(cu.cuEventRecord(e[0], m->stream), "cuEventRecord");
		must(cu.cuStreamWaitEvent(m->second, e[0], 0), "cuStreamWaitEvent");
		step_in(m, m->second, s);
		must(cu.cuEventRecord(e[1], m->second), "cuEventRecord");
		must(cu.cuStreamWaitEvent(m->stream, e[1], 0), "cuStreamWaitEvent");
	}
	must(cu.cuEventRecordWithFlags(e[3], m->stream, 0), "cuEventRecordWithFlags");
	must(cu.cuEventSynchronize(e[3]), "cuEventSynchronize");
	must(cu.cuEventQuery(e[0]), "cuEventQuery of what has passed");
	must(cu.cuEventElapsedTime(&ms, e[2], e[3]), "cuEventElapsedTime");
	if (!(ms >= 0))
		mix_fail(m, "%f ms between two events", (double)ms);
	for (int i = 0; i < 4; i++)
		must(cu.cuEventDestroy_v2(e[i]), "cuEventDestroy_v2");
	return true;
}

/* An event of the whole context is past only when our streams are. */
static bool context_events(struct mix *m)
{
	struct mix_span s = { .buffer = MIX_X, .count = MIX_WORDS };
	CUevent all = new_event(EVENT_NO_TIME);
	CUresult r;

	MIX_NEED(cuCtxRecordEvent);
	mix_settle(m); /* the second stream does not wait for the first */
	step_in(m, m->stream, s);
	s.buffer = MIX_Y;
	step_in(m, m->second, s);
	MIX_TRY(cu.cuCtxRecordEvent(m->context, all));
	while ((r = cu.cuEventQuery(all)) == CUDA_ERROR_NOT_READY)
		sleep_us(20);
	must(r, "cuEventQuery");
	must(cu.cuStreamQuery(m->stream), "cuStreamQuery of what has passed");
	must(cu.cuStreamQuery(m->second), "cuStreamQuery of what has passed");
	must(cu.cuEventDestroy_v2(all), "cuEventDestroy_v2");
	return true;
}

static bool host_functions(struct mix *m)
{
	struct mix_span s = mix_span(m);

	MIX_TRY(cu.cuLaunchHostFunc(m->stream, count_host_call, &m->host_calls));
	step_in(m, m->stream, s);
	MIX_TRY(cu.cuLaunchHostFunc_ptsz(m->stream, count_host_call, &m->host_calls));
	MIX_TRY(cu.cuStreamAddCallback(m->stream, called_back, &m->host_calls, 0));
	step_in(m, m->stream, s);
	m->host_expected += 3;
	return true;
}

/* The device waits for what it has itself written before. */
static bool wait_for_values(struct mix *m)
{
	struct mix_span s = { .buffer = mix_random(m, MIX_BUFFERS), .count = 64 };
	uint32_t v = 1 + mix_random(m, 1000);
	CUdeviceptr at = mix_at(m, s);

	MIX_NEED(cuStreamWriteValue32_v2);
	MIX_TRY(cu.cuStreamWriteValue32_v2(m->stream, at, v, 0));
	MIX_TRY(cu.cuStreamWaitValue32_v2(m->stream, at, v, 1));
	MIX_TRY(cu.cuStreamWriteValue64_v2(m->stream, at + 8, (uint64_t)v << 32 | 5, 0));
	MIX_TRY(cu.cuStreamWaitValue64_v2(m->stream, at + 8, 5, 0));
	m->shadow[s.buffer][0] = v;
	m->shadow[s.buffer][2] = 5;
	m->shadow[s.buffer][3] = v;
	step_in(m, m->stream, s);
	return true;
}

static bool batched_values(struct mix *m)
{
	struct mix_span s = { .buffer = mix_random(m, MIX_BUFFERS), .count = 64 };
	CUstreamBatchMemOpParams ops[3] = { { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32 },
		{ .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32 },
		{ .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64 } };
	uint32_t v = 1 + mix_random(m, 1000);

	MIX_NEED(cuStreamBatchMemOp_v2);
	ops[0].writeValue.address = ops[1].waitValue.address = mix_at(m, s);
	ops[0].writeValue.value = ops[1].waitValue.value = v;
	ops[1].waitValue.flags = 1;
	ops[2].writeValue.address = mix_at(m, s) + 8;
	ops[2].writeValue.value64 = (uint64_t)v << 32;
	MIX_TRY(cu.cuStreamBatchMemOp_v2(m->stream, 3, ops, 0));
	m->shadow[s.buffer][0] = v;
	m->shadow[s.buffer][2] = 0;
	m->shadow[s.buffer][3] = v;
	step_in(m, m->stream, s);
	return true;
}

/* The host lets a stream go that has work behind the wait. */
static bool blocked_by_the_host(struct mix *m)
{
	struct mix_span s = mix_span(m);
	_Atomic uint32_t *word = (_Atomic uint32_t *)(void *)&m->pinned[PINNED_WORD];
	CUdeviceptr at;

	MIX_NEED(cuStreamWaitValue32_v2);
	mix_settle(m);
	atomic_store(word, 0);
	MIX_TRY(cu.cuMemHostGetDevicePointer_v2(&at, m->pinned, 0));
	MIX_TRY(cu.cuStreamWaitValue32_v2(m->stream, at, 1, 1));
	for (int i = 0; i < 10; i++)
		step_in(m, m->stream, s);
	if (cu.cuStreamQuery(m->stream) != CUDA_ERROR_NOT_READY)
		mix_fail(m, "the stream did not wait");
	atomic_store(word, 1);
	mix_settle(m);
	return true;
}

/* Memory that is allocated and freed in the order of the stream. */
static bool memory_in_order(struct mix *m)
{
	struct mix_span s = mix_span(m);
	struct mix_launch l;
	CUdeviceptr p;

	for (int i = 0; i < 5; i++) {
		MIX_TRY(cu.cuMemAllocAsync(&p, MIX_BYTES(s), m->stream));
		must(cu.cuMemcpyDtoDAsync_v2(p, mix_at(m, s), MIX_BYTES(s), m->stream), "copy");
		mix_launch_init(m, &l, s);
		l.p = p;
		must(cu.cuLaunchKernel(m->step, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream,
			     l.params, NULL),
			"cuLaunchKernel");
		mix_stepped(m, s, l.c);
		must(cu.cuMemcpyDtoDAsync_v2(mix_at(m, s), p, MIX_BYTES(s), m->stream), "copy");
		must(cu.cuMemFreeAsync(p, m->stream), "cuMemFreeAsync");
	}
	return true;
}

static bool use_managed_memory(struct mix *m)
{
	struct mix_span s = mix_span(m);
	CUmemLocation here = { CU_MEM_LOCATION_TYPE_DEVICE, m->device };
	size_t bytes = MIX_BYTES(s);
	struct mix_launch l;
	CUdeviceptr p;

	MIX_TRY(cu.cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL));
	if (cu.cuMemPrefetchAsync_v2)
		(void)cu.cuMemPrefetchAsync_v2(p, bytes, here, 0, m->stream);
	must(cu.cuMemcpyDtoDAsync_v2(p, mix_at(m, s), bytes, m->stream), "copy");
	mix_launch_init(m, &l, s);
	l.p = p;
	must(cu.cuLaunchKernel(m->step, 1, 1, 1, MIX_BLOCK, 1, 1, 0, m->stream, l.params, NULL),
		"cuLaunchKernel");
	mix_stepped(m, s, l.c);
	must(cu.cuMemcpyDtoDAsync_v2(mix_at(m, s), p, bytes, m->stream), "copy");
	mix_settle(m);
	must(cu.cuMemFree_v2(p), "cuMemFree_v2");
	return true;
}

/* A context comes, works and goes, and another device's works too. */
static bool other_context(struct mix *m, CUcontext context, bool keep)
{
	uint32_t *host = m->pageable;
	uint64_t count = 64;
	uint32_t c = mix_random(m, UINT32_MAX);
	CUfunction step;
	CUdeviceptr p;
	CUmodule module;
	CUstream s;

	must(cu.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent_v2");
	must(cu.cuModuleLoadData(&module, kernels()), "cuModuleLoadData");
	must(cu.cuModuleGetFunction(&step, module, "step32"), "step32");
	must(cu.cuMemAlloc_v2(&p, count * 4), "cuMemAlloc_v2");
	must(cu.cuStreamCreate(&s, NON_BLOCKING), "cuStreamCreate");
	must(cu.cuMemsetD32Async(p, 1, count, s), "cuMemsetD32Async");
	must(cu.cuLaunchKernel(step, 1, 1, 1, 64, 1, 1, 0, s, (void *[]){ &p, &count, &c },
		     NULL),
		"cuLaunchKernel");
	must(cu.cuMemcpyDtoHAsync_v2(host, p, count * 4, s), "cuMemcpyDtoHAsync_v2");
	must(cu.cuStreamSynchronize(s), "cuStreamSynchronize");
	for (unsigned int i = 0; i < count; i++)
		if (host[i] != 1664525U + c)
			mix_fail(m, "another context: word %u is %08x", i, host[i]);
	must(cu.cuStreamDestroy_v2(s), "cuStreamDestroy_v2");
	must(cu.cuMemFree_v2(p), "cuMemFree_v2");
	must(cu.cuModuleUnload(module), "cuModuleUnload");
	must(cu.cuCtxPopCurrent_v2(&context), "cuCtxPopCurrent_v2");
	if (!keep)
		must(cu.cuCtxDestroy_v2(context), "cuCtxDestroy_v2");
	return true;
}

static bool new_context(struct mix *m)
{
	CUcontext c;

	MIX_TRY(cu.cuCtxCreate_v2(&c, 0, m->device));
	must(cu.cuCtxPopCurrent_v2(&c), "cuCtxPopCurrent_v2");
	return other_context(m, c, false);
}

static bool second_context(struct mix *m)
{
	return other_context(m, m->other, true);
}

static bool waits(struct mix *m)
{
	struct mix_span s = mix_span(m);

	step_in(m, m->stream, s);
	must(cu.cuStreamSynchronize_ptsz(m->stream), "cuStreamSynchronize_ptsz");
	step_in(m, m->stream, s);
	must(cu.cuCtxSynchronize(), "cuCtxSynchronize");
	must(cu.cuStreamQuery(m->stream), "cuStreamQuery of what has passed");
	return true;
}

const struct mix_step mix_other_steps[] = {
	{ "events", order_by_events },
	{ "events-context", context_events },
	{ "host-functions", host_functions },
	{ "values", wait_for_values },
	{ "values-batch", batched_values },
	{ "values-host", blocked_by_the_host },
	{ "memory-in-order", memory_in_order },
	{ "memory-managed", use_managed_memory },
	{ "context-new", new_context },
	{ "context-second", second_context },
	{ "waits", waits },
	{ NULL, NULL },
};
