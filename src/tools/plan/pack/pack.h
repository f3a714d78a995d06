/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cheapest nodes for all workloads: which instance types, how many, how each one's GPUs are shared, and where
 * each replica is.
 *
 * Up to PACK_EXACT_MAX replicas of one GPU each, where offers have no limits, the answer is optimal (exhaustive
 * search). Else the solver opens the nodes that take the most worth for their price. Then it closes some and fills
 * them again, until the budget is spent. The result is deterministic: the budget counts fit checks, not seconds.
 * Thread: any.
 */
#include "tools/plan/fit/fit.h"

#define PACK_EXACT_MAX 12
/*
 * The default budget is PACK_BUDGET, and PACK_BUDGET_EACH for each replica. The unit is the cost of fit checks
 * (pack.c). PACK_BUDGET takes less than two seconds.
 */
#define PACK_BUDGET      8000000
#define PACK_BUDGET_EACH 100
#define PACK_SHAPES_MAX  32768

struct pack_setting {
	const struct fit *fit;
	const struct plan_offer *offers;
	size_t n_offers;
	const uint32_t *limits; /* of each offer: maximum number of nodes; NULL: no limit */
	uint64_t budget, seed;
	bool never_exact; /* for tests */
	/* Called from time to time with the progress, 0 to 1; false: stop with the best plan so far. May be
	 * NULL. */
	bool (*go_on)(void *arg, double done, int64_t nano_per_hour);
	void *arg;
};

/* Why .workload has no place: the reason nearest to a fit, over all offers and modes. */
struct pack_unplaced {
	uint32_t workload, replicas;
	enum plan_reason reason;
};

struct pack_result {
	struct plan_node *nodes;
	size_t n_nodes;
	int64_t nano_per_hour;
	int64_t bound_nano; /* lower bound for any plan that places the same replicas */
	bool exact, stopped;
	struct pack_unplaced *unplaced;
	size_t n_unplaced;
};

/*
 * Finds the plan for all workloads of s->fit. Workloads without a place are in .unplaced, which is no error.
 * The caller frees *@ret by pack_result_fini(). ERR_NOMEM: *@ret needs no release.
 */
int pack_solve(struct pack_result *ret, const struct pack_setting *s,
	struct error *err) MUST_USE;
void pack_result_fini(struct pack_result *r);
