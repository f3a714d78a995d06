/* SPDX-License-Identifier: Apache-2.0 */
#include "sim-cuda-fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static CUfunction spin, fill32, add32;

static int setup(void **state)
{
	CUmodule m;
	char *text;

	(void)state;
	sim_cuda_begin("p5.48xlarge");
	(void)sim_cuda_context();
	text = sim_cuda_kernels();
	assert_cuda(cuModuleLoadData(&m, text));
	assert_cuda(cuModuleGetFunction(&spin, m, "spin"));
	assert_cuda(cuModuleGetFunction(&fill32, m, "fill32"));
	assert_cuda(cuModuleGetFunction(&add32, m, "add32"));
	free(text);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	test_rmdir(sim_cuda_dir);
	return 0;
}

static CUresult run_spin(CUstream s, uint64_t ns)
{
	return cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, s, (void *[]){ &ns }, NULL);
}

static CUresult run_words(CUfunction f, CUstream s, CUdeviceptr p, uint64_t count, uint32_t v)
{
	return cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, s, (void *[]){ &p, &count, &v }, NULL);
}

static uint32_t read_graph_word(CUdeviceptr p)
{
	uint32_t v = 0;

	assert_cuda(cuMemcpyDtoH_v2(&v, p, sizeof(v)));
	return v;
}

