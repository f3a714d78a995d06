/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "unit/container/slice-arbiter.h"

#include "container/charges/charges.h"
#include "container/client/link.h"
#include "container/sys.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define MIB   (UINT64_C(1) << 20)
#define LIMIT (1024 * MIB)
#define GPU   0

/* In a child: cmocka's own would run the rest of the tests there. */
#define CHECK(condition)                                                                   \
	do {                                                                               \
		if (!(condition)) {                                                        \
			(void)fprintf(stderr, "# %s:%d: not so: %s\n", __FILE__, __LINE__, \
				#condition);                                               \
			_exit(1);                                                          \
		}                                                                          \
	} while (0)

static char *dir;
static struct slice_arbiter *arbiter;

static struct slice_gpu_page *page(void)
{
	return &link_page()->gpus[GPU];
}

static uint64_t used(void)
{
	return page()->granted - page()->credit;
}

/* The link's state belongs to a process; a child starts with an empty state. */
static void in_child(void (*fn)(void))
{
	int status = -1;
	pid_t pid;

	slice_arbiter_start_memory(arbiter, dir, LIMIT);
	pid = fork();
	if (!pid) {
		alarm(30);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	slice_arbiter_stop(arbiter);
	assert_int_equal(status, 0);
}

static void charge_and_release(void)
{
	struct charge c;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, 100 * MIB, CHARGE_SEEN));
	CHECK(page()->begun == 1 && page()->done == 0);
	CHECK(used() == 100 * MIB && page()->seen == 0);
	charge_end(&c, 60 * MIB);
	CHECK(page()->done == 1);
	CHECK(used() == 60 * MIB && page()->seen == 60 * MIB && page()->peak == 60 * MIB);
	CHECK(arbiter->wants == 1);
	/* The credit has enough bytes, so the process sends no request to the arbiter. */
	CHECK(!charge_begin(&c, GPU, 40 * MIB, CHARGE_UNSEEN));
	charge_end(&c, 40 * MIB);
	CHECK(arbiter->wants == 1 && page()->unseen == 40 * MIB && used() == 100 * MIB);
	/* The driver refused: the whole charge returns to the credit. */
	CHECK(!charge_begin(&c, GPU, 40 * MIB, CHARGE_SEEN));
	charge_end(&c, 0);
	CHECK(used() == 100 * MIB && page()->seen == 60 * MIB);
	charge_free_begin(&c, GPU, CHARGE_SEEN);
	CHECK(page()->begun == page()->done + 1);
	charge_free_end(&c, 60 * MIB);
	charge_release(GPU, 40 * MIB, CHARGE_UNSEEN);
	CHECK(used() == 0 && page()->seen == 0 && page()->unseen == 0);
	CHECK(page()->begun == page()->done && page()->peak == 100 * MIB);
	/* A release of more than was charged has no effect. */
	charge_release(GPU, 40 * MIB, CHARGE_UNSEEN);
	CHECK(used() == 0 && page()->unseen == 0);
}

static void charge__updates_used_seen_and_peak(void **state)
{
	(void)state;
	in_child(charge_and_release);
}

static int on_full_calls;
static uint64_t cached;

static void on_full(int gpu)
{
	on_full_calls++;
	charge_release(gpu, cached, CHARGE_SEEN);
	cached = 0;
}

