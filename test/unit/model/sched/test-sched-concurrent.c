/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/base/cleanup.h"
#include "unit/model/sched/bench.h"
#include "model/sched/internal.h"

/* The scheduler has no quanta where quanta would leave the GPU idle, and no slice loses by that (sched.h,
 * "Concurrent"). */

/* The host code has the next kernel ready as long after the end of the last kernel as that kernel took. */
static const struct model_task half = { .kind = MODEL_PACED,
	.kernel_ns = 25 * US,
	.think_ns = 50 * US,
	.burst = 400,
	.rest_ns = MS };
/* Like a process that infers, and a process that trains, in a framework. */
static const struct model_task infer = { .kind = MODEL_PACED,
	.kernel_ns = 27 * US,
	.think_ns = 52 * US,
	.burst = 70,
	.rest_ns = MS };
static const struct model_task train = { .kind = MODEL_PACED,
	.kernel_ns = 90 * US,
	.think_ns = 93 * US,
	.burst = 360,
	.rest_ns = 500 * US };
/* Waits for each kernel, so it loses a time slice of the hardware each time another process has work. */
static const struct model_task decode = LOOP(118 * US, 8 * US);
static const struct model_task saturate = SATURATE(250 * US);

struct tenant {
	struct sched_share_config share;
	struct model_task task;
};

#define SHARE(w)              \
	{                     \
		.weight = (w) \
	}

struct outcome {
	double did[ROWS_MAX];   /* kernels a second */
	double concurrent_part; /* part of the time */
};

/* What each slice does in @ns, after two seconds; @with_quanta: always with quanta. */
static struct outcome run_tenants(uint64_t seed, const struct tenant *tenants, unsigned int n,
	uint64_t ns, bool with_quanta)
{
	struct model *m = model_new(seed, 1);
	struct model_proc *procs[ROWS_MAX];
	struct outcome r = { .concurrent_part = 0 };
	uint64_t before[ROWS_MAX];

	if (with_quanta)
		m->sched->done = NULL;
	for (unsigned int i = 0; i < n; i++)
		procs[i] =
			model_proc(m, model_slice(m, &tenants[i].share), 0, &tenants[i].task);
	model_run(m, 2 * S);
	m->concurrent[0] = 0;
	for (unsigned int i = 0; i < n; i++)
		before[i] = procs[i]->steps;
	model_run(m, ns);
	for (unsigned int i = 0; i < n; i++)
		r.did[i] = (double)(procs[i]->steps - before[i]) * (double)S / (double)ns;
	r.concurrent_part = (double)m->concurrent[0] / (double)ns;
	assert_sound(m);
	(void)model_free(m);
	return r;
}

/* What each slice does with others, as a part of what it does alone. */
static void assert_gets_on(const struct tenant *tenants, unsigned int n, double min)
{
	struct outcome all = run_tenants(1, tenants, n, 10 * S, false);

	for (unsigned int i = 0; i < n; i++) {
		double alone = run_tenants(1, &tenants[i], 1, S, false).did[0];

		if (all.did[i] < min * alone)
			fail_msg("tenant %u gets on at %.3f of its own pace, expected %.3f", i,
				all.did[i] / alone, min);
	}
}

static void sched__is_concurrent_where_two_slices_leave_the_gpu_idle(void **state)
{
	const struct tenant halves[] = { { SHARE(1), half }, { SHARE(1), half } };
	const struct tenant inferers[] = { { SHARE(1), infer }, { SHARE(1), infer } };

	(void)state;
	/* The figures with quanta: 0.52 and 0.60. */
	assert_gets_on(halves, 2, 0.85);
	assert_gets_on(inferers, 2, 0.85);
}

static void sched__is_concurrent_where_many_slices_leave_the_gpu_idle(void **state)
{
	const struct tenant four[] = { { SHARE(1), infer }, { SHARE(1), infer },
		{ SHARE(1), infer }, { SHARE(1), infer } };

	(void)state;
	/* The figure with quanta: 0.30. */
	assert_gets_on(four, 4, 0.52);
}

