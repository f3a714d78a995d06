/* SPDX-License-Identifier: Apache-2.0 */

/* Async pools against a limit: cuda/memory/: pool-reservation.c and pool.c. */
#include "unit/container/cuda/fake-driver.h"

#include "container/cuda/memory/pool-reservation.h"
#include "container/cuda/memory/memory.h"
#include "container/charges/alloc-table.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEEP_ALL UINT64_MAX

static const CUmemPoolProps on_device = {
	.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
};

static uint64_t unused;

static void set_threshold(CUmemoryPool pool, uint64_t bytes)
{
	assert_int_equal(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes),
		0);
}

static CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr p = 0;

	assert_int_equal(cuMemAllocAsync(&p, bytes, fake_stream(1)), 0);
	return p;
}

static void release_cached(CUdeviceptr p)
{
	assert_int_equal(cuMemFreeAsync(p, fake_stream(1)), 0);
}

/* All memory is charged, and the charges were never too small. */
static void assert_exact(void)
{
	assert_int_equal(fake.over, 0);
	assert_int_equal(fake.spoiled, 0);
	assert_int_equal(fake_used(), fake_physical());
	assert_int_equal(fake_page.gpus[0].seen, fake_physical());
	assert_int_equal(fake_page.gpus[0].begun, fake_page.gpus[0].done);
	assert_int_equal(fake_thread_mode(), 0);
}

static int setup(void **state)
{
	(void)state;
	fake_new(256 * MIB);
	return 0;
}

static int empty(void **state)
{
	(void)state;
	assert_int_equal(cuCtxSynchronize(), 0);
	pool_reservations_trim(0);
	assert_exact();
	assert_int_equal(fake_used(), 0);
	return 0;
}

static void pool_max__is_the_limit_in_whole_pieces(void **state)
{
	(void)state;
	assert_int_equal(pool_max_bytes(0, 100 * MIB), 96 * MIB);
	assert_int_equal(pool_max_bytes(64 * MIB, 100 * MIB), 64 * MIB);
	assert_int_equal(pool_max_bytes(512 * MIB, 100 * MIB), 96 * MIB);
	assert_int_equal(pool_max_bytes(0, MIB), 32 * MIB);
	assert_int_equal(pool_max_bytes(0, SLICE_NO_LIMIT), 0);
}

static void pool_reservation_growth__is_in_whole_pieces(void **state)
{
	(void)state;
	assert_int_equal(pool_reservation_growth(0), 0);
	assert_int_equal(pool_reservation_growth(1), 32 * MIB);
	assert_int_equal(pool_reservation_growth(32 * MIB), 32 * MIB);
	assert_int_equal(pool_reservation_growth(32 * MIB + 1), 64 * MIB);
	assert_true(pool_reservation_growth(UINT64_MAX) == UINT64_MAX);
}

static void alloc__charges_the_growth_of_the_pool(void **state)
{
	CUdeviceptr a = alloc(40 * MIB), b;

	(void)state;
	assert_int_equal(fake_used(), 64 * MIB);
	b = alloc(10 * MIB);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_exact();
	release_cached(a);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_int_equal(cuStreamSynchronize(fake_stream(1)), 0);
	assert_int_equal(fake_used(), 32 * MIB);
	assert_exact();
	release_cached(b);
}

static void alloc__is_refused_at_the_limit(void **state)
{
	CUdeviceptr a = alloc(200 * MIB), b;

	(void)state;
	assert_int_equal(cuMemAllocAsync(&b, 40 * MIB, fake_stream(1)),
		CUDA_ERROR_OUT_OF_MEMORY);
	assert_exact();
	b = alloc(32 * MIB);
	assert_int_equal(fake_used(), 256 * MIB);
	release_cached(a);
	release_cached(b);
}

static void alloc__charges_in_all_variants(void **state)
{
	CUdeviceptr p[4];

	(void)state;
	assert_int_equal(cuMemAllocAsync_ptsz(&p[0], 20 * MIB, NULL), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p[1], 20 * MIB, fake_default_pool(), NULL),
		0);
	assert_int_equal(
		cuMemAllocFromPoolAsync_ptsz(&p[2], 20 * MIB, fake_default_pool(), NULL), 0);
	assert_int_equal(cuMemAllocAsync(&p[3], 20 * MIB, CU_STREAM_PER_THREAD), 0);
	assert_int_equal(fake.own_calls, 2);
	assert_int_equal(fake_used(), 96 * MIB);
	assert_exact();
	for (int i = 0; i < 4; i++)
		release_cached(p[i]);
}

