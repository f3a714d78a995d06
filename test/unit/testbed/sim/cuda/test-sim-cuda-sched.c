/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the quanta of slices need of the driver, as an H100 with driver 580.159.04 did it: events of whole
 * contexts, captures beside them, deep queues, operations in batches, calls after exit(). Waits for a value in
 * memory block the streams, so that time does not matter.
 */
#include "sim-cuda-fixture.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_TIMING    2
#define NON_BLOCKING 1
#define DEEP         1021 /* launches behind one that runs */
#define EXIT_ARG     "exits"

static CUcontext primary;
static CUfunction spin, step32, burn, nop;
static CUdeviceptr words; /* [0] is the value that streams wait for */

static int begin(void **state)
{
	char *text = sim_cuda_kernels();
	CUmodule m;

	(void)state;
	sim_cuda_begin("p5.48xlarge");
	primary = sim_cuda_context();
	assert_cuda(cuModuleLoadData(&m, text));
	assert_cuda(cuModuleGetFunction(&spin, m, "spin"));
	assert_cuda(cuModuleGetFunction(&step32, m, "step32"));
	assert_cuda(cuModuleGetFunction(&burn, m, "burn"));
	assert_cuda(cuModuleGetFunction(&nop, m, "nop"));
	assert_cuda(cuMemAlloc_v2(&words, 4096));
	free(text);
	return 0;
}

static int end(void **state)
{
	CUstream s;

	(void)state;
	/* What a failed test left would be waited for. After the last one there is nothing to let go. */
	(void)cuCtxSetCurrent(primary);
	if (cuStreamCreate(&s, NON_BLOCKING) == CUDA_SUCCESS)
		(void)cuStreamWriteValue32_v2(s, words, 1, 0);
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	test_rmdir(sim_cuda_dir);
	return 0;
}

/* Writes the word as another thread would: no stream has to run for it. */
static void set_stream_word(uint32_t value)
{
	CUstream s;

	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	assert_cuda(cuStreamWriteValue32_v2(s, words, value, 0));
	assert_cuda(cuStreamSynchronize(s));
	assert_cuda(cuStreamDestroy_v2(s));
}

static CUstream make_blocked_stream(unsigned flags)
{
	CUstream s;

	set_stream_word(0);
	assert_cuda(cuStreamCreate(&s, flags));
	assert_cuda(cuStreamWaitValue32_v2(s, words, 1, 1));
	return s;
}

static CUevent new_event(unsigned flags)
{
	CUevent e;

	assert_cuda(cuEventCreate(&e, flags));
	return e;
}

static CUresult launch_kernel(CUfunction f, CUstream s, void **args)
{
	return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL);
}

static void context_events__cover_all_streams_and_order_none(void **state)
{
	CUevent all = new_event(NO_TIMING), one = new_event(NO_TIMING);
	CUstream a = make_blocked_stream(NON_BLOCKING), b;

	(void)state;
	assert_cuda(cuStreamCreate(&b, NON_BLOCKING));
	assert_cuda(cuEventQuery(all)); /* never recorded */
	assert_cuda(cuCtxRecordEvent(primary, all));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	/* Another stream continues behind it. */
	assert_cuda(launch_kernel(nop, b, NULL));
	assert_cuda(cuEventRecord(one, b));
	assert_cuda(cuEventSynchronize(one));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	set_stream_word(1);
	assert_cuda(cuEventSynchronize(all));
	assert_cuda(cuStreamQuery(a));
	/* The event is recorded again, with no work to wait for. */
	assert_cuda(cuCtxRecordEvent(primary, all));
	assert_cuda(cuCtxSynchronize());
	assert_cuda(cuEventQuery(all));
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuStreamDestroy_v2(b));
	assert_cuda(cuEventDestroy_v2(all));
	assert_cuda(cuEventDestroy_v2(one));
}

