/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the free rest of a GPU is worth when parts of known sizes are cut from GPUs: the cutting-stock
 * problem's linear relaxation, and its dual.
 *
 *	min  the number of GPUs, so that every size is cut as often as it is asked for
 *	max  sum of demand[i] * price[i], so that no GPU's cuts are worth more than one GPU
 *
 * The second one's prices say what a part of each size is worth; a rest is worth the best that can be cut
 * from it. So value[1000] is 1, value[r] <= r/1000 mostly, and a rest that fits nothing is worth 0. Solved by
 * column generation: P. Gilmore, R. Gomory, Operations Research 9 (1961), 849-859.
 * Thread: any (pure).
 */
#include "tools/plan/place/place.h"

#define CUTTING_SIZES_MAX \
	128 /* different ones; with more, sizes are rounded up until they are as few */

struct cutting_stock {
	double value[PLACE_WHOLE + 1]; /* of what is free, in GPUs */
	double bound; /* no packing of the demand needs fewer GPUs than this; not rounded up */
};

/* One size of parts: below PLACE_WHOLE, above 0, and how many there are. */
struct cutting_demand {
	uint32_t milli;
	double count;
};

/* @demand in any order, sizes may come more than once. Without any, only whole GPUs are worth something. */
int cutting_stock_solve(struct cutting_stock *ret, const struct cutting_demand *demand,
	size_t n, struct error *err) MUST_USE;

/*
 * Lower bound of bins for @demand by Martello and Toth's L2 (Knapsack Problems, 1990, section 8.3); counts are
 * whole there.
 */
uint64_t cutting_stock_l2(const struct cutting_demand *demand, size_t n);

/* Bins that first-fit decreasing needs. Counts are whole here and below. */
int cutting_stock_first_fit(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err) MUST_USE;

/* Bins of the best packing that is known here: at most those of first-fit decreasing, mostly very few above the
 * bound. */
int cutting_stock_pack(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err) MUST_USE;