static void alloc__reuses_cached_memory_of_the_pool(void **state)
{
	CUdeviceptr a, b;

	(void)state;
	set_threshold(fake_default_pool(), KEEP_ALL);
	a = alloc(96 * MIB);
	b = alloc(96 * MIB);
	release_cached(a);
	release_cached(b);
	assert_int_equal(cuStreamSynchronize(fake_stream(1)), 0);
	assert_int_equal(fake_used(), 192 * MIB);
	a = alloc(192 * MIB);
	assert_true(fake.trims > 0);
	assert_exact();
	release_cached(a);
}

static void alloc__waits_for_its_stream_at_the_limit(void **state)
{
	CUdeviceptr a = alloc(192 * MIB);

	(void)state;
	release_cached(a);
	fake.never_idle = 3;
	a = alloc(192 * MIB); /* no wait of the program's in between */
	assert_int_equal(fake.never_idle, 0);
	assert_exact();
	release_cached(a);
}

static void alloc__waits_no_longer_than_allowed(void **state)
{
	CUdeviceptr a = alloc(192 * MIB), b;

	(void)state;
	release_cached(a);
	fake.never_idle = 1 << 30;
	assert_int_equal(cuMemAllocAsync(&b, 192 * MIB, fake_stream(1)),
		CUDA_ERROR_OUT_OF_MEMORY);
	fake.never_idle = 0;
	assert_exact();
}

static void capture__charges_nothing_and_stays_valid(void **state)
{
	CUdeviceptr a = alloc(200 * MIB), b;

	(void)state;
	set_threshold(fake_default_pool(), KEEP_ALL);
	release_cached(a);
	for (unsigned int mode = 0; mode < 3; mode++) {
		fake_capture(fake_stream(2), mode);
		assert_int_equal(cuMemAllocAsync(&b, 200 * MIB, fake_stream(2)), 0);
		assert_int_equal(fake_used(), 224 * MIB);
		/* A charge of any kind at the limit trims the reservations. */
		pool_reservations_trim(0);
		assert_int_equal(fake.spoiled, 0);
		assert_int_equal(fake_thread_mode(), 0);
		fake_capture_end(fake_stream(2));
	}
	assert_exact();
}

static void destroy__keeps_a_pool_until_it_is_empty(void **state)
{
	CUmemoryPool pool, now;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(REAL(cuDeviceSetMemPool)(0, pool), 0);
	p = alloc(40 * MIB);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	assert_int_equal(fake.destroyed, 0);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_int_equal(REAL(cuDeviceGetMemPool)(&now, 0), 0);
	assert_ptr_equal(now, fake_default_pool());
	release_cached(p);
	assert_int_equal(fake_used(), 64 * MIB);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(fake_used(), 0);
	assert_int_equal(fake.destroyed, 1);
	assert_exact();
}

static void destroy__of_an_empty_pool_frees_it_at_once(void **state)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	set_threshold(pool, KEEP_ALL);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 0);
	release_cached(p);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(fake_used(), 32 * MIB);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	assert_int_equal(fake.destroyed, 1);
	assert_int_equal(fake_used(), 0);
	assert_int_not_equal(cuMemPoolDestroy(fake_default_pool()), 0);
	/* The handle comes again. */
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 0);
	assert_int_equal(fake_used(), 32 * MIB);
	release_cached(p);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	assert_exact();
}

static void create__makes_no_pool_larger_than_the_slice(void **state)
{
	CUmemPoolProps props = on_device;
	CUmemoryPool pool;

	(void)state;
	fake_page.gpus[0].alone = 1;
	assert_int_equal(cuMemPoolCreate(&pool, &props), 0);
	assert_int_equal(fake.max_size, 256 * MIB);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	fake.old_driver = true;
	assert_int_equal(cuMemPoolCreate(&pool, &props), 0);
	assert_int_equal(fake.max_size, 0);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
}

