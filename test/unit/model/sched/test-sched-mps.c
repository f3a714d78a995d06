/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "unit/model/sched/bench.h"

/* Slices under MPS: gates that never close, time that is divided; the same beside slices with quanta. */
#define START (5 * S)
#define N_MAX 4

static struct {
	struct sched *t;
	struct sched_slice *slices[N_MAX];
	struct sched_client *clients[N_MAX];
	uint64_t now;
} e;

static const struct sched_share_config equal = { .weight = 1 };
static const struct sched_share_config mps = { .weight = 1, .mps = true };
static const struct sched_share_config mps_all = { .weight = 40,
	.cap = 10000,
	.latency = true,
	.mps = true };

static void on_gate(void *arg, struct sched_client *client)
{
	(void)arg;
	assert_true(client->gate == SCHED_GATE_CLOSED || !client->wants);
}

static void set_share(unsigned int i, unsigned int gpu, const struct sched_share_config *s)
{
	assert_int_equal(sched_slice_set_share(e.t, e.slices[i], gpu, s, e.now), 0);
}

static void begin_mps_shares(unsigned int n, const struct sched_share_config *s)
{
	memset(&e, 0, sizeof(e));
	e.now = START;
	e.t = sched_new(on_gate, NULL, NULL);
	assert_non_null(e.t);
	for (unsigned int i = 0; i < n; i++) {
		e.slices[i] = sched_slice_new(e.t, NULL);
		assert_non_null(e.slices[i]);
		set_share(i, 0, s);
		e.clients[i] = sched_client_new(e.t, e.slices[i], 0, NULL, e.now);
		assert_non_null(e.clients[i]);
	}
}

static void end_mps_shares(void)
{
	assert_null(sched_free(e.t));
}

static void pass_time(uint64_t ns)
{
	uint64_t until = e.now + ns;

	while (sched_next_deadline(e.t) <= until) {
		assert_true(sched_next_deadline(e.t) > e.now);
		e.now = sched_next_deadline(e.t);
		sched_advance_time(e.t, e.now);
	}
	e.now = until;
	sched_update_charges(e.t, e.now);
}

static void set_waiting(unsigned int i)
{
	sched_client_set_state(e.t, e.clients[i], e.clients[i]->busy, true, 0, e.now);
}

static void set_idle(unsigned int i)
{
	sched_client_set_state(e.t, e.clients[i], false, false, 0, e.now);
}

static struct sched_account get_account(unsigned int i)
{
	struct sched_account a;

	sched_account(e.t, e.slices[i], 0, e.now, &a);
	return a;
}

/* All present clients want more whenever they have nothing, for @ms. */
static void saturate_clients(unsigned int n, unsigned int ms)
{
	while (ms--) {
		pass_time(MS);
		for (unsigned int i = 0; i < n; i++)
			sched_client_set_state(e.t, e.clients[i],
				e.clients[i]->gate != SCHED_GATE_CLOSED,
				e.clients[i]->gate == SCHED_GATE_CLOSED, 0, e.now);
	}
}

/* --- under MPS --- */

static void sched_client_new__under_mps_opens_its_gate_at_once_and_permanently(void **state)
{
	(void)state;
	begin_mps_shares(3, &mps_all);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(e.clients[i]->gate, SCHED_GATE_OPEN);
	for (unsigned int ms = 0; ms < 3000; ms++) {
		for (unsigned int i = 0; i < 3; i++) {
			set_waiting(i);
			assert_int_equal(e.clients[i]->gate, SCHED_GATE_OPEN);
			/* No gate thread has to poll closely. */
			assert_int_equal(e.clients[i]->throttle.window_ns, 0);
			assert_true(e.clients[i]->busy && !e.clients[i]->wants);
		}
		pass_time(MS);
	}
	for (unsigned int i = 0; i < 3; i++) {
		struct sched_account a = get_account(i);

		assert_false(a.has_quantum || a.demoted);
		assert_int_equal(a.quanta + a.waited_ns + a.stuck_ns, 0);
	}
	assert_false(sched_is_concurrent(e.t, 0));
	end_mps_shares();
}

static void sched_account__under_mps_divides_the_time_with_work(void **state)
{
	(void)state;
	begin_mps_shares(3, &mps_all);
	set_waiting(0);
	pass_time(6 * MS);
	set_waiting(1);
	pass_time(6 * MS);
	set_waiting(2);
	pass_time(6 * MS);
	set_idle(0);
	set_idle(1);
	pass_time(6 * MS);
	set_idle(2);
	pass_time(100 * MS);
	assert_int_equal(get_account(0).charged_ns, 11 * MS);
	assert_int_equal(get_account(1).charged_ns, 5 * MS);
	assert_int_equal(get_account(2).charged_ns, 8 * MS);
	assert_int_equal(sched_gpu_busy_ns(e.t, 0), 24 * MS);
	end_mps_shares();
}

