/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "model/sched/sched.h"

/* Why quanta end: each reason by itself. test-sched-model.c checks that each end is counted once. */
#define MS    UINT64_C(1000000)
#define START UINT64_C(5000000000)

static struct {
	struct sched *t;
	struct sched_slice *slices[2];
	struct sched_client *clients[2]; /* on GPU 0 */
	struct sched_client *other;      /* of a gang: its client on GPU 1 */
	uint64_t now;
} e;

static const struct sched_share_config equal = { .weight = 1 };

static void on_gate(void *arg, struct sched_client *client)
{
	(void)arg;
	(void)client;
}

static void begin(unsigned int n, const struct sched_share_config *share)
{
	memset(&e, 0, sizeof(e));
	e.now = START;
	e.t = sched_new(on_gate, NULL, NULL);
	assert_non_null(e.t);
	for (unsigned int i = 0; i < n; i++) {
		e.slices[i] = sched_slice_new(e.t, NULL);
		assert_non_null(e.slices[i]);
		assert_int_equal(sched_slice_set_share(e.t, e.slices[i], 0, share, e.now), 0);
		e.clients[i] = sched_client_new(e.t, e.slices[i], 0, NULL, e.now);
		assert_non_null(e.clients[i]);
	}
}

/* Slice 1 is a gang, of GPUs 0 and 1. */
static void begin_gang(void)
{
	begin(2, &equal);
	e.other = sched_client_new(e.t, e.slices[1], 1, NULL, e.now);
	assert_non_null(e.other);
}

static int end(void **state)
{
	(void)state;
	e.t = sched_free(e.t);
	return 0;
}

static void pass_time(uint64_t ns)
{
	uint64_t until = e.now + ns;

	while (sched_next_deadline(e.t) <= until) {
		e.now = sched_next_deadline(e.t);
		sched_advance_time(e.t, e.now);
	}
	e.now = until;
	sched_update_charges(e.t, e.now);
}

static void set_waiting(struct sched_client *client)
{
	sched_client_set_state(e.t, client, client->busy, true, 0, e.now);
}

static void set_idle(struct sched_client *client)
{
	sched_client_set_state(e.t, client, false, false, 0, e.now);
}

static struct sched_account get_account(unsigned int i)
{
	struct sched_account a;

	sched_account(e.t, e.slices[i], 0, e.now, &a);
	return a;
}

/* Slice @i's last quantum ended for this reason. No other quantum ended, except quanta that were renewed
 * before it. */
static void assert_ended(unsigned int i, enum sched_end_reason why)
{
	struct sched_account a = get_account(i);

	for (unsigned int k = 0; k < SCHED_ENDS; k++) {
		if (k == why)
			assert_true(a.quantum_ends[k] > 0);
		else if (k != SCHED_END_RENEWED && a.quantum_ends[k])
			fail_msg("a quantum ended: %s, expected only: %s",
				sched_end_reason_names[k], sched_end_reason_names[why]);
	}
}

static void sched_quantum_end__expired_when_another_share_is_next(void **state)
{
	(void)state;
	begin(2, &equal);
	set_waiting(e.clients[0]);
	set_waiting(e.clients[1]);
	pass_time(SCHED_QUANTUM_NS - 1);
	assert_ended(1, SCHED_END_NONE);
	assert_int_equal(get_account(0).quantum_ends[SCHED_END_EXPIRED], 0);
	pass_time(1);
	assert_int_equal(get_account(0).quantum_ends[SCHED_END_EXPIRED], 1);
	assert_ended(0, SCHED_END_EXPIRED);
	assert_int_equal(get_account(1).quanta, 1);
}

static void sched_quantum_end__renewed_when_it_is_next_itself_and_cap_when_its_bucket_is_empty(
	void **state)
{
	const struct sched_share_config capped = { .weight = 1, .cap = SLICE_CAP_ALL / 2 };

	(void)state;
	begin(1, &capped);
	pass_time(1000 * MS);
	set_waiting(e.clients[0]);
	/* 40 ms, and half of the time in which the slice uses them up. */
	pass_time(2 * SCHED_CAP_BURST_NS - MS);
	assert_ended(0, SCHED_END_RENEWED);
	assert_int_equal(get_account(0).quanta,
		get_account(0).quantum_ends[SCHED_END_RENEWED] + 1);
	pass_time(2 * MS);
	assert_ended(0, SCHED_END_CAP);
	assert_int_equal(get_account(0).quantum_ends[SCHED_END_CAP], 1);
	assert_false(get_account(0).has_quantum);
}

static void sched_quantum_end__idle_when_it_has_no_work(void **state)
{
	(void)state;
	begin(2, &equal);
	set_waiting(e.clients[0]);
	set_waiting(e.clients[1]);
	pass_time(MS);
	set_idle(e.clients[0]);
	assert_int_equal(get_account(0).quantum_ends[SCHED_END_IDLE], 0);
	pass_time(MS);
	assert_ended(0, SCHED_END_IDLE);
}

