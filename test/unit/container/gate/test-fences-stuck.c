/* SPDX-License-Identifier: Apache-2.0 */

/* Fences, where a stream is blocked: other streams continue beside it. */
#include "fences-test.h"

#include "container/sys.h"
#include "container/gate/internal.h"

static _Atomic bool over;

/* Submits as the gate does where a fence is stuck. */
static void submit_beside(void)
{
	struct turn_gpu_page *g = gate_begin(TD_STREAM, GATE_PASS);

	CHECK(g);
	td_submit_to(TD_STREAM);
	if (is_stuck() && !((uintptr_t)g & GATE_OWN_FENCE))
		fences_record_own(&process()->fences, 0, TD_STREAM, false);
	gate_end(g);
}

static void submit_beside_stuck_stream(void)
{
	struct turn_gpu_page *p;
	uint64_t done;

	CHECK(submit(0));
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	p = slice_arbiter_page(A, 0);
	CHECK(submit_to(TD_ASIDE, 0)); /* never ends */
	for (int i = 0; i < 3; i++)
		submit_beside();
	WAIT_FOR(is_stuck());
	CHECK(in_flight(0) == 4);
	WAIT_FOR(fences_count_unseen(&process()->fences, 0) == 4);
	td_finish(0);
	wait_fence_polls();
	CHECK(in_flight(0) == 4); /* the library cannot know of any end */
	done = atomic_load(&p->done);
	for (int i = 0; i < 200; i++) {
		submit_beside();
		if (i % 20 != 19)
			continue;
		CHECK(in_flight(0) > 4);
		td_finish(0);
		WAIT_FOR(in_flight(0) == 4);
		CHECK(slice_arbiter_client(A, 0).busy && is_stuck());
		CHECK(atomic_load(&p->done) == done + (uint64_t)i + 1);
	}
	CHECK(fences_others_progress(&process()->fences, 0));
	WAIT_FOR(fences_count_unseen(&process()->fences, 0) == 4);
	/* The stuck work ends. Some work behind it does not. */
	submit_beside();
	atomic_store(&td.aside_done, 1);
	WAIT_FOR(!is_stuck());
	wait_fence_polls();
	CHECK(in_flight(0) >=
		1); /* submissions without an event of their own need a fence that passes */
	td_finish(0);
	WAIT_FOR(is_gate_idle());
	CHECK(atomic_load(&p->done) == atomic_load(&p->ended));
}

static void fences__see_other_work_end_beside_a_stuck_stream(void **state)
{
	(void)state;
	gate_test(submit_beside_stuck_stream, 1);
}

static _Atomic uint64_t rounds; /* of work that ends */

static void *finish_work_at_random(void *arg)
{
	(void)arg;
	while (!atomic_load(&over)) {
		td_finish(0);
		(void)atomic_fetch_add(&rounds, 1);
		(void)usleep(300);
	}
	return NULL;
}

static uint64_t throttled_window;

/* A throttled thread continues beside a stuck stream, by the gate alone. */
static void throttle_beside_stuck_stream(void)
{
	pthread_t gpu;
	struct turn_gpu_page *p;
	uint64_t n = 0;

	atomic_store(&A->start_state, TURN_THROTTLED);
	CHECK(submit(0));
	p = slice_arbiter_page(A, 0);
	slice_arbiter_set_throttle(A, 0, throttled_window, 250000, UINT64_MAX);
	CHECK(!pthread_create(&gpu, NULL, finish_work_at_random, NULL));
	for (int i = 0; i < 100; i++)
		CHECK(submit_to(TD_STREAM, 0));
	CHECK(submit_to(TD_ASIDE, 0)); /* never ends */
	while (!fences_others_progress(&process()->fences, 0))
		CHECK(submit_to(TD_STREAM, 0));
	atomic_store(&rounds, 0);
	gate_test_waits = "those who are metered";
	for (; n < 2000; n++)
		CHECK(submit_to(TD_STREAM, 0));
	/* The gate holds each second submission until some work ends. Otherwise it would hold each one until
	 * the gate thread sees no end for a while. With a kernel of seconds that while is as long as the
	 * kernel: 30 rounds. */
	CHECK(atomic_load(&rounds) < 4 * n);
	CHECK(in_flight(0) > 0 && slice_arbiter_client(A, 0).busy);
	atomic_store(&td.aside_done, 1);
	WAIT_FOR(is_gate_idle());
	CHECK(atomic_load(&p->done) == atomic_load(&p->ended));
	atomic_store(&over, true);
	CHECK(!pthread_join(gpu, NULL));
}

