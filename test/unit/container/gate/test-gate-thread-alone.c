/* SPDX-License-Identifier: Apache-2.0 */

/* The gate thread, where the arbiter does not wake threads, does not answer, does not read, or is dead. */
#include "gate-thread-test.h"

#include "container/sys.h"
#include "container/gate/internal.h"

static void miss_wake_up(void)
{
	struct submitter s = { 0 };
	int64_t began = sys_now();
	uint64_t idles;

	atomic_store(&A->start_state, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).wants &&
		 !slice_arbiter_client(A, 0).busy);
	idles = slice_arbiter_client(A, 0).idles;
	slice_arbiter_set_gate_only(A, 0, TURN_THROTTLED);
	WAIT_FOR(atomic_load(&s.passed));
	CHECK(sys_now() - began < 15000); /* sooner than the gate thread's own poll here */
	(void)usleep(20000);
	CHECK(slice_arbiter_client(A, 0).busy && slice_arbiter_client(A, 0).idles == idles);
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__wakes_threads_that_the_arbiter_did_not_wake(void **state)
{
	(void)state;
	gate_test(miss_wake_up, 1);
}

static void kill_arbiter(void)
{
	struct submitter s[4] = { 0 };
	struct turn_gpu_page *p;

	atomic_store(&A->start_state, TURN_CLOSED);
	for (int i = 0; i < 4; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).wants);
	p = slice_arbiter_page(A, 0);
	WAIT_FOR(atomic_load(&p->waits) == 4);
	slice_arbiter_kill(A);
	for (int i = 0; i < 4; i++) {
		WAIT_FOR(atomic_load(&s[i].passed));
		CHECK(atomic_load(&s[i].counted));
	}
	for (int i = 0; i < 100; i++)
		CHECK(submit(0));
	CHECK(atomic_load(&p->ended) == 104);
	td_finish(0);
	WAIT_FOR(in_flight(0) == 0);
	CHECK(submit(0));
	slice_arbiter_restart(A);
	WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).busy);
	CHECK(atomic_load(&A->quanta.again)); /* registers once more if the arbiter is slow */
	CHECK(atomic_load(&slice_arbiter_page(A, 0)->ended) == 105);
	/* The gate blocks the thread again. */
	s[0] = (struct submitter){ 0 };
	submit_on_thread(&s[0]);
	WAIT_FOR(slice_arbiter_client(A, 0).wants);
	CHECK(!atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy && slice_arbiter_client(A, 0).wants);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	WAIT_FOR(atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(rests(0));
	/* The arbiter dies while the process is idle: the process notices at its next work at the latest. */
	slice_arbiter_kill(A);
	atomic_store(&td.at_once, true);
	CHECK(submit(0));
	slice_arbiter_restart(A);
	WAIT_FOR(slice_arbiter_is_connected(A) && rests(0));
}

static void gate_thread__continues_without_an_arbiter_and_connects_again(void **state)
{
	(void)state;
	gate_test(kill_arbiter, 1);
}