static void sched_quantum_end__interrupted_by_a_share_that_had_yielded_and_is_behind(
	void **state)
{
	(void)state;
	begin(2, &equal);
	set_waiting(e.clients[0]);
	set_waiting(e.clients[1]);
	pass_time(MS);
	set_idle(e.clients[0]);
	pass_time(10 * MS);
	set_waiting(e.clients[0]);
	pass_time(SCHED_INTERRUPT_NS);
	assert_ended(1, SCHED_END_INTERRUPTED);
	assert_true(get_account(0).has_quantum);
	assert_int_equal(get_account(1).resumed, 0);
	set_waiting(e.clients[1]);
	set_idle(e.clients[0]);
	pass_time(MS);
	assert_true(get_account(1).has_quantum);
	assert_int_equal(get_account(1).resumed, 1);
	assert_int_equal(get_account(1).quanta, 1);
}

static void sched_quantum_end__gang_when_a_gang_needs_the_gpu(void **state)
{
	(void)state;
	begin_gang();
	set_waiting(e.clients[0]);
	set_waiting(e.clients[1]);
	pass_time(MS);
	assert_true(get_account(0).has_quantum);
	set_waiting(e.other);
	pass_time(SCHED_INTERRUPT_NS);
	assert_true(get_account(1).has_quantum);
	assert_ended(0, SCHED_END_GANG);
}

static void sched_quantum_end__latency_of_a_gang_beside_a_working_share(void **state)
{
	const struct sched_share_config latency = { .weight = 1, .latency = true };

	(void)state;
	begin_gang();
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 0, &latency, e.now), 0);
	set_waiting(e.clients[1]);
	set_waiting(e.other);
	pass_time(MS);
	assert_true(get_account(1).has_quantum);
	assert_int_equal(get_account(1).quantum_ends[SCHED_END_LATENCY], 0);
	set_waiting(e.clients[0]);
	assert_int_equal(get_account(1).quantum_ends[SCHED_END_LATENCY], 1);
	assert_false(get_account(1).has_quantum);
}

static void sched_quantum_end__changed_with_the_share_or_the_gpus(void **state)
{
	const struct sched_share_config mps = { .weight = 1, .mps = true };

	(void)state;
	begin(2, &equal);
	set_waiting(e.clients[0]);
	set_waiting(e.clients[1]);
	pass_time(MS);
	assert_int_equal(sched_slice_set_share(e.t, e.slices[0], 0, &mps, e.now), 0);
	assert_ended(0, SCHED_END_CHANGED);
	/* The slice wants another GPU now. */
	assert_true(get_account(1).has_quantum);
	assert_non_null(sched_client_new(e.t, e.slices[1], 1, NULL, e.now));
	assert_ended(1, SCHED_END_CHANGED);
}

static void sched_quantum_end__closed_with_its_last_process(void **state)
{
	(void)state;
	begin(1, &equal);
	e.other = sched_client_new(e.t, e.slices[0], 0, NULL, e.now);
	set_waiting(e.clients[0]);
	sched_client_free(e.t, e.other, e.now);
	assert_true(get_account(0).has_quantum);
	sched_client_free(e.t, e.clients[0], e.now);
	assert_ended(0, SCHED_END_CLOSED);
}

static void sched_quantum_end__of_a_gang_is_closed_only_where_no_process_is_left(void **state)
{
	struct sched_account other;

	(void)state;
	begin_gang();
	set_waiting(e.clients[1]);
	set_waiting(e.other);
	pass_time(MS);
	assert_true(get_account(1).has_quantum);
	sched_client_free(e.t, e.other, e.now);
	sched_account(e.t, e.slices[1], 1, e.now, &other);
	assert_int_equal(other.quantum_ends[SCHED_END_CLOSED], 1);
	assert_int_equal(get_account(1).quantum_ends[SCHED_END_CLOSED], 0);
	assert_true(get_account(1).quantum_ends[SCHED_END_CHANGED] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(sched_quantum_end__expired_when_another_share_is_next,
			end),
		cmocka_unit_test_teardown(
			sched_quantum_end__renewed_when_it_is_next_itself_and_cap_when_its_bucket_is_empty,
			end),
		cmocka_unit_test_teardown(sched_quantum_end__idle_when_it_has_no_work, end),
		cmocka_unit_test_teardown(
			sched_quantum_end__interrupted_by_a_share_that_had_yielded_and_is_behind,
			end),
		cmocka_unit_test_teardown(sched_quantum_end__gang_when_a_gang_needs_the_gpu,
			end),
		cmocka_unit_test_teardown(
			sched_quantum_end__latency_of_a_gang_beside_a_working_share, end),
		cmocka_unit_test_teardown(sched_quantum_end__changed_with_the_share_or_the_gpus,
			end),
		cmocka_unit_test_teardown(sched_quantum_end__closed_with_its_last_process, end),
		cmocka_unit_test_teardown(
			sched_quantum_end__of_a_gang_is_closed_only_where_no_process_is_left,
			end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
