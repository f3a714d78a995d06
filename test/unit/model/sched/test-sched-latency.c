/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of class latency one by one (sched.h, "Class latency", "Trickle"). */
#include "support/test.h"

#include "unit/model/sched/sched-env.h"

/* Two slices; the second has class latency. */
static void begin_beside_latency(void)
{
	static const struct sched_share_config latency = { .weight = 1, .latency = true };

	begin_shares(2, &equal);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[1], 0, &latency, e.now), 0);
}

static void sched_client_set_state__of_class_latency_pauses_the_holder(void **state)
{
	(void)state;
	begin_beside_latency();
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_OPEN);
	set_waiting(0);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(e.clients[0]->throttle.window_ns, SCHED_WINDOW_LATENCY_NS);
	pass_time(5 * MS);
	sched_client_set_state(e.t, e.clients[1], true, false, 0, e.now);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	assert_true(e.clients[1]->throttle.window_ns == UINT64_MAX);
	set_waiting(0);
	pass_time(MS);
	set_idle_since(1, 0);
	pass_time(MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	end_shares();
}

static void set_latency(unsigned int i, bool busy, uint64_t idle_ns)
{
	sched_client_set_state(e.t, e.clients[i], busy, false, idle_ns, e.now);
}

static void sched_client_set_state__of_a_late_latency_share_costs_it_little(void **state)
{
	(void)state;
	begin_beside_latency();
	set_waiting(0);
	set_latency(1, true, 0);
	pass_time(190 * MS);
	set_latency(1, false, 189 * MS); /* the process was stopped */
	for (unsigned int i = 0; i < 5; i++) {
		pass_time(50 * MS);
		set_latency(1, true, 0);
		assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
		pass_time(100 * US);
		set_latency(1, false, 0);
	}
	end_shares();
}

static void sched_advance_time__forgets_a_trickle_after_a_rest(void **state)
{
	(void)state;
	begin_beside_latency();
	set_waiting(0);
	for (unsigned int i = 0; i < 2000; i++) {
		set_latency(1, true, 0);
		pass_time(10 * US);
		set_latency(1, false, 0);
		pass_time(90 * US);
		set_waiting(0);
	}
	assert_int_equal(e.clients[0]->throttle.window_ns, SCHED_WINDOW_NS);
	pass_time(30 * MS);
	assert_int_equal(e.clients[0]->throttle.window_ns, SCHED_WINDOW_LATENCY_NS);
	end_shares();
}

static void sched_client_set_state__of_greedy_latency_gives_way(void **state)
{
	(void)state;
	begin_beside_latency();
	sched_client_set_state(e.t, e.clients[1], true, false, 0, e.now);
	set_waiting(0);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	pass_time(SCHED_LATENCY_LEAD_NS + SCHED_QUANTUM_NS);
	assert_true(get_account(1).demoted);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED);
	end_shares();
}

/* A slice of class latency that is never idle is beyond its share beside a gang, too. */
static void sched__latency_does_not_starve_a_gang(void **state)
{
	const struct sched_share_config latency = { .weight = 1, .latency = true };
	struct sched_client *other;
	struct sched_account a;

	(void)state;
	begin_shares(2, &equal);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 0, &latency, e.now), 0);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[1], 1, &equal, e.now), 0);
	other = sched_client_new(e.t, e.slices[1], 1, NULL, e.now);
	assert_non_null(other);
	sched_client_set_state(e.t, e.clients[0], true, false, 0, e.now);
	set_waiting(1);
	sched_client_set_state(e.t, other, false, true, 0, e.now);
	for (int i = 0; i < 4000; i++) {
		pass_time(MS);
		/* Each client has work for its quantum, and nothing beyond. */
		for (unsigned int k = 0; k < 2; k++) {
			if (e.clients[k]->gate == SCHED_GATE_CLOSED)
				sched_client_set_state(e.t, e.clients[k], false, true, 0,
					e.now);
		}
		if (other->gate == SCHED_GATE_CLOSED)
			sched_client_set_state(e.t, other, false, true, 0, e.now);
	}
	sched_account(e.t, e.slices[1], 0, e.now, &a);
	assert_true(a.charged_ns > 1600 * MS);
	end_shares();
}

static void sched_account__counts_a_revocation_for_latency_once_for_all_clients(void **state)
{
	const struct sched_share_config latency = { .weight = 1, .latency = true };
	struct sched_client *more;

	(void)state;
	begin_shares(2, &equal);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[1], 0, &latency, e.now), 0);
	more = sched_client_new(e.t, e.slices[0], 0, NULL, e.now);
	assert_non_null(more);
	set_waiting(0);
	sched_client_set_state(e.t, more, true, false, 0, e.now);
	for (unsigned int i = 1; i <= 3; i++) {
		sched_client_set_state(e.t, e.clients[1], true, false, 0, e.now);
		assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
		assert_int_equal(get_account(0).revoked, i);
		pass_time(MS);
		set_idle_since(1, 0);
		pass_time(MS);
		assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	}
	/* The scheduler takes nothing from an idle client. */
	sched_client_set_state(e.t, more, false, false, 0, e.now);
	set_idle_since(0, 0);
	sched_client_set_state(e.t, e.clients[1], true, false, 0, e.now);
	assert_int_equal(get_account(0).revoked, 3);
	assert_int_equal(get_account(1).revoked, 0);
	end_shares();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_client_set_state__of_a_late_latency_share_costs_it_little),
		cmocka_unit_test(sched_advance_time__forgets_a_trickle_after_a_rest),
		cmocka_unit_test(sched_client_set_state__of_class_latency_pauses_the_holder),
		cmocka_unit_test(sched_client_set_state__of_greedy_latency_gives_way),
		cmocka_unit_test(sched__latency_does_not_starve_a_gang),
		cmocka_unit_test(
			sched_account__counts_a_revocation_for_latency_once_for_all_clients),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
