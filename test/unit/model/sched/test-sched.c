/* SPDX-License-Identifier: Apache-2.0 */
/* The rules one by one; test-sched-model.c tests them together. */
#include "support/test.h"

#include "unit/model/sched/sched-env.h"

static void sched_client_set_state__opens_the_gate_of_a_waiting_client(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	set_waiting(0);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN); /* it is alone */
	assert_true(e.clients[0]->busy && !e.clients[0]->wants);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED);
	end_shares();
}

static void sched_client_set_state__counts_a_waiting_client_at_an_open_gate_as_busy(
	void **state)
{
	(void)state;
	begin_shares(1, &equal);
	set_waiting(0);
	set_idle_since(0, 0);
	set_waiting(0);
	assert_true(e.clients[0]->busy && !e.clients[0]->wants);
	end_shares();
}

static void sched_advance_time__hands_over_at_the_end_of_a_quantum(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(e.clients[0]->throttle.window_ns, SCHED_WINDOW_NS);
	assert_int_equal(e.clients[0]->throttle.overrun_ns, SCHED_OVERRUN_NS);
	assert_int_equal(e.clients[0]->throttle.quantum_ns, SCHED_QUANTUM_NS);
	pass_time(SCHED_QUANTUM_NS - 1);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	pass_time(1);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

static void sched_advance_time__does_not_wait_for_work_in_flight(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	pass_time(SCHED_QUANTUM_NS);
	/* The first process never reports again: it hangs. */
	for (unsigned int i = 0; i < 100; i++) {
		set_waiting(1);
		pass_time(10 * MS);
		assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	}
	pass_time(SCHED_STUCK_NS);
	assert_true(get_account(0).stuck_ns > SCHED_STUCK_NS);
	assert_int_equal(get_account(1).stuck_ns, 0);
	end_shares();
}

static void sched_client_set_state__passes_the_quantum_of_an_idle_client_on(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	pass_time(MS);
	set_idle_since(0, 0);
	/* The client might come back. */
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED);
	pass_time(MS);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

static void sched_advance_time__opens_the_gate_of_a_client_that_is_alone_for_long(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	pass_time(MS);
	set_idle_since(0, 0);
	pass_time(SCHED_IDLE_NS - MS - 1); /* there were two at START */
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	assert_true(e.clients[1]->throttle.quantum_ns ==
		    UINT64_MAX); /* no client waits for its end */
	pass_time(1);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_OPEN);
	set_waiting(0);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED); /* far beyond its quantum */
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

/* The work in flight of 0 overruns, as far as the arbiter knows, while 1 has the quantum. */
static void begin_overrun(void)
{
	begin_shares(3, &equal);
	set_waiting(0);
	set_waiting(1);
	pass_time(SCHED_QUANTUM_NS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	assert_true(e.clients[0]->busy && e.clients[1]->busy);
	assert_int_equal(get_account(0).charged_ns, SCHED_QUANTUM_NS);
}

static void sched_account__charges_an_overrun_to_its_own_share(void **state)
{
	(void)state;
	begin_overrun();
	pass_time(MS);
	assert_int_equal(get_account(0).charged_ns, SCHED_QUANTUM_NS + MS);
	assert_int_equal(get_account(1).charged_ns, 0);
	pass_time(MS);
	set_idle_since(0, MS / 2);
	pass_time(MS); /* earlier charges stay */
	assert_int_equal(get_account(0).charged_ns, SCHED_QUANTUM_NS + 2 * MS);
	assert_int_equal(get_account(1).charged_ns, MS);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0), SCHED_QUANTUM_NS + 3 * MS);
	end_shares();
}

static void sched_account__charges_an_overrun_beyond_a_time_slice_to_all(void **state)
{
	(void)state;
	begin_overrun();
	/* The time slice ends in the middle of the charged time. */
	e.now += SCHED_TIME_SLICE_NS - US;
	sched_update_charges(e.t, e.now);
	e.now += US + 2 * MS;
	sched_update_charges(e.t, e.now);
	assert_int_equal(get_account(0).charged_ns,
		SCHED_QUANTUM_NS + SCHED_TIME_SLICE_NS + MS);
	assert_int_equal(get_account(1).charged_ns, MS);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0),
		SCHED_QUANTUM_NS + SCHED_TIME_SLICE_NS + 2 * MS);
	end_shares();
	/* The charge ends exactly with the time slice. */
	begin_overrun();
	pass_time(SCHED_TIME_SLICE_NS);
	assert_int_equal(get_account(1).charged_ns, 0);
	pass_time(2);
	assert_int_equal(get_account(0).charged_ns, SCHED_QUANTUM_NS + SCHED_TIME_SLICE_NS + 1);
	assert_int_equal(get_account(1).charged_ns, 1);
	end_shares();
}