static void sched__keeps_quanta_where_the_gpu_is_full(void **state)
{
	const struct tenant rows[][2] = {
		{ { SHARE(1), saturate }, { SHARE(1), saturate } },
		{ { SHARE(1), saturate }, { SHARE(3), decode } },
		{ { SHARE(1), decode }, { SHARE(1), decode } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_true(run_tenants(1, rows[i], 2, 5 * S, false).concurrent_part == 0);
}

/* The scheduler notices what the hardware's rotation would do to the slice of a larger weight, and does not try
 * it often. */
static void sched__keeps_quanta_where_a_slice_would_lose(void **state)
{
	const struct tenant rows[] = { { SHARE(3), train }, { SHARE(1), infer } };
	struct outcome with = run_tenants(1, rows, 2, 20 * S, true),
		       got = run_tenants(1, rows, 2, 20 * S, false);

	(void)state;
	assert_true(got.did[0] >= 0.96 * with.did[0]);
	assert_true(got.did[1] >= 0.96 * with.did[1]);
	assert_true(got.concurrent_part < 0.15);
}

static void sched__keeps_quanta_for_caps_and_class_latency(void **state)
{
	const struct tenant rows[][2] = {
		{ { { .weight = 1, .cap = 900000 }, half }, { SHARE(1), half } },
		{ { { .weight = 1, .latency = true }, half }, { SHARE(1), half } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_true(run_tenants(1, rows[i], 2, 5 * S, false).concurrent_part == 0);
}

static struct model *begin_two(struct model_slice **ret)
{
	static const struct sched_share_config share = SHARE(1);
	struct model *m = model_new(1, 2);

	for (unsigned int i = 0; i < 2; i++) {
		ret[i] = model_slice(m, &share);
		(void)model_proc(m, ret[i], 0, &half);
	}
	model_run(m, 2 * S);
	assert_true(sched_is_concurrent(m->sched, 0));
	return m;
}

static void sched__returns_to_quanta_for_caps_latency_and_gangs(void **state)
{
	static const struct sched_share_config plain = SHARE(1),
					       capped = { .weight = 1, .cap = 500000 },
					       latency = { .weight = 1, .latency = true };
	struct model_slice *slices[2], *other;
	struct model *m = begin_two(slices);

	(void)state;
	model_share(m, slices[0], &capped);
	assert_false(sched_is_concurrent(m->sched, 0));
	model_share(m, slices[0], &plain);
	model_run(m, 2 * S);
	assert_true(sched_is_concurrent(m->sched, 0));
	/* A slice of class latency, and at work at once. */
	other = model_slice(m, &latency);
	(void)model_proc(m, other, 0, &half);
	model_run(m, 10 * MS);
	assert_false(sched_is_concurrent(m->sched, 0));
	model_slice_drop(m, other);
	model_run(m, 2 * S);
	assert_true(sched_is_concurrent(m->sched, 0));
	/* A gang, as soon as it has work on both its GPUs. */
	other = model_slice(m, &plain);
	(void)model_proc(m, other, 0, &half);
	(void)model_proc(m, other, 1, &half);
	model_run(m, 10 * MS);
	assert_false(sched_is_concurrent(m->sched, 0));
	assert_sound(m);
	(void)model_free(m);
}

static void sched__returns_to_quanta_with_a_new_slice_until_one_is_left(void **state)
{
	static const struct sched_share_config share = SHARE(1);
	struct model_slice *slices[2], *other;
	struct model *m = begin_two(slices);

	(void)state;
	other = model_slice(m, &share);
	(void)model_proc(m, other, 0, &saturate);
	model_run(m, 300 * MS);
	assert_false(sched_is_concurrent(m->sched, 0));
	model_slice_drop(m, other);
	model_slice_drop(m, slices[0]);
	model_run(m, 2 * S);
	assert_false(sched_is_concurrent(m->sched, 0));
	assert_sound(m);
	(void)model_free(m);
}

/* --- what changes --- */

struct scene {
	struct model *m;
	struct model_slice *slices[ROWS_MAX];
	struct model_proc *procs[ROWS_MAX];
};

/* @change happens when all slices may be concurrent. Returns what the first slice does then, as a part of what
 * it does with quanta all the time. */
static double get_share_of_quanta(const struct tenant *tenants, unsigned int n, uint64_t ns,
	void (*change)(struct scene *s))
{
	double did[2];

	for (int with_quanta = 0; with_quanta < 2; with_quanta++) {
		struct scene s = { .m = model_new(1, 1) };
		uint64_t before;

		if (with_quanta)
			s.m->sched->done = NULL;
		for (unsigned int i = 0; i < n; i++) {
			s.slices[i] = model_slice(s.m, &tenants[i].share);
			s.procs[i] = model_proc(s.m, s.slices[i], 0, &tenants[i].task);
		}
		model_run(s.m, 1400 * MS);
		if (change)
			change(&s);
		before = s.procs[0]->steps;
		model_run(s.m, ns);
		did[with_quanta] = (double)(s.procs[0]->steps - before);
		assert_sound(s.m);
		(void)model_free(s.m);
	}
	return did[0] / did[1];
}

static void drop_last(struct scene *s)
{
	model_kill(s->procs[2]);
}

static void sched__measures_again_when_a_slice_leaves(void **state)
{
	const struct tenant rows[] = { { SHARE(10), saturate }, { SHARE(1), saturate },
		{ SHARE(20), half } };

	(void)state;
	assert_true(get_share_of_quanta(rows, 3, 5 * S, drop_last) > 0.97);
}

static void idle_last(struct scene *s)
{
	s->procs[2]->todo = 0;
	s->procs[2]->task.rest_ns = 1000 * S;
}

static void sched__measures_again_when_a_slice_is_idle(void **state)
{
	const struct tenant rows[] = { { SHARE(10), saturate }, { SHARE(1), saturate },
		{ SHARE(20), half } };

	(void)state;
	assert_true(get_share_of_quanta(rows, 3, 5 * S, idle_last) > 0.85);
}

static void raise_first_weight(struct scene *s)
{
	static const struct sched_share_config share = SHARE(10);

	model_share(s->m, s->slices[0], &share);
}

static void sched__measures_again_with_another_weight(void **state)
{
	const struct tenant rows[] = { { SHARE(1), half }, { SHARE(1), infer },
		{ SHARE(1), saturate } };

	(void)state;
	assert_true(get_share_of_quanta(rows, 3, 10 * S, raise_first_weight) > 0.94);
}

/* The kernels of the earlier program were long, and few. */
static void replace_first_program(struct scene *s)
{
	model_kill(s->procs[0]);
	model_run(s->m, 500 * MS);
	s->procs[0] = model_proc(s->m, s->slices[0], 0, &decode);
}

static void sched__measures_again_with_another_program_of_a_slice(void **state)
{
	const struct tenant rows[] = { { SHARE(1), { .kind = MODEL_PACED,
							   .kernel_ns = MS,
							   .think_ns = 1100 * US,
							   .burst = 100,
							   .rest_ns = MS } },
		{ SHARE(1), half }, { SHARE(1), half } };

	(void)state;
	assert_true(get_share_of_quanta(rows, 3, 5 * S, replace_first_program) > 0.97);
}

/* The first slice needs the GPU for a twentieth of the time. */
static void sched__keeps_quanta_where_a_slice_with_little_work_would_lose(void **state)
{
	const struct tenant rows[] = { { SHARE(1), { .kind = MODEL_LOOP,
							   .kernel_ns = 118 * US,
							   .think_ns = 80 * MS,
							   .burst = 40 } },
		{ SHARE(1), half }, { SHARE(1), half } };

	(void)state;
	assert_true(get_share_of_quanta(rows, 3, 20 * S, NULL) > 0.95);
}

/* A thousand processes of a slice, each of which reports a thousand million done kernels since the last poll. */
static void sched__counts_no_burst_as_a_loss(void **state)
{
	struct model_slice *slices[2];
	struct model *m = begin_two(slices);
	struct sched_share *share = m->sched->gpus[0].shares;

	(void)state;
	share->pace.done = UINT64_C(1000) * 1000000000;
	share->pace.each_ns = 31 * MS;
	model_run(m, 60 * MS);
	assert_true(share->pace.lost < 0);
	assert_true(sched_is_concurrent(m->sched, 0));
	(void)model_free(m);
}

/* --- no slice loses --- */

static struct model_task random_task(struct model *m)
{
	static const uint64_t kernels[] = { 15 * US, 30 * US, 60 * US, 120 * US, 300 * US, MS };
	struct model_task task = { .kernel_ns = kernels[model_random(m, ARRAY_LEN(kernels))],
		.ahead = 16 };
	uint64_t dice = model_random(m, 100);

	if (dice < 50) {
		task.kind = MODEL_PACED;
		task.think_ns = task.kernel_ns * (90 + model_random(m, 250)) / 100;
		task.burst = 20 + (unsigned int)model_random(m, 500);
		task.rest_ns = model_random(m, 3 * MS);
	} else if (dice < 65) {
		task.kind = MODEL_LOOP;
		task.think_ns = 5 * US + model_random(m, 100 * US);
	} else if (dice < 80) {
		task.kind = MODEL_LOOP;
		task.think_ns = 100 * US + model_random(m, 3 * MS);
		task.burst = 1 + (unsigned int)model_random(m, 60);
	}
	return task;
}

static void sched__no_slice_loses_and_most_gain(void **state)
{
	double sum = 0;
	unsigned int n_all = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct tenant tenants[4];
		struct model *dice = model_new(seed, 1);
		unsigned int n = 2 + (unsigned int)model_random(dice, 3);
		struct outcome with, got;

		for (unsigned int i = 0; i < n; i++) {
			tenants[i].share = (struct sched_share_config)SHARE(
				1 +
				(model_random(dice, 3) ? 0 : (uint32_t)model_random(dice, 4)));
			tenants[i].task = random_task(dice);
		}
		(void)model_free(dice);
		with = run_tenants(seed, tenants, n, 10 * S, true);
		got = run_tenants(seed, tenants, n, 10 * S, false);
		for (unsigned int i = 0; i < n; i++) {
			if (got.did[i] < 0.93 * with.did[i])
				fail_msg("seed %d, tenant %u: %.1f a second, %.1f with turns",
					(int)seed, i, got.did[i], with.did[i]);
			sum += got.did[i] / with.did[i];
			n_all++;
		}
	}
	assert_true(sum / n_all > 1.05);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sched__is_concurrent_where_two_slices_leave_the_gpu_idle),
		cmocka_unit_test(sched__is_concurrent_where_many_slices_leave_the_gpu_idle),
		cmocka_unit_test(sched__keeps_quanta_where_the_gpu_is_full),
		cmocka_unit_test(sched__keeps_quanta_where_a_slice_would_lose),
		cmocka_unit_test(sched__keeps_quanta_for_caps_and_class_latency),
		cmocka_unit_test(sched__returns_to_quanta_for_caps_latency_and_gangs),
		cmocka_unit_test(sched__returns_to_quanta_with_a_new_slice_until_one_is_left),
		cmocka_unit_test(sched__measures_again_when_a_slice_leaves),
		cmocka_unit_test(sched__measures_again_when_a_slice_is_idle),
		cmocka_unit_test(sched__measures_again_with_another_weight),
		cmocka_unit_test(sched__measures_again_with_another_program_of_a_slice),
		cmocka_unit_test(sched__keeps_quanta_where_a_slice_with_little_work_would_lose),
		cmocka_unit_test(sched__counts_no_burst_as_a_loss),
		cmocka_unit_test(sched__no_slice_loses_and_most_gain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
