/* SPDX-License-Identifier: Apache-2.0 */

/* Contexts: their charge, and the allocations that end with them. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"
#include "unit/container/cuda/fake-gate.h"
#include "container/cuda/green.h"

#include <pthread.h>
#include <unistd.h>

static void *retain_primary(void *arg)
{
	CUcontext context;

	return cuDevicePrimaryCtxRetain(&context, 3) ? arg : NULL;
}

static void charge_primary_once(void)
{
	pthread_t threads[8];
	CUdeviceptr p;
	void *bad;

	/* Two bounds do not fit. */
	for (size_t i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL, retain_primary, &bad));
	for (size_t i = 0; i < 8; i++)
		CHECK(!pthread_join(threads[i], &bad) && !bad);
	CHECK(used() == 600 * MIB && page()->seen == 0 && arbiter->compares == 1);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuMemAlloc_v2(&p, 100));
	CHECK(used() == 702 * MIB);
	for (size_t i = 0; i < 7; i++)
		CHECK(!cuDevicePrimaryCtxRelease_v2(3));
	CHECK(used() == 702 * MIB && arbiter->compares == 1);
	CHECK(fake_gate_knows((CUcontext)&md.primary_refs) && !fake_gate.gone);
	CHECK(!cuDevicePrimaryCtxRelease_v2(3));
	CHECK(!fake_gate_knows((CUcontext)&md.primary_refs) && fake_gate.gone == 1);
	/* Called for each context, as any may be the last. */
	CHECK(fake_gate.leaves == 8 && fake_gate.stays == 7 && !fake_gate.leaving);
	CHECK(used() == 600 * MIB && page()->seen == 0 && arbiter->compares == 2 &&
		!md_driver_bytes());
	/* The arbiter returns the bytes to the credit after a reading. */
	atomic_fetch_add(&page()->credit, 600 * MIB);
	md.fail = CUDA_ERROR_DEVICE_UNAVAILABLE;
	CHECK(retain_primary(&bad) && used() == 0);
	CHECK(!retain_primary(&bad) && used() == 600 * MIB);
	CHECK(!retain_primary(&bad) && used() == 600 * MIB);
}

static void contexts__are_charged_once_for_many_threads(void **state)
{
	(void)state;
	mt_in_child(charge_primary_once);
}

static void *compare_later(void *arg)
{
	(void)usleep(30 * 1000);
	atomic_fetch_add(&page()->credit, 600 * MIB);
	return arg;
}

/* The first one was destroyed, which the arbiter has not read yet. */
static void create_one_by_one(void)
{
	pthread_t looker;
	CUcontext c;
	int compares;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuCtxDestroy_v2(c) && used() == 600 * MIB);
	compares = arbiter->compares;
	CHECK(cuCtxCreate_v2(&c, 0, 3) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->compares == compares + 1 && page()->refused == 1);
	CHECK(!pthread_create(&looker, NULL, compare_later, NULL));
	CHECK(!cuCtxCreate_v2(&c, 0, 3) && used() == 600 * MIB);
	CHECK(!pthread_join(looker, NULL));
	CHECK(page()->refused == 1);
}

static void contexts__wait_for_a_comparison_before_they_are_refused(void **state)
{
	(void)state;
	mt_in_child(create_one_by_one);
}

static void destroy_own_context(void)
{
	CUcontext c;
	CUdeviceptr p;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && used() == 600 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && used() == 700 * MIB);
	CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16384) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(md.stack == 1024);
	CHECK(!cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024 + 512));
	CHECK(used() == 700 * MIB + round_up_to_granule(UINT64_C(512) * 132 * 2048));
	CHECK(cuCtxCreate_v2(&c, 0, 3) == CUDA_ERROR_OUT_OF_MEMORY);
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(fake_gate_knows(c));
	CHECK(cuCtxDestroy_v2(c) == CUDA_ERROR_ILLEGAL_ADDRESS && page()->seen == 100 * MIB);
	CHECK(fake_gate_knows(c) && !fake_gate.gone && fake_gate.stays == 1);
	CHECK(!cuCtxDestroy_v2(c) && page()->seen == 0);
	CHECK(fake_gate.gone == 1 && fake_gate.leaves == 2 && !fake_gate.leaving);
	CHECK(md_driver_bytes() == 0);
}

static void contexts__free_the_allocations_in_them(void **state)
{
	(void)state;
	mt_in_child(destroy_own_context);
}

