/* SPDX-License-Identifier: Apache-2.0 */

/* The gate thread: what it reports to the arbiter, what it does where the driver fails, and storms of both. */
#include "gate-thread-test.h"

#include "container/sys.h"
#include "container/gate/internal.h"

#include <sched.h>

#define THREADS 8

/* --- what it reports --- */

/* Whatever the gate does. */
static bool is_silent(void)
{
	uint64_t reports_before =
		slice_arbiter_client(A, 0).reports + slice_arbiter_client(A, 0).ignored;

	for (int i = 0; i < 30; i++)
		slice_arbiter_set_gate(A, 0, (uint32_t)i % 3);
	(void)usleep(20000);
	return reports_before ==
	       slice_arbiter_client(A, 0).reports + slice_arbiter_client(A, 0).ignored;
}

static void report_idle(void)
{
	for (uint32_t state = TURN_OPEN; state <= TURN_CLOSED; state++) {
		CHECK(state == TURN_CLOSED || submit(0));
		if (state == TURN_CLOSED)
			CHECK(submit(GATE_PASS));
		slice_arbiter_set_gate(A, 0, state);
		WAIT_FOR(slice_arbiter_client(A, 0).busy);
		td_finish(0);
		WAIT_FOR(rests(0));
		CHECK(slice_arbiter_client(A, 0).idle_ns < UINT64_C(60000000000));
		/* The gate thread rests once the arbiter has read the report. */
		WAIT_FOR(is_silent());
		slice_arbiter_set_gate(A, 0, TURN_OPEN);
	}
}

static void gate_thread__reports_idle_once_no_work_is_left(void **state)
{
	(void)state;
	gate_test(report_idle, 1);
}

/* The arbiter reads nothing for a while, and the gate changes meanwhile: the earlier reports are void. */
static void report_again(void)
{
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	for (uint32_t i = 0; i < 20; i++) {
		slice_arbiter_mute(A);
		td_finish(0);
		WAIT_FOR(doorbell(0)); /* reported, and not read */
		slice_arbiter_set_gate(A, 0, i % 2 ? TURN_OPEN : TURN_THROTTLED);
		atomic_store(&A->mute, false);
		WAIT_FOR(rests(0));
		CHECK(submit(0));
		WAIT_FOR(slice_arbiter_client(A, 0).busy);
	}
}

static void gate_thread__reports_again_after_the_gate_changed_meanwhile(void **state)
{
	(void)state;
	gate_test(report_again, 1);
}

/* The gate opens for a thread that wants, and the arbiter counts the client as busy. The work then takes no
 * time. */
static void open_for_no_work(void)
{
	atomic_store(&td.at_once, true);
	atomic_store(&A->start_state, TURN_CLOSED);
	for (int i = 0; i < 50; i++) {
		struct submitter s = { 0 };

		submit_on_thread(&s);
		WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).wants);
		slice_arbiter_set_gate(A, 0, i % 2 ? TURN_OPEN : TURN_THROTTLED);
		if (i % 3 == 0)
			slice_arbiter_set_gate(A, 0, TURN_CLOSED);
		if (i % 3 == 0) {
			WAIT_FOR(slice_arbiter_client(A, 0).wants || atomic_load(&s.passed));
			slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
		}
		WAIT_FOR(atomic_load(&s.passed));
		WAIT_FOR(rests(0));
		slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	}
}

static void gate_thread__reports_idle_after_each_opening(void **state)
{
	(void)state;
	gate_test(open_for_no_work, 1);
}

/* Work arrives while the gate thread is about to rest. */
static void ring_doorbell(void)
{
	unsigned int seed = 3;

	CHECK(submit(0));
	atomic_store(&td.at_once, true);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	WAIT_FOR(doorbell(0));
	for (int i = 0; i < 3000; i++) {
		uint64_t begin = sys_now_ns(),
			 pause = 250000 + (uint64_t)rand_r(&seed) % 200000;

		CHECK(submit(0));
		while (sys_now_ns() - begin < pause && !doorbell(0))
			;
		CHECK(submit(0));
		gate_test_waits = "the doorbell, with all done";
		while (!doorbell(0) || in_flight(0))
			(void)sched_yield();
	}
	WAIT_FOR(rests(0));
}

static void gate_thread__misses_no_submission_when_it_goes_to_sleep(void **state)
{
	(void)state;
	gate_test(ring_doorbell, 1);
}

static void fill_socket(void)
{
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	slice_arbiter_mute(A);
	/* Many changes, each reported, until the socket is full. */
	for (uint32_t i = 0; i < 2000; i++) {
		slice_arbiter_set_gate(A, 0, i % 2);
		(void)usleep(100);
	}
	td_finish(0);
	(void)usleep(10000);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	atomic_store(&A->mute, false);
	WAIT_FOR(rests(0));
}

