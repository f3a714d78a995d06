/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/case.h"

/*
 * Memory test. One of two pods allocates all memory that it can and keeps it. Then the other pod tries the same.
 * In modes with limits, each pod has a quarter of the GPU's memory.
 */

#define QUARTERS 4
#define QUARTER  0.25
#define OF_GPU   0.95 /* a larger MIG device limits nothing */

static uint64_t compute_quarter_memory(const struct isolation_case *c)
{
	return environment_slice_memory(c->environment, QUARTERS) >> 20 << 20;
}

static void plan_memory_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	const struct trial_pod filler = { .workload = &isolation_load_nothing,
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
		ret->places[i] = (struct environment_pod){ .weight = 1,
			.sm_share = QUARTER,
			.memory = compute_quarter_memory(c) };
}

static double find_case_memory_limit(const struct isolation_case *c,
	const struct isolation_pod_facts *f)
{
	double gpu = (double)c->environment->memory;

	if (c->mode == BENCH_FAIR_SHARE)
		return (double)environment_slice_memory(c->environment, QUARTERS);
	if (c->mode == BENCH_MPS_LIMITED)
		return (double)compute_quarter_memory(c);
	/* A MIG device is as large as the driver reports. */
	return c->mode == BENCH_MIG && f->total < OF_GPU * gpu ? f->total : 0;
}

static double get_fill_number(const struct isolation_pod_facts *f, const char *key)
{
	return json_number_value(json_object_get(f->answer, key));
}

static void collect_memory_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct isolation_pod_facts *a = &f->pods[0], *b = &f->pods[1];

	(void)trial;
	(void)p;
	if (!case_expect(c, a, "the pod that takes memory") ||
		!case_expect(c, b, "its neighbour"))
		return;
	c->memory = (struct verdict_memory){ .limit = find_case_memory_limit(c, a),
		.found = a->free,
		.obtained = get_fill_number(a, "bytes"),
		.gpu = (double)c->environment->memory,
		.refusal = (int)get_fill_number(a, "refusal"),
		.refusal_ns = get_fill_number(a, "refusal_ns"),
		.neighbor_limit = find_case_memory_limit(c, b), /* MIG devices can differ */
		.neighbor_found = b->free,
		.neighbor_taken = get_fill_number(b, "bytes") };
}

static void set_memory_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_memory(ret, &c->memory);
}

const struct isolation_test_kind isolation_test_memory = { .name = "memory",
	.title = "memory limit",
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_memory_trial,
	.collect = collect_memory_facts,
	.set_verdict = set_memory_verdict };