static void reset__leaves_the_pools_to_the_comparison(void **state)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 0);
	fake_reset();
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(fake_page.gpus[0].seen, 0);
	link_compare(0);
	assert_exact();
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	/* The handle comes again. */
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 0);
	assert_int_equal(fake_used(), 32 * MIB);
	release_cached(p);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
}

/* CUDA 11.2: the bounds are all there is, until the pool is gone. */
static void size_unknown__is_charged_in_full(void **state)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	(void)state;
	fake.old_driver = true;
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, 40 * MIB, pool, NULL), 0);
	assert_int_equal(fake_used(), 64 * MIB);
	release_cached(p);
	fake_unseen_sync();
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	assert_int_equal(fake.destroyed, 1);
	link_compare(0);
	fake.old_driver = false;
	assert_exact();
}

static void pools_of_others_cost_nothing(void **state)
{
	CUmemPoolProps host = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 0 } };
	CUmemoryPool pool, imported;
	CUdeviceptr p;

	(void)state;
	assert_int_equal(cuMemPoolCreate(&pool, &host), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, 512 * MIB, pool, NULL), 0);
	assert_int_equal(fake_used(), 0);
	release_cached(p);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
	assert_int_equal(cuMemPoolImportFromShareableHandle(&imported, &unused, 1, 0), 0);
	assert_int_equal(fake_used(), 0);
	/* The handle may come again for one that does cost. */
	assert_int_equal(cuMemPoolCreate(&pool, &on_device), 0);
	assert_int_equal(cuMemAllocFromPoolAsync(&p, MIB, pool, NULL), 0);
	assert_int_equal(fake_used(), 32 * MIB);
	release_cached(p);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(cuMemPoolDestroy(pool), 0);
}

static void shrunk_unseen__is_left_to_the_comparison(void **state)
{
	CUdeviceptr a = alloc(64 * MIB), b;

	(void)state;
	fake_hidden(100 * MIB);
	release_cached(a);
	fake_unseen_sync(); /* the pool has no memory, and the library does not know that */
	link_compare(0);    /* the arbiter sees that, and believes that the context shrank */
	assert_int_equal(fake_used(), 100 * MIB);
	b = alloc(MIB);
	/* The used bytes are never below the physical ones. */
	assert_true(fake_used() >= fake_physical());
	assert_int_equal(fake.over, 0);
	link_compare(0);
	assert_int_equal(fake_used(), 132 * MIB);
	assert_int_equal(fake_page.gpus[0].seen, 32 * MIB);
	release_cached(b);
	assert_int_equal(cuCtxSynchronize(), 0);
	assert_int_equal(fake_used(), 100 * MIB);
	fake_new(256 * MIB);
}

static void free__of_memory_of_no_pool_changes_no_pool(void **state)
{
	struct alloc_row row = { .bytes = 1, .count = 1 };

	(void)state;
	assert_true(alloc_table_put(ALLOC_POINTER, 0x7000, &row));
	assert_int_equal(cuMemFreeAsync(0x7000, fake_stream(1)), 0);
	assert_int_equal(fake.own_calls, 1);
}

static void no_slice__is_passed_through(void **state)
{
	CUdeviceptr p;

	(void)state;
	fake.state = LINK_NO_SLICE;
	link_off = true;
	fake.calls = 0;
	assert_int_equal(cuMemAllocAsync(&p, 512 * MIB, NULL), 0);
	assert_int_equal(cuMemFreeAsync(p, NULL), 0);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake_used(), 0);
	fake_new(256 * MIB);
}

/* The bounds of calls under way protect an allocation that is in progress. */

static void wait_beside_others(void)
{
	assert_int_equal(cuStreamSynchronize(fake_stream(2)), 0);
	assert_int_equal(fake_used(), 64 * MIB);
	pool_reservations_trim(0);
	assert_int_equal(fake_used(), 64 * MIB);
}

static CUdeviceptr second;

static void alloc_beside_others(void)
{
	second = alloc(20 * MIB);
	assert_int_equal(fake_used(), 96 * MIB);
}