/* Work that is in no stream of the program any more, the default stream's, and a copy. */
static void context_events__cover_hidden_work(void **state)
{
	CUevent all = new_event(NO_TIMING);
	CUstream a = make_blocked_stream(NON_BLOCKING);
	void *host;

	(void)state;
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuCtxRecordEvent(primary, all));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	set_stream_word(1);
	assert_cuda(cuEventSynchronize(all));

	set_stream_word(0);
	assert_cuda(cuStreamWaitValue32_v2(NULL, words, 1, 1));
	assert_cuda(cuCtxRecordEvent(primary, all));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	set_stream_word(1);
	assert_cuda(cuEventSynchronize(all));

	assert_cuda(cuMemAllocHost_v2(&host, 4096));
	a = make_blocked_stream(NON_BLOCKING);
	assert_cuda(cuMemcpyDtoHAsync_v2(host, words, 4096, a));
	assert_cuda(cuCtxRecordEvent(primary, all));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	set_stream_word(1);
	assert_cuda(cuEventSynchronize(all));
	assert_int_equal(*(uint32_t *)host, 1);
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuMemFreeHost(host));
	assert_cuda(cuEventDestroy_v2(all));
}

static void context_events__measure_time(void **state)
{
	CUevent from = new_event(0), to = new_event(0), untimed = new_event(NO_TIMING);
	uint64_t ns = 3000000, rounds = 2000000;
	float ms = 0;
	CUstream s;

	(void)state;
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	assert_cuda(cuCtxRecordEvent(primary, from));
	assert_cuda(launch_kernel(spin, s, (void *[]){ &ns }));
	assert_cuda(launch_kernel(burn, s, (void *[]){ &rounds }));
	assert_cuda(cuCtxRecordEvent(primary, to));
	assert_cuda(cuCtxRecordEvent(primary, untimed));
	assert_cuda(cuCtxSynchronize());
	assert_cuda(cuEventElapsedTime(&ms, from, to));
	assert_true(ms >= 5);
	assert_cuda_is(cuEventElapsedTime(&ms, from, untimed), CUDA_ERROR_INVALID_HANDLE);
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuEventDestroy_v2(from));
	assert_cuda(cuEventDestroy_v2(to));
	assert_cuda(cuEventDestroy_v2(untimed));
}

/* The streams are more than one packet has room for, with one event at a time on the way. */
static void context_events__cover_many_streams(void **state)
{
	enum { MANY = 150 };
	CUevent all = new_event(NO_TIMING);
	CUstream s[MANY];

	(void)state;
	set_stream_word(0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_cuda(cuStreamCreate(&s[i], NON_BLOCKING));
		assert_cuda(cuStreamWaitValue32_v2(s[i], words, i + 1, 0));
	}
	assert_cuda(cuCtxRecordEvent(primary, all));
	set_stream_word(MANY - 1);
	for (unsigned i = 0; i < MANY - 1; i++)
		assert_cuda(cuStreamSynchronize(s[i]));
	assert_cuda_is(cuEventQuery(all), CUDA_ERROR_NOT_READY);
	set_stream_word(MANY);
	assert_cuda(cuEventSynchronize(all));
	for (unsigned i = 0; i < MANY; i++)
		assert_cuda(cuStreamDestroy_v2(s[i]));
	assert_cuda(cuEventDestroy_v2(all));
}