static void fences__let_throttled_threads_pass_beside_a_stuck_stream(void **state)
{
	(void)state;
	throttled_window = 2000000;
	gate_test(throttle_beside_stuck_stream, 1);
	/* The window is full at once. */
	throttled_window = 1;
	gate_test(throttle_beside_stuck_stream, 1);
}

static void poll_stuck_fence(void)
{
	int queries;

	CHECK(submit_to(TD_ASIDE, 0));
	WAIT_FOR(process() && is_stuck());
	(void)usleep(1500000);
	queries = atomic_load(&td.queries);
	(void)usleep(500000);
	CHECK(atomic_load(&td.queries) - queries <= 60);
	atomic_store(&td.aside_done, 1);
	WAIT_FOR(is_gate_idle());
}

static void fences__are_polled_seldom_where_nothing_ends(void **state)
{
	(void)state;
	gate_test(poll_stuck_fence, 1);
}

/* --- storm --- */

#define THREADS 6

static _Atomic uint64_t counted;

static void *submit_at_random(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg + 1;

	td_current(0);
	while (!atomic_load(&over)) {
		CUstream s = rand_r(&seed) % 4 ? TD_STREAM : TD_ASIDE;
		struct turn_gpu_page *g = gate_begin(s, GATE_PASS);

		CHECK(g);
		/* Before the driver call: so the done work is never more than the counted work. */
		(void)atomic_fetch_add(&counted, 1);
		td_submit_to(s);
		if (is_stuck() && !((uintptr_t)g & GATE_OWN_FENCE))
			fences_record_own(&process()->fences, 0, s, false);
		gate_end(g);
		if (rand_r(&seed) % 16 == 0)
			(void)usleep((unsigned int)rand_r(&seed) % 1000);
	}
	return NULL;
}

/* Captures begin and end, and a stream is blocked now and then. */
static void run_random_captures(void)
{
	pthread_t threads[THREADS];
	unsigned int seed = 5;
	struct turn_gpu_page *p;

	CHECK(submit(0));
	p = slice_arbiter_page(A, 0);
	atomic_store(&counted, 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, submit_at_random, (void *)i));
	for (int i = 0; i < 400; i++) {
		bool capture = rand_r(&seed) % 3 == 0;
		uint64_t truth, done;

		if (capture)
			capture_begins();
		(void)usleep((unsigned int)rand_r(&seed) % 5000);
		done = atomic_load(&p->done);
		truth = atomic_load(&td.done[0]) + atomic_load(&td.aside_done);
		CHECK(done <= truth);
		td_finish(0);
		if (i % 8 == 7)
			atomic_store(&td.aside_done, atomic_load(&td.aside_submitted));
		if (capture)
			capture_ends();
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(submit_to(TD_ASIDE, GATE_PASS));
	td_finish(0);
	wait_fence_polls();
	CHECK(in_flight(0) > 0);
	atomic_store(&td.aside_done, atomic_load(&td.aside_submitted));
	WAIT_FOR(is_gate_idle());
	CHECK(atomic_load(&p->done) == atomic_load(&counted) + 1 &&
		!atomic_load(&td.stale_calls));
}

static void fences__survive_random_captures_and_stuck_streams(void **state)
{
	(void)state;
	gate_test(run_random_captures, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fences__see_other_work_end_beside_a_stuck_stream),
		cmocka_unit_test(fences__let_throttled_threads_pass_beside_a_stuck_stream),
		cmocka_unit_test(fences__are_polled_seldom_where_nothing_ends),
		cmocka_unit_test(fences__survive_random_captures_and_stuck_streams),
	};

	return cmocka_run_group_tests_name("fences-stuck", tests, gate_test_setup,
		gate_test_teardown);
}