/* The arbiter hangs: connections exist, and it reads nothing any more. */
static void hang_with_gate_closed(void)
{
	struct submitter s[4] = { 0 };
	struct turn_gpu_page *p;
	int again;

	atomic_store(&A->start_state, TURN_CLOSED);
	for (int i = 0; i < 4; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(slice_arbiter_is_connected(A) && slice_arbiter_client(A, 0).wants);
	p = slice_arbiter_page(A, 0);
	WAIT_FOR(atomic_load(&p->waits) == 4 && in_flight(0) == 0);
	/* The arbiter has read all reports. */
	WAIT_FOR(slice_arbiter_client(A, 0).reports >= 2); /* repeated now and then */
	atomic_store(&A->mute, true);
	for (int i = 0; i < 4; i++) {
		WAIT_FOR(atomic_load(&s[i].passed));
		CHECK(atomic_load(&s[i].counted));
	}
	/* Work continues, and the gate thread sees its end while it waits for an answer. */
	for (int i = 0; i < 100; i++) {
		CHECK(submit(0));
		td_finish(0);
		WAIT_FOR(in_flight(0) == 0);
	}
	/* The arbiter reads what is left, sees the process disconnect, and the process registers again. */
	again = atomic_load(&A->quanta.again);
	atomic_store(&A->mute, false);
	WAIT_FOR(atomic_load(&A->quanta.again) > again && slice_arbiter_is_connected(A));
	WAIT_FOR(atomic_load(&A->quanta.lost) > 0 &&
		 atomic_load(&process()->mode) == GATE_MODE_UP);
	s[0] = (struct submitter){ 0 };
	submit_on_thread(&s[0]);
	WAIT_FOR(slice_arbiter_client(A, 0).wants);
	CHECK(!atomic_load(&s[0].passed));
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__continues_without_an_arbiter_that_hangs(void **state)
{
	(void)state;
	gate_test(hang_with_gate_closed, 1);
}

/* The same while the gate is open: the process sends many reports, and the arbiter reads none. */
static void hang_with_gate_open(void)
{
	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	atomic_store(&A->mute, true);
	for (uint32_t i = 0; atomic_load(&process()->mode) == GATE_MODE_UP; i++) {
		slice_arbiter_set_gate(A, 0, i % 2);
		CHECK(submit(0));
		td_finish(0);
		(void)usleep(300);
	}
	CHECK(atomic_load(&process()->mode) == GATE_MODE_STANDALONE);
	atomic_store(&A->mute, false);
	WAIT_FOR(atomic_load(&A->quanta.again) && slice_arbiter_is_connected(A));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__detects_an_arbiter_that_reads_nothing(void **state)
{
	(void)state;
	gate_test(hang_with_gate_open, 1);
}

/* The arbiter always has something left to read. It is slow, but makes progress. */
static void slow_arbiter_down(void)
{
	int64_t until = sys_now() + 4000;

	CHECK(submit(0));
	WAIT_FOR(slice_arbiter_client(A, 0).busy);
	for (uint32_t i = 0; sys_now() < until; i++) {
		int64_t began = sys_now();

		atomic_store(&A->mute, i % 8 != 0);
		slice_arbiter_set_gate(A, 0, i % 2);
		CHECK(submit(0));
		(void)usleep(10000);
		if (sys_now() - began > 200)
			return; /* the machine itself is too slow */
	}
	CHECK(!atomic_load(&A->quanta.lost) && !atomic_load(&A->quanta.again));
	atomic_store(&A->mute, false);
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__stays_connected_to_a_slow_arbiter(void **state)
{
	(void)state;
	gate_test(slow_arbiter_down, 1);
}

/* A request without an answer: the gate thread does not wait. */
static void request_while_full(void)
{
	static struct gate_link l;
	struct own_fd fd = { 0 };

	slice_arbiter_mute(A);
	CHECK(gate_link_request(&l) == GATE_LINK_PENDING);
	for (int i = 0; i < 10; i++)
		CHECK(gate_link_poll_answer(&l, &fd) == GATE_LINK_PENDING);
	atomic_store(&A->mute, false);
	WAIT_FOR(gate_link_poll_answer(&l, &fd) != GATE_LINK_PENDING);
	CHECK(fd.have && l.page && !l.pending.have);
	l.socket = fd;
	WAIT_FOR(slice_arbiter_is_connected(A));
	/* The process opens another connection with the page, and gives it up before the answer. */
	CHECK(gate_link_request(&l) == GATE_LINK_PENDING);
	gate_link_close(&l);
	CHECK(!l.pending.have && !l.socket.have);
	CHECK(gate_link_poll_answer(&l, &fd) == GATE_LINK_DOWN);
	CHECK(gate_link_register(&l, sys_now() + 50000, &fd) == GATE_LINK_UP && fd.have);
	/* The arbiter dies before it answers. */
	slice_arbiter_mute(A);
	CHECK(gate_link_request(&l) == GATE_LINK_PENDING);
	slice_arbiter_kill(A);
	WAIT_FOR(gate_link_poll_answer(&l, &fd) == GATE_LINK_DOWN);
	CHECK(gate_link_request(&l) == GATE_LINK_DOWN && !l.pending.have);
}

static void gate_thread__sends_requests_without_waiting(void **state)
{
	(void)state;
	gate_test(request_while_full, 1);
}

static _Atomic bool stop;

static void *submit_all_the_time(void *arg)
{
	_Atomic uint64_t *n = arg;

	td_current(0);
	while (!atomic_load(&stop)) {
		(void)submit(0);
		(void)atomic_fetch_add(n, 1);
	}
	return NULL;
}

static void run_capped(void)
{
	_Atomic uint64_t n = 0;
	struct turn_gpu_page *p;
	uint64_t waits, was;
	pthread_t thread;

	CHECK(submit(0));
	p = slice_arbiter_page(A, 0);
	atomic_store(&p->cap, 100000);
	slice_arbiter_set_throttle(A, 0, 100000, 100000, 0);
	slice_arbiter_set_gate(A, 0, TURN_THROTTLED);
	slice_arbiter_kill(A);
	td_finish(0);
	CHECK(!pthread_create(&thread, NULL, submit_all_the_time, &n));
	/* Five times the process has used up its cap, waits, and continues. */
	for (int i = 0; i < 5; i++) {
		waits = atomic_load(&p->waits);
		WAIT_FOR((td_finish(0), atomic_load(&p->waits) > waits));
		was = atomic_load(&n);
		WAIT_FOR((td_finish(0), atomic_load(&n) > was));
	}
	atomic_store(&stop, true);
	WAIT_FOR((td_finish(0), in_flight(0) == 0));
	CHECK(!pthread_join(thread, NULL));
}

/* The process waits for its cap, with a blocked stream in flight. If the gate counted the stream as work, the
 * wait would have no end. */
static void block_while_capped(void)
{
	_Atomic uint64_t n = 0;
	struct turn_gpu_page *p;
	uint64_t waits, was;
	pthread_t thread;

	block_stream();
	WAIT_FOR(is_stream_blocked());
	p = slice_arbiter_page(A, 0);
	atomic_store(&p->cap, 100000);
	slice_arbiter_kill(A);
	WAIT_FOR(atomic_load(&process()->mode) == GATE_MODE_STANDALONE);
	waits = atomic_load(&p->waits);
	CHECK(!pthread_create(&thread, NULL, submit_all_the_time, &n));
	WAIT_FOR(atomic_load(&p->waits) > waits);
	was = atomic_load(&n);
	WAIT_FOR(atomic_load(&n) > was);
	atomic_store(&stop, true);
	aside_ends();
	WAIT_FOR((td_finish(0), in_flight(0) == 0));
	CHECK(!pthread_join(thread, NULL));
}

static void gate_thread__waits_for_its_cap_while_threads_are_blocked(void **state)
{
	(void)state;
	gate_test(block_while_capped, 1);
}

static void gate_thread__keeps_to_the_cap_without_an_arbiter(void **state)
{
	(void)state;
	gate_test(run_capped, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gate_thread__wakes_threads_that_the_arbiter_did_not_wake),
		cmocka_unit_test(gate_thread__continues_without_an_arbiter_and_connects_again),
		cmocka_unit_test(gate_thread__continues_without_an_arbiter_that_hangs),
		cmocka_unit_test(gate_thread__detects_an_arbiter_that_reads_nothing),
		cmocka_unit_test(gate_thread__stays_connected_to_a_slow_arbiter),
		cmocka_unit_test(gate_thread__sends_requests_without_waiting),
		cmocka_unit_test(gate_thread__keeps_to_the_cap_without_an_arbiter),
		cmocka_unit_test(gate_thread__waits_for_its_cap_while_threads_are_blocked),
	};

	return cmocka_run_group_tests_name("gate-thread-alone", tests, gate_test_setup,
		gate_test_teardown);
}
