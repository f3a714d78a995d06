/* SPDX-License-Identifier: Apache-2.0 */

/* The gate thread, where a stream waits for other work. */
#include "gate-thread-test.h"

#include "container/sys.h"
#include "container/gate/internal.h"

static void block_behind_gate(void)
{
	struct submitter s[2] = { 0 };
	uint64_t idles;

	block_stream();
	WAIT_FOR(is_stream_blocked() && slice_arbiter_client(A, 0).busy);
	for (uint32_t i = 0; i < 2; i++) {
		idles = slice_arbiter_client(A, 0).idles;
		slice_arbiter_set_gate(A, 0, TURN_CLOSED);
		/* No work makes progress. The gate thread does not rest: it has to notice progress. */
		WAIT_FOR(!slice_arbiter_client(A, 0).busy &&
			 slice_arbiter_client(A, 0).idles > idles);
		CHECK(!slice_arbiter_client(A, 0).wants && in_flight(0) && !doorbell(0) &&
			is_stream_blocked());
		/* The slice gets its quantum, as any slice that wants. */
		submit_on_thread(&s[i]);
		WAIT_FOR(slice_arbiter_client(A, 0).wants);
		CHECK(!slice_arbiter_client(A, 0).busy && !atomic_load(&s[i].passed));
		slice_arbiter_set_gate(A, 0, i ? TURN_OPEN : TURN_THROTTLED);
		WAIT_FOR(slice_arbiter_client(A, 0).busy && !slice_arbiter_client(A, 0).wants);
		WAIT_FOR(atomic_load(&s[i].passed));
		CHECK(slice_arbiter_client(A, 0).busy && in_flight(0));
	}
	/* The wait ends behind the closed gate. */
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	WAIT_FOR(!slice_arbiter_client(A, 0).busy);
	CHECK(in_flight(0) && !doorbell(0));
	aside_ends();
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__reports_not_busy_where_work_waits_for_a_blocked_thread(void **state)
{
	(void)state;
	gate_test(block_behind_gate, 1);
}

/* The stream waits at the gate first, and is blocked only then. */
static void block_late(void)
{
	struct submitter s = { 0 };

	block_stream();
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_client(A, 0).wants && !slice_arbiter_client(A, 0).busy);
	CHECK(in_flight(0) && !atomic_load(&s.passed));
	aside_ends();
	WAIT_FOR(in_flight(0) == 0);
	CHECK(slice_arbiter_client(A, 0).wants && !atomic_load(&s.passed));
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s.passed));
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__reports_not_busy_once_it_detects_that(void **state)
{
	(void)state;
	gate_test(block_late, 1);
}

/* A long kernel that waits for nothing is charged, also in a stream that waited before. */
static void run_long_kernel(void)
{
	struct submitter s = { 0 };
	uint64_t reports_before, kernel;

	block_stream();
	WAIT_FOR(is_stream_blocked());
	aside_ends();
	WAIT_FOR(rests(0));
	/* Behind a wait that is over. */
	block_no_work();
	aside_ends();
	submit_beside_stream();
	WAIT_FOR(fences_is_stuck(&process()->fences, 0));
	reports_before = slice_arbiter_client(A, 0).reports;
	slice_arbiter_set_gate(A, 0, TURN_CLOSED);
	submit_on_thread(&s);
	WAIT_FOR(slice_arbiter_client(A, 0).wants &&
		 slice_arbiter_client(A, 0).reports > reports_before);
	(void)usleep(50000);
	CHECK(slice_arbiter_client(A, 0).busy && !is_stream_blocked());
	/* A wait behind it changes nothing. */
	kernel = atomic_load(&td.aside_submitted);
	block_no_work();
	(void)usleep(50000);
	CHECK(slice_arbiter_client(A, 0).busy && !is_stream_blocked());
	atomic_store(&td.aside_done, kernel);
	slice_arbiter_set_gate(A, 0, TURN_OPEN);
	WAIT_FOR(atomic_load(&s.passed));
	aside_ends();
	td_finish(0);
	WAIT_FOR(rests(0));
}

static void gate_thread__reports_busy_during_a_long_kernel(void **state)
{
	(void)state;
	gate_test(run_long_kernel, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			gate_thread__reports_not_busy_where_work_waits_for_a_blocked_thread),
		cmocka_unit_test(gate_thread__reports_not_busy_once_it_detects_that),
		cmocka_unit_test(gate_thread__reports_busy_during_a_long_kernel),
	};

	return cmocka_run_group_tests_name("gate-thread-blocked", tests, gate_test_setup,
		gate_test_teardown);
}