static void modules__report_their_content(void **state)
{
	CUdeviceptr p;
	CUmodule m;
	CUfunction f;
	CUlibrary l;
	CUkernel k;
	size_t bytes, offset, size;
	unsigned n;
	char *text = sim_cuda_kernels();

	(void)state;
	assert_cuda_is(cuModuleLoadData(&m, "nonsense"), CUDA_ERROR_INVALID_IMAGE);
	assert_cuda_is(cuModuleLoadData(&m, ".version 99.0\n"),
		CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
	assert_cuda_is(
		cuModuleLoadData(&m, ".version 6.3\n.target sm_70\n.address_size 64\nfoo"),
		CUDA_ERROR_INVALID_PTX);
	assert_cuda_is(cuModuleLoad(&m, "/does/not/exist"), CUDA_ERROR_FILE_NOT_FOUND);
	assert_cuda(cuModuleLoadData(&m, text));
	assert_cuda(cuModuleGetGlobal_v2(&p, &bytes, m, "scratch"));
	assert_int_equal(bytes, 64);
	assert_cuda_is(cuModuleGetFunction(&f, m, "absent"), CUDA_ERROR_NOT_FOUND);
	assert_cuda(cuModuleGetFunctionCount(&n, m));
	assert_int_equal(n, 8);
	assert_cuda(cuModuleGetFunction(&f, m, "fill32"));
	assert_cuda(cuFuncGetParamInfo(f, 2, &offset, &size));
	assert_int_equal(offset, 16);
	assert_int_equal(size, 4);
	assert_cuda_is(cuFuncGetParamInfo(f, 3, &offset, &size), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuModuleUnload(m));
	assert_cuda(cuLibraryLoadData(&l, text, NULL, NULL, 0, NULL, NULL, 0));
	assert_cuda(cuLibraryGetKernel(&k, l, "nop"));
	assert_cuda(
		cuLaunchKernel((CUfunction)(void *)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	assert_cuda(cuCtxSynchronize());
	assert_cuda(cuLibraryUnload(l));
	free(text);
}

static void streams__keep_order_and_events_time(void **state)
{
	CUdeviceptr p;
	CUstream a, b;
	CUevent from, to;
	float ms = 0;

	(void)state;
	assert_cuda(cuMemAlloc_v2(&p, 4096));
	assert_cuda(cuStreamCreate(&a, 1));
	assert_cuda(cuStreamCreate(&b, 1));
	assert_cuda(cuEventCreate(&from, 0));
	assert_cuda(cuEventCreate(&to, 0));
	assert_cuda_is(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_INVALID_HANDLE);
	assert_cuda(cuEventRecord(from, a));
	assert_cuda(run_spin(a, 20000000));
	assert_cuda(run_words(fill32, a, p, 1024, 5));
	assert_cuda(cuEventRecord(to, a));
	assert_cuda(cuStreamWaitEvent(b, to, 0));
	assert_cuda(run_words(add32, b, p, 1024, 2));
	assert_cuda_is(cuEventQuery(to), CUDA_ERROR_NOT_READY);
	assert_cuda_is(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	assert_cuda_is(cuEventElapsedTime(&ms, from, to), CUDA_ERROR_NOT_READY);
	assert_cuda(cuStreamSynchronize(b));
	assert_cuda(cuEventQuery(to));
	assert_int_equal(read_graph_word(p), 7);
	assert_int_equal(read_graph_word(p + 4092), 7);
	assert_cuda(cuEventElapsedTime(&ms, from, to));
	assert_true(ms >= 20 && ms < 2000);
	assert_cuda(cuEventDestroy_v2(from));
	assert_cuda(cuEventDestroy_v2(to));
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuStreamDestroy_v2(b));
	assert_cuda(cuMemFree_v2(p));
}

static void default_stream__waits_for_blocking_ones(void **state)
{
	CUdeviceptr p;
	CUstream blocking;

	(void)state;
	assert_cuda(cuMemAlloc_v2(&p, 4096));
	assert_cuda(cuStreamCreate(&blocking, 0));
	assert_cuda(run_spin(blocking, 10000000));
	assert_cuda(run_words(fill32, blocking, p, 16, 1));
	assert_cuda(run_words(add32, NULL, p, 16, 1));
	assert_cuda(run_words(add32, blocking, p, 16, 1));
	assert_cuda(cuStreamSynchronize(blocking));
	assert_int_equal(read_graph_word(p), 3);
	assert_cuda(cuStreamDestroy_v2(blocking));
	assert_cuda(cuMemFree_v2(p));
}

static void count_callback(void *data)
{
	atomic_fetch_add((atomic_int *)data, 1);
}

static void callbacks_and_values__run_in_stream_order(void **state)
{
	atomic_int calls = 0;
	CUdeviceptr p;
	CUstream s;

	(void)state;
	assert_cuda(cuMemAlloc_v2(&p, 4096));
	assert_cuda(cuMemsetD32_v2(p, 0, 4));
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuStreamWaitValue32_v2(s, p, 1, 1));
	assert_cuda(cuLaunchHostFunc(s, count_callback, &calls));
	assert_cuda(cuStreamWriteValue64_v2(s, p + 8, 77, 0));
	(void)usleep(20000);
	assert_int_equal(atomic_load(&calls), 0);
	assert_cuda_is(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
	assert_cuda(cuStreamWriteValue32_v2(NULL, p, 1, 0));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(atomic_load(&calls), 1);
	assert_int_equal(read_graph_word(p + 8), 77);
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuMemFree_v2(p));
}

static void capture__builds_a_graph_of_the_work_of_streams(void **state)
{
	CUstream a, b;
	CUevent fork_at, join_at;
	CUdeviceptr p;
	CUgraph g;
	CUgraphExec x;
	unsigned status;
	size_t n = 0;

	(void)state;
	assert_cuda(cuMemAlloc_v2(&p, 4096));
	assert_cuda(cuStreamCreate(&a, 1));
	assert_cuda(cuStreamCreate(&b, 1));
	assert_cuda(cuEventCreate(&fork_at, 2));
	assert_cuda(cuEventCreate(&join_at, 2));
	assert_cuda(cuStreamBeginCapture_v2(a, 0));
	assert_cuda_is(cuStreamBeginCapture_v2(a, 0), CUDA_ERROR_ILLEGAL_STATE);
	assert_cuda(cuMemsetD32Async(p, 1, 8, a));
	assert_cuda(cuEventRecord(fork_at, a));
	assert_cuda(cuStreamWaitEvent(b, fork_at, 0));
	assert_cuda(run_words(add32, b, p, 8, 1));
	assert_cuda(cuEventRecord(join_at, b));
	assert_cuda(cuStreamWaitEvent(a, join_at, 0));
	assert_cuda(run_words(add32, a, p, 8, 1));
	assert_cuda(cuStreamIsCapturing(b, &status));
	assert_int_equal(status, 1);
	assert_cuda(cuStreamEndCapture(a, &g));
	assert_cuda(cuStreamIsCapturing(b, &status));
	assert_int_equal(status, 0);
	assert_cuda(cuGraphGetNodes(g, NULL, &n));
	assert_int_equal(n, 3);
	assert_cuda(cuGraphInstantiateWithFlags(&x, g, 0));
	assert_cuda(cuGraphDestroy(g));
	for (int i = 0; i < 3; i++)
		assert_cuda(cuGraphLaunch(x, a));
	assert_cuda(cuStreamSynchronize(a));
	assert_int_equal(read_graph_word(p), 3);
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuEventDestroy_v2(fork_at));
	assert_cuda(cuEventDestroy_v2(join_at));
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuStreamDestroy_v2(b));
	assert_cuda(cuMemFree_v2(p));
}