static void call_in_progress__keeps_its_bound(void **state)
{
	CUdeviceptr p;

	(void)state;
	fake.meanwhile = wait_beside_others;
	fake.after = wait_beside_others;
	p = alloc(64 * MIB);
	assert_exact();
	release_cached(p);
	assert_int_equal(cuCtxSynchronize(), 0);
	fake.meanwhile = alloc_beside_others;
	p = alloc(64 * MIB);
	assert_int_equal(fake_used(), 96 * MIB);
	assert_exact();
	release_cached(p);
	release_cached(second);
}

static void *alloc_and_free(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	CUdeviceptr have[4] = { 0 };

	for (int i = 0; i < 3000; i++) {
		CUdeviceptr *p = &have[rand_r(&seed) % 4];
		size_t bytes = ((size_t)rand_r(&seed) % 64 + 1) * MIB;

		if (*p)
			assert_int_equal(cuMemFreeAsync(*p, fake_stream(1)), 0), *p = 0;
		else if (cuMemAllocAsync(p, bytes, fake_stream(1)))
			*p = 0;
		if (rand_r(&seed) % 16 == 0)
			assert_int_equal(cuStreamSynchronize(fake_stream(1)), 0);
		if (rand_r(&seed) % 64 == 0)
			pool_reservations_trim(0);
	}
	for (int i = 0; i < 4; i++)
		if (have[i])
			(void)cuMemFreeAsync(have[i], fake_stream(1));
	return NULL;
}

static void threads__count_each_allocation_once(void **state)
{
	pthread_t threads[8];

	(void)state;
	fake_new(1024 * MIB);
	set_threshold(fake_default_pool(), 64 * MIB);
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, alloc_and_free, (void *)(i + 1)), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(fake.over, 0);
	/* A shrink that another thread's wait made while this one began is left to the arbiter. */
	assert_int_equal(cuCtxSynchronize(), 0);
	pool_reservations_trim(0);
	link_compare(0);
	set_threshold(fake_default_pool(), 0);
}

static void pool_reservations__are_gone_in_a_child(void **state)
{
	int status = -1;
	pid_t pid;

	(void)state;
	assert_non_null(pool_reservation_get(POOL_RESERVATION_POOL, 77, 0, 0, CHARGE_SEEN));
	pid = fork();
	if (!pid)
		_exit(pool_reservation_find(POOL_RESERVATION_POOL, 77) ||
			!pool_reservation_get(POOL_RESERVATION_POOL, 78, 0, 0, CHARGE_SEEN) ||
			!pool_reservation_find(POOL_RESERVATION_POOL, 78));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_non_null(pool_reservation_find(POOL_RESERVATION_POOL, 77));
	assert_null(pool_reservation_find(POOL_RESERVATION_POOL, 78));
	pool_reservation_find(POOL_RESERVATION_POOL, 77)->key = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pool_max__is_the_limit_in_whole_pieces),
		cmocka_unit_test(pool_reservation_growth__is_in_whole_pieces),
#define T(name) cmocka_unit_test_setup_teardown(name, setup, empty)
		T(alloc__charges_the_growth_of_the_pool),
		T(alloc__is_refused_at_the_limit),
		T(alloc__charges_in_all_variants),
		T(alloc__reuses_cached_memory_of_the_pool),
		T(alloc__waits_for_its_stream_at_the_limit),
		T(alloc__waits_no_longer_than_allowed),
		T(capture__charges_nothing_and_stays_valid),
		T(destroy__keeps_a_pool_until_it_is_empty),
		T(destroy__of_an_empty_pool_frees_it_at_once),
		T(create__makes_no_pool_larger_than_the_slice),
		T(reset__leaves_the_pools_to_the_comparison),
		T(size_unknown__is_charged_in_full),
		T(pools_of_others_cost_nothing),
		T(shrunk_unseen__is_left_to_the_comparison),
		T(free__of_memory_of_no_pool_changes_no_pool),
		T(no_slice__is_passed_through),
		T(call_in_progress__keeps_its_bound),
		T(threads__count_each_allocation_once),
#undef T
		cmocka_unit_test(pool_reservations__are_gone_in_a_child),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
