/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/case.h"

/*
 * Fault test. One pod writes to an invalid address while its neighbor works. After both have ended, a new pod
 * starts in the place of the first pod.
 */

#define BLOCK_MS 10
#define LATE_MS  50 /* working time of the new pod */

enum { NEIGHBOR_POD, WRONG, NEXT, PODS };

static void plan_fault_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	(void)trial;
	*ret = (struct trial_plan){ .n = PODS };
	case_halves(c, ret);
	ret->pods[NEIGHBOR_POD] = (struct trial_pod){ .workload = &isolation_load_burn,
		.to_ms = c->ms,
		.block_ms = BLOCK_MS };
	ret->pods[WRONG] = (struct trial_pod){ .workload = &isolation_load_wrong,
		.place = 1,
		.begin_ms = c->ms * 2 / 5,
		.from_ms = c->ms * 2 / 5,
		.to_ms = c->ms * 4 / 5,
		.block_ms = BLOCK_MS };
	ret->pods[NEXT] = (struct trial_pod){ .workload = &isolation_load_nothing,
		.place = 1,
		.to_ms = LATE_MS,
		.late = true };
}

/* A fault that reaches the neighbor is an outcome. A pod that could not start makes the test inconclusive. */
static void collect_fault_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct isolation_pod_facts *neighbour = &f->pods[NEIGHBOR_POD],
					 *wrong = &f->pods[WRONG];

	(void)trial;
	if (!case_expect_ready(c, neighbour, "the neighbour") ||
		!case_expect_ready(c, wrong, "the pod that was to be at fault"))
		return;
	c->fault = (struct verdict_fault){ .fault = case_why(c->texts[WRONG], wrong),
		.neighbor = case_why(c->texts[NEIGHBOR_POD], neighbour),
		.at_ms = p->pods[WRONG].begin_ms - p->pods[NEIGHBOR_POD].from_ms,
		.next = case_why(c->texts[NEXT], &f->pods[NEXT]),
		.next_ms = (double)f->late_ns / 1e6 };
	case_blocks(c, &p->pods[NEIGHBOR_POD], neighbour, &c->fault.blocks);
}

static void set_fault_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_fault(ret, &c->fault);
}

const struct isolation_test_kind isolation_test_fault = { .name = "fault",
	.title = "fault of a neighbour",
	.breaks = true,
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_fault_trial,
	.collect = collect_fault_facts,
	.set_verdict = set_fault_verdict };