static void capture__is_invalidated_by_forbidden_calls(void **state)
{
	unsigned mode = 2, status;
	CUstream s, other;
	CUevent outside, inside;
	CUdeviceptr p;
	CUgraph g;

	(void)state;
	assert_cuda(cuStreamCreate(&s, 0));
	assert_cuda(cuStreamCreate(&other, 0));
	assert_cuda(cuEventCreate(&outside, 2));
	assert_cuda(cuEventCreate(&inside, 2));
	assert_cuda(cuEventRecord(outside, other));
	assert_cuda_is(cuStreamBeginCapture_v2(NULL, 0), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda_is(cuMemAlloc_v2(&p, 10), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_cuda(cuStreamIsCapturing(s, &status));
	assert_int_equal(status, 2);
	assert_cuda_is(run_spin(s, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(g);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda_is(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda_is(run_spin(NULL, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda_is(cuStreamWaitEvent(s, outside, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(run_spin(s, 1));
	assert_cuda(cuEventRecord(inside, s));
	assert_cuda_is(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(run_spin(s, 1));
	assert_cuda(cuEventRecord(inside, s));
	assert_cuda(cuStreamWaitEvent(other, inside, 0));
	assert_cuda(run_spin(other, 1));
	assert_cuda_is(cuStreamEndCapture(other, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(run_spin(s, 1));
	assert_cuda(cuEventRecord(inside, s));
	assert_cuda(cuStreamWaitEvent(other, inside, 0));
	assert_cuda(run_spin(other, 1));
	assert_cuda_is(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

	/* A relaxed thread may do all. */
	assert_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, 0);
	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(cuMemAlloc_v2(&p, 10));
	assert_cuda(cuStreamEndCapture(s, &g));
	assert_cuda(cuGraphDestroy(g));
	assert_cuda(cuThreadExchangeStreamCaptureMode(&mode));
	assert_cuda(cuMemFree_v2(p));
	assert_cuda(cuEventDestroy_v2(inside));
	assert_cuda(cuEventDestroy_v2(outside));
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuStreamDestroy_v2(other));
}

static void capture__into_a_graph_accepts_only_its_own_nodes(void **state)
{
	CUgraphNode mine, foreign, none = NULL;
	CUgraph g, other, back;
	CUstream s;
	size_t n = 0;

	(void)state;
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuGraphCreate(&g, 0));
	assert_cuda(cuGraphCreate(&other, 0));
	assert_cuda(cuGraphAddEmptyNode(&mine, g, NULL, 0));
	assert_cuda(cuGraphAddEmptyNode(&foreign, other, NULL, 0));
	assert_cuda_is(cuStreamBeginCaptureToGraph(s, g, &none, NULL, 1, 0),
		CUDA_ERROR_INVALID_VALUE);
	assert_cuda_is(cuStreamBeginCaptureToGraph(s, g, &foreign, NULL, 1, 0),
		CUDA_ERROR_INVALID_VALUE);
	assert_cuda_is(cuStreamEndCapture(s, &back), CUDA_ERROR_ILLEGAL_STATE);
	assert_cuda(cuStreamBeginCaptureToGraph(s, g, &mine, NULL, 1, 0));
	assert_cuda(run_spin(s, 1));
	assert_cuda(cuStreamEndCapture(s, &back));
	assert_ptr_equal(back, g);
	assert_cuda(cuGraphGetEdges(g, NULL, NULL, &n));
	assert_int_equal(n, 1);
	assert_cuda_is(cuGraphRemoveDependencies(other, &mine, &mine, 1),
		CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuGraphDestroy(other));
	assert_cuda(cuGraphDestroy(g));
	assert_cuda(cuStreamDestroy_v2(s));
}

static void occupancy__is_zero_for_blocks_that_do_not_fit(void **state)
{
	size_t bytes = 1;
	int n = -1;

	(void)state;
	assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 1024, 0));
	assert_int_equal(n, 2);
	assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 32, 100 * 1024));
	assert_int_equal(n, 2);
	/* What fits into no int, and what would make a divisor of 0. */
	assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 32, SIZE_MAX - 1023));
	assert_int_equal(n, 0);
	assert_cuda(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, spin, 2, 32));
	assert_int_equal(bytes, 233472 / 2 - 1024);
	assert_cuda(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, spin, 1000, 32));
	assert_int_equal(bytes, 0);
}

static uint64_t graph_memory(unsigned attribute)
{
	uint64_t v = 0;

	assert_cuda(cuDeviceGetGraphMemAttribute(0, attribute, &v));
	return v;
}

static void graphs__allocate_memory_when_launched_and_keep_it(void **state)
{
	CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
		.poolProps = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } },
		.bytesize = 40 * MIB
	};
	CUDA_MEMSET_NODE_PARAMS set = { .value = 3,
		.elementSize = 4,
		.width = 10,
		.height = 1 };
	CUgraphNode nodes[3];
	CUgraphExec x, y;
	CUcontext c;
	CUstream s;
	CUgraph g;
	uint64_t before = sim_cuda_free();

	(void)state;
	assert_cuda(cuCtxGetCurrent(&c));
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuGraphCreate(&g, 0));
	assert_cuda(cuGraphAddMemAllocNode(&nodes[0], g, NULL, 0, &alloc));
	set.dst = alloc.dptr;
	assert_cuda(cuGraphAddMemsetNode(&nodes[1], g, &nodes[0], 1, &set, c));
	assert_cuda(cuGraphInstantiateWithFlags(&x, g, 0));
	assert_cuda_is(cuGraphInstantiateWithFlags(&y, g, 0), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda(cuGraphUpload(x, s));
	assert_int_equal(sim_cuda_free(), before - 64 * MIB);
	assert_cuda(cuGraphLaunch(x, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(sim_cuda_free(), before - 64 * MIB);
	assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 64 * MIB);
	assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	assert_int_equal(read_graph_word(alloc.dptr + 36), 3);
	/* The memory that the graph allocated is still there. */
	assert_cuda_is(cuGraphLaunch(x, s), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemFreeAsync(alloc.dptr, s));
	assert_cuda(cuGraphLaunch(x, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_cuda(cuMemFree_v2(alloc.dptr));
	assert_int_equal(graph_memory(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 64 * MIB);
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuGraphDestroy(g));
	assert_int_equal(sim_cuda_free(), before - 64 * MIB);
	assert_cuda(cuDeviceGraphMemTrim(0));
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda(cuStreamDestroy_v2(s));
}

static void capture__of_pool_calls_adds_memory_nodes(void **state)
{
	CUdeviceptr p;
	CUgraphExec x;
	CUgraph g;
	CUstream s;
	uint64_t before = sim_cuda_free();
	char out[8] = "";

	(void)state;
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(cuMemAllocAsync(&p, 1000, s));
	assert_cuda(cuMemsetD8Async(p, 'x', 7, s));
	assert_cuda(cuMemcpyDtoHAsync_v2(out, p, 7, s));
	assert_cuda(cuMemFreeAsync(p, s));
	assert_cuda(cuStreamEndCapture(s, &g));
	assert_cuda(cuGraphInstantiateWithFlags(&x, g, 0));
	for (int i = 0; i < 5; i++)
		assert_cuda(cuGraphLaunch(x, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_string_equal(out, "xxxxxxx");
	assert_int_equal(sim_cuda_free(), before - 32 * MIB);
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuGraphDestroy(g));
	assert_cuda(cuDeviceGraphMemTrim(0));
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda(cuStreamDestroy_v2(s));
}

static void graphs__can_be_cloned_nested_and_updated(void **state)
{
	CUDA_KERNEL_NODE_PARAMS k = { .func = add32,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1 };
	CUgraph inner, outer, clone;
	CUgraphNode node, child, found;
	CUgraphExec x;
	uint64_t count = 4;
	uint32_t delta = 1;
	CUdeviceptr p;
	unsigned type;

	(void)state;
	assert_cuda(cuMemAlloc_v2(&p, 4096));
	assert_cuda(cuMemsetD32_v2(p, 0, 16));
	k.kernelParams = (void *[]){ &p, &count, &delta };
	assert_cuda(cuGraphCreate(&inner, 0));
	assert_cuda(cuGraphAddKernelNode_v2(&node, inner, NULL, 0, &k));
	assert_cuda(cuGraphCreate(&outer, 0));
	assert_cuda(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
	assert_cuda(cuGraphNodeGetType(child, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
	assert_cuda(cuGraphClone(&clone, inner));
	assert_cuda(cuGraphNodeFindInClone(&found, node, clone));
	assert_cuda(cuGraphDestroy(inner));
	assert_cuda(cuGraphInstantiateWithFlags(&x, outer, 0));
	assert_cuda(cuGraphLaunch(x, NULL));
	assert_int_equal(read_graph_word(p), 1);
	delta = 10;
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuGraphInstantiateWithFlags(&x, clone, 0));
	assert_cuda(cuGraphExecKernelNodeSetParams_v2(x, found, &k));
	assert_cuda(cuGraphLaunch(x, NULL));
	assert_int_equal(read_graph_word(p), 11);
	assert_cuda(cuGraphNodeSetEnabled(x, found, 0));
	assert_cuda(cuGraphLaunch(x, NULL));
	assert_int_equal(read_graph_word(p), 11);
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuGraphDestroy(outer));
	assert_cuda(cuGraphDestroy(clone));
	assert_cuda(cuMemFree_v2(p));
}

static void *run_graph_worker(void *arg)
{
	CUcontext c = arg;
	CUstream s;

	if (cuCtxSetCurrent(c) || cuStreamCreate(&s, 1))
		return arg;
	for (uint32_t i = 0; i < 50; i++) {
		uint32_t v = 0;
		CUdeviceptr p, q;

		if (cuMemAlloc_v2(&p, 3000 * (i + 1)) || cuMemAllocAsync(&q, 100, s) ||
			run_words(fill32, s, p, 700, i) || cuMemcpyDtoDAsync_v2(q, p, 100, s) ||
			cuMemcpyDtoHAsync_v2(&v, q, 4, s) || cuMemFreeAsync(q, s) ||
			cuStreamSynchronize(s) || v != i || cuMemFree_v2(p))
			return arg;
	}
	return cuStreamDestroy_v2(s) ? arg : NULL;
}

static void threads__do_not_disturb_each_other(void **state)
{
	pthread_t t[6];
	CUcontext c;
	uint64_t before = sim_cuda_free();

	(void)state;
	assert_cuda(cuCtxGetCurrent(&c));
	for (size_t i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&t[i], NULL, run_graph_worker, c), 0);
	for (size_t i = 0; i < 6; i++) {
		void *failed = c;

		assert_int_equal(pthread_join(t[i], &failed), 0);
		assert_null(failed);
	}
	/* A real driver keeps some for streams. */
	assert_true(sim_cuda_free() + 8 * MIB > before);
}

static void kernels__that_write_to_invalid_addresses_end_the_context(void **state)
{
	CUdeviceptr p;

	(void)state;
	assert_cuda(run_words(fill32, NULL, 0x1000, 16, 1));
	assert_cuda_is(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_cuda_is(cuMemAlloc_v2(&p, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(modules__report_their_content),
		cmocka_unit_test(streams__keep_order_and_events_time),
		cmocka_unit_test(default_stream__waits_for_blocking_ones),
		cmocka_unit_test(callbacks_and_values__run_in_stream_order),
		cmocka_unit_test(capture__builds_a_graph_of_the_work_of_streams),
		cmocka_unit_test(capture__is_invalidated_by_forbidden_calls),
		cmocka_unit_test(capture__into_a_graph_accepts_only_its_own_nodes),
		cmocka_unit_test(occupancy__is_zero_for_blocks_that_do_not_fit),
		cmocka_unit_test(graphs__allocate_memory_when_launched_and_keep_it),
		cmocka_unit_test(capture__of_pool_calls_adds_memory_nodes),
		cmocka_unit_test(graphs__can_be_cloned_nested_and_updated),
		cmocka_unit_test(threads__do_not_disturb_each_other),
		cmocka_unit_test(kernels__that_write_to_invalid_addresses_end_the_context),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
