/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/kinds.h"

/*
 * Memory: one of two pods takes all that it gets, and holds it while the other one tries the same. Each has a quarter
 * of the GPU's memory where the mode has limits.
 */

#define QUARTERS 4
#define QUARTER  0.25
#define OF_GPU   0.95 /* a MIG device that is larger limits nothing */

static uint64_t quarter(const struct check_case *c)
{
	return place_slice_memory(c->place, QUARTERS) >> 20 << 20;
}

static void plan(const struct check_case *c, size_t trial, struct trial_plan *ret)
{
	const struct trial_pod filler = { .workload = &check_nothing,
		.words = { "--fill" },
		.to_ms = 1,
		.stays = true };

	(void)trial;
	*ret = (struct trial_plan){ .mode = c->mode,
		.n_places = c->mode == BENCH_MIG ? 2 : QUARTERS,
		.n = 2,
		.pods = { filler, filler } };
	ret->pods[1].place = 1;
	ret->pods[1].after = true;
	for (size_t i = 0; i < ret->n_places; i++)
		ret->places[i] = (struct place_pod){ .weight = 1,
			.sm_share = QUARTER,
			.memory = quarter(c) };
}

static double limit_of(const struct check_case *c, const struct check_pod_facts *f)
{
	double gpu = (double)c->place->memory;

	if (c->mode == BENCH_TURNS)
		return (double)place_slice_memory(c->place, QUARTERS);
	if (c->mode == BENCH_MPS_LIMITED)
		return (double)quarter(c);
	/* A MIG device is as large as the driver says that it is. */
	return c->mode == BENCH_MIG && f->total < OF_GPU * gpu ? f->total : 0;
}

static double number(const struct check_pod_facts *f, const char *key)
{
	return json_number_value(json_object_get(f->answer, key));
}

static void take(struct check_case *c, size_t trial, const struct trial_plan *p,
	const struct trial_facts *f)
{
	const struct check_pod_facts *a = &f->pods[0], *b = &f->pods[1];

	(void)trial;
	(void)p;
	if (!case_expect(c, a, "the pod that takes memory") ||
		!case_expect(c, b, "its neighbour"))
		return;
	c->memory = (struct judge_memory){ .limit = limit_of(c, a),
		.found = a->free,
		.taken = number(a, "bytes"),
		.gpu = (double)c->place->memory,
		.refusal = (int)number(a, "refusal"),
		.refusal_ns = number(a, "refusal_ns"),
		.neighbour_limit = limit_of(c, b), /* MIG devices may differ */
		.neighbour_found = b->free,
		.neighbour_taken = number(b, "bytes") };
}

static void judge(const struct check_case *c, struct verdict *ret)
{
	judge_memory(ret, &c->memory);
}

const struct check_kind check_memory = { .name = "memory",
	.title = "memory limit",
	.is_for = case_parts,
	.trials = case_once,
	.plan = plan,
	.take = take,
	.judge = judge };
