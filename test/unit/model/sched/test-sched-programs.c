/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs of the zoo (test/gpu/zoo) in the model: what each one does beside another, as a part of what it does alone,
 * by the scheduler and by the hardware alone (stock). The lengths are those measured on H100 and H200.
 */
#include "support/test.h"

#include "lib/base/minmax.h"
#include "unit/model/sched/bench.h"

#define TENANTS_MAX 16
#define MANY        8
#define BEGIN       (3 * S) /* until the scheduler knows the programs */

struct tenant {
	struct sched_share_config share;
	struct model_task task;
};

struct outcome {
	double part[TENANTS_MAX]; /* of what it does alone */
	double sum;
	uint64_t p99; /* of bursts of the first, ns */
};

#define WEIGHT(w)             \
	{                     \
		.weight = (w) \
	}
#define LATENCY                              \
	{                                    \
		.weight = 1, .latency = true \
	}

/* A token of a language model: one graph, then 0.1 to 0.4 ms of CPU. */
static const struct model_task decode = { .kind = MODEL_TOKEN,
	.kernel_ns = 1080 * US,
	.think_ns = 100 * US,
	.rest_ns = 400 * US,
	.burst = 1 };
/* The same with three short pieces before the graph, and three behind it, each awaited. */
static const struct model_task pieces = { .kind = MODEL_TOKEN,
	.kernel_ns = 900 * US,
	.think_ns = 100 * US,
	.rest_ns = 400 * US,
	.burst = 7,
	.piece_ns = 30 * US };
/* 200 short kernels a token, launched one by one. */
static const struct model_task generate = { .kind = MODEL_PACED,
	.kernel_ns = 8 * US,
	.think_ns = 75 * US,
	.burst = 200,
	.rest_ns = 300 * US };
static const struct model_task train = { .kind = MODEL_PACED,
	.kernel_ns = 90 * US,
	.think_ns = 60 * US,
	.burst = 600,
	.rest_ns = 500 * US };
static const struct model_task saturate = SATURATE(250 * US);
static const struct model_task burst = BURST(20, 12 * US, 10 * MS);

static double run_alone(const struct tenant *tenant)
{
	struct model *m = model_new(1, 1);
	struct model_proc *p = model_proc(m, model_slice(m, &tenant->share), 0, &tenant->task);
	uint64_t before;

	model_run(m, S);
	before = p->steps;
	model_run(m, 5 * S);
	before = p->steps - before;
	(void)model_free(m);
	return (double)before / 5;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static struct outcome run_together(const struct tenant *tenants, unsigned int n, bool stock)
{
	struct model *m = model_new(1, 1);
	struct model_proc *procs[TENANTS_MAX];
	struct outcome r = { .sum = 0 };
	uint64_t before[TENANTS_MAX];

	m->stock = stock;
	for (unsigned int i = 0; i < n; i++)
		procs[i] =
			model_proc(m, model_slice(m, &tenants[i].share), 0, &tenants[i].task);
	model_run(m, BEGIN);
	for (unsigned int i = 0; i < n; i++) {
		before[i] = procs[i]->steps;
		procs[i]->n_lat = 0;
	}
	model_run(m, SECONDS * S);
	for (unsigned int i = 0; i < n; i++) {
		r.part[i] = (double)(procs[i]->steps - before[i]) / SECONDS /
			    run_alone(&tenants[i]);
		r.sum += r.part[i];
	}
	qsort(procs[0]->lat, procs[0]->n_lat, sizeof(procs[0]->lat[0]), compare_u64);
	r.p99 = procs[0]->n_lat ? procs[0]->lat[procs[0]->n_lat * 99 / 100] : 0;
	if (!stock)
		assert_sound(m);
	(void)model_free(m);
	return r;
}

static void assert_between(const char *what, double part, double min, double max)
{
	if (part < min || part > max)
		fail_msg("%s: %.3f, expected %.3f to %.3f", what, part, min, max);
}

/* What the model must show before it judges the scheduler: measured on an H100, two loops that generate have 64 % of one
 * together, and four that saturate 90 %. */
static void model__shows_what_the_hardware_alone_does(void **state)
{
	const struct tenant loops[] = { { WEIGHT(1), pieces }, { WEIGHT(1), pieces } };
	const struct tenant four[] = { { WEIGHT(1), saturate }, { WEIGHT(1), saturate },
		{ WEIGHT(1), saturate }, { WEIGHT(1), saturate } };

	(void)state;
	assert_between("two loops", run_together(loops, 2, true).sum, 0.60, 0.68);
	assert_between("four saturate", run_together(four, 4, true).sum, 0.90, 0.94);
}

static void sched__has_two_loops_fill_the_idle_times_of_each_other(void **state)
{
	const struct tenant one[] = { { WEIGHT(1), decode }, { WEIGHT(1), decode } };
	const struct tenant other[] = { { WEIGHT(1), pieces }, { WEIGHT(1), pieces } };

	(void)state;
	assert_between("one piece", run_together(one, 2, false).sum, 1.03, 2);
	assert_between("pieces", run_together(other, 2, false).sum, 0.95, 2);
}

/* Without a wait for the loop of weight 3 each would have one token each time. */
static void sched__keeps_the_weights_of_loops(void **state)
{
	const struct model_task *tasks[] = { &decode, &pieces };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tasks); i++) {
		const struct tenant rows[] = { { WEIGHT(1), *tasks[i] },
			{ WEIGHT(3), *tasks[i] } };
		struct outcome r = run_together(rows, 2, false);

		assert_between("sum", r.sum, 0.95, 2);
		assert_between("share", r.part[0] / r.sum, 0.23, 0.27);
	}
}