/* The scheduler has nothing to decide about these slices, so it sets no deadline. */
static void sched_next_deadline__under_mps_is_never(void **state)
{
	(void)state;
	begin_mps_shares(3, &mps);
	for (unsigned int i = 0; i < 3; i++)
		set_waiting(i);
	assert_true(sched_next_deadline(e.t) == UINT64_MAX);
	set_idle(1);
	assert_true(sched_next_deadline(e.t) == UINT64_MAX);
	end_mps_shares();
}

static void sched__under_mps_all_run_side_by_side(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1, .mps = true }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 9, .mps = true }, 1, SATURATE(2 * MS) },
		{ { .weight = 1, .mps = true }, 1, LOOP(300 * US, 300 * US) },
		{ { .weight = 0 }, 0, { 0 } },
	};
	struct bench *b = bench_run(rows, 1);
	double loop = share_of(b->charged[2], 0, SAMPLES);
	double sum = loop;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		double charged = share_of(b->charged[i], 0, SAMPLES);

		assert_true(share_of(b->used[i], 0, SAMPLES) > 99.9);
		/* Half of the time beside the other slice, a third while the loop has work. */
		assert_true(charged > 33.2 && charged < 43);
		sum += charged;
	}
	/* The arbiter learns its ends late. */
	assert_true(loop > 15 && loop < 33.4);
	assert_true(sum > 99.9 && sum < 100.1);
	bench_free(b);
}

/* --- from quanta to MPS and back --- */

static void sched_slice_set_share__to_mps_opens_the_gates_of_waiting_clients(void **state)
{
	(void)state;
	begin_mps_shares(2, &equal);
	set_waiting(0);
	set_waiting(1);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_CLOSED);
	set_share(1, 0, &mps);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_OPEN);
	assert_true(e.clients[1]->busy && !e.clients[1]->wants);
	/* The other slice's quantum continues. */
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_THROTTLED);
	assert_true(get_account(0).has_quantum);
	/* The other slice has the GPU to itself, as far as quanta go. */
	pass_time(SCHED_IDLE_NS + MS);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	end_mps_shares();
}

static void sched_slice_set_share__to_mps_ends_the_quantum(void **state)
{
	(void)state;
	begin_mps_shares(3, &equal);
	for (unsigned int i = 0; i < 3; i++)
		set_waiting(i);
	pass_time(MS);
	assert_true(get_account(0).has_quantum);
	set_share(0, 0, &mps);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	assert_false(get_account(0).has_quantum);
	assert_true(get_account(1).has_quantum != get_account(2).has_quantum);
	end_mps_shares();
}

/* A slice whose empty bucket closed its gate leaves that behind under MPS. */
static void sched_slice_set_share__to_mps_ignores_an_empty_bucket(void **state)
{
	static const struct sched_share_config cap = { .weight = 1, .cap = 50000 };
	static const struct sched_share_config capped_mps = { .weight = 1,
		.cap = 50000,
		.mps = true };

	(void)state;
	begin_mps_shares(2, &cap);
	set_waiting(0);
	saturate_clients(2, 500);
	/* The bucket of the cap is empty. */
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_CLOSED);
	set_waiting(0);
	set_share(0, 0, &capped_mps);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	saturate_clients(1, 500);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	set_share(0, 0, &cap);
	saturate_clients(2, 4000);
	/* The slice has no more than its cap again. */
	assert_in_range(get_account(0).charged_ns, 400 * MS, 900 * MS);
	end_mps_shares();
}

static void sched_slice_set_share__from_mps_has_quanta_at_once(void **state)
{
	uint64_t before[2];

	(void)state;
	begin_mps_shares(3, &equal);
	set_share(2, 0, &mps);
	/* The slice does not owe the time that it had under MPS. */
	saturate_clients(3, 20000);
	assert_true(get_account(2).charged_ns > 9000 * MS);
	set_share(2, 0, &equal);
	assert_int_equal((e.clients[0]->gate != SCHED_GATE_CLOSED) +
				 (e.clients[1]->gate != SCHED_GATE_CLOSED) +
				 (e.clients[2]->gate != SCHED_GATE_CLOSED),
		1);
	before[0] = get_account(0).charged_ns;
	before[1] = get_account(2).charged_ns;
	saturate_clients(3, 3000);
	assert_in_range(get_account(0).charged_ns - before[0], 950 * MS, 1050 * MS);
	assert_in_range(get_account(2).charged_ns - before[1], 950 * MS, 1050 * MS);
	end_mps_shares();
}

