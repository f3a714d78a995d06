/* SPDX-License-Identifier: Apache-2.0 */
#include "sim-cuda-fixture.h"

#include <sys/wait.h>
#include <unistd.h>

static int begin(void **state)
{
	(void)state;
	sim_cuda_begin("p5.48xlarge");
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_cuda(cuDevicePrimaryCtxReset_v2(0));
	test_rmdir(sim_cuda_dir);
	return 0;
}

static void contexts__are_required_and_free_their_memory(void **state)
{
	CUcontext c, now;
	CUdeviceptr p;
	uint64_t before;
	unsigned flags;
	int active;

	(void)state;
	assert_cuda(cuInit(0));
	assert_cuda_is(cuMemAlloc_v2(&p, 1), CUDA_ERROR_INVALID_CONTEXT);
	c = sim_cuda_context();
	assert_cuda(cuDevicePrimaryCtxGetState(0, &flags, &active));
	assert_int_equal(active, 1);
	before = sim_cuda_free();
	assert_cuda(cuCtxCreate_v2(&now, 0, 0));
	assert_true(sim_cuda_free() < before);
	assert_cuda(cuMemAlloc_v2(&p, 8 * MIB));
	assert_cuda(cuCtxDestroy_v2(now));
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda(cuCtxGetCurrent(&now));
	assert_ptr_equal(now, c);
	assert_cuda_is(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

static void plain_memory__is_rounded_as_measured(void **state)
{
	CUdeviceptr a, b, c, d, e;
	uint64_t before;

	(void)state;
	(void)sim_cuda_context();
	before = sim_cuda_free();
	assert_cuda_is(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemAlloc_v2(&a, 100));
	assert_cuda(cuMemAlloc_v2(&b, 513));
	assert_cuda(cuMemAlloc_v2(&c, 1));
	assert_int_equal(b, a + 512);
	assert_int_equal(c, a + 512 + 1024);
	assert_int_equal(sim_cuda_free(), before - 2 * MIB);
	/* 1 MiB still goes into a chunk, one byte more has granules of its own. */
	assert_cuda(cuMemAlloc_v2(&d, MIB));
	assert_int_equal(sim_cuda_free(), before - 2 * MIB);
	assert_cuda(cuMemAlloc_v2(&e, MIB + 1));
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	/* The first place that fits. */
	assert_cuda(cuMemFree_v2(b));
	assert_cuda(cuMemAlloc_v2(&b, 600));
	assert_int_equal(b, a + 512);
	assert_cuda(cuMemFree_v2(a));
	assert_cuda(cuMemFree_v2(b));
	assert_cuda(cuMemFree_v2(c));
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	assert_cuda(cuMemFree_v2(d));
	assert_cuda(cuMemFree_v2(e));
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda_is(cuMemFree_v2(e), CUDA_ERROR_INVALID_VALUE);
	assert_cuda_is(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemFree_v2(0));
	assert_cuda_is(cuMemAlloc_v2(&a, UINT64_C(1) << 45), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(sim_cuda_free(), before);
}

static void copies__move_bytes_between_all_kinds(void **state)
{
	unsigned char in[5000], out[5000] = { 0 };
	CUdeviceptr plain, managed, wide;
	size_t pitch;
	void *host;
	CUDA_MEMCPY2D c = { .srcMemoryType = 1,
		.srcHost = in,
		.srcPitch = 100,
		.dstMemoryType = 2,
		.WidthInBytes = 100,
		.Height = 50 };

	(void)state;
	(void)sim_cuda_context();
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (unsigned char)(i * 7);
	assert_cuda(cuMemAlloc_v2(&plain, 3 * MIB));
	assert_cuda(cuMemAllocManaged(&managed, sizeof(in), CU_MEM_ATTACH_GLOBAL));
	assert_cuda(cuMemHostAlloc(&host, sizeof(in), 0));
	assert_cuda(cuMemcpyHtoD_v2(plain + 2 * MIB - 2000, in, sizeof(in)));
	assert_cuda(cuMemcpy(managed, plain + 2 * MIB - 2000, sizeof(in)));
	assert_memory_equal((void *)(uintptr_t)managed, in, sizeof(in));
	assert_cuda(cuMemcpyDtoHAsync_v2(host, managed, sizeof(in), NULL));
	assert_cuda(cuStreamSynchronize(NULL));
	assert_memory_equal(host, in, sizeof(in));
	assert_cuda_is(cuMemcpyHtoD_v2(plain + 3 * MIB - 10, in, 20), CUDA_ERROR_INVALID_VALUE);
	/* Rows. */
	assert_cuda(cuMemAllocPitch_v2(&wide, &pitch, 100, 50, 4));
	assert_int_equal(pitch, 512);
	c.dstDevice = wide;
	c.dstPitch = pitch;
	assert_cuda(cuMemcpy2D_v2(&c));
	assert_cuda(cuMemcpyDtoH_v2(out, wide + 49 * pitch, 100));
	assert_memory_equal(out, in + 4900, 100);
	assert_cuda(cuMemsetD2D8_v2(wide, pitch, 9, 10, 50));
	assert_cuda(cuMemcpyDtoH_v2(out, wide + 20 * pitch, 100));
	assert_int_equal(out[9], 9);
	assert_int_equal(out[10], in[2010]);
	assert_cuda(cuMemsetD2D16_v2(wide, pitch, 0x0102, 10, 50));
	assert_cuda(cuMemcpyDtoH_v2(out, wide + 49 * pitch, 100));
	assert_memory_equal(out + 18, "\2\1", 2);
	assert_int_equal(out[20], in[4920]);
	assert_cuda_is(cuMemsetD2D16_v2(wide, 33, 0, 10, 50), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemsetD32_v2(plain, 0x01020304, 4));
	assert_cuda(cuMemcpyDtoH_v2(out, plain, 16));
	assert_int_equal(out[12], 4);
	assert_cuda(cuMemFree_v2(plain));
	assert_cuda(cuMemFree_v2(managed));
	assert_cuda(cuMemFree_v2(wide));
	assert_cuda(cuMemFreeHost(host));
}

static void pointers__report_their_attributes(void **state)
{
	CUdeviceptr a, b, start;
	unsigned type = 0, managed = 1;
	int ordinal = -1;
	size_t bytes;

	(void)state;
	(void)sim_cuda_context();
	assert_cuda(cuMemAlloc_v2(&a, 100));
	assert_cuda(cuMemAlloc_v2(&b, 100));
	assert_cuda(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, b + 5));
	assert_int_equal(type, 2);
	assert_cuda(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, b));
	assert_int_equal(managed, 0);
	assert_cuda(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, b));
	assert_int_equal(ordinal, 0);
	assert_cuda(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, b));
	assert_int_equal(bytes, 100);
	assert_cuda(cuMemGetAddressRange_v2(&start, &bytes, b + 99));
	assert_int_equal(start, b);
	assert_cuda_is(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
			       (uintptr_t)&type),
		CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemFree_v2(a));
	assert_cuda(cuMemFree_v2(b));
}