static void created_contexts__have_their_own(void **state)
{
	CUevent of_primary = new_event(NO_TIMING), of_own;
	CUstream s = make_blocked_stream(NON_BLOCKING);
	CUcontext own;

	(void)state;
	assert_cuda(cuCtxCreate_v2(&own, 0, 0));
	of_own = new_event(NO_TIMING);
	assert_cuda(cuCtxRecordEvent(own, of_own));
	assert_cuda(
		cuEventSynchronize(of_own)); /* the other context's stream does not matter */
	assert_cuda_is(cuCtxRecordEvent(own, of_primary), CUDA_ERROR_INVALID_HANDLE);
	assert_cuda_is(cuCtxRecordEvent(NULL, of_own), CUDA_ERROR_INVALID_CONTEXT);
	assert_cuda_is(cuCtxRecordEvent(own, NULL), CUDA_ERROR_INVALID_HANDLE);
	/* Whichever context is current. */
	assert_cuda(cuCtxRecordEvent(primary, of_primary));
	assert_cuda_is(cuEventQuery(of_primary), CUDA_ERROR_NOT_READY);
	set_stream_word(1);
	assert_cuda(cuEventSynchronize(of_primary));
	assert_cuda(cuCtxDestroy_v2(own));
	assert_cuda_is(cuCtxRecordEvent(own, of_own), CUDA_ERROR_INVALID_CONTEXT);
	assert_cuda(cuCtxSetCurrent(primary));
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuEventDestroy_v2(of_primary));
}

static void all_streams__wait_for_events_of_the_context(void **state)
{
	CUstream a = make_blocked_stream(NON_BLOCKING), before, after;
	CUevent e = new_event(NO_TIMING);

	(void)state;
	assert_cuda(cuStreamCreate(&before, NON_BLOCKING));
	assert_cuda(cuEventRecord(e, a));
	assert_cuda(cuCtxWaitEvent(primary, e));
	assert_cuda(cuStreamCreate(&after, NON_BLOCKING));
	assert_cuda(launch_kernel(nop, before, NULL));
	assert_cuda(launch_kernel(nop, after, NULL));
	(void)usleep(50000); /* more than they would take */
	assert_cuda_is(cuStreamQuery(before), CUDA_ERROR_NOT_READY);
	assert_cuda_is(cuStreamQuery(after), CUDA_ERROR_NOT_READY);
	/* The value comes from the host: streams of this context would wait too. */
	assert_cuda(cuCtxSetCurrent(NULL));
	{
		CUcontext other;

		assert_cuda(cuCtxCreate_v2(&other, 0, 0));
		set_stream_word(1);
		assert_cuda(cuCtxDestroy_v2(other));
	}
	assert_cuda(cuCtxSetCurrent(primary));
	assert_cuda(cuCtxSynchronize());
	assert_cuda(cuStreamDestroy_v2(a));
	assert_cuda(cuStreamDestroy_v2(before));
	assert_cuda(cuStreamDestroy_v2(after));
	assert_cuda(cuEventDestroy_v2(e));
}