static void sched_account__charges_no_overrun_alone_where_the_hardware_rotates(void **state)
{
	(void)state;
	begin_overrun(); /* 0 has a long kernel */
	pass_time(10 * MS);
	set_waiting(2);
	pass_time(SCHED_QUANTUM_NS - 10 * MS);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED);
	assert_int_equal(e.clients[2]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(get_account(2).charged_ns, 0);
	pass_time(3 * 100 * US);
	assert_int_equal(get_account(2).charged_ns, 100 * US);
	end_shares();
}

static void sched_account__charges_shares_with_work_in_flight_equally(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	pass_time(4 * MS);
	sched_client_set_state(e.t, e.clients[1], true, false, 0, e.now);
	pass_time(2 * MS + 1);
	assert_int_equal(get_account(0).charged_ns + get_account(1).charged_ns, 6 * MS + 1);
	assert_int_equal(get_account(1).charged_ns, MS);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0), 6 * MS + 1);
	set_idle_since(0, 0);
	set_idle_since(1, 0);
	pass_time(MS);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0), 6 * MS + 1);
	end_shares();
}

static void sched_account__charges_no_idle_time(void **state)
{
	(void)state;
	begin_shares(1, &equal);
	set_waiting(0);
	e.now += 10 * MS;
	set_idle_since(0, 3 * MS);
	assert_int_equal(get_account(0).charged_ns, 7 * MS);
	/* An idle time earlier than the last event counts from the last event. */
	set_waiting(0);
	pass_time(MS);
	set_idle_since(0, 5 * MS);
	assert_int_equal(get_account(0).charged_ns, 8 * MS);
	end_shares();
}

static void sched_client__shares_the_charge_with_its_siblings(void **state)
{
	struct sched_client *other;

	(void)state;
	begin_shares(1, &equal);
	other = sched_client_new(e.t, e.slices[0], 0, NULL, e.now);
	set_waiting(0);
	pass_time(2 * MS);
	sched_client_set_state(e.t, other, true, false, 0, e.now);
	pass_time(2 * MS + 1);
	assert_int_equal(e.clients[0]->charged_ns + other->charged_ns, 4 * MS + 1);
	assert_in_range(other->charged_ns, MS, MS + 1);
	assert_int_equal(get_account(0).charged_ns, 4 * MS + 1);
	end_shares();
}

static void sched_client_set_state__after_a_pause_brings_no_old_credit(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	pass_time(1000 * MS);
	sched_client_set_state(e.t, e.clients[0], true, true, 0, e.now);
	set_waiting(1);
	sched_client_set_state(e.t, e.clients[0], true, true, 0, e.now);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	for (unsigned int i = 0; i < 1000; i++) {
		pass_time(MS);
		for (unsigned int j = 0; j < 2; j++)
			sched_client_set_state(e.t, e.clients[j],
				e.clients[j]->gate != SCHED_GATE_CLOSED,
				e.clients[j]->gate == SCHED_GATE_CLOSED, 0, e.now);
	}
	/* Half of the second in which both clients wanted, and one quantum of credit. */
	assert_in_range(get_account(1).charged_ns, 480 * MS, 520 * MS);
	end_shares();
}

static void sched_client_free__hands_over_at_once_and_keeps_the_account(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	pass_time(3 * MS);
	sched_client_free(e.t, e.clients[0], e.now);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(get_account(0).charged_ns, 3 * MS);
	pass_time(MS);
	sched_slice_free(e.t, e.slices[0]);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0), 4 * MS);
	end_shares();
}

static void sched_slice_set_share__takes_effect_at_once(void **state)
{
	static const struct sched_share_config heavy = { .weight = 3 };

	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[1], 0, &heavy, e.now), 0);
	for (unsigned int i = 0; i < 4000; i++) {
		pass_time(MS);
		/* The work in flight is done within a millisecond, and both clients want more. */
		for (unsigned int j = 0; j < 2; j++)
			sched_client_set_state(e.t, e.clients[j],
				e.clients[j]->gate != SCHED_GATE_CLOSED,
				e.clients[j]->gate == SCHED_GATE_CLOSED, 0, e.now);
	}
	assert_in_range(get_account(1).charged_ns, 2950 * MS, 3050 * MS);
	end_shares();
}