static void vmm__keeps_memory_while_it_is_mapped(void **state)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, .flags = 3 };
	CUmemGenericAllocationHandle h, again, other;
	uint64_t before;
	CUdeviceptr at;
	char text[6] = "";
	size_t granule;
	int fd = -1;

	(void)state;
	(void)sim_cuda_context();
	before = sim_cuda_free();
	assert_cuda(cuMemGetAllocationGranularity(&granule, &prop, 0));
	assert_int_equal(granule, 2 * MIB);
	assert_cuda_is(cuMemCreate(&h, MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemCreate(&h, 4 * MIB, &prop, 0));
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	assert_cuda(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
	assert_cuda(cuMemMap(at, 4 * MIB, 0, h, 0));
	assert_cuda_is(cuMemcpyHtoD_v2(at, "hello", 6), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemSetAccess(at, 4 * MIB, &access, 1));
	assert_cuda(cuMemcpyHtoD_v2(at, "hello", 6));
	assert_cuda_is(cuMemMap(at + 2 * MIB, 4 * MIB, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemExportToShareableHandle(&fd, h,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	assert_cuda(cuMemRelease(h));
	assert_cuda_is(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	assert_cuda(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at));
	assert_int_equal(again, h);
	assert_cuda(cuMemRelease(again));
	/* The same memory by another way takes nothing more. */
	assert_cuda(cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd,
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	assert_int_equal(close(fd), 0);
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	assert_cuda(cuMemMap(at + 4 * MIB, 4 * MIB, 0, other, 0));
	assert_cuda(cuMemSetAccess(at, 8 * MIB, &access, 1));
	assert_cuda(cuMemcpyDtoH_v2(text, at + 4 * MIB, 6));
	assert_string_equal(text, "hello");
	assert_cuda_is(cuMemUnmap(at, 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemUnmap(at, 4 * MIB));
	assert_int_equal(sim_cuda_free(), before - 4 * MIB);
	assert_cuda(cuMemUnmap(at + 4 * MIB, 4 * MIB));
	assert_cuda(cuMemRelease(other));
	assert_int_equal(sim_cuda_free(), before);
	assert_cuda(cuMemAddressFree(at, 8 * MIB));
}

static uint64_t pool_value(CUmemoryPool pool, unsigned attribute)
{
	uint64_t v = 0;

	assert_cuda(cuMemPoolGetAttribute(pool, attribute, &v));
	return v;
}

static void pools__grow_by_32_mib_and_shrink_at_synchronization(void **state)
{
	CUmemoryPool pool;
	uint64_t before, keep = UINT64_MAX;
	CUdeviceptr a, b;
	CUstream s;

	(void)state;
	(void)sim_cuda_context();
	before = sim_cuda_free();
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	assert_cuda(cuMemAllocAsync(&a, 40 * MIB, s));
	assert_int_equal(pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 64 * MIB);
	assert_int_equal(pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 40 * MIB);
	assert_int_equal(sim_cuda_free(), before - 64 * MIB);
	assert_cuda(cuMemFreeAsync(a, s));
	assert_cuda_is(cuMemFreeAsync(a, s), CUDA_ERROR_INVALID_VALUE);
	/* The same stream may have it again at once. */
	assert_cuda(cuMemAllocAsync(&b, 40 * MIB, s));
	assert_int_equal(b, a);
	assert_cuda(cuMemFreeAsync(b, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(sim_cuda_free(), before);
	/* Memory under the threshold stays. */
	assert_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	assert_cuda(cuMemAllocAsync(&a, 1000, s));
	assert_cuda(cuMemFreeAsync(a, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_int_equal(sim_cuda_free(), before - 32 * MIB);
	assert_cuda(cuMemPoolTrimTo(pool, 0));
	assert_int_equal(sim_cuda_free(), before);
	keep = 0;
	assert_cuda(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	assert_cuda(cuStreamDestroy_v2(s));
}

static void arrays__use_memory_and_store_bytes(void **state)
{
	CUDA_ARRAY3D_DESCRIPTOR d = { .Width = 64,
		.Height = 64,
		.Format = 0x20,
		.NumChannels = 4 };
	unsigned char in[64], out[64] = { 0 };
	CUmipmappedArray m;
	CUarray a, level;
	uint64_t before;

	(void)state;
	(void)sim_cuda_context();
	before = sim_cuda_free();
	memset(in, 5, sizeof(in));
	assert_cuda(cuArray3DCreate_v2(&a, &d));
	assert_true(sim_cuda_free() < before);
	assert_cuda(cuMemcpyHtoA_v2(a, 16, in, sizeof(in)));
	assert_cuda(cuMemcpyAtoH_v2(out, a, 16, sizeof(out)));
	assert_memory_equal(in, out, sizeof(in));
	assert_cuda(cuArrayDestroy(a));
	assert_cuda_is(cuArrayDestroy(a), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	assert_cuda(cuMipmappedArrayCreate(&m, &d, 5));
	assert_cuda(cuMipmappedArrayGetLevel(&level, m, 4));
	assert_cuda(cuArray3DGetDescriptor_v2(&d, level));
	assert_int_equal(d.Width, 4);
	assert_cuda(cuMipmappedArrayDestroy(m));
	assert_int_equal(sim_cuda_free(), before);
}

/* Runs in a process without CUDA: forked before cuInit(), controlled by a pipe. */
static void other_process(int from)
{
	CUipcMemHandle h;
	CUdeviceptr p;
	CUcontext c;
	char text[8] = "";

	if (read(from, &h, sizeof(h)) != (ssize_t)sizeof(h) || cuInit(0) ||
		cuDevicePrimaryCtxRetain(&c, 0) || cuCtxSetCurrent(c))
		_exit(1);
	if (cuIpcOpenMemHandle_v2(&p, h, 1) || cuMemcpyDtoH_v2(text, p, 6) ||
		strcmp(text, "shared") != 0)
		_exit(2);
	if (cuMemcpyHtoD_v2(p, "SHARED", 6) || cuIpcCloseMemHandle(p))
		_exit(3);
	_exit(0);
}

static pid_t other;
static int to_other;

static void ipc__shows_the_same_bytes_to_another_process(void **state)
{
	CUipcMemHandle h;
	CUdeviceptr gap, p, back;
	char text[8] = "";
	int status;

	(void)state;
	(void)sim_cuda_context();
	assert_cuda(cuMemAlloc_v2(&gap, 1000));
	assert_cuda(cuMemAlloc_v2(&p, 1000));
	assert_cuda(cuMemcpyHtoD_v2(p, "shared", 7));
	assert_cuda(cuIpcGetMemHandle(&h, p));
	assert_cuda_is(cuIpcOpenMemHandle_v2(&back, h, 1), CUDA_ERROR_INVALID_CONTEXT);
	assert_int_equal(write(to_other, &h, sizeof(h)), sizeof(h));
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(status, 0);
	assert_cuda(cuMemcpyDtoH_v2(text, p, 7));
	assert_string_equal(text, "SHARED");
	assert_cuda(cuMemFree_v2(p));
	assert_cuda(cuMemFree_v2(gap));
}

static void fork__leaves_a_child_without_cuda(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	(void)sim_cuda_context();
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		CUdeviceptr p;

		_exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
					cuMemAlloc_v2(&p, 1) == CUDA_ERROR_NOT_INITIALIZED
				? 0
				: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(sim_cuda_free() > 0);
}

/* Memory that is used again by the same stream, while work in front of that still uses it as it was. */
static void pool_memory__exists_until_the_stream_passed_its_free(void **state)
{
	CUdeviceptr held, first, again, keep;
	uint32_t found[2] = { 0 };
	CUmemoryPool pool;
	CUstream s;

	(void)state;
	(void)sim_cuda_context();
	assert_cuda(cuDeviceGetDefaultMemPool(&pool, 0));
	assert_cuda(cuMemAlloc_v2(&held, 4096));
	assert_cuda(cuMemsetD32_v2(held, 0, 1));
	assert_cuda(cuMemAlloc_v2(&keep, MIB));
	assert_cuda(cuStreamCreate(&s, 1));
	assert_cuda(cuStreamWaitValue32_v2(s, held, 1, 1));
	assert_cuda(cuMemAllocAsync(&first, 40 * MIB, s));
	assert_cuda(cuMemsetD32Async(first, 77, 10 * MIB, s));
	assert_cuda(cuMemcpyDtoDAsync_v2(keep, first + 39 * MIB, MIB, s));
	assert_cuda(cuMemFreeAsync(first, s));
	/* A smaller one in its place, which goes too: nothing is there that the program has. */
	assert_cuda(cuMemAllocAsync(&again, 512, s));
	assert_int_equal(again, first);
	assert_cuda(cuMemsetD32Async(again, 5, 128, s));
	assert_cuda(cuMemcpyDtoDAsync_v2(keep, again, 4, s));
	assert_cuda(cuMemFreeAsync(again, s));
	assert_cuda(cuMemPoolTrimTo(pool, 0));
	assert_cuda(cuMemsetD32_v2(held, 1, 1));
	assert_cuda(cuStreamSynchronize(s));
	assert_cuda(cuMemcpyDtoH_v2(&found[0], keep, 4));
	assert_cuda(cuMemcpyDtoH_v2(&found[1], keep + MIB - 4, 4));
	assert_int_equal(found[0], 5);
	assert_int_equal(found[1], 77);
	/* Now the memory is free. */
	assert_cuda(cuMemAllocAsync(&again, 512, s));
	assert_cuda_is(cuMemcpyDtoH_v2(found, first + MIB, 4), CUDA_ERROR_INVALID_VALUE);
	assert_cuda(cuMemFreeAsync(again, s));
	assert_cuda(cuStreamSynchronize(s));
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuMemFree_v2(keep));
	assert_cuda(cuMemFree_v2(held));
}

/* A stream waits for a value that a copy or a set then brings: it never sees half of it. */
static void words__are_written_atomically(void **state)
{
	static const uint32_t big = 0x00010000;
	CUdeviceptr word, done;
	CUstream s;

	(void)state;
	(void)sim_cuda_context();
	assert_cuda(cuMemAlloc_v2(&word, 8));
	assert_cuda(cuMemAlloc_v2(&done, 4));
	assert_cuda(cuStreamCreate(&s, 1));
	for (unsigned i = 0; i < 40; i++) {
		uint32_t found = 0;

		assert_cuda(cuMemsetD32_v2(word, 0x0000FFFF, 2));
		assert_cuda(cuStreamWaitValue32_v2(s, word, 0x00010000, 0)); /* at least */
		assert_cuda(cuMemcpyDtoDAsync_v2(done, word, 4, s));
		assert_cuda_is(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
		if (i % 2)
			assert_cuda(cuMemcpyHtoD_v2(word, &big, 4));
		else
			assert_cuda(cuMemsetD32_v2(word, big, 2));
		assert_cuda(cuStreamSynchronize(s));
		assert_cuda(cuMemcpyDtoH_v2(&found, done, 4));
		assert_int_equal(found, big);
	}
	assert_cuda(cuStreamDestroy_v2(s));
	assert_cuda(cuMemFree_v2(done));
	assert_cuda(cuMemFree_v2(word));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts__are_required_and_free_their_memory),
		cmocka_unit_test(plain_memory__is_rounded_as_measured),
		cmocka_unit_test(copies__move_bytes_between_all_kinds),
		cmocka_unit_test(pointers__report_their_attributes),
		cmocka_unit_test(vmm__keeps_memory_while_it_is_mapped),
		cmocka_unit_test(pools__grow_by_32_mib_and_shrink_at_synchronization),
		cmocka_unit_test(pool_memory__exists_until_the_stream_passed_its_free),
		cmocka_unit_test(words__are_written_atomically),
		cmocka_unit_test(arrays__use_memory_and_store_bytes),
		cmocka_unit_test(ipc__shows_the_same_bytes_to_another_process),
		cmocka_unit_test(fork__leaves_a_child_without_cuda),
	};
	int ends[2];

	(void)begin(NULL);
	if (pipe(ends) < 0)
		return 1;
	other = fork();
	if (other == 0) {
		(void)close(ends[1]);
		other_process(ends[0]);
	}
	(void)close(ends[0]);
	to_other = ends[1];
	return cmocka_run_group_tests(tests, NULL, end);
}
