/* SPDX-License-Identifier: Apache-2.0 */

/* What the library charges for pointers, and what a program sees of its memory. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"

#include <unistd.h>

static void charge_sizes(void)
{
	CUdeviceptr small[40], p, q;
	size_t pitch;

	for (size_t i = 0; i < 40; i++)
		CHECK(!cuMemAlloc_v2(&small[i], 100));
	CHECK(md_driver_bytes() == 2 * G && used() == 2 * G && page()->seen == 2 * G);
	for (size_t i = 0; i < 40; i++)
		CHECK(!cuMemFree_v2(small[i]));
	CHECK(md_driver_bytes() == 0 && used() == 0 && page()->seen == 0);
	CHECK(!cuMemAlloc_v2(&p, MIB + 1));
	CHECK(used() == G && md_driver_bytes() == G);
	CHECK(!cuMemAllocPitch_v2(&q, &pitch, 1000, 10000, 4)); /* 10.24 MB */
	CHECK(used() == G + 5 * G && md_driver_bytes() == used());
	CHECK(!cuMemFree_v2(p) && !cuMemFree_v2(q) && used() == 0);
	CHECK(!cuMemAllocManaged(&p, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(used() == 10 * MIB && page()->seen == 0 && page()->unseen == 10 * MIB);
	CHECK(!cuMemFree_v2(p) && used() == 0 && page()->unseen == 0);
	/* The driver refuses the call, or does not know the pointer. */
	CHECK(cuMemFree_v2(0x1234567) == CUDA_SUCCESS); /* the answer of d_fail(), passed on */
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemAlloc_v2(&p, 5 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 5 * MIB) && !cuMemAlloc_v2(&q, 5));
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree_v2(p) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 8 * MIB);
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree_v2(q) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 8 * MIB);
	CHECK(!cuMemFree_v2(p) && !cuMemFree_v2(q) && used() == 0);
}

static void memory__is_charged_as_the_driver_rounds_it(void **state)
{
	(void)state;
	mt_in_child(charge_sizes);
}

static void allocate_to_the_limit(void)
{
	CUdeviceptr p, q;
	size_t f, t;
	unsigned int t32;

	CHECK(!cuInit(0));
	CHECK(!cuMemAlloc_v2(&p, LIMIT - 4 * MIB));
	CHECK(cuMemAlloc_v2(&q, 5 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 4 * MIB && t == LIMIT);
	CHECK(arbiter->views == 1);
	atomic_store(&page()->alone, 1);
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 4 * MIB && t == LIMIT);
	CHECK(arbiter->views == 1);
	md.real_free = 3 * MIB;
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 3 * MIB);
	CHECK(!cuDeviceTotalMem_v2(&t, 3) && t == LIMIT);
	CHECK(!cuDeviceTotalMem_v2(&t, 2) && t == 80 * 1024 * MIB); /* not of the slice */
	CHECK(!cuDeviceTotalMem(&t32, 3) && t32 == LIMIT);
	CHECK(!cuDeviceTotalMem(&t32, 2) && t32 == UINT32_MAX);
	CHECK(!cuMemAlloc_v2(&q, 4 * MIB));
	CHECK(!cuMemGetInfo_v2(&f, &t) && f == 0);
	CHECK(cuMemAlloc_v2(&q, 1) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocManaged(&q, 1, 1) == CUDA_ERROR_OUT_OF_MEMORY);
}

static void memory__ends_at_the_limit_and_is_reported(void **state)
{
	(void)state;
	mt_in_child(allocate_to_the_limit);
}

static void init_refused(void)
{
	CUdeviceptr p;

	CHECK(cuInit(0) == CUDA_ERROR_SYSTEM_NOT_READY);
	CHECK(cuMemAlloc_v2(&p, 1) == CUDA_ERROR_OUT_OF_MEMORY && !md_driver_bytes());
	/* The arbiter admits the process later. */
	atomic_store(&arbiter->memory.status, SLICE_OK);
	(void)usleep(150 * 1000);
	CHECK(!cuInit(0) && !cuMemAlloc_v2(&p, 1) && used() == G);
}

static void init__fails_where_the_arbiter_refuses_the_slice(void **state)
{
	(void)state;
	mt_status_of_hello = SLICE_TOO_MANY;
	mt_in_child(init_refused);
	mt_status_of_hello = SLICE_OK;
}

static void allocate_outside(void)
{
	CUdeviceptr p;
	size_t f, t;

	CHECK(!cuInit(0) && !cuMemAlloc_v2(&p, 900 * MIB) && !cuMemFree_v2(p));
	CHECK(!cuMemGetInfo_v2(&f, &t) && t == 80 * 1024 * MIB && arbiter->memory.hellos == 0);
}

static void memory__is_left_to_the_driver_outside_of_a_slice(void **state)
{
	(void)state;
	mt_no_slice = true;
	mt_in_child(allocate_outside);
	mt_no_slice = false;
}

