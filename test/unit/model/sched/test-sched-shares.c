/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/cleanup.h"
#include "unit/model/sched/bench.h"
#include "model/sched/internal.h"

/* What each of some slices with one task receives. test-sched-model.c lists the other checks. */

static void sched__divides_time_equally_without_idle_time(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		assert_share(b, i, 25);
	if (b->work < 99)
		fail_msg("%.2f %% of the GPU's time was of use", b->work);
	bench_free(b);
}

static void sched__follows_weights(void **state)
{
	static const uint64_t kernels[] = { 50 * US, KERNEL_NS, 900 * US };

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(kernels); k++) {
		const struct row rows[] = {
			{ { .weight = 10 }, 1, SATURATE(kernels[k]) },
			{ { .weight = 20 }, 1, SATURATE(kernels[k]) },
			{ { .weight = 30 }, 1, SATURATE(kernels[k]) },
			{ { .weight = 40 }, 1, SATURATE(kernels[k]) },
			{ .gpus = 0 },
		};
		struct bench *b = bench_run(rows, 1);

		for (unsigned int i = 0; i < 4; i++)
			assert_share(b, i, 10 * (i + 1));
		bench_free(b);
	}
}

/* An overrun that had to wait for another context's time slice is not charged as if it had run. A little of
 * such a charge is a quarter of the smallest share's quantum. */
static void sched__does_not_charge_overruns_that_wait(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 10 }, 1, SATURATE(100 * US) },
		{ { .weight = 20 }, 1, SATURATE(100 * US) },
		{ { .weight = 30 }, 1, SATURATE(100 * US) },
		{ { .weight = 40 }, 1, SATURATE(100 * US) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);

	(void)state;
	for (unsigned int i = 0; i < 4; i++)
		assert_share_within(b, i, 10 * (i + 1), 1);
	bench_free(b);
}

static void sched__serves_each_of_a_hundred_slices(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 99 }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);

	(void)state;
	assert_share(b, 0, 1);
	assert_share(b, 1, 99);
	bench_free(b);
}

static void sched__keeps_to_caps_alone_and_together(void **state)
{
	static const uint32_t caps[] = { 250000, 500000, 750000 };
	static const struct row together[] = {
		{ { .weight = 1, .cap = 100000 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1, .cap = 200000 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1, .cap = 300000 }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(together, 1);

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		assert_capped(b, i, 10 * (i + 1), 2);
	bench_free(b);
	for (size_t i = 0; i < ARRAY_LEN(caps); i++) {
		const struct row rows[] = {
			{ { .weight = 1, .cap = caps[i] }, 1, SATURATE(KERNEL_NS) },
			{ .gpus = 0 },
		};

		b = bench_run(rows, 1);
		assert_capped(b, 0, caps[i] / 10000.0, 0);
		bench_free(b);
	}
}

static void sched__reaches_a_cap_beside_a_slice_that_uses_the_rest(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1, .cap = 100000 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	double used = share_of(b->used[0], 0, SAMPLES);

	(void)state;
	assert_capped(b, 0, 10, 1);
	/* Each portion has an overrun, which is charged to the slice, and is not given away. */
	if (used < 9.5 || used > 10.2)
		fail_msg("%.2f %%", used);
	bench_free(b);
}

static void sched__keeps_to_a_cap_of_class_latency_too(void **state)
{
	for (unsigned int others = 0; others < 3; others++) {
		struct row rows[] = {
			{ { .weight = 1, .cap = 250000, .latency = true }, 1,
				SATURATE(KERNEL_NS) },
			{ { .weight = others > 0 ? 3 : 0 }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = others > 1 ? 3 : 0 }, 1, LOOP(50 * US, 30 * MS) },
			{ .gpus = 0 },
		};
		struct bench *b = bench_run(rows, 1);

		assert_capped(b, 0, 25, others);
		bench_free(b);
	}
	(void)state;
}

static int compare_samples(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void sched__serves_class_latency_first_and_batch_with_the_rest(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1, .latency = true }, 1, BURST(20, 10 * US, 10 * MS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	struct model_proc *p = b->procs[3][0];

	(void)state;
	qsort(p->lat, p->n_lat, sizeof(p->lat[0]), compare_samples);
	assert_true(p->n_lat > 900);
	/* 0.2 ms of work, beside at most the other slices' work in flight. */
	assert_true(p->lat[p->n_lat * 99 / 100] < 1200 * US);
	assert_true(b->work > 2 + 0.85 * 98);
	bench_free(b);
}

static void sched__rotates_class_latency_beyond_its_share(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);

	(void)state;
	/* A second may begin and end within the slice's lead. */
	for (unsigned int i = 0; i < 4; i++)
		assert_share_within(b, i, 25,
			PERCENT * (double)SCHED_LATENCY_LEAD_NS / (double)S);
	/* The lower bound: the slice waits for no longer than the lead, the others' quanta and their
	 * overruns. */
	for (unsigned int i = 0; i < 3; i++)
		assert_true(b->procs[i][0]->waited_most <
			    SCHED_LATENCY_LEAD_NS + 5 * SCHED_QUANTUM_NS);
	bench_free(b);
}

/* A slice that is within its share again must not have the GPU together with the holder. */
static void sched__serves_class_latency_beyond_its_share_half_beside_one_slice(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);

	(void)state;
	/* A second may begin and end within the slice's lead. */
	for (unsigned int i = 0; i < 2; i++)
		assert_share_within(b, i, 50,
			PERCENT * (double)SCHED_LATENCY_LEAD_NS / (double)S);
	if (b->work < 99)
		fail_msg("%.2f %% of the GPU's time was of use", b->work);
	bench_free(b);
}