static void capture_of_any_mode__is_invalidated_by_a_context_event(void **state)
{
	CUevent e = new_event(NO_TIMING);
	CUstream s;
	CUgraph g;

	(void)state;
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	for (unsigned mode = 0; mode < 3; mode++) {
		unsigned mine = 2, status = 0;

		assert_cuda(cuStreamBeginCapture_v2(s, mode));
		assert_cuda(cuThreadExchangeStreamCaptureMode(&mine)); /* does not help */
		assert_cuda_is(cuCtxRecordEvent(primary, e),
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		assert_cuda(cuThreadExchangeStreamCaptureMode(&mine));
		assert_cuda(cuStreamIsCapturing(s, &status));
		assert_int_equal(status, 2);
		assert_cuda_is(cuStreamEndCapture(s, &g),
			CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
		assert_cuda(cuCtxRecordEvent(primary, e));
		assert_cuda(cuEventSynchronize(e));
	}
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuEventDestroy_v2(e));
}

struct thread_record {
	CUstream stream;
	CUevent event;
	CUresult record, first, then;
};

static void *record_in_thread(void *arg)
{
	struct thread_record *b = arg;
	unsigned relaxed = 2;

	(void)cuCtxSetCurrent(primary);
	(void)cuThreadExchangeStreamCaptureMode(&relaxed);
	b->record = cuEventRecord(b->event, b->stream);
	b->first = cuEventQuery(b->event);
	b->then = cuEventSynchronize(b->event);
	return NULL;
}

static void relaxed_thread__records_beside_a_global_capture(void **state)
{
	struct thread_record b = { .event = new_event(NO_TIMING) };
	CUstream s;
	CUgraph g;
	pthread_t t;
	size_t n = 0;

	(void)state;
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	assert_cuda(cuStreamCreate(&b.stream, NON_BLOCKING));
	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(launch_kernel(nop, s, NULL));
	assert_int_equal(pthread_create(&t, NULL, record_in_thread, &b), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_cuda(launch_kernel(nop, s, NULL));
	assert_cuda(cuStreamEndCapture(s, &g));
	assert_cuda(cuGraphGetNodes(g, NULL, &n));
	assert_int_equal(n, 2);
	assert_cuda(b.record);
	assert_true(b.first == CUDA_SUCCESS || b.first == CUDA_ERROR_NOT_READY);
	assert_cuda(b.then);
	assert_cuda(cuGraphDestroy(g));
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuStreamDestroy_v2(b.stream));
	assert_cuda(cuEventDestroy_v2(b.event));
}

struct launcher {
	CUstream stream;
	CUgraphExec graph; /* instead of kernels */
	atomic_uint launched;
	CUresult r;
};

static void *launch_many(void *arg)
{
	struct launcher *l = arg;

	l->r = cuCtxSetCurrent(primary);
	while (!l->r && atomic_load(&l->launched) < DEEP + 200) {
		l->r = l->graph ? cuGraphLaunch(l->graph, l->stream)
				: launch_kernel(nop, l->stream, NULL);
		atomic_fetch_add(&l->launched, 1);
	}
	return NULL;
}

/* The stream is blocked before its first launch, so that one counts as running. */
static void check_depth(CUgraphExec graph)
{
	struct launcher l = { .stream = make_blocked_stream(NON_BLOCKING), .graph = graph };
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, launch_many, &l), 0);
	while (atomic_load(&l.launched) < DEEP + 1)
		(void)usleep(1000);
	(void)usleep(50000);
	assert_int_equal(atomic_load(&l.launched), DEEP + 1);
	/* Work of others continues. */
	set_stream_word(1);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_cuda(l.r);
	assert_cuda(cuStreamSynchronize(l.stream));
	assert_cuda(cuStreamDestroy_v2(l.stream));
}

static void launch__blocks_when_the_queue_is_full(void **state)
{
	CUgraphExec x;
	CUstream s;
	CUgraph g;

	(void)state;
	check_depth(NULL);
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	assert_cuda(cuStreamBeginCapture_v2(s, 0));
	assert_cuda(launch_kernel(nop, s, NULL));
	assert_cuda(launch_kernel(nop, s, NULL));
	assert_cuda(cuStreamEndCapture(s, &g));
	assert_cuda(cuGraphInstantiateWithFlags(&x, g, 0));
	check_depth(x);
	assert_cuda(cuGraphExecDestroy(x));
	assert_cuda(cuGraphDestroy(g));
	assert_cuda(cuStreamDestroy_v2(s));
}

static uint32_t read_word(unsigned i)
{
	uint32_t v = 0;

	assert_cuda(cuMemcpyDtoH_v2(&v, words + i * 4, sizeof(v)));
	return v;
}

static void values__are_written_and_awaited_in_batches(void **state)
{
	CUstreamBatchMemOpParams ops[] = {
		{ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
			  .address = words,
			  .value = 5 } },
		{ .waitValue = { .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
			  .address = words,
			  .value = 5,
			  .flags = 1 } },
		{ .operation = CU_STREAM_MEM_OP_BARRIER },
		{ .writeValue = { .operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
			  .address = words + 8,
			  .value64 = UINT64_C(7) << 32 } },
	};
	CUstream s;

	(void)state;
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	assert_cuda(cuStreamBatchMemOp_v2(s, ARRAY_LEN(ops), ops, 0));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(read_word(0), 5);
	assert_int_equal(read_word(3), 7);
	ops[0].writeValue.value = 6;
	ops[3].writeValue.address += 4;
	assert_cuda_is(cuStreamBatchMemOp_v2(s, ARRAY_LEN(ops), ops, 0),
		CUDA_ERROR_INVALID_VALUE);
	assert_cuda_is(cuStreamWriteValue32_v2(s, words, 9, 1), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(read_word(0), 5); /* none of them */
	assert_cuda(cuStreamDestroy_v2(s));
}