static void shrink_pool(void)
{
	md_driver_give(md.pool);
	md.pool = 0;
}

static void free_pool_pointer(void)
{
	CUdeviceptr p;

	mt_make_pool(32 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100) && used() == 34 * MIB);
	CHECK(!cuMemFree_v2(IN_POOL) && used() == G && page()->seen == G);
	/* A pool shrinks while another pointer is freed, which waits for the GPU. */
	mt_make_pool(32 * MIB);
	md.after = shrink_pool;
	CHECK(!cuMemFree_v2(p) && used() == 0 && page()->seen == 0 && !md_driver_bytes());
}

static void free__lets_pools_shrink(void **state)
{
	(void)state;
	mt_in_child(free_pool_pointer);
}

static void free_shared(void)
{
	CUipcMemHandle handle;
	CUdeviceptr p, q, small, beside;
	CUcontext c;
	int fd;

	CHECK(!cuMemAlloc_v2(&p, 10 * MIB) && !cuMemAlloc_v2(&q, 6 * MIB));
	CHECK(!cuMemAlloc_v2(&small, 100) && !cuMemAlloc_v2(&beside, 100));
	CHECK(!cuIpcGetMemHandle(&handle, p + 5) && !cuIpcGetMemHandle(&handle, small));
	/* Other processes may have the memory open: the arbiter finds whose it is. */
	CHECK(!cuMemFree_v2(p) && page()->seen == 8 * MIB && used() == 18 * MIB);
	CHECK(arbiter->compares == 1);
	/* The handle was of the whole chunk. */
	CHECK(!cuMemFree_v2(small) && page()->seen == 8 * MIB);
	CHECK(!cuMemFree_v2(beside) && page()->seen == 6 * MIB && used() == 18 * MIB);
	CHECK(!cuMemFree_v2(q) && page()->seen == 0 && used() == 12 * MIB);
	/* The next ones are the process's alone. */
	CHECK(!cuMemAlloc_v2(&p, 10 * MIB) && !cuMemFree_v2(p) && used() == 12 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemFree_v2(p) && used() == 12 * MIB &&
		!md_driver_bytes());
	/* A dma-buf is such a handle too. */
	CHECK(!cuMemAlloc_v2(&p, 10 * MIB));
	CHECK(!cuMemGetHandleForAddressRange(&fd, p, 10 * MIB, 1, 0));
	CHECK(!cuMemFree_v2(p) && page()->seen == 0 && used() == 22 * MIB);
	/* The allocation ends with its context. */
	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuMemAlloc_v2(&p, 10 * MIB));
	CHECK(!cuIpcGetMemHandle(&handle, p) && used() == 632 * MIB);
	CHECK(!cuCtxDestroy_v2(c) && page()->seen == 0 && used() == 632 * MIB);
}

static void free__of_shared_memory_is_left_to_nvml(void **state)
{
	(void)state;
	mt_in_child(free_shared);
}

static void call_first_versions(void)
{
	unsigned int f, t, pitch;
	CUdeviceptr_v1 p, q;

	CHECK(!cuMemAlloc(&p, 3 * MIB) && used() == 4 * MIB);
	CHECK(!cuMemAllocPitch(&q, &pitch, 1000, 5, 4) && pitch == 1024 && used() == 6 * MIB);
	CHECK(!cuMemGetInfo(&f, &t) && f == LIMIT - 6 * MIB && t == LIMIT);
	CHECK(cuMemAlloc(&q, LIMIT) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocPitch(&q, &pitch, LIMIT, 1, 4) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemAllocPitch(&q, &pitch, UINT32_MAX, UINT32_MAX, 4) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(cuMemFree(5) == CUDA_ERROR_INVALID_VALUE && used() == 6 * MIB);
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuMemFree(p) == CUDA_ERROR_ILLEGAL_ADDRESS && used() == 6 * MIB);
	CHECK(!cuMemFree(p) && used() == 2 * MIB);
	CHECK(!cuMemFree(2 * (unsigned int)LOW) && used() == 0 && !md_driver_bytes());
}

static void first_versions_of_functions__are_charged_like_the_second_ones(void **state)
{
	(void)state;
	mt_in_child(call_first_versions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory__is_charged_as_the_driver_rounds_it),
		cmocka_unit_test(memory__ends_at_the_limit_and_is_reported),
		cmocka_unit_test(memory__is_left_to_the_driver_outside_of_a_slice),
		cmocka_unit_test(init__fails_where_the_arbiter_refuses_the_slice),
		cmocka_unit_test(free__lets_pools_shrink),
		cmocka_unit_test(free__of_shared_memory_is_left_to_nvml),
		cmocka_unit_test(first_versions_of_functions__are_charged_like_the_second_ones),
	};

	return cmocka_run_group_tests_name("memory", tests, mt_setup, mt_teardown);
}