static void sched__keeps_the_quantum_of_a_launch_and_wait_loop(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, LOOP(50 * US, 20 * US) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	double loop = share_of(b->used[1], 0, SAMPLES);

	(void)state;
	/* Half of the time belongs to the slice, and the slice can use 50 of 70 us of that. */
	if (loop < 34 || loop > 37)
		fail_msg("the loop had %.2f %%", loop);
	bench_free(b);
}

/* The slice loses its quantum each time it rests, and has not had its share of the time. So the scheduler soon
 * interrupts another quantum for it. */
static void sched__serves_a_loop_with_pauses_most_of_its_share(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1,
			{ .kind = MODEL_LOOP,
				.kernel_ns = 110 * US,
				.think_ns = 300 * US,
				.burst = 32 } },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	double loop = share_of(b->used[1], 0, SAMPLES);
	double charged = share_of(b->charged[1], 0, SAMPLES);

	(void)state;
	/* Alone the slice uses 85 % of the time. The GPU waits for it where that pays, and the wait counts as its. */
	if (loop < 42 || loop > 50 || charged > loop + 5)
		fail_msg("the loop had %.2f %%, and was charged %.2f %%", loop, charged);
	/* Each rest has two context switches. A context that gets work in the middle of a time slice makes one
	 * more. */
	if (b->work < 89.5)
		fail_msg("%.2f %% of the GPU's time was of use", b->work);
	bench_free(b);
}

static void sched__serves_occasional_small_work_in_between(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, LOOP(50 * US, 30 * MS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	double lost;

	(void)state;
	assert_true(b->procs[2][0]->steps > 280);
	/* Lost are: a context switch at the end of each quantum, two for a slice that interrupts, and the time
	 * until the arbiter knows that this slice is idle. */
	lost = PERCENT * ((double)MODEL_CHANGE_NS / (double)SCHED_QUANTUM_NS +
				 (double)(2 * MODEL_CHANGE_NS + 150 * US) /
					 (double)(rows[2].task.think_ns));
	if (b->work < PERCENT - lost - 0.1)
		fail_msg("%.2f %% of the GPU's time was of use", b->work);
	bench_free(b);
}

static void sched__compensates_for_long_kernels(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, LOOP(50 * MS, US) },
		{ { .weight = 2 }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	static const double percent[] = { 25, 25, 50 };
	struct bench *b = bench_run(rows, 1);

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		double used = share_of(b->used[i], 0, SAMPLES);

		if (used < percent[i] - 1 || used > percent[i] + 1)
			fail_msg("slice %u: %.2f %%", i, used);
	}
	bench_free(b);
}

static void sched__runs_gangs_on_all_their_gpus_at_once(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 0xff, GROUP(300 * US) },
		{ { .weight = 1 }, 0x03, GROUP(300 * US) },
		{ { .weight = 1 }, 0x0c, GROUP(300 * US) },
		{ { .weight = 1 }, 0xf0, GROUP(300 * US) },
		{ { .weight = 1 }, 0x01, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 8);

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		if (b->procs[i][0]) {
			double used = share_of(b->used[i], 0, SAMPLES);

			if (used < 30 || used > 37)
				fail_msg("slice %u: %.2f %%", i, used);
		}
	}
	bench_free(b);
}