static void sched__keeps_the_weights_of_a_loop_beside_one_that_saturates(void **state)
{
	const struct tenant equal[] = { { WEIGHT(1), decode }, { WEIGHT(1), saturate } };
	const struct tenant more[] = { { WEIGHT(3), decode }, { WEIGHT(1), saturate } };

	(void)state;
	assert_between("1:1", run_together(equal, 2, false).part[0], 0.47, 0.53);
	assert_between("3:1", run_together(more, 2, false).part[0], 0.72, 0.78);
}

/* A program that launches its kernels one by one does not keep the GPU busy. */
static void sched__costs_programs_that_leave_the_gpu_idle_nothing(void **state)
{
	static const uint32_t weights[][2] = { { 1, 1 }, { 3, 1 }, { 1, 3 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(weights); i++) {
		const struct tenant rows[] = { { WEIGHT(weights[i][0]), generate },
			{ WEIGHT(weights[i][1]), train } };
		struct outcome stock = run_together(rows, 2, true),
			       ours = run_together(rows, 2, false);

		/* Twice a quarter of a second each 10 s there are quanta, with their weights. */
		for (unsigned int k = 0; k < 2; k++)
			assert_between(k ? "train" : "generate", ours.part[k] / stock.part[k],
				i ? 0.95 : 0.98, 2);
	}
}

/* The kernels of a trickle come all the time, and are short: to pause the other each time would cost both. */
static void sched__lets_a_trickle_of_class_latency_pause_others_only_so_often(void **state)
{
	const struct model_task *others[] = { &train, &saturate };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		const struct tenant rows[] = { { LATENCY, generate },
			{ WEIGHT(1), *others[i] } };
		struct outcome stock = run_together(rows, 2, true),
			       ours = run_together(rows, 2, false);

		assert_between("generate", ours.part[0] / stock.part[0], 0.98, 2);
		assert_between("beside it", ours.part[1] / stock.part[1], 0.8, 2);
	}
}

static void sched__serves_bursts_of_class_latency_at_once(void **state)
{
	const struct tenant rows[] = { { LATENCY, burst }, { WEIGHT(1), saturate },
		{ WEIGHT(1), saturate }, { WEIGHT(1), saturate } };
	struct outcome stock = run_together(rows, 4, true), ours = run_together(rows, 4, false);

	(void)state;
	assert_true(ours.p99 <= 850 * US);
	assert_true(stock.p99 >= 5 * MS);
	assert_between("batch", ours.sum - ours.part[0], 0.91, 2);
}

/* Programs that hardly use the GPU are served soon, and all of them together cost the others only so much. */
static void sched__serves_many_that_rest_soon(void **state)
{
	static const struct model_task rests = LOOP(6 * US, 5 * MS);
	struct tenant rows[MANY] = { { WEIGHT(1), saturate }, { WEIGHT(1), saturate } };
	struct outcome stock, ours;

	(void)state;
	for (unsigned int i = 2; i < MANY; i++)
		rows[i] = (struct tenant){ WEIGHT(1), rests };
	stock = run_together(rows, MANY, true);
	ours = run_together(rows, MANY, false);
	for (unsigned int i = 0; i < MANY; i++)
		assert_between(i < 2 ? "saturates" : "rests", ours.part[i] / stock.part[i],
			i < 2 ? 0.93 : 0.7, 2);
}

static const struct model_task rank = { .kind = MODEL_GROUP,
	.kernel_ns = 60 * US,
	.think_ns = 110 * US,
	.ahead = 60 };

/* A process each GPU, which wait for each other. Returns the longest time with concurrent gates on any GPU, ns. */
static uint64_t run_gangs(const struct tenant *tenants, const unsigned int *gpus,
	unsigned int n, double *did)
{
	struct model *m = model_new(1, 2);
	struct model_proc *procs[TENANTS_MAX][2] = { { NULL } };
	uint64_t concurrent;

	for (unsigned int i = 0; i < n; i++) {
		struct model_slice *s = model_slice(m, &tenants[i].share);

		for (unsigned int g = 0; g < 2; g++)
			if (gpus[i] >> g & 1)
				procs[i][g] = model_proc(m, s, g, &tenants[i].task);
	}
	model_run(m, BEGIN);
	for (unsigned int i = 0; i < n; i++)
		did[i] = -(double)procs[i][gpus[i] & 1 ? 0 : 1]->steps;
	model_run(m, SECONDS * S);
	for (unsigned int i = 0; i < n; i++)
		did[i] = (did[i] + (double)procs[i][gpus[i] & 1 ? 0 : 1]->steps) / SECONDS;
	assert_sound(m);
	concurrent = max_u64(m->concurrent[0], m->concurrent[1]);
	(void)model_free(m);
	return concurrent;
}

