/* SPDX-License-Identifier: Apache-2.0 */

/* The keeper, where the arbiter does not wake, answer, read or live. */
#include "keeper-test.h"

#include "container/sys.h"
#include "container/gate/process.h"

static void not_woken(void)
{
	struct submitter s = { 0 };
	int64_t began = sys_now();
	uint64_t idles;

	atomic_store(&A->start_state, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(tu_here(A) && tu_seat(A, 0).wants && !tu_seat(A, 0).busy);
	idles = tu_seat(A, 0).idles;
	tu_gate_only(A, 0, TURN_METERED);
	WAIT_FOR(atomic_load(&s.passed));
	CHECK(sys_now() - began < 15000); /* sooner than it would look by itself here */
	(void)usleep(20000);
	CHECK(tu_seat(A, 0).busy && tu_seat(A, 0).idles == idles);
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__wakes_whom_the_arbiter_did_not(void **state)
{
	(void)state;
	turn_test(not_woken, 1);
}

static void killed(void)
{
	struct submitter s[4] = { 0 };
	struct turn_gpu_page *p;

	atomic_store(&A->start_state, TURN_CLOSED);
	for (int i = 0; i < 4; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(tu_here(A) && tu_seat(A, 0).wants);
	p = tu_page(A, 0);
	WAIT_FOR(atomic_load(&p->waits) == 4);
	tu_kill(A);
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
	tu_again(A);
	WAIT_FOR(tu_here(A) && tu_seat(A, 0).busy);
	CHECK(atomic_load(&A->again)); /* once more if the arbiter takes its time */
	CHECK(atomic_load(&tu_page(A, 0)->ended) == 105);
	/* It is held again. */
	s[0] = (struct submitter){ 0 };
	submit_on_thread(&s[0]);
	WAIT_FOR(tu_seat(A, 0).wants);
	CHECK(!atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(!tu_seat(A, 0).busy && tu_seat(A, 0).wants);
	tu_gate(A, 0, TURN_METERED);
	WAIT_FOR(atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(rests(0));
	/* While it has nothing to do: at its next work at the latest. */
	tu_kill(A);
	atomic_store(&td.at_once, true);
	CHECK(submit(0));
	tu_again(A);
	WAIT_FOR(tu_here(A) && rests(0));
}

static void keeper__goes_on_without_an_arbiter_and_finds_it_again(void **state)
{
	(void)state;
	turn_test(killed, 1);
}

/* It stands still: connections are there, and nothing is read any more. */
static void hangs(void)
{
	struct submitter s[4] = { 0 };
	struct turn_gpu_page *p;
	int again;

	atomic_store(&A->start_state, TURN_CLOSED);
	for (int i = 0; i < 4; i++)
		submit_on_thread(&s[i]);
	WAIT_FOR(tu_here(A) && tu_seat(A, 0).wants);
	p = tu_page(A, 0);
	WAIT_FOR(atomic_load(&p->waits) == 4 && in_flight(0) == 0);
	/* All that was said it has read. */
	WAIT_FOR(tu_seat(A, 0).told >= 2); /* it is said again, now and then */
	atomic_store(&A->mute, true);
	for (int i = 0; i < 4; i++) {
		WAIT_FOR(atomic_load(&s[i].passed));
		CHECK(atomic_load(&s[i].counted));
	}
	/* Work goes on, and its end is seen while one waits for an answer. */
	for (int i = 0; i < 100; i++) {
		CHECK(submit(0));
		td_finish(0);
		WAIT_FOR(in_flight(0) == 0);
	}
	/* It goes on with what it had to read, sees who has gone, and that he comes again. */
	again = atomic_load(&A->again);
	atomic_store(&A->mute, false);
	WAIT_FOR(atomic_load(&A->again) > again && tu_here(A));
	WAIT_FOR(atomic_load(&A->lost) > 0 && atomic_load(&process()->mode) == TURN_UP);
	s[0] = (struct submitter){ 0 };
	submit_on_thread(&s[0]);
	WAIT_FOR(tu_seat(A, 0).wants);
	CHECK(!atomic_load(&s[0].passed));
	tu_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s[0].passed));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__goes_on_without_an_arbiter_that_hangs(void **state)
{
	(void)state;
	turn_test(hangs, 1);
}

/* The same while it holds nobody, and says much that nobody reads. */
static void hangs_open(void)
{
	CHECK(submit(0));
	WAIT_FOR(tu_seat(A, 0).busy);
	atomic_store(&A->mute, true);
	for (uint32_t i = 0; atomic_load(&process()->mode) == TURN_UP; i++) {
		tu_gate(A, 0, i % 2);
		CHECK(submit(0));
		td_finish(0);
		(void)usleep(300);
	}
	CHECK(atomic_load(&process()->mode) == TURN_AWAY);
	atomic_store(&A->mute, false);
	WAIT_FOR(atomic_load(&A->again) && tu_here(A));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__sees_that_an_arbiter_reads_nothing(void **state)
{
	(void)state;
	turn_test(hangs_open, 1);
}

/* It always has something left to read, and is not fast, but goes on. */
static void slow(void)
{
	int64_t until = sys_now() + 4000;

	CHECK(submit(0));
	WAIT_FOR(tu_seat(A, 0).busy);
	for (uint32_t i = 0; sys_now() < until; i++) {
		int64_t began = sys_now();

		atomic_store(&A->mute, i % 8 != 0);
		tu_gate(A, 0, i % 2);
		CHECK(submit(0));
		(void)usleep(10000);
		if (sys_now() - began > 200)
			return; /* this machine is slow itself */
	}
	CHECK(!atomic_load(&A->lost) && !atomic_load(&A->again));
	atomic_store(&A->mute, false);
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__stays_with_an_arbiter_that_is_slow(void **state)
{
	(void)state;
	turn_test(slow, 1);
}

/* Asked and not answered: nobody waits. */
static void asks(void)
{
	static struct turn_link l;
	struct own_fd fd = { 0 };

	tu_mute(A);
	CHECK(turn_link_ask(&l) == TURN_LINK_ASKED);
	for (int i = 0; i < 10; i++)
		CHECK(turn_link_answered(&l, &fd) == TURN_LINK_ASKED);
	atomic_store(&A->mute, false);
	WAIT_FOR(turn_link_answered(&l, &fd) != TURN_LINK_ASKED);
	CHECK(fd.have && l.page && !l.asking.have);
	l.socket = fd;
	WAIT_FOR(tu_here(A));
	/* Another connection, with the page; and one that is given up. */
	CHECK(turn_link_ask(&l) == TURN_LINK_ASKED);
	turn_link_close(&l);
	CHECK(!l.asking.have && !l.socket.have);
	CHECK(turn_link_answered(&l, &fd) == TURN_LINK_AWAY);
	CHECK(turn_link_register(&l, sys_now() + 50000, &fd) == TURN_LINK_UP && fd.have);
	/* It goes before it has answered. */
	tu_mute(A);
	CHECK(turn_link_ask(&l) == TURN_LINK_ASKED);
	tu_kill(A);
	WAIT_FOR(turn_link_answered(&l, &fd) == TURN_LINK_AWAY);
	CHECK(turn_link_ask(&l) == TURN_LINK_AWAY && !l.asking.have);
}

static void keeper__asks_without_waiting(void **state)
{
	(void)state;
	turn_test(asks, 1);
}

static _Atomic bool stop;

static void *submits_all_the_time(void *arg)
{
	_Atomic uint64_t *n = arg;

	td_current(0);
	while (!atomic_load(&stop)) {
		(void)submit(0);
		(void)atomic_fetch_add(n, 1);
	}
	return NULL;
}

static void capped(void)
{
	_Atomic uint64_t n = 0;
	struct turn_gpu_page *p;
	uint64_t waits, was;
	pthread_t thread;

	CHECK(submit(0));
	p = tu_page(A, 0);
	atomic_store(&p->cap, 100000);
	tu_meter(A, 0, 100000, 100000, 0);
	tu_gate(A, 0, TURN_METERED);
	tu_kill(A);
	td_finish(0);
	CHECK(!pthread_create(&thread, NULL, submits_all_the_time, &n));
	/* Again and again it has used what it had, waits, and goes on. */
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

/* What it has used it waits for, with a stream that waits for it: else that would be so for ever. */
static void capped_parked(void)
{
	_Atomic uint64_t n = 0;
	struct turn_gpu_page *p;
	uint64_t waits, was;
	pthread_t thread;

	park();
	WAIT_FOR(is_parked());
	p = tu_page(A, 0);
	atomic_store(&p->cap, 100000);
	tu_kill(A);
	WAIT_FOR(atomic_load(&process()->mode) == TURN_AWAY);
	waits = atomic_load(&p->waits);
	CHECK(!pthread_create(&thread, NULL, submits_all_the_time, &n));
	WAIT_FOR(atomic_load(&p->waits) > waits);
	was = atomic_load(&n);
	WAIT_FOR(atomic_load(&n) > was);
	atomic_store(&stop, true);
	aside_ends();
	WAIT_FOR((td_finish(0), in_flight(0) == 0));
	CHECK(!pthread_join(thread, NULL));
}

static void keeper__waits_for_its_cap_with_what_is_parked(void **state)
{
	(void)state;
	turn_test(capped_parked, 1);
}

static void keeper__holds_itself_to_the_cap_without_an_arbiter(void **state)
{
	(void)state;
	turn_test(capped, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeper__wakes_whom_the_arbiter_did_not),
		cmocka_unit_test(keeper__goes_on_without_an_arbiter_and_finds_it_again),
		cmocka_unit_test(keeper__goes_on_without_an_arbiter_that_hangs),
		cmocka_unit_test(keeper__sees_that_an_arbiter_reads_nothing),
		cmocka_unit_test(keeper__stays_with_an_arbiter_that_is_slow),
		cmocka_unit_test(keeper__asks_without_waiting),
		cmocka_unit_test(keeper__holds_itself_to_the_cap_without_an_arbiter),
		cmocka_unit_test(keeper__waits_for_its_cap_with_what_is_parked),
	};

	return cmocka_run_group_tests_name("keeper-alone", tests, turn_test_setup,
		turn_test_teardown);
}