static void copies__go_in_batches(void **state)
{
	CUmemcpyAttributes attributes = { .srcAccessOrder = 1 };
	CUdeviceptr dst[2], src[2];
	CUDA_MEMCPY3D_BATCH_OP op = { .extent = { 8, 2, 2 }, .srcAccessOrder = 1 };
	size_t bytes[] = { 4, 8 }, first = 0;
	uint32_t from[64], to[16] = { 0 };
	CUstream s;

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(from); i++)
		from[i] = 1000 + i;
	assert_cuda(cuMemcpyHtoD_v2(words, from, sizeof(from)));
	assert_cuda(cuStreamCreate(&s, NON_BLOCKING));
	for (unsigned i = 0; i < 2; i++) {
		dst[i] = words + 1024 + 64 * i;
		src[i] = words + 16 * i;
	}
	assert_cuda(cuMemcpyBatchAsync_v2(dst, src, bytes, 2, &attributes, &first, 1, s));
	assert_cuda_is(cuMemcpyBatchAsync_v2(dst, src, bytes, 2, &attributes, &first, 1, NULL),
		CUDA_ERROR_INVALID_VALUE);
	op.src.type = op.dst.type = 1;
	op.src.op.ptr.ptr = words;
	op.src.op.ptr.rowLength = 16;
	op.src.op.ptr.layerHeight = 4;
	op.dst.op.ptr.ptr = words + 2048;
	assert_cuda(cuMemcpy3DBatchAsync_v2(1, &op, 0, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(read_word(256), 1000);
	assert_int_equal(read_word(272), 1004);
	assert_int_equal(read_word(273), 1005);
	assert_cuda(cuMemcpyDtoH_v2(to, words + 2048, 32));
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(to[i], 1000 + i / 4 * 16 + i / 2 % 2 * 4 + i % 2);
	assert_cuda(cuStreamDestroy_v2(s));
}

static void programmatic_and_cooperative_launches__run(void **state)
{
	CUlaunchAttribute attribute = {
		.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
		.value = { .number = 1 }
	};
	CUlaunchConfig config = { .gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.attrs = &attribute,
		.numAttrs = 1 };
	uint64_t count = 4;
	uint32_t c = 3;
	void *args[] = { &words, &count, &c };
	CUDA_LAUNCH_PARAMS several = { .function = step32,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 32,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = args };

	(void)state;
	assert_cuda(cuStreamCreate(&config.hStream, NON_BLOCKING));
	several.hStream = config.hStream;
	assert_cuda(cuMemsetD32Async(words, 1, 4, config.hStream));
	assert_cuda(cuLaunchKernelEx(&config, step32, args, NULL));
	assert_cuda(
		cuLaunchCooperativeKernel(step32, 1, 1, 1, 32, 1, 1, 0, config.hStream, args));
	assert_cuda(cuLaunchCooperativeKernelMultiDevice(&several, 1, 0));
	assert_cuda(cuStreamSynchronize(config.hStream));
	assert_int_equal(read_word(3), ((1664525U + 3) * 1664525U + 3) * 1664525U + 3);
	config.attrs = NULL;
	assert_cuda_is(cuLaunchKernelEx(&config, step32, args, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuStreamDestroy_v2(config.hStream));
}

/* The check runs in a process of its own: a thread records and queries while main() returns. */

static _Atomic CUresult last_answer;
static atomic_uint answers;

static void *record_for_ever(void *arg)
{
	CUevent e;

	(void)arg;
	(void)cuCtxSetCurrent(primary);
	if (cuEventCreate(&e, NO_TIMING))
		return NULL;
	for (;;) {
		CUresult r = cuCtxRecordEvent(primary, e), q = cuEventQuery(e);

		atomic_store(&last_answer, r ? r : q == CUDA_ERROR_NOT_READY ? 0 : q);
		atomic_fetch_add(&answers, 1);
	}
	return NULL;
}

/* Registered before the driver, so it runs after the driver ended. */
static void after_the_driver(void)
{
	size_t free_bytes, total;
	CUdevice d;
	CUmodule m;

	while (atomic_load(&last_answer) != CUDA_ERROR_DEINITIALIZED)
		(void)usleep(1000);
	if (cuInit(0) != CUDA_ERROR_DEINITIALIZED ||
		cuDeviceGet(&d, 0) != CUDA_ERROR_DEINITIALIZED ||
		cuMemGetInfo_v2(&free_bytes, &total) != CUDA_ERROR_DEINITIALIZED ||
		cuModuleLoadData(&m, "") != CUDA_ERROR_DEINITIALIZED ||
		cuCtxSynchronize() != CUDA_ERROR_DEINITIALIZED ||
		cuStreamSynchronize(NULL) != CUDA_ERROR_DEINITIALIZED)
		_exit(3);
	_exit(42);
}

static int return_from_main(void)
{
	pthread_t t;

	(void)alarm(50);
	if (atexit(after_the_driver) != 0)
		return 1;
	primary = sim_cuda_context();
	if (pthread_create(&t, NULL, record_for_ever, NULL) != 0)
		return 2;
	while (atomic_load(&answers) < 20)
		(void)usleep(1000);
	return 0; /* _exit(42) comes of it */
}

static void calls_after_exit__return_an_error_and_never_crash(void **state)
{
	char self[] = "/proc/self/exe", arg[] = EXIT_ARG;
	char *argv[] = { self, arg, NULL };
	int status = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(posix_spawn(&pid, self, NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
}

/* The last test: it resets the context. */
static void reset_context__returns_709(void **state)
{
	CUevent e = new_event(NO_TIMING);
	CUcontext again;

	(void)state;
	assert_cuda(cuCtxRecordEvent(primary, e));
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	assert_cuda_is(cuCtxRecordEvent(primary, e), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_cuda_is(cuEventQuery(e), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_cuda(cuDevicePrimaryCtxRetain(&again, 0));
	assert_ptr_equal(again, primary);
	e = new_event(NO_TIMING);
	assert_cuda(cuCtxRecordEvent(primary, e));
	assert_cuda(cuEventSynchronize(e));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(context_events__cover_all_streams_and_order_none),
		cmocka_unit_test(context_events__cover_hidden_work),
		cmocka_unit_test(context_events__measure_time),
		cmocka_unit_test(context_events__cover_many_streams),
		cmocka_unit_test(created_contexts__have_their_own),
		cmocka_unit_test(all_streams__wait_for_events_of_the_context),
		cmocka_unit_test(capture_of_any_mode__is_invalidated_by_a_context_event),
		cmocka_unit_test(relaxed_thread__records_beside_a_global_capture),
		cmocka_unit_test(launch__blocks_when_the_queue_is_full),
		cmocka_unit_test(values__are_written_and_awaited_in_batches),
		cmocka_unit_test(copies__go_in_batches),
		cmocka_unit_test(programmatic_and_cooperative_launches__run),
		cmocka_unit_test(calls_after_exit__return_an_error_and_never_crash),
		cmocka_unit_test(reset_context__returns_709),
	};

	if (argc == 2 && strcmp(argv[1], EXIT_ARG) == 0)
		return return_from_main();
	return cmocka_run_group_tests(tests, begin, end);
}