/* Ranks that do not keep their GPUs busy lose by quanta: then all gates are open, on all their GPUs. */
static void sched__has_gangs_run_concurrently_where_they_leave_the_gpus_idle(void **state)
{
	const struct tenant gangs[] = { { WEIGHT(1), rank }, { WEIGHT(1), rank } };
	const struct tenant beside[] = { { WEIGHT(1), rank }, { WEIGHT(1), saturate },
		{ WEIGHT(1), saturate } };
	static const unsigned int both[] = { 3, 3 }, split[] = { 3, 1, 2 };
	double alone[1], two[2], three[3];

	(void)state;
	assert_true(!run_gangs(gangs, both, 1, alone));
	assert_true(run_gangs(gangs, both, 2, two) > SECONDS * S / 2);
	assert_true(run_gangs(beside, split, 3, three) > SECONDS * S / 2);
	assert_between("two gangs", (two[0] + two[1]) / alone[0], 1.5, 2);
	/* Stock: 0.86 and 0.42. */
	assert_between("a gang beside two", three[0] / alone[0], 0.7, 1);
	assert_between("the first of the two", three[1] / run_alone(&beside[1]), 0.4, 1);
	assert_between("the second of the two", three[2] / run_alone(&beside[1]), 0.4, 1);
}

/* On the first GPU two gangs leave time. On the second, others use what the gangs leave. */
static void sched__has_gangs_run_concurrently_on_all_their_gpus_or_on_none(void **state)
{
	struct tenant tenants[TENANTS_MAX] = { { WEIGHT(1), rank }, { WEIGHT(1), rank } };
	unsigned int gpus[TENANTS_MAX] = { 3, 3 };
	double did[TENANTS_MAX];

	(void)state;
	for (unsigned int i = 2; i < TENANTS_MAX; i++) {
		tenants[i] = (struct tenant){ WEIGHT(1), saturate };
		gpus[i] = 2;
	}
	assert_true(!run_gangs(tenants, gpus, TENANTS_MAX, did));
	assert_true(run_gangs(tenants, gpus, 2, did) > SECONDS * S / 2);
	/* The gang has the second GPU alone. */
	tenants[1].task = generate;
	gpus[1] = 1;
	assert_true(run_gangs(tenants, gpus, 2, did) > SECONDS * S / 2);
	assert_between("generate", did[1] / run_alone(&tenants[1]), 0.85, 1);
}

/* Work that waits behind the holder's is not free for long: the hardware runs it. */
static void sched__charges_a_trickle_that_waits_behind_the_holder(void **state)
{
	static const struct model_task trickle = LOOP(700 * US, 400 * US);
	const struct tenant rows[] = { { LATENCY, trickle }, { { .weight = 9 }, saturate } };
	struct model *m = model_new(1, 1);
	struct model_slice *slices[2];
	double used, charged;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		slices[i] = model_slice(m, &rows[i].share);
		(void)model_proc(m, slices[i], 0, &rows[i].task);
	}
	model_run(m, BEGIN);
	used = (double)slices[0]->used[0];
	charged = (double)model_charged(m, slices[0], 0);
	model_run(m, SECONDS * S);
	used = (double)slices[0]->used[0] - used;
	charged = (double)model_charged(m, slices[0], 0) - charged;
	assert_between("used of charged", used / charged, 0, 1.05);
	(void)model_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model__shows_what_the_hardware_alone_does),
		cmocka_unit_test(sched__has_two_loops_fill_the_idle_times_of_each_other),
		cmocka_unit_test(sched__keeps_the_weights_of_loops),
		cmocka_unit_test(sched__keeps_the_weights_of_a_loop_beside_one_that_saturates),
		cmocka_unit_test(sched__costs_programs_that_leave_the_gpu_idle_nothing),
		cmocka_unit_test(
			sched__lets_a_trickle_of_class_latency_pause_others_only_so_often),
		cmocka_unit_test(sched__serves_bursts_of_class_latency_at_once),
		cmocka_unit_test(sched__serves_many_that_rest_soon),
		cmocka_unit_test(
			sched__has_gangs_run_concurrently_where_they_leave_the_gpus_idle),
		cmocka_unit_test(
			sched__has_gangs_run_concurrently_on_all_their_gpus_or_on_none),
		cmocka_unit_test(sched__charges_a_trickle_that_waits_behind_the_holder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