static void attach_and_detach(void)
{
	CUcontext c, again;
	CUdeviceptr p;

	CHECK(!cuCtxCreate_v2(&c, 0, 3) && !cuCtxAttach(&again, 0) && again == c);
	CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuCtxDetach(c));
	CHECK(used() == 700 * MIB && page()->seen == 100 * MIB && md.contexts == 1);
	CHECK(fake_gate_knows(c) && !fake_gate.gone);
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuCtxDetach(c) == CUDA_ERROR_ILLEGAL_ADDRESS && page()->seen == 100 * MIB);
	CHECK(fake_gate_knows(c) && !fake_gate.gone && fake_gate.stays == 1);
	CHECK(!cuCtxDetach(c) && page()->seen == 0 && !md.contexts && !md_driver_bytes());
	CHECK(!fake_gate_knows(c) && fake_gate.gone == 1 && !fake_gate.leaving);
	CHECK(used() == 600 * MIB && arbiter->compares >= 2);
}

static void contexts__end_with_their_last_detach(void **state)
{
	(void)state;
	mt_in_child(attach_and_detach);
}

static bool lives_in_primary(CUgreenCtx g)
{
	return green_primary((CUcontext)g) == (CUcontext)&md.primary_refs;
}

static void create_green(void)
{
	CUgreenCtx first, second;
	CUdeviceptr p;
	int compares;

	CHECK(!cuGreenCtxCreate(&first, NULL, 3, 0) && used() == 664 * MIB);
	CHECK(!cuGreenCtxCreate(&second, NULL, 3, 0) && used() == 728 * MIB);
	CHECK(page()->seen == 0 && md_driver_bytes() == PRIMARY);
	CHECK(lives_in_primary(first) && lives_in_primary(second));
	md.fail = CUDA_ERROR_ILLEGAL_ADDRESS;
	CHECK(cuGreenCtxDestroy(first) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(lives_in_primary(first));
	CHECK(!cuGreenCtxDestroy(first) && md_driver_bytes() == PRIMARY);
	CHECK(!lives_in_primary(first) && lives_in_primary(second));
	CHECK(fake_gate_knows((CUcontext)&md.primary_refs));
	compares = arbiter->compares;
	CHECK(!cuGreenCtxDestroy(second) && !md_driver_bytes() && arbiter->compares > compares);
	CHECK(!fake_gate_knows((CUcontext)&md.primary_refs));
	/* The arbiter returns the bytes to the credit after a reading. */
	atomic_fetch_add(&page()->credit, 728 * MIB);
	CHECK(!cuMemAlloc_v2(&p, 400 * MIB));
	CHECK(cuGreenCtxCreate(&first, NULL, 3, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(used() == 400 * MIB && md_driver_bytes() == 400 * MIB);
	/* The driver fails: the next context is charged for the primary context again. */
	CHECK(!cuMemFree_v2(p) && used() == 0);
	md.fail = CUDA_ERROR_NOT_SUPPORTED;
	CHECK(cuGreenCtxCreate(&first, NULL, 3, 0) == CUDA_ERROR_NOT_SUPPORTED && used() == 0);
	CHECK(!cuGreenCtxCreate(&first, NULL, 3, 0) && used() == 664 * MIB);
}

static void green_contexts__are_charged_with_their_primary_one(void **state)
{
	(void)state;
	mt_in_child(create_green);
}

static void reset_device(void)
{
	CUcontext c;
	CUdeviceptr p;

	for (int i = 0; i < 2; i++) {
		CHECK(!cuDevicePrimaryCtxRetain(&c, 3) && !cuDevicePrimaryCtxRetain(&c, 3));
		CHECK(!cuMemAlloc_v2(&p, 100 * MIB) && !cuMemAlloc_v2(&p, 100));
		mt_make_pool(64 * MIB);
		CHECK(used() == 766 * MIB && md_driver_bytes() == 166 * MIB + PRIMARY);
		CHECK(!(i ? cuDevicePrimaryCtxReset_v2(3) : cuDevicePrimaryCtxReset(3)));
		CHECK(!md_driver_bytes() && page()->seen == 0 && used() == 600 * MIB);
		atomic_fetch_add(&page()->credit, 600 * MIB);
	}
	CHECK(used() == 0);
}

static void reset__frees_all_but_the_context(void **state)
{
	(void)state;
	mt_in_child(reset_device);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contexts__are_charged_once_for_many_threads),
		cmocka_unit_test(contexts__wait_for_a_comparison_before_they_are_refused),
		cmocka_unit_test(contexts__free_the_allocations_in_them),
		cmocka_unit_test(contexts__end_with_their_last_detach),
		cmocka_unit_test(green_contexts__are_charged_with_their_primary_one),
		cmocka_unit_test(reset__frees_all_but_the_context),
	};

	return cmocka_run_group_tests_name("context", tests, mt_setup, mt_teardown);
}