static void sched_slice_set_share__caps(void **state)
{
	static const struct sched_share_config capped = { .weight = 1, .cap = 250000 };
	uint64_t before;

	(void)state;
	begin_shares(1, &equal);
	set_waiting(0);
	pass_time(MS);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 0, &capped, e.now), 0);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED); /* its bucket is empty */
	set_idle_since(0, 0);
	before = get_account(0).charged_ns;
	for (unsigned int i = 0; i < 40000; i++) {
		pass_time(100 * US);
		sched_client_set_state(e.t, e.clients[0],
			e.clients[0]->gate != SCHED_GATE_CLOSED,
			e.clients[0]->gate == SCHED_GATE_CLOSED, 0, e.now);
	}
	assert_in_range(get_account(0).charged_ns - before, 990 * MS, 1010 * MS);
	end_shares();
}

/* The bucket is full, and fills while the slice is charged: no part of the fill is lost, however rare events
 * are. */
static void sched_slice_set_share__caps_no_lower_than_configured(void **state)
{
	static const struct sched_share_config capped = { .weight = 1, .cap = 900000 };

	(void)state;
	begin_shares(1, &capped);
	pass_time(1000 * MS);
	set_waiting(0);
	pass_time(10 * SCHED_CAP_BURST_NS - MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	pass_time(MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	end_shares();
}

/* The gang waits for the bucket of a GPU on which it wants nothing itself. The scheduler wakes the gang when
 * that bucket is full. */
static void sched_slice_set_share__caps_a_gang_and_wakes_it(void **state)
{
	static const struct sched_share_config capped = { .weight = 1, .cap = 200000 };
	struct sched_client *other;

	(void)state;
	begin_shares(1, &capped);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 1, &capped, e.now), 0);
	other = sched_client_new(e.t, e.slices[0], 1, NULL, e.now);
	assert_non_null(other);
	pass_time(10 * SCHED_IDLE_NS);
	sched_client_set_state(e.t, other, false, true, 0, e.now);
	while (other->gate != SCHED_GATE_CLOSED)
		pass_time(MS);
	sched_client_set_state(e.t, other, false, false, 0, e.now);
	pass_time(MS);
	set_waiting(0);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	pass_time(5 * SCHED_CAP_PORTION_NS + MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

static void sched_client_set_state__of_a_gang_opens_all_its_gates_or_none(void **state)
{
	struct sched_client *here, *there;
	struct sched_slice *gang;

	(void)state;
	begin_shares(1, &equal);
	gang = sched_slice_new(e.t, NULL);
	here = sched_client_new(e.t, gang, 0, NULL, e.now);
	there = sched_client_new(e.t, gang, 1, NULL, e.now);
	set_waiting(0);
	for (unsigned int i = 0; i < 400; i++) {
		bool has = here->gate != SCHED_GATE_CLOSED;

		assert_int_equal(has, there->gate != SCHED_GATE_CLOSED);
		assert_int_equal(has, e.clients[0]->gate == SCHED_GATE_CLOSED);
		sched_client_set_state(e.t, here, has, !has, 0, e.now);
		has = here->gate != SCHED_GATE_CLOSED;
		sched_client_set_state(e.t, there, has, !has, 0, e.now);
		sched_client_set_state(e.t, e.clients[0],
			e.clients[0]->gate != SCHED_GATE_CLOSED,
			e.clients[0]->gate == SCHED_GATE_CLOSED, 0, e.now);
		pass_time(5 * MS);
	}
	assert_in_range(get_account(0).charged_ns, 950 * MS, 1050 * MS);
	end_shares();
}

static void sched_advance_time__reports_a_quantum_that_follows_another(void **state)
{
	static const struct sched_share_config heavy = { .weight = 100 };
	unsigned int before;

	(void)state;
	begin_shares(2, &equal);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 0, &heavy, e.now), 0);
	set_waiting(0);
	set_waiting(1);
	pass_time(SCHED_QUANTUM_NS);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	sched_client_set_state(e.t, e.clients[0], false, true, 0, e.now);
	pass_time(SCHED_QUANTUM_MIN_NS); /* ten quanta of the other slice are as much */
	sched_client_set_state(e.t, e.clients[1], false, true, 0, e.now);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	before = e.gates;
	pass_time(SCHED_QUANTUM_NS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(e.gates, before + 1);
	assert_in_range(e.clients[0]->throttle.quantum_ns, SCHED_QUANTUM_MIN_NS,
		SCHED_QUANTUM_NS * 5 / 4);
	end_shares();
}

static void sched_account__is_zero_on_a_gpu_without_the_slice(void **state)
{
	struct sched_account a;

	(void)state;
	begin_shares(1, &equal);
	sched_account(e.t, e.slices[0], SCHED_GPUS_MAX - 1, e.now, &a);
	assert_int_equal(a.charged_ns | a.quanta | a.waited_ns | a.stuck_ns, 0);
	assert_false(a.has_quantum || a.demoted);
	end_shares();
}

/* A client reports at the end of its quantum that it was idle all along. That counts as if the scheduler had
 * waited for it. */
static void sched_client_set_state__keeps_no_quantum_without_work(void **state)
{
	(void)state;
	begin_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	for (uint64_t until = e.now + 2000 * MS; e.now < until;) {
		uint64_t from = e.now, next = sched_next_deadline(e.t);

		/* No call reads the charges meanwhile. */
		e.now = from + 20 * MS < next ? from + 20 * MS : next;
		if (e.now == next)
			sched_advance_time(e.t, e.now);
		if (e.clients[0]->busy && e.clients[0]->gate != SCHED_GATE_CLOSED) {
			set_idle_since(0, e.now - from);
			set_waiting(0);
		}
		if (e.clients[0]->gate == SCHED_GATE_CLOSED)
			sched_client_set_state(e.t, e.clients[0], false, true, e.now - from,
				e.now);
		if (e.clients[1]->gate == SCHED_GATE_CLOSED)
			sched_client_set_state(e.t, e.clients[1], false, true, 0, e.now);
	}
	sched_update_charges(e.t, e.now);
	/* Half of two seconds. */
	assert_true(get_account(1).charged_ns > 800 * MS);
	end_shares();
}

static void sched_account__counts_revoked_quanta_of_working_clients(void **state)
{
	(void)state;
	begin_shares(3, &equal);
	set_waiting(0);
	set_waiting(1);
	/* The clock ends the quantum. */
	pass_time(SCHED_QUANTUM_NS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	assert_int_equal(get_account(0).revoked, 1);
	/* 1 has no work any more, and gives the quantum to 0. The work in flight of 0 ended behind its gate.
	 * That is no revocation. */
	set_idle_since(0, 0);
	set_waiting(0);
	set_idle_since(1, 0);
	pass_time(MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(get_account(1).revoked, 0);
	assert_int_equal(get_account(0).revoked, 1);
	/* The scheduler takes nothing from a slice that is one quantum behind the other. */
	pass_time(2 * SCHED_QUANTUM_NS);
	assert_int_not_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	assert_int_equal(get_account(0).revoked, 1);
	/* The slice had more than a quantum when another one came. */
	set_waiting(1);
	assert_int_equal(get_account(0).revoked, 2);
	/* Clients that want before closed gates have nothing to lose when another client's gate closes. */
	set_waiting(0);
	set_waiting(2);
	pass_time(SCHED_QUANTUM_NS);
	assert_int_equal(get_account(0).revoked, 2);
	assert_int_equal(get_account(1).revoked, 1);
	assert_int_equal(get_account(2).revoked, 0);
	end_shares();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched_client_set_state__opens_the_gate_of_a_waiting_client),
		cmocka_unit_test(
			sched_client_set_state__counts_a_waiting_client_at_an_open_gate_as_busy),
		cmocka_unit_test(sched_advance_time__hands_over_at_the_end_of_a_quantum),
		cmocka_unit_test(sched_advance_time__does_not_wait_for_work_in_flight),
		cmocka_unit_test(
			sched_client_set_state__passes_the_quantum_of_an_idle_client_on),
		cmocka_unit_test(
			sched_advance_time__opens_the_gate_of_a_client_that_is_alone_for_long),
		cmocka_unit_test(sched_account__charges_an_overrun_to_its_own_share),
		cmocka_unit_test(sched_account__charges_an_overrun_beyond_a_time_slice_to_all),
		cmocka_unit_test(
			sched_account__charges_no_overrun_alone_where_the_hardware_rotates),
		cmocka_unit_test(sched_account__charges_shares_with_work_in_flight_equally),
		cmocka_unit_test(sched_account__charges_no_idle_time),
		cmocka_unit_test(sched_client__shares_the_charge_with_its_siblings),
		cmocka_unit_test(sched_client_set_state__after_a_pause_brings_no_old_credit),
		cmocka_unit_test(sched_client_free__hands_over_at_once_and_keeps_the_account),
		cmocka_unit_test(sched_slice_set_share__takes_effect_at_once),
		cmocka_unit_test(sched_slice_set_share__caps),
		cmocka_unit_test(sched_slice_set_share__caps_no_lower_than_configured),
		cmocka_unit_test(sched_slice_set_share__caps_a_gang_and_wakes_it),
		cmocka_unit_test(sched_client_set_state__of_a_gang_opens_all_its_gates_or_none),
		cmocka_unit_test(sched_advance_time__reports_a_quantum_that_follows_another),
		cmocka_unit_test(sched_account__is_zero_on_a_gpu_without_the_slice),
		cmocka_unit_test(sched_client_set_state__keeps_no_quantum_without_work),
		cmocka_unit_test(sched_account__counts_revoked_quanta_of_working_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
