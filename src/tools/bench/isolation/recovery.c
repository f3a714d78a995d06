/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/isolation/case.h"

#include "lib/base/time.h"

#include <stdio.h>

/*
 * Recovery test. Two pods fill the GPU and hold much of their memory. One of them kills itself during its work.
 * The test measures how soon the other pod has the whole GPU, and whether a new pod has enough memory.
 */

#define BLOCK_MS 5
#define HOLD     60 /* percent of its memory: a second pod does not fit while the first holds it */
#define LATE_MS  50

enum { NEIGHBOR_POD, KILLED, NEXT, PODS };

static void plan_recovery_trial(const struct isolation_case *c, size_t trial,
	struct trial_plan *ret)
{
	(void)trial;
	*ret = (struct trial_plan){ .n = PODS };
	case_halves(c, ret);
	ret->pods[NEIGHBOR_POD] = (struct trial_pod){ .workload = &isolation_load_burn,
		.from_ms = c->ms / 5,
		.to_ms = c->ms * 17 / 10,
		.block_ms = BLOCK_MS };
	ret->pods[KILLED] = ret->pods[NEIGHBOR_POD];
	ret->pods[KILLED].place = 1;
	ret->pods[KILLED].hold = HOLD;
	ret->pods[KILLED].die_ms = c->ms / 2;
	ret->pods[NEXT] = (struct trial_pod){ .workload = &isolation_load_nothing,
		.place = 1,
		.to_ms = LATE_MS,
		.hold = HOLD,
		.late = true };
}

static void collect_recovery_facts(struct isolation_case *c, size_t trial,
	const struct trial_plan *p, const struct trial_facts *f)
{
	const struct trial_pod *pod = &p->pods[NEIGHBOR_POD];
	const struct isolation_pod_facts *neighbour = &f->pods[NEIGHBOR_POD],
					 *killed = &f->pods[KILLED];
	uint64_t from_ns = f->begin_ns + pod->from_ms * NS_PER_MS;

	(void)trial;
	if (!case_expect_ready(c, neighbour, "the neighbour") ||
		!case_expect(c, killed, "the pod that was to be killed"))
		return;
	if (!killed->dies_ns) {
		(void)snprintf(c->unknown, sizeof(c->unknown), "the pod was not killed");
		return;
	}
	c->recovery = (struct verdict_recovery){ .neighbor = case_why(c->texts[NEIGHBOR_POD],
							 neighbour),
		.at_ms = ((double)killed->dies_ns - (double)from_ns) / 1e6,
		.whole = c->alone->rate * case_share_alone(c->mode),
		.next = case_why(c->texts[NEXT], &f->pods[NEXT]),
		.next_ms = (double)f->late_ns / 1e6,
		.found = killed->free,
		.next_found = f->pods[NEXT].free };
	case_blocks(c, pod, neighbour, &c->recovery.blocks);
}

static void set_recovery_verdict(const struct isolation_case *c, struct verdict *ret)
{
	verdict_recovery(ret, &c->recovery);
}

static bool is_recovery_timed(const struct isolation_case *c)
{
	return !*c->recovery.neighbor; /* the neighbor ended; speed is irrelevant */
}

const struct isolation_test_kind isolation_test_recovery = { .name = "recovery",
	.title = "recovery from a kill",
	.timed = is_recovery_timed,
	.breaks = true,
	.is_for = case_is_for_sharing_mode,
	.trials = case_once,
	.plan = plan_recovery_trial,
	.collect = collect_recovery_facts,
	.set_verdict = set_recovery_verdict };