static void charge_at_the_limit(void)
{
	struct charge c;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, LIMIT - 100 * MIB, CHARGE_SEEN));
	charge_end(&c, LIMIT - 100 * MIB);
	CHECK(charge_begin(&c, GPU, 100 * MIB + 1, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(used() == LIMIT - 100 * MIB && page()->begun == page()->done);
	/* The page counts one refused allocation, although the process asked the arbiter several times. */
	CHECK(arbiter->wants == 3 && page()->refused == 1);
	charge_end(&c, 5); /* of a charge that failed: nothing */
	CHECK(used() == LIMIT - 100 * MIB && page()->begun == page()->done);
	CHECK(charge_begin(&c, GPU, UINT64_MAX, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->wants == 3 && page()->refused == 2);
	CHECK(charge_try(&c, GPU, 101 * MIB, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(page()->refused == 2);
	charges_on_full = on_full;
	cached = 50 * MIB;
	CHECK(!charge_begin(&c, GPU, 150 * MIB, CHARGE_SEEN));
	CHECK(on_full_calls == 1 && page()->refused == 2);
	charge_end(&c, 150 * MIB);
	CHECK(charge_begin(&c, GPU, MIB, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(on_full_calls == 2 && used() == LIMIT && page()->refused == 3);
	/* A bound of 0 (a free) is never refused. */
	CHECK(!charge_begin(&c, GPU, 0, CHARGE_SEEN));
	charge_end(&c, 0);
}

static void charge__trims_once_at_the_limit_then_returns_out_of_memory(void **state)
{
	(void)state;
	in_child(charge_at_the_limit);
}

static _Atomic int asked;

/* Ends the bound once the other thread has asked twice, and so waits. */
static void *end_bound_later(void *arg)
{
	while (atomic_load(&arbiter->wants) < asked + 2)
		(void)usleep(100);
	charge_end(arg, 10 * MIB);
	return NULL;
}

static CUresult charge_beside(struct charge *other, struct charge *c)
{
	pthread_t thread;
	CUresult r;

	CHECK(!charge_begin(other, GPU, LIMIT - 100 * MIB, CHARGE_SEEN));
	asked = arbiter->wants;
	CHECK(!pthread_create(&thread, NULL, end_bound_later, other));
	r = charge_begin(c, GPU, 200 * MIB, CHARGE_SEEN);
	CHECK(!pthread_join(thread, NULL));
	return r;
}

/* A bound of another thread is in the way, of which most comes back. */
static void charge_beside_bounds(void)
{
	struct charge other, c;
	int wants, tries = 1;

	CHECK(charges_active());
	/* The other thread may come too late on a busy machine. */
	while (charge_beside(&other, &c)) {
		CHECK(++tries < 20);
		charge_release(GPU, 10 * MIB, CHARGE_SEEN);
	}
	charge_end(&c, 200 * MIB);
	CHECK(used() == 210 * MIB);
	/* The whole limit would be too little, so the request does not wait. */
	CHECK(!charge_begin(&other, GPU, 100 * MIB, CHARGE_SEEN));
	wants = arbiter->wants;
	CHECK(charge_begin(&c, GPU, LIMIT - 200 * MIB, CHARGE_SEEN) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->wants == wants + 2);
	/* The bytes of the other thread would suffice, but it does not give them back in time. */
	CHECK(charge_begin(&c, GPU, LIMIT - 250 * MIB, CHARGE_SEEN) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->wants > wants + 2);
	charge_end(&other, 0);
	wants = arbiter->wants;
	CHECK(charge_begin(&c, GPU, LIMIT, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(arbiter->wants == wants + 2);
	CHECK(used() == 210 * MIB && page()->begun == page()->done);
}

static void charge__waits_for_bounds_of_other_threads_at_the_limit(void **state)
{
	int status = -1;
	pid_t pid;

	(void)state;
	pid = fork(); /* before there are threads: TSan allows none in a child of a threaded process */
	if (!pid) {
		alarm(30);
		slice_arbiter_start_memory(arbiter, dir, LIMIT);
		charge_beside_bounds();
		slice_arbiter_stop(arbiter);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void charge_beyond_the_bound(void)
{
	uint64_t limit, in_use;
	struct charge c;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, 10 * MIB, CHARGE_SEEN));
	charge_end(&c, 30 * MIB); /* asks for the rest */
	CHECK(used() == 30 * MIB && page()->seen == 30 * MIB);
	CHECK(!charge_begin(&c, GPU, LIMIT - 40 * MIB, CHARGE_SEEN));
	charge_end(&c, LIMIT - 20 * MIB); /* 10 MiB above the limit: a debt */
	CHECK(used() <= LIMIT && page()->seen == LIMIT + 10 * MIB);
	atomic_store(&page()->alone, 1);
	CHECK(charges_read_usage(GPU, &limit, &in_use) && limit == LIMIT);
	CHECK(in_use >= LIMIT + 10 * MIB);
	CHECK(charge_begin(&c, GPU, 1, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	charge_release(GPU, 30 * MIB, CHARGE_SEEN);
	CHECK(page()->seen == LIMIT - 20 * MIB && used() == LIMIT - 20 * MIB);
	CHECK(!charge_begin(&c, GPU, 20 * MIB, CHARGE_SEEN));
	charge_end(&c, 20 * MIB);
	CHECK(used() == LIMIT && page()->begun == page()->done);
}

static void charge_end__records_a_debt_for_bytes_beyond_the_grant(void **state)
{
	(void)state;
	in_child(charge_beyond_the_bound);
}

static void charge_hidden(void)
{
	struct charge c;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, 600 * MIB, CHARGE_HIDDEN));
	charge_end(&c, 600 * MIB);
	CHECK(used() == 600 * MIB && page()->seen == 0 && arbiter->compares == 1);
	CHECK(charges_read_overhead(GPU) == 600 * MIB);
	/* This process does not free it. */
	charge_release(GPU, 600 * MIB, CHARGE_HIDDEN);
	CHECK(used() == 600 * MIB && arbiter->compares == 2);
	charge_adjust(GPU, (int64_t)(20 * MIB), CHARGE_SEEN);
	CHECK(used() == 620 * MIB && page()->seen == 20 * MIB);
	charge_disown(GPU, 20 * MIB);
	CHECK(used() == 620 * MIB && page()->seen == 0 && arbiter->compares == 3);
	charge_adjust(GPU, (int64_t)(20 * MIB), CHARGE_SEEN);
	charge_adjust(GPU, -(int64_t)(20 * MIB), CHARGE_SEEN);
	CHECK(used() == 620 * MIB && page()->begun == page()->done);
}

static void charge__leaves_hidden_allocations_to_the_arbiter(void **state)
{
	(void)state;
	in_child(charge_hidden);
}

static void charge_without_gpu(void)
{
	struct charge c;

	CHECK(!unsetenv("GPUSLICE_SLICE_DIR"));
	CHECK(!charges_active() && link_open(true) == LINK_NO_SLICE && !link_page());
	CHECK(!charge_begin(&c, CHARGES_NO_GPU, UINT64_MAX, CHARGE_SEEN));
	charge_end(&c, 5 * MIB);
	charge_release(CHARGES_NO_GPU, 5 * MIB, CHARGE_SEEN);
	CHECK(arbiter->memory.hellos == 0);
}

static void charge__does_nothing_outside_of_a_slice(void **state)
{
	(void)state;
	in_child(charge_without_gpu);
}

static void charge_when_refused(void)
{
	struct charge c;

	atomic_store(&arbiter->memory.status, SLICE_REFUSED);
	CHECK(charges_active() && !link_page());
	CHECK(charge_begin(&c, CHARGES_GPU_UNKNOWN, 1, CHARGE_SEEN) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(!charge_begin(&c, CHARGES_GPU_UNKNOWN, 0, CHARGE_SEEN));
	charge_end(&c, 0);
}

/* An arbiter that does not answer is no refusal by the limit. */
static void charge_without_answer(void)
{
	struct charge c;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, MIB, CHARGE_SEEN));
	charge_end(&c, MIB);
	slice_arbiter_mute(arbiter);
	CHECK(page()->credit < LIMIT - MIB);
	CHECK(charge_begin(&c, GPU, page()->credit + MIB, CHARGE_SEEN) ==
		CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(page()->refused == 0 && page()->begun == page()->done);
}

static void charge__without_an_answer_is_not_counted_as_refused(void **state)
{
	(void)state;
	in_child(charge_without_answer);
}

static void charge_without_limit(void)
{
	struct charge c;

	CHECK(charges_active());
	atomic_store(&page()->limit, SLICE_NO_LIMIT);
	CHECK(charge_begin(&c, GPU, UINT64_MAX, CHARGE_SEEN) == CUDA_ERROR_OUT_OF_MEMORY);
	CHECK(page()->refused == 0);
}

static void charge__without_a_limit_counts_no_refusals(void **state)
{
	(void)state;
	in_child(charge_without_limit);
}

static void charge__fails_where_the_arbiter_refuses_the_process(void **state)
{
	(void)state;
	in_child(charge_when_refused);
}

/* --- many at once --- */

/* A driver that counts only its allocated bytes, for all processes that share it. A kill between two of its
 * words leaves the total too low, never too high: no false alarm. */
struct driver {
	_Atomic uint64_t total;
	_Atomic uint64_t of[16]; /* of each process; never less than it has in .total */
	_Atomic uint64_t over;   /* how often the total was above the limit */
	_Atomic uint64_t refused, done;
	_Atomic bool stop;
};

static struct driver *driver;
static int me; /* which of the processes */

static void driver_alloc(uint64_t bytes)
{
	atomic_fetch_add(&driver->of[me], bytes);
	if ((int64_t)(atomic_fetch_add(&driver->total, bytes) + bytes) > (int64_t)LIMIT)
		atomic_fetch_add(&driver->over, 1);
}

static void driver_free(uint64_t bytes)
{
	atomic_fetch_sub(&driver->total, bytes);
	atomic_fetch_sub(&driver->of[me], bytes);
}

#define HELD_MAX 16

static void *race_charges(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	uint64_t charged[HELD_MAX] = { 0 };

	while (!atomic_load(&driver->stop)) {
		int i = rand_r(&seed) % HELD_MAX;
		enum charge_kind kind = i % 2 ? CHARGE_SEEN : CHARGE_UNSEEN;
		struct charge c;

		if (charged[i]) {
			charge_free_begin(&c, GPU, kind);
			driver_free(charged[i]);
			charge_free_end(&c, charged[i]);
			charged[i] = 0;
			continue;
		}
		charged[i] = (uint64_t)(rand_r(&seed) % 40 + 1) * 2 * MIB;
		if (charge_begin(&c, GPU, charged[i] + 2 * MIB, kind)) {
			atomic_fetch_add(&driver->refused, 1);
			charged[i] = 0;
		} else if (rand_r(&seed) % 8 == 0) { /* the driver refuses */
			charge_end(&c, 0);
			charged[i] = 0;
		} else {
			driver_alloc(charged[i]);
			charge_end(&c, charged[i]);
			atomic_fetch_add(&driver->done, 1);
		}
	}
	for (int i = 0; i < HELD_MAX; i++) {
		driver_free(charged[i]);
		charge_release(GPU, charged[i], i % 2 ? CHARGE_SEEN : CHARGE_UNSEEN);
	}
	return NULL;
}

static void driver_new(void)
{
	driver = mmap(NULL, sizeof(*driver), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	assert_ptr_not_equal(driver, MAP_FAILED);
}

static void charge__keeps_to_the_limit_with_many_threads(void **state)
{
	pthread_t threads[8];

	(void)state;
	driver_new();
	slice_arbiter_start_memory(arbiter, dir, LIMIT);
	atomic_store(&arbiter->unkind, true);
	assert_true(charges_active());
	for (uintptr_t i = 0; i < 8; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, race_charges, (void *)(i + 1)), 0);
	(void)usleep(700 * 1000);
	atomic_store(&driver->stop, true);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	atomic_store(&arbiter->unkind, false);
	assert_int_equal(atomic_load(&driver->over), 0);
	assert_int_equal(atomic_load(&driver->total), 0);
	assert_true(atomic_load(&driver->refused) > 0); /* it was at the limit */
	assert_true(atomic_load(&driver->done) > 100);
	pthread_mutex_lock(&arbiter->lock);
	assert_int_equal(used(), 0);
	assert_int_equal(atomic_load(&page()->seen), 0);
	assert_int_equal(atomic_load(&page()->unseen), 0);
	assert_int_equal(atomic_load(&page()->begun), atomic_load(&page()->done));
	assert_true(atomic_load(&page()->peak) <= LIMIT);
	assert_int_equal(arbiter->processes[0].granted, atomic_load(&page()->granted));
	pthread_mutex_unlock(&arbiter->lock);
	assert_true(slice_arbiter_granted_sum(arbiter) <= LIMIT);
	slice_arbiter_stop(arbiter);
}

static void run_racers(int go)
{
	pthread_t threads[4];
	char byte;

	alarm(30);
	while (read(go, &byte, 1) > 0) /* until it is closed */
		;
	CHECK(charges_active());
	for (uintptr_t i = 0; i < 4; i++)
		(void)pthread_create(&threads[i], NULL, race_charges,
			(void *)(i + 10 * (uintptr_t)me + 1));
	for (size_t i = 0; i < 4; i++)
		(void)pthread_join(threads[i], NULL);
	_exit(0);
}

/* The words of a killed process, as the kill left them. */
static void check_dead(const struct slice_arbiter_process *p, void *arg)
{
	const struct slice_gpu_page *g = &p->page->gpus[GPU];
	uint64_t charged = *(uint64_t *)arg, credit = g->credit;

	assert_true(credit <= p->granted);
	assert_true(g->seen + g->unseen <= p->granted - credit);
	assert_true(charged <= p->granted - credit);
	assert_true(g->done <= g->begun);
}

static void charge__survives_a_kill_at_any_instruction(void **state)
{
	enum { N = 4, ROUNDS = 25 };
	unsigned int seed = 7;
	uint64_t done = 0, refusals = 0;

	(void)state;
	driver_new();
	for (int round = 0; round < ROUNDS; round++) {
		pid_t pids[N] = { 0 };
		int go[2];

		memset(driver, 0, sizeof(*driver));
		assert_int_equal(pipe(go), 0);
		assert_int_equal(setenv("GPUSLICE_SLICE_DIR", dir, 1), 0);
		for (me = 0; me < N; me++) {
			pids[me] = fork();
			if (!pids[me]) {
				(void)close(go[1]);
				run_racers(go[0]);
			}
		}
		slice_arbiter_start_memory(arbiter, dir, LIMIT);
		atomic_store(&arbiter->unkind, true);
		(void)close(go[0]);
		(void)close(go[1]);
		for (int i = 0; i < N; i++) {
			uint64_t charged;

			(void)usleep((unsigned int)rand_r(&seed) % 12000 + (i ? 0 : 20000));
			assert_int_equal(kill(pids[i], SIGKILL), 0);
			assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
			/* The process ended. The driver frees the memory, then the arbiter notices. */
			charged = atomic_load(&driver->of[i]);
			atomic_fetch_sub(&driver->total, charged);
			slice_arbiter_reap(arbiter, pids[i], check_dead, &charged);
		}
		assert_int_equal(atomic_load(&driver->over), 0);
		assert_int_equal(slice_arbiter_granted_sum(arbiter), 0);
		done += atomic_load(&driver->done);
		refusals += atomic_load(&driver->refused);
		slice_arbiter_stop(arbiter);
	}
	print_message("# %llu done, %llu refused\n", (unsigned long long)done,
		(unsigned long long)refusals);
	assert_true(done > 100 && refusals > 0);
}

/* --- fork --- */

static void fork_and_charge(void)
{
	struct slice_page *mine;
	struct charge c;
	int status = -1;
	uint64_t serial;
	pid_t pid;

	CHECK(charges_active());
	CHECK(!charge_begin(&c, GPU, 100 * MIB, CHARGE_SEEN));
	charge_end(&c, 100 * MIB);
	/* An operation is under way. */
	CHECK(!charge_begin(&c, GPU, 50 * MIB, CHARGE_SEEN));
	mine = link_page();
	serial = mine->serial;
	pid = fork();
	if (!pid) {
		CHECK(!link_page());
		charge_end(&c, 50 * MIB); /* of the parent, not of this process */
		charge_release(GPU, 100 * MIB, CHARGE_SEEN);
		CHECK(!link_page());
		CHECK(charges_active() && link_page());
		CHECK(link_page()->serial != serial && used() == 0);
		CHECK(!charge_begin(&c, GPU, 10 * MIB, CHARGE_SEEN));
		charge_end(&c, 10 * MIB);
		CHECK(used() == 10 * MIB);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(link_page() == mine && used() == 150 * MIB && page()->seen == 100 * MIB);
	charge_end(&c, 50 * MIB);
	CHECK(used() == 150 * MIB && arbiter->memory.hellos == 2);
}

static void fork__registers_the_child_again(void **state)
{
	(void)state;
	in_child(fork_and_charge);
}

static void *fork_often(void *arg)
{
	int *bad = arg;

	for (int n = 0; n < 40; n++) {
		struct charge c;
		int status = -1;
		pid_t pid = fork();

		if (!pid) {
			alarm(20);
			if (!charges_active() || !link_page())
				_exit(2);
			if (!charge_begin(&c, GPU, 2 * MIB, CHARGE_SEEN))
				charge_end(&c, 2 * MIB);
			_exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status)
			*bad = *bad + 1;
		slice_arbiter_reap(arbiter, pid, NULL, NULL);
	}
	return NULL;
}

/* Other threads may have any lock at that moment. */
static void fork__does_not_hang_while_other_threads_charge(void **state)
{
	pthread_t threads[4], forker;
	int bad = 0;
	pid_t pid;
	int status = -1;

	(void)state;
	pid = fork(); /* the arbiter is a thread of this one, so that it is not the test's own */
	if (!pid) {
		alarm(60);
		driver = mmap(NULL, sizeof(*driver), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		slice_arbiter_start_memory(arbiter, dir, LIMIT);
		atomic_store(&arbiter->unkind, true);
		CHECK(charges_active());
		for (uintptr_t i = 0; i < 4; i++)
			CHECK(!pthread_create(&threads[i], NULL, race_charges,
				(void *)(i + 1)));
		CHECK(!pthread_create(&forker, NULL, fork_often, &bad));
		CHECK(!pthread_join(forker, NULL));
		atomic_store(&driver->stop, true);
		for (size_t i = 0; i < 4; i++)
			CHECK(!pthread_join(threads[i], NULL));
		CHECK(bad == 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	(void)state;
	dir = test_tmpdir();
	arbiter = slice_arbiter_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	test_rmdir(dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charge__updates_used_seen_and_peak),
		cmocka_unit_test(charge__trims_once_at_the_limit_then_returns_out_of_memory),
		cmocka_unit_test(charge__waits_for_bounds_of_other_threads_at_the_limit),
		cmocka_unit_test(charge_end__records_a_debt_for_bytes_beyond_the_grant),
		cmocka_unit_test(charge__leaves_hidden_allocations_to_the_arbiter),
		cmocka_unit_test(charge__does_nothing_outside_of_a_slice),
		cmocka_unit_test(charge__without_an_answer_is_not_counted_as_refused),
		cmocka_unit_test(charge__without_a_limit_counts_no_refusals),
		cmocka_unit_test(charge__fails_where_the_arbiter_refuses_the_process),
		cmocka_unit_test(fork__registers_the_child_again),
		cmocka_unit_test(fork__does_not_hang_while_other_threads_charge),
		cmocka_unit_test(charge__survives_a_kill_at_any_instruction),
		cmocka_unit_test(charge__keeps_to_the_limit_with_many_threads),
	};

	return cmocka_run_group_tests_name("charges", tests, setup, teardown);
}
