/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The search of geometry.h: the best places for the desired instances, in the order of that header. For
 * model/mig/geometry/geometry.c only. Layout, state and desired layout have passed their checks.
 * Thread: any (pure; no heap).
 */
#include "model/mig/geometry/geometry.h"

enum mig_search_result {
	MIG_SEARCH_FOUND, /* the best solution */
	MIG_SEARCH_GOOD,  /* the best solution until the steps ran out */
	MIG_SEARCH_NONE,  /* no solution exists */
	MIG_SEARCH_OPEN,  /* no solution found until the steps ran out */
};

/* @desired must be within the budget (budget.h). @have NULL: empty GPU. Subtracts the steps taken from
 * *steps. @ret NULL: the first solution is enough. @ret is written if a solution was found. */
enum mig_search_result mig_search(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, uint32_t *steps,
	struct mig_placement ret[MIG_GIS_MAX]);