static void sched__serves_false_reports_no_more_than_their_share(void **state)
{
	static const enum model_kind kinds[] = { MODEL_FLAPPER, MODEL_FALSE_BUSY, MODEL_SHY };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct row rows[] = {
			{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = 1 }, 1, { .kind = kinds[i], .think_ns = 100 * US } },
			{ .gpus = 0 },
		};
		struct bench *b = bench_run(rows, 1);

		for (unsigned int j = 0; j < 2; j++) {
			double used = share_of(b->used[j], 0, SAMPLES);

			if (used < 32)
				fail_msg("beside kind %u: %.2f %%", kinds[i], used);
		}
		bench_free(b);
	}
}

/* Work that waits for its own process, which waits for its quantum, does not count. The other slices need not
 * come level with it first. */
static void sched__grants_a_blocked_client_its_quantum(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 1 }, 1,
			{ .kind = MODEL_BLOCKED,
				.kernel_ns = 100 * US,
				.think_ns = MS,
				.burst = 20 } },
		{ .gpus = 0 },
	};
	struct bench *b = bench_run(rows, 1);
	const struct model_proc *p = b->procs[2][0];

	(void)state;
	/* A round is three quanta. */
	if (p->waited_most > 10 * SCHED_QUANTUM_NS)
		fail_msg("waited for %.3f ms", (double)p->waited_most / 1e6);
	/* The process makes progress in one quantum of three. */
	if (p->steps * MS < SECONDS * S / 6)
		fail_msg("%llu kernels", (unsigned long long)p->steps);
	for (unsigned int i = 0; i < 2; i++) {
		double used = share_of(b->used[i], 0, SAMPLES);

		if (used < 32)
			fail_msg("beside it: %.2f %%", used);
	}
	bench_free(b);
}

