/* SPDX-License-Identifier: Apache-2.0 */

/* Many threads in the driver at once: the driver's allocated bytes are charged at each moment. */
#include "support/test.h"
#include "unit/container/cuda/memory-test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr other;
static CUmemGenericAllocationHandle other_handle;

static void free_other(void)
{
	CHECK(!cuMemFree_v2(other));
}

static void alloc_other(void)
{
	CHECK(!cuMemAlloc_v2(&other, 100));
}

static void unmap_other(void)
{
	CHECK(!cuMemUnmap(BASE * 2, G));
}

static void create_other(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };

	CHECK(!cuMemCreate(&other_handle, 6 * MIB, &prop, 0));
}

/* Two threads in the driver at once, one of which is delayed there; the checks are in md_driver_take(), md_driver_give()
 * and once(). */
static void try_orders(void)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;

	/* md.before and md.after free the other pointer of the chunk during the call, as another thread
	 * would. */
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemAlloc_v2(&other, 100));
	md.before = free_other;
	CHECK(!cuMemFree_v2(p) && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 100) && !cuMemAlloc_v2(&other, 100));
	md.after = free_other;
	CHECK(!cuMemFree_v2(p) && used() == 0);
	/* The last one is freed while the next one comes, before the chunk goes and after. */
	CHECK(!cuMemAlloc_v2(&p, 100));
	md.before = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G);
	CHECK(!cuMemFree_v2(other) && used() == 0);
	CHECK(!cuMemAlloc_v2(&p, 100));
	md.after = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G && other == p);
	CHECK(!cuMemFree_v2(other) && used() == 0);
	/* The same address, larger: the old row must not take the new one's. */
	CHECK(!cuMemAlloc_v2(&p, 4 * MIB));
	md.after = alloc_other;
	CHECK(!cuMemFree_v2(p) && used() == G);
	CHECK(!cuMemFree_v2(other) && used() == 0 && page()->seen == 0);
	/* A handle and its mapping. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && !cuMemMap(BASE * 2, G, 0, h, 0));
	md.before = unmap_other;
	CHECK(!cuMemRelease(h) && used() == 0);
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0) && !cuMemMap(BASE * 2, G, 0, h, 0));
	md.after = unmap_other;
	CHECK(!cuMemRelease(h) && used() == 0);
	/* The driver reuses the handle before the last reference is counted out: a reading corrects that. */
	CHECK(!cuMemCreate(&h, 4 * MIB, &prop, 0));
	md.after = create_other;
	CHECK(!cuMemRelease(h) && other_handle == h);
	CHECK(used() == 10 * MIB && page()->seen == 6 * MIB && md_driver_bytes() == 6 * MIB);
	CHECK(!cuMemRelease(h) && page()->seen == 0 && used() == 4 * MIB);
}

static void charges__cover_the_memory_of_the_driver_in_every_order(void **state)
{
	(void)state;
	mt_in_child(try_orders);
}

/* --- many at once --- */

#define HELD_MAX 24

struct thing {
	enum { NOTHING, PLAIN, PHYSICAL } kind;
	CUdeviceptr p;
	CUmemGenericAllocationHandle h;
};

static bool make_thing(struct thing *t, unsigned int *seed, uint64_t at)
{
	CUmemAllocationProp prop = { .type = 1,
		.location = { CU_MEM_LOCATION_TYPE_DEVICE, 3 } };
	unsigned int dice = (unsigned int)rand_r(seed);
	uint64_t n = dice % 3 ? 1 + dice % 30000 : (1 + dice % 40) * G;

	t->p = at;
	if (dice % 7 == 0) {
		if (cuMemCreate(&t->h, (1 + dice % 20) * G, &prop, 0))
			return false;
		CHECK(!cuMemMap(at, G, 0, t->h, 0));
		t->kind = PHYSICAL;
		return true;
	}
	if (cuMemAlloc_v2(&t->p, n))
		return false;
	t->kind = PLAIN;
	return true;
}

static void free_thing(struct thing *t, unsigned int *seed)
{
	bool handle_first = rand_r(seed) % 2;

	if (t->kind == PLAIN)
		CHECK(!cuMemFree_v2(t->p));
	if (t->kind == PHYSICAL) {
		CHECK(!handle_first || !cuMemRelease(t->h));
		CHECK(!cuMemUnmap(t->p, G));
		CHECK(handle_first || !cuMemRelease(t->h));
	}
	t->kind = NOTHING;
}