static void gate_thread__loses_no_report_while_the_socket_is_full(void **state)
{
	(void)state;
	gate_test(fill_socket, 1);
}

/* --- what goes wrong --- */

static void fail_sticky(void)
{
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records));
	atomic_store(&td.error, CUDA_ERROR_ILLEGAL_ADDRESS);
	WAIT_FOR(rests(0)); /* the work in flight is over */
	CHECK(submit(0));
	WAIT_FOR(rests(0));
	/* A reset, and a new context. */
	gate_thread_context_leaves(td_context(0));
	gate_thread_context_gone(td_context(0));
	atomic_store(&td.error, 0);
	gate_thread_add_context(td_context(0), 0);
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	td_finish(0);
	WAIT_FOR(rests(0));
	CHECK(!atomic_load(&td.stale_calls));
}

static void gate_thread__counts_work_as_over_after_a_sticky_error(void **state)
{
	(void)state;
	gate_test(fail_sticky, 1);
}

static void shut_down_driver(void)
{
	struct submitter s = { 0 };

	CHECK(submit(0));
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_client(A, 0).wants);
	atomic_store(&td.error, CUDA_ERROR_DEINITIALIZED);
	WAIT_FOR(atomic_load(&s.passed));
	CHECK(!submit(0));
	WAIT_FOR(!slice_arbiter_is_connected(A));
	CHECK(!submit(0) && atomic_load(&A->quanta.hellos) == 1);
}

static void gate_thread__ends_when_the_driver_shuts_down(void **state)
{
	(void)state;
	gate_test(shut_down_driver, 1);
}

static void use_old_driver(void)
{
	atomic_store(&td.error, CUDA_ERROR_NOT_FOUND);
	CHECK(submit(0));
	WAIT_FOR(!submit(0));
	WAIT_FOR(!slice_arbiter_is_connected(A));
}

static void gate_thread__blocks_no_thread_where_the_driver_cannot_report_ends(void **state)
{
	(void)state;
	gate_test(use_old_driver, 1);
}

static void use_several_contexts(void)
{
	CHECK(submit(0));
	td_finish(0);
	for (int i = 1; i < 4; i++)
		gate_thread_add_context(td_context(i), 0);
	for (int i = 0; i < 4; i++) {
		CHECK(submit(0));
		td_finish(0);
		td_submit(i); /* as part of the same */
		WAIT_FOR(slice_arbiter_client(A, 0).busy && atomic_load(&td.records) > i);
	}
	/* The submissions to all contexts count. */
	for (int i = 0; i < 3; i++)
		td_finish(i);
	CHECK(submit(0));
	td_finish(0);
	(void)usleep(20000);
	CHECK(in_flight(0) > 0);
	gate_thread_context_leaves(td_context(3));
	td_destroy(3);
	CHECK(in_flight(0) > 0);
	gate_thread_context_gone(td_context(3));
	WAIT_FOR(rests(0));
	CHECK(!atomic_load(&td.stale_calls));
}

static void gate_thread__polls_all_contexts(void **state)
{
	(void)state;
	gate_test(use_several_contexts, 1);
}

/* --- storms --- */

static _Atomic bool storm_over;
static _Atomic uint64_t entered[THREADS]; /* submissions past the gate, of each thread */

static void *submit_at_random(void *arg)
{
	_Atomic uint64_t *n = arg;
	unsigned int seed = (unsigned int)(n - entered) + 1;

	td_current(0);
	while (!atomic_load(&storm_over)) {
		struct turn_gpu_page *g = gate_begin(NULL, 0);

		CHECK(g);
		(void)atomic_fetch_add(n, 1);
		td_submit(0);
		gate_end(g);
		if (rand_r(&seed) % 64 == 0)
			(void)usleep((unsigned int)rand_r(&seed) % 3000);
	}
	return NULL;
}

/* The GPU: all submitted work is done now and then. */
static void *finish_work_at_intervals(void *arg)
{
	(void)arg;
	while (!atomic_load(&storm_over)) {
		td_finish(0);
		(void)usleep(100);
	}
	return NULL;
}

static uint64_t sum_entered(void)
{
	uint64_t n = 0;

	for (int i = 0; i < THREADS; i++)
		n += atomic_load(&entered[i]);
	return n;
}

static void check_counters(void)
{
	struct turn_gpu_page *p = slice_arbiter_page(A, 0);
	uint64_t done = atomic_load(&p->done), ended = atomic_load(&p->ended),
		 begun = atomic_load(&p->begun);

	CHECK(done <= ended && ended <= begun);
	CHECK(done <= atomic_load(&td.done[0])); /* no more than the truth */
}