static void sched_slice_set_share__of_a_gang_changes_each_gpu_in_order(void **state)
{
	struct sched_client *second;

	(void)state;
	begin_mps_shares(2, &equal);
	second = sched_client_new(e.t, e.slices[0], 1, NULL, e.now);
	set_waiting(0);
	sched_client_set_state(e.t, second, false, true, 0, e.now);
	set_waiting(1);
	assert_true(get_account(0).has_quantum);
	set_share(0, 0, &mps);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	assert_int_equal(e.clients[1]->gate, SCHED_GATE_THROTTLED);
	/* The slice's other client waits for no quantum. */
	sched_client_set_state(e.t, second, true, true, 0, e.now);
	assert_true(second->gate != SCHED_GATE_CLOSED);
	set_share(0, 1, &mps);
	assert_int_equal(second->gate, SCHED_GATE_OPEN);
	set_share(0, 0, &equal);
	set_share(0, 1, &equal);
	pass_time(MS);
	sched_client_set_state(e.t, second, true, true, 0, e.now);
	saturate_clients(2, 500);
	/* The second client has the quantum on both GPUs again, or on none. */
	assert_int_equal(e.clients[0]->gate == SCHED_GATE_CLOSED,
		second->gate == SCHED_GATE_CLOSED);
	end_mps_shares();
}

/* --- slices with quanta beside it --- */

static void sched__beside_mps_follows_weights(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 3 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 50, .mps = true }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 7, .latency = true, .mps = true }, 1, LOOP(KERNEL_NS, MS) },
		{ { .weight = 0 }, 0, { 0 } },
	};
	struct bench *b = bench_run(rows, 1);
	double one = share_of(b->charged[0], 0, SAMPLES);
	double three = share_of(b->charged[1], 0, SAMPLES);

	(void)state;
	if (three < 2.85 * one || three > 3.15 * one)
		fail_msg("%.2f %% and %.2f %%", one, three);
	assert_int_equal(b->procs[2][0]->client->gate, SCHED_GATE_OPEN);
	assert_int_equal(b->procs[3][0]->client->gate, SCHED_GATE_OPEN);
	bench_free(b);
}

static void sched__beside_mps_does_not_throttle_a_slice_alone(void **state)
{
	(void)state;
	begin_mps_shares(2, &equal);
	set_share(1, 0, &mps);
	saturate_clients(2, 3000);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	assert_int_equal(get_account(0).waited_ns, 0);
	end_mps_shares();
}

/* The tasks leave gaps, so without MPS the slices are concurrent. Beside MPS work the gaps are filled
 * already. */
static void sched__beside_mps_is_never_concurrent(void **state)
{
	static const struct model_task half = { .kind = MODEL_PACED,
		.kernel_ns = 25 * US,
		.think_ns = 50 * US,
		.burst = 400,
		.rest_ns = MS };

	(void)state;
	for (int beside = 0; beside < 2; beside++) {
		const struct row rows[] = {
			{ { .weight = 1 }, 1, half },
			{ { .weight = 1 }, 1, half },
			{ { .weight = beside ? 1 : 0, .mps = true }, 1, LOOP(MS, 5 * MS) },
			{ { .weight = 0 }, 0, { 0 } },
		};
		struct bench *b = bench_run(rows, 1);

		assert_int_equal(b->m->concurrent[0] > 0, !beside);
		bench_free(b);
	}
}

/* A slice of class latency is within its share: the scheduler does not compare it with slices under MPS. */
static void sched__beside_mps_does_not_demote_class_latency(void **state)
{
	static const struct sched_share_config latency = { .weight = 1, .latency = true };

	(void)state;
	begin_mps_shares(2, &latency);
	set_share(1, 0, &mps);
	saturate_clients(2, 1000);
	assert_false(get_account(0).demoted);
	assert_int_equal(e.clients[0]->gate, SCHED_GATE_OPEN);
	end_mps_shares();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			sched_client_new__under_mps_opens_its_gate_at_once_and_permanently),
		cmocka_unit_test(sched_account__under_mps_divides_the_time_with_work),
		cmocka_unit_test(sched_next_deadline__under_mps_is_never),
		cmocka_unit_test(sched__under_mps_all_run_side_by_side),
		cmocka_unit_test(
			sched_slice_set_share__to_mps_opens_the_gates_of_waiting_clients),
		cmocka_unit_test(sched_slice_set_share__to_mps_ends_the_quantum),
		cmocka_unit_test(sched_slice_set_share__to_mps_ignores_an_empty_bucket),
		cmocka_unit_test(sched_slice_set_share__from_mps_has_quanta_at_once),
		cmocka_unit_test(sched_slice_set_share__of_a_gang_changes_each_gpu_in_order),
		cmocka_unit_test(sched__beside_mps_follows_weights),
		cmocka_unit_test(sched__beside_mps_does_not_throttle_a_slice_alone),
		cmocka_unit_test(sched__beside_mps_is_never_concurrent),
		cmocka_unit_test(sched__beside_mps_does_not_demote_class_latency),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
