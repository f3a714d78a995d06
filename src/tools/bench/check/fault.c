/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/check/kinds.h"

/*
 * A fault: one pod stores where nothing is while its neighbour works. Then both have ended, and a new one begins in
 * the place of the first.
 */

#define BLOCK_MS 10
#define LATE_MS  50 /* that the new pod works */

enum { NEIGHBOUR, WRONG, NEXT, PODS };

static void plan(const struct check_case *c, size_t trial, struct trial_plan *ret)
{
	(void)trial;
	*ret = (struct trial_plan){ .n = PODS };
	case_halves(c, ret);
	ret->pods[NEIGHBOUR] = (struct trial_pod){ .workload = &check_burn,
		.to_ms = c->ms,
		.block_ms = BLOCK_MS };
	ret->pods[WRONG] = (struct trial_pod){ .workload = &check_wrong,
		.place = 1,
		.begin_ms = c->ms * 2 / 5,
		.from_ms = c->ms * 2 / 5,
		.to_ms = c->ms * 4 / 5,
		.block_ms = BLOCK_MS };
	ret->pods[NEXT] = (struct trial_pod){ .workload = &check_nothing,
		.place = 1,
		.to_ms = LATE_MS,
		.late = true };
}

/* What the neighbour felt is an outcome; what keeps it from being found out is not. */
static void take(struct check_case *c, size_t trial, const struct trial_plan *p,
	const struct trial_facts *f)
{
	const struct check_pod_facts *neighbour = &f->pods[NEIGHBOUR], *wrong = &f->pods[WRONG];

	(void)trial;
	if (!case_answers(c, neighbour, "the neighbour") ||
		!case_answers(c, wrong, "the pod that was to be at fault"))
		return;
	c->fault = (struct judge_fault){ .fault = case_why(c->texts[WRONG], wrong),
		.neighbour = case_why(c->texts[NEIGHBOUR], neighbour),
		.at_ms = p->pods[WRONG].begin_ms - p->pods[NEIGHBOUR].from_ms,
		.next = case_why(c->texts[NEXT], &f->pods[NEXT]),
		.next_ms = (double)f->late_ns / 1e6 };
	case_blocks(c, &p->pods[NEIGHBOUR], neighbour, &c->fault.blocks);
}

static void judge(const struct check_case *c, struct verdict *ret)
{
	judge_fault(ret, &c->fault);
}

const struct check_kind check_fault = { .name = "fault",
	.title = "fault of a neighbour",
	.breaks = true,
	.is_for = case_parts,
	.trials = case_once,
	.plan = plan,
	.take = take,
	.judge = judge };
