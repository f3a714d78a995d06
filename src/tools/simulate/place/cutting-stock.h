/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The value of the free rest of a GPU when pods take known fractions of GPUs: the cutting-stock problem's linear
 * relaxation, and its dual.
 *
 *	min  the number of GPUs, so that every size is cut as often as requested
 *	max  sum of demand[i] * price[i], so that no GPU's cuts are worth more than one GPU
 *
 * The dual prices are the value of a fraction of each size. A rest is worth the best set of fractions that fits
 * into it. So value[1000] is 1, value[r] <= r/1000 mostly, and a rest that fits nothing is worth 0. Solved by
 * column generation: P. Gilmore, R. Gomory, Operations Research 9 (1961), 849-859.
 *
 * Thread: any (pure).
 */
#include "tools/simulate/place/place.h"

/* Different sizes. If there are more, the solver rounds sizes up until they are that few. */
#define CUTTING_SIZES_MAX 128

struct cutting_stock {
	double value[PLACE_WHOLE + 1]; /* of a free rest, in GPUs */
	double bound; /* lower bound of the GPUs for the demand; not rounded up */
};

/* One size of fractions: below PLACE_WHOLE, above 0, and the number of them. */
struct cutting_demand {
	uint32_t milli;
	double count;
};

/* @demand in any order; sizes may repeat. With no demand, only whole GPUs have a value. */
int cutting_stock_solve(struct cutting_stock *ret, const struct cutting_demand *demand,
	size_t n, struct error *err) MUST_USE;

/*
 * Lower bound of bins for @demand by Martello and Toth's L2 (Knapsack Problems, 1990, section 8.3). The counts are
 * whole numbers.
 */
uint64_t cutting_stock_l2(const struct cutting_demand *demand, size_t n);

/* Bins that first-fit decreasing needs. Counts are whole numbers here and below. */
int cutting_stock_first_fit(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err) MUST_USE;

/* Bins of the best known packing: at most those of first-fit decreasing, mostly very few above the bound. */
int cutting_stock_pack(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err) MUST_USE;
