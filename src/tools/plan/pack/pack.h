/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cheapest nodes for all workloads: which instance types, how many, how each one's GPUs are shared, and who
 * is where. Up to PACK_EXACT_MAX replicas of one GPU each, where offers have no limits, the answer is the best there
 * is. Else nodes are opened that
 * take most for their price, and then some are emptied and filled anew for as long as that saves money, or the
 * budget lasts. Deterministic: the budget is counted in questions that are asked, not in seconds.
 * Thread: any.
 */
#include "tools/plan/fit/fit.h"

#define PACK_EXACT_MAX 12
#define PACK_BUDGET \
	8000000 /* what questions cost while improving, see memo.c; less than two seconds, */
#define PACK_BUDGET_EACH 100 /* and so many more for each replica */
#define PACK_SHAPES_MAX  32768

struct pack_setting {
	const struct fit *fit;
	const struct plan_offer *offers;
	size_t n_offers;
	const uint32_t *limits; /* of each offer: nodes there can be; NULL: any number */
	uint64_t budget, seed;
	bool never_exact; /* for tests */
	/* Called now and then with how far it is, 0 to 1; false: the best so far is wanted now. May be NULL. */
	bool (*go_on)(void *arg, double done, int64_t nano_per_hour);
	void *arg;
};

/* Why workload .workload has no place: the best of the reasons of all offers and modes. */
struct pack_unplaced {
	uint32_t workload, replicas;
	enum plan_reason reason;
};

struct pack_result {
	struct plan_node *nodes;
	size_t n_nodes;
	int64_t nano_per_hour;
	int64_t bound_nano; /* nothing that has place for the same costs less */
	bool exact, stopped;
	struct pack_unplaced *unplaced;
	size_t n_unplaced;
};

int pack_solve(struct pack_result *ret, const struct pack_setting *s,
	struct error *err) MUST_USE;
void pack_result_fini(struct pack_result *r);