static void *race_hooks(void *arg)
{
	uint64_t number = (uintptr_t)arg;
	unsigned int seed = (unsigned int)number + 1 + 100 * (unsigned int)md_me;
	struct thing things[HELD_MAX] = { 0 };

	while (!atomic_load(&md_shared->stop)) {
		uint64_t i = (uint64_t)rand_r(&seed) % HELD_MAX;

		if (things[i].kind != NOTHING)
			free_thing(&things[i], &seed);
		else if (make_thing(&things[i], &seed, BASE * 2 + (number * HELD_MAX + i) * G))
			atomic_fetch_add(&md_shared->done, 1);
		else
			atomic_fetch_add(&md_shared->refused, 1);
	}
	for (int i = 0; i < HELD_MAX; i++)
		free_thing(&things[i], &seed);
	return NULL;
}

static void hooks__keep_to_the_limit_with_many_threads(void **state)
{
	pthread_t threads[8];

	(void)state;
	md_new();
	slice_arbiter_start_memory(arbiter, mt_dir, LIMIT);
	atomic_store(&arbiter->unkind, true);
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race_hooks, (void *)i), 0);
	(void)usleep(999 * 1000);
	atomic_store(&md_shared->stop, true);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	atomic_store(&arbiter->unkind, false);
	print_message("# %d done, %d refused\n", (int)md_shared->done, (int)md_shared->refused);
	assert_int_equal(atomic_load(&md_shared->over), 0);
	assert_true(md_shared->done > 100 && md_shared->refused > 10);
	pthread_mutex_lock(&arbiter->lock);
	assert_int_equal(md_driver_bytes(), 0);
	assert_int_equal(used(), atomic_load(&page()->seen) + charges_read_overhead(0));
	assert_int_equal(atomic_load(&page()->begun), atomic_load(&page()->done));
	/* Handles given again before the last reference was counted out are disowned. */
	assert_int_equal(atomic_load(&page()->seen), 0);
	pthread_mutex_unlock(&arbiter->lock);
	slice_arbiter_stop(arbiter);
}

static void check_dead(const struct slice_arbiter_process *p, void *arg)
{
	const struct slice_gpu_page *g = &p->page->gpus[0];
	uint64_t in_driver = *(uint64_t *)arg, credit = g->credit;

	assert_true(credit <= p->granted);
	assert_true(in_driver <= p->granted - credit);
}

static void hooks__survive_a_kill_at_any_instruction(void **state)
{
	enum { N = 4, ROUNDS = 20 };
	unsigned int seed = 3;
	uint64_t done = 0, refusals = 0;

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pids[N] = { 0 };
		int go[2];

		md_new();
		assert_int_equal(pipe(go), 0);
		assert_int_equal(setenv("GPUSLICE_SLICE_DIR", mt_dir, 1), 0);
		for (md_me = 0; md_me < N; md_me++) {
			pthread_t threads[4];
			char byte;

			pids[md_me] = fork();
			if (pids[md_me])
				continue;
			alarm(30);
			(void)close(go[1]);
			while (read(go[0], &byte, 1) > 0)
				;
			for (uintptr_t i = 0; i < 4; i++)
				(void)pthread_create(&threads[i], NULL, race_hooks, (void *)i);
			for (size_t i = 0; i < 4; i++)
				(void)pthread_join(threads[i], NULL);
			_exit(0);
		}
		slice_arbiter_start_memory(arbiter, mt_dir, LIMIT);
		atomic_store(&arbiter->unkind, true);
		(void)close(go[0]);
		(void)close(go[1]);
		for (int i = 0; i < N; i++) {
			uint64_t in_driver;

			(void)usleep((unsigned int)rand_r(&seed) % 12000 + (i ? 0 : 20000));
			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
			in_driver = atomic_load(&md_shared->of[i]);
			atomic_fetch_sub(&md_shared->total, in_driver);
			slice_arbiter_reap(arbiter, pids[i], check_dead, &in_driver);
		}
		assert_int_equal(atomic_load(&md_shared->over), 0);
		assert_int_equal(slice_arbiter_granted_sum(arbiter), 0);
		done += atomic_load(&md_shared->done);
		refusals += atomic_load(&md_shared->refused);
		slice_arbiter_stop(arbiter);
	}
	print_message("# %d done, %d refused\n", (int)done, (int)refusals);
	assert_true(done > 100 && refusals > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charges__cover_the_memory_of_the_driver_in_every_order),
		cmocka_unit_test(hooks__survive_a_kill_at_any_instruction),
		cmocka_unit_test(hooks__keep_to_the_limit_with_many_threads),
	};

	return cmocka_run_group_tests_name("memory-race", tests, mt_setup, mt_teardown);
}
