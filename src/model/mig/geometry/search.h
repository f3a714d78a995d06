/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The search behind geometry.h: places for what is wanted, of all solutions the best as that header
 * orders them. For model/mig/geometry/geometry.c only; layout, state and wish have passed their checks.
 * Thread: any (pure; no heap).
 */
#include "model/mig/geometry/geometry.h"

enum mig_search_result {
	MIG_SEARCH_FOUND, /* and it is the best */
	MIG_SEARCH_GOOD,  /* the best so far when the steps were used up */
	MIG_SEARCH_NONE,  /* there is no solution */
	MIG_SEARCH_OPEN,  /* none found when the steps were used up */
};

/*
 * @desired must be within the budget (budget.h). @have NULL: empty. *steps goes down by the steps
 * taken. @ret NULL: any solution will do. It is written if there is one.
 */
enum mig_search_result mig_search(const struct mig_layout *layout, const struct mig_state *have,
	const struct mig_desired *desired, uint32_t *steps,
	struct mig_placement ret[MIG_GIS_MAX]);
