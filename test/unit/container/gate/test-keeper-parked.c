/* SPDX-License-Identifier: Apache-2.0 */

/* The keeper, where a stream waits for what others do. */
#include "keeper-test.h"

#include "container/sys.h"
#include "container/gate/process.h"

static void parked(void)
{
	struct submitter s[2] = { 0 };
	uint64_t idles;

	park();
	WAIT_FOR(is_parked() && tu_seat(A, 0).busy);
	for (uint32_t i = 0; i < 2; i++) {
		idles = tu_seat(A, 0).idles;
		tu_gate(A, 0, TURN_CLOSED);
		/* Nothing gets on. But it is not at rest: it is to be seen when it does. */
		WAIT_FOR(!tu_seat(A, 0).busy && tu_seat(A, 0).idles > idles);
		CHECK(!tu_seat(A, 0).wants && in_flight(0) && !bell(0) && is_parked());
		/* And it comes to its turn, as any that wants. */
		submit_on_thread(&s[i]);
		WAIT_FOR(tu_seat(A, 0).wants);
		CHECK(!tu_seat(A, 0).busy && !atomic_load(&s[i].passed));
		tu_gate(A, 0, i ? TURN_OPEN : TURN_METERED);
		WAIT_FOR(tu_seat(A, 0).busy && !tu_seat(A, 0).wants);
		WAIT_FOR(atomic_load(&s[i].passed));
		CHECK(tu_seat(A, 0).busy && in_flight(0));
	}
	/* The wait is over behind the closed gate. */
	tu_gate(A, 0, TURN_CLOSED);
	WAIT_FOR(!tu_seat(A, 0).busy);
	CHECK(in_flight(0) && !bell(0));
	aside_ends();
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__says_not_busy_of_what_waits_behind_the_closed_gate(void **state)
{
	(void)state;
	turn_test(parked, 1);
}

/* It waits at the gate first; and is parked only then. */
static void parked_late(void)
{
	struct submitter s = { 0 };

	park();
	tu_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(tu_seat(A, 0).wants && !tu_seat(A, 0).busy);
	CHECK(in_flight(0) && !atomic_load(&s.passed));
	aside_ends();
	WAIT_FOR(in_flight(0) == 0);
	CHECK(tu_seat(A, 0).wants && !atomic_load(&s.passed));
	tu_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s.passed));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__says_it_when_that_is_seen(void **state)
{
	(void)state;
	turn_test(parked_late, 1);
}

/* What takes long and waits for nobody is charged, also where somebody waited before. */
static void long_kernel(void)
{
	struct submitter s = { 0 };
	uint64_t told, kernel;

	park();
	WAIT_FOR(is_parked());
	aside_ends();
	WAIT_FOR(rests(0));
	/* Behind a wait that is over. */
	park_nothing();
	aside_ends();
	submit_aside();
	WAIT_FOR(marks_stuck(&process()->marks, 0));
	told = tu_seat(A, 0).told;
	tu_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(tu_seat(A, 0).wants && tu_seat(A, 0).told > told);
	(void)usleep(50000);
	CHECK(tu_seat(A, 0).busy && !is_parked());
	/* A wait behind it changes nothing. */
	kernel = atomic_load(&td.aside_submitted);
	park_nothing();
	(void)usleep(50000);
	CHECK(tu_seat(A, 0).busy && !is_parked());
	atomic_store(&td.aside_done, kernel);
	tu_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s.passed));
	aside_ends();
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void keeper__says_busy_of_what_only_takes_long(void **state)
{
	(void)state;
	turn_test(long_kernel, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeper__says_not_busy_of_what_waits_behind_the_closed_gate),
		cmocka_unit_test(keeper__says_it_when_that_is_seen),
		cmocka_unit_test(keeper__says_busy_of_what_only_takes_long),
	};

	return cmocka_run_group_tests_name("keeper-parked", tests, turn_test_setup,
		turn_test_teardown);
}