static void check_all_pass(void)
{
	uint64_t was[THREADS];

	for (int i = 0; i < THREADS; i++)
		was[i] = atomic_load(&entered[i]);
	for (int i = 0; i < THREADS; i++)
		WAIT_FOR(atomic_load(&entered[i]) > was[i]);
}

static void run_random_gates(void)
{
	pthread_t threads[THREADS], gpu;
	unsigned int seed = 7;

	CHECK(submit(0));
	CHECK(!pthread_create(&gpu, NULL, finish_work_at_intervals, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, submit_at_random, &entered[i]));
	for (int i = 0; i < 300; i++) {
		uint32_t state = (uint32_t)rand_r(&seed) % 3;
		uint64_t was;

		slice_arbiter_set_throttle(A, 0, (uint64_t)rand_r(&seed) % 1000000,
			(uint64_t)rand_r(&seed) % 500000, 20000000);
		slice_arbiter_set_gate(A, 0, state);
		/* Each thread past the gate may continue with one submission. */
		was = sum_entered();
		(void)usleep((unsigned int)rand_r(&seed) % 4000);
		if (state == TURN_CLOSED)
			CHECK(sum_entered() <= was + THREADS);
		check_counters();
		if (i % 20 == 19) {
			slice_arbiter_set_gate(A, 0, (uint32_t)rand_r(&seed) % 2);
			check_all_pass();
		}
	}
	/* The gate stays closed: all threads wait at it, and the arbiter knows. */
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	WAIT_FOR(in_flight(0) == 0 && slice_arbiter_client(A, 0).wants &&
		 !slice_arbiter_client(A, 0).busy);
	check_counters();
	atomic_store(&storm_over, true);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!pthread_join(gpu, NULL));
	td_finish(0);
	WAIT_FOR(rests(0));
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == sum_entered() + 1);
}

static void gate_thread__survives_random_gate_changes(void **state)
{
	(void)state;
	gate_test(run_random_gates, 1);
}

/* The same with an arbiter that is killed, with captures, and with contexts that come and go. */
static void run_random_changes(void)
{
	pthread_t threads[THREADS], gpu;
	unsigned int seed = 11;

	CHECK(submit(0));
	CHECK(!pthread_create(&gpu, NULL, finish_work_at_intervals, NULL));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, submit_at_random, &entered[i]));
	for (int i = 0; i < 60; i++) {
		bool capture = rand_r(&seed) % 2;

		slice_arbiter_set_gate(A, 0, (uint32_t)rand_r(&seed) % 3);
		if (capture) {
			gate_capture_begins();
			atomic_store(&td.capturing, 1);
		}
		gate_thread_add_context(td_context(1), 0);
		(void)usleep((unsigned int)rand_r(&seed) % 4000);
		gate_thread_context_leaves(td_context(1));
		td_destroy(1);
		gate_thread_context_gone(td_context(1));
		td_create(1);
		check_counters();
		if (i % 10 == 9) {
			slice_arbiter_kill(A);
			check_all_pass(); /* without a cap: work continues */
			slice_arbiter_restart(A);
			WAIT_FOR(slice_arbiter_is_connected(A));
		}
		if (capture) {
			atomic_store(&td.capturing, 0);
			gate_capture_ended();
		}
		CHECK(!atomic_load(&td.spoiled) && !atomic_load(&td.blocked_calls) &&
			!atomic_load(&td.stale_calls));
	}
	atomic_store(&storm_over, true);
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(!pthread_join(gpu, NULL));
	td_finish(0);
	WAIT_FOR(rests(0));
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == sum_entered() + 1);
}

static void gate_thread__survives_random_changes_of_all_kinds(void **state)
{
	(void)state;
	gate_test(run_random_changes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gate_thread__reports_idle_once_no_work_is_left),
		cmocka_unit_test(gate_thread__reports_again_after_the_gate_changed_meanwhile),
		cmocka_unit_test(gate_thread__reports_idle_after_each_opening),
		cmocka_unit_test(gate_thread__misses_no_submission_when_it_goes_to_sleep),
		cmocka_unit_test(gate_thread__loses_no_report_while_the_socket_is_full),
		cmocka_unit_test(gate_thread__counts_work_as_over_after_a_sticky_error),
		cmocka_unit_test(gate_thread__ends_when_the_driver_shuts_down),
		cmocka_unit_test(
			gate_thread__blocks_no_thread_where_the_driver_cannot_report_ends),
		cmocka_unit_test(gate_thread__polls_all_contexts),
		cmocka_unit_test(gate_thread__survives_random_gate_changes),
		cmocka_unit_test(gate_thread__survives_random_changes_of_all_kinds),
	};

	return cmocka_run_group_tests_name("gate-thread", tests, gate_test_setup,
		gate_test_teardown);
}