/* A batch slice that is idle for a moment again and again still has a lower bound. */
static void sched__leaves_a_loop_its_share_beside_class_latency(void **state)
{
	static const struct row rows[][3] = {
		{ { { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = 1 }, 1, LOOP(MS, 20 * US) } },
		{ { { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = 1 }, 1, LOOP(200 * US, 50 * US) } },
		{ { { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
			{ { .weight = 1 }, 1, LOOP(5 * MS, 500 * US) } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bench *b = bench_run(rows[i], 1);
		double loop = share_of(b->used[1], 0, SAMPLES);

		/* The GPU waits for the last one where that pays, and the wait counts as its. */
		if (loop < (i == 2 ? 33 : 35))
			fail_msg("loop %zu had %.2f %%", i, loop);
		bench_free(b);
	}
}

/* Two slices of class latency go before batch slices, but not before each other, and owe nothing to a slice
 * that comes later. */
static void sched__divides_class_latency_by_weight(void **state)
{
	static const struct row rows[] = {
		{ { .weight = 1, .latency = true }, 1, SATURATE(KERNEL_NS) },
		{ { .weight = 3, .latency = true }, 1, SATURATE(KERNEL_NS) },
		{ .gpus = 0 },
	};
	static const struct sched_share_config batch = { .weight = 1 };
	static const struct model_task task = SATURATE(KERNEL_NS);
	struct bench *b = bench_run(rows, 1);
	struct model_slice *late;
	uint64_t before[2];

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		double used = share_of(b->used[i], 0, SAMPLES), wanted = i ? 75 : 25;

		if (used < wanted - 2 || used > wanted + 2)
			fail_msg("slice %u: %.2f %%", i, used);
		before[i] = b->slices[i]->used[0];
	}
	late = model_slice(b->m, &batch);
	(void)model_proc(b->m, late, 0, &task);
	model_run(b->m, 5 * S);
	assert_sound(b->m);
	assert_in_range(b->slices[0]->used[0] - before[0], 17 * 50 * MS, 25 * 50 * MS);
	assert_in_range(b->slices[1]->used[0] - before[1], 55 * 50 * MS, 65 * 50 * MS);
	assert_in_range(late->used[0], 17 * 50 * MS, 25 * 50 * MS);
	bench_free(b);
}

/* Whatever the gang's lead was on the GPU that its rival has left. */
static void sched__continues_a_gang_when_its_rival_ended(void **state)
{
	static const struct sched_share_config share = { .weight = 1 };
	static const struct model_task saturate = SATURATE(200 * US), group = GROUP(200 * US);

	(void)state;
	for (unsigned int k = 0; k < 40; k++) {
		struct model *m = model_new(k + 1, 2);
		struct model_slice *gang = model_slice(m, &share), *a = model_slice(m, &share),
				   *b = model_slice(m, &share);
		struct model_proc *rival;
		uint64_t before;

		for (unsigned int g = 0; g < 2; g++)
			(void)model_proc(m, gang, g, &group);
		(void)model_proc(m, a, 0, &saturate);
		rival = model_proc(m, b, 1, &saturate);
		model_run(m, S + k * 2 * MS);
		model_kill(rival);
		before = gang->used[0];
		model_run(m, 2 * S);
		assert_sound(m);
		if (gang->used[0] - before < 2 * S * 45 / 100)
			fail_msg("killed after %u ms: %.2f %%", k * 2,
				(double)(gang->used[0] - before) / (double)(2 * S) * PERCENT);
		(void)model_free(m);
	}
}

/* A process has clients on all GPUs of its slice. Other slices may use the time that it does not use. */
static void sched__leaves_an_unused_gpu_to_other_slices(void **state)
{
	static const struct sched_share_config share = { .weight = 1 };
	static const struct model_task saturate = SATURATE(KERNEL_NS);
	static const struct model_task once = BURST(1, 200 * US, 3600 * S);
	struct model *m = model_new(1, 2);
	struct model_slice *both = model_slice(m, &share), *a = model_slice(m, &share),
			   *b = model_slice(m, &share);
	uint64_t before[3];

	(void)state;
	(void)model_proc(m, both, 0, &saturate);
	(void)model_proc(m, both, 1, &once);
	(void)model_proc(m, a, 0, &saturate);
	(void)model_proc(m, b, 1, &saturate);
	model_run(m, 3 * S);
	before[0] = both->used[0];
	before[1] = a->used[0];
	before[2] = b->used[1];
	model_run(m, 2 * S);
	assert_sound(m);
	assert_in_range(both->used[0] - before[0], 48 * 20 * MS, 52 * 20 * MS);
	assert_in_range(a->used[0] - before[1], 48 * 20 * MS, 52 * 20 * MS);
	assert_true(b->used[1] - before[2] > 99 * 20 * MS);
	(void)model_free(m);
}

/* A slice with work in flight for a minute owes no more than SCHED_DEBT_MAX_NS. */
static void sched__limits_debts(void **state)
{
	static const struct sched_share_config one = { .weight = 1 }, nine = { .weight = 9 };
	static const struct model_task endless = { .kind = MODEL_SATURATE,
		.kernel_ns = 60 * S,
		.ahead = 2 };
	static const struct model_task saturate = SATURATE(KERNEL_NS);
	struct model *m = model_new(1, 1);
	struct model_slice *a = model_slice(m, &one), *b = model_slice(m, &nine);
	struct model_proc *p = model_proc(m, a, 0, &endless);
	uint64_t since;

	(void)state;
	(void)model_proc(m, b, 0, &saturate);
	while (p->steps < 2)
		model_run(m, S);
	for (since = m->now; !p->in_flight && m->now - since < 100 * S;)
		model_run(m, S);
	assert_sound(m);
	/* The debt is paid at a ninth of the GPU's time. */
	assert_true(m->now - since < 9 * SCHED_DEBT_MAX_NS + 5 * S);
	(void)model_free(m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched__divides_time_equally_without_idle_time),
		cmocka_unit_test(sched__follows_weights),
		cmocka_unit_test(sched__does_not_charge_overruns_that_wait),
		cmocka_unit_test(sched__serves_each_of_a_hundred_slices),
		cmocka_unit_test(sched__keeps_to_caps_alone_and_together),
		cmocka_unit_test(sched__reaches_a_cap_beside_a_slice_that_uses_the_rest),
		cmocka_unit_test(sched__keeps_to_a_cap_of_class_latency_too),
		cmocka_unit_test(sched__serves_class_latency_first_and_batch_with_the_rest),
		cmocka_unit_test(sched__rotates_class_latency_beyond_its_share),
		cmocka_unit_test(
			sched__serves_class_latency_beyond_its_share_half_beside_one_slice),
		cmocka_unit_test(sched__keeps_the_quantum_of_a_launch_and_wait_loop),
		cmocka_unit_test(sched__serves_a_loop_with_pauses_most_of_its_share),
		cmocka_unit_test(sched__serves_occasional_small_work_in_between),
		cmocka_unit_test(sched__compensates_for_long_kernels),
		cmocka_unit_test(sched__runs_gangs_on_all_their_gpus_at_once),
		cmocka_unit_test(sched__leaves_a_loop_its_share_beside_class_latency),
		cmocka_unit_test(sched__divides_class_latency_by_weight),
		cmocka_unit_test(sched__continues_a_gang_when_its_rival_ended),
		cmocka_unit_test(sched__leaves_an_unused_gpu_to_other_slices),
		cmocka_unit_test(sched__limits_debts),
		cmocka_unit_test(sched__serves_false_reports_no_more_than_their_share),
		cmocka_unit_test(sched__grants_a_blocked_client_its_quantum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
