/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/place/cutting-stock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * The revised simplex method with the inverse of the basis as a dense matrix: there are at most CUTTING_SIZES_MAX
 * rows. A knapsack over all levels of one GPU prices each column.
 */

#define TOLERANCE 1e-7 /* by how much the cuts of a GPU may be worth more than the GPU */
#define PIVOT_MIN 1e-9

struct tableau {
	uint32_t n;
	uint32_t unit; /* greatest common divisor of all sizes and of PLACE_WHOLE */
	uint32_t size[CUTTING_SIZES_MAX];
	double demand[CUTTING_SIZES_MAX];
	double price[CUTTING_SIZES_MAX];
	double x[CUTTING_SIZES_MAX]; /* GPUs cut by each pattern of the basis */
	double inverse[CUTTING_SIZES_MAX][CUTTING_SIZES_MAX];
	double value[PLACE_WHOLE + 1]; /* at multiples of .unit */
	uint16_t pattern[CUTTING_SIZES_MAX];
	uint16_t basis[CUTTING_SIZES_MAX]
		      [CUTTING_SIZES_MAX]; /* pattern of each row of the inverse */
};

static uint32_t find_common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Adds up the counts of equal sizes, each rounded up to a multiple of @grain. Returns the number of
 * different sizes. */
static uint32_t sum_demand_by_size(const struct cutting_demand *demand, size_t n,
	uint32_t grain, double by_size[PLACE_WHOLE + 1])
{
	uint32_t sizes = 0;

	memset(by_size, 0, (PLACE_WHOLE + 1) * sizeof(*by_size));
	for (size_t i = 0; i < n; i++) {
		uint32_t size = (demand[i].milli + grain - 1) / grain * grain;

		if (size > PLACE_WHOLE)
			size = PLACE_WHOLE;
		if (size)
			by_size[size] += demand[i].count;
	}
	for (uint32_t s = 1; s <= PLACE_WHOLE; s++)
		sizes += by_size[s] > 0;
	return sizes;
}

/* Returns the multiple to which sizes were rounded up. */
static uint32_t init_tableau(struct tableau *t, const struct cutting_demand *demand, size_t n)
{
	double by_size[PLACE_WHOLE + 1];
	uint32_t grain = 1;

	while (sum_demand_by_size(demand, n, grain, by_size) > CUTTING_SIZES_MAX)
		grain++;
	*t = (struct tableau){ .unit = PLACE_WHOLE };
	for (uint32_t s = 1; s <= PLACE_WHOLE; s++) {
		if (by_size[s] <= 0)
			continue;
		t->size[t->n] = s;
		t->demand[t->n] = by_size[s];
		t->unit = find_common_divisor(t->unit, s);
		t->n++;
	}
	/* The first basis: each size alone, as often as it fits. */
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t fit = PLACE_WHOLE / t->size[i];

		t->inverse[i][i] = 1.0 / fit;
		t->x[i] = t->demand[i] / fit;
		t->basis[i][i] = (uint16_t)fit;
	}
	return grain;
}

static void compute_dual_prices(struct tableau *t)
{
	for (uint32_t j = 0; j < t->n; j++) {
		t->price[j] = 0;
		for (uint32_t i = 0; i < t->n; i++)
			t->price[j] += t->inverse[i][j];
		if (t->price[j] < 0)
			t->price[j] = 0;
	}
}

/* Fills .value, and sets .pattern to the most valuable cuts of a GPU. */
static void best_pattern(struct tableau *t)
{
	/* The size to cut at a level; -1: the last unit is unused. */
	int32_t cut[PLACE_WHOLE + 1] = { 0 };

	t->value[0] = 0;
	for (uint32_t at = t->unit; at <= PLACE_WHOLE; at += t->unit) {
		t->value[at] = t->value[at - t->unit];
		cut[at] = -1;
		for (uint32_t i = 0; i < t->n && t->size[i] <= at; i++) {
			double v = t->value[at - t->size[i]] + t->price[i];

			if (v > t->value[at] + 1e-12) {
				t->value[at] = v;
				cut[at] = (int32_t)i;
			}
		}
	}
	memset(t->pattern, 0, sizeof(t->pattern));
	for (uint32_t at = PLACE_WHOLE; at;) {
		if (cut[at] < 0) {
			at -= t->unit;
		} else {
			t->pattern[cut[at]]++;
			at -= t->size[cut[at]];
		}
	}
}

/* Brings .pattern into the basis. False: no pivot, which only rounding errors cause. */
static bool pivot_pattern(struct tableau *t)
{
	double column[CUTTING_SIZES_MAX], step = INFINITY;
	uint32_t out = t->n;

	for (uint32_t i = 0; i < t->n; i++) {
		column[i] = 0;
		for (uint32_t j = 0; j < t->n; j++)
			column[i] += t->inverse[i][j] * t->pattern[j];
		if (column[i] > PIVOT_MIN && t->x[i] / column[i] < step) {
			step = t->x[i] / column[i];
			out = i;
		}
	}
	if (out == t->n)
		return false;
	for (uint32_t i = 0; i < t->n; i++)
		t->x[i] -= step * column[i];
	t->x[out] = step;
	memcpy(t->basis[out], t->pattern, sizeof(t->pattern));
	for (uint32_t j = 0; j < t->n; j++)
		t->inverse[out][j] /= column[out];
	for (uint32_t i = 0; i < t->n; i++) {
		if (i == out || column[i] == 0)
			continue;
		for (uint32_t j = 0; j < t->n; j++)
			t->inverse[i][j] -= column[i] * t->inverse[out][j];
	}
	return true;
}

static void solve_cutting_stock(struct tableau *t)
{
	/* Some forty rounds for a trace, a thousand for random sizes; the limit is for demand that makes the
	 * method cycle. */
	for (uint32_t round = 0; round < 100 + 20 * t->n; round++) {
		compute_dual_prices(t);
		best_pattern(t);
		if (t->value[PLACE_WHOLE] <= 1 + TOLERANCE || !pivot_pattern(t))
			return;
	}
}

int cutting_stock_solve(struct cutting_stock *ret, const struct cutting_demand *demand,
	size_t n, struct error *err)
{
	CLEANUP(freep) struct tableau *t = malloc(sizeof(*t));
	uint32_t grain;
	double max;

	if (!t)
		return error_nomem(err);
	*ret = (struct cutting_stock){ .value[PLACE_WHOLE] = 1 };
	grain = init_tableau(t, demand, n);
	if (!t->n)
		return 0;
	solve_cutting_stock(t);
	/* Prices at which no GPU is worth more than one are a feasible dual solution, and so a bound, in any
	 * round. */
	max = t->value[PLACE_WHOLE] > 1 ? t->value[PLACE_WHOLE] : 1;
	for (uint32_t level = 0; level < PLACE_WHOLE; level++)
		ret->value[level] = t->value[level / t->unit * t->unit] / max;
	for (uint32_t i = 0; i < t->n; i++)
		ret->bound += t->demand[i] * t->price[i] / max;
	if (grain > 1) /* the bound is that of rounded-up sizes, so take another */
		ret->bound = (double)cutting_stock_l2(demand, n);
	return 0;
}

/* --- bounds and packings of whole counts --- */

uint64_t cutting_stock_l2(const struct cutting_demand *demand, size_t n)
{
	double by_size[PLACE_WHOLE + 1];
	uint64_t best = 0;

	(void)sum_demand_by_size(demand, n, 1, by_size);
	/* Items above 1000 - k share a bin only with those below k; those above a half need one bin each. */
	for (uint32_t k = 0; k <= PLACE_WHOLE / 2; k++) {
		double alone = 0, large = 0, large_sum = 0, small_sum = 0, rest;

		for (uint32_t s = 1; s <= PLACE_WHOLE; s++) {
			if (s > PLACE_WHOLE - k)
				alone += by_size[s];
			else if (2 * s > PLACE_WHOLE)
				large += by_size[s], large_sum += by_size[s] * s;
			else if (s >= k)
				small_sum += by_size[s] * s;
		}
		rest = (small_sum - (large * PLACE_WHOLE - large_sum)) / PLACE_WHOLE;
		if (alone + large + ceil(rest > 0 ? rest : 0) > (double)best)
			best = (uint64_t)(alone + large + ceil(rest > 0 ? rest : 0));
	}
	return best;
}

/* First-fit decreasing of counts[size]. */
static int count_first_fit_gpus(uint64_t *ret, const uint64_t counts[PLACE_WHOLE + 1],
	struct error *err)
{
	CLEANUP(freep) uint16_t *free_milli = NULL;
	uint64_t bins = 0, items = 0;

	for (uint32_t s = 1; s <= PLACE_WHOLE; s++)
		items += counts[s];
	free_milli = calloc(items + 1, sizeof(*free_milli));
	if (!free_milli)
		return error_nomem(err);
	for (uint32_t s = PLACE_WHOLE; s; s--) {
		uint64_t first =
			0; /* after an item of a size, no earlier bin fits another of that size */

		for (uint64_t i = 0; i < counts[s]; i++) {
			while (first < bins && free_milli[first] < s)
				first++;
			if (first == bins)
				free_milli[bins++] = PLACE_WHOLE;
			free_milli[first] = (uint16_t)(free_milli[first] - s);
		}
	}
	*ret = bins;
	return 0;
}

static void count_demand_by_size(uint64_t counts[PLACE_WHOLE + 1],
	const struct cutting_demand *demand, size_t n)
{
	double by_size[PLACE_WHOLE + 1];

	(void)sum_demand_by_size(demand, n, 1, by_size);
	for (uint32_t s = 0; s <= PLACE_WHOLE; s++)
		counts[s] = (uint64_t)by_size[s];
}

int cutting_stock_first_fit(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err)
{
	uint64_t counts[PLACE_WHOLE + 1];

	count_demand_by_size(counts, demand, n);
	return count_first_fit_gpus(ret, counts, err);
}

/* The patterns of the relaxed problem, rounded down to whole counts; first-fit decreasing for the rest. */
int cutting_stock_pack(uint64_t *ret, const struct cutting_demand *demand, size_t n,
	struct error *err)
{
	CLEANUP(freep) struct tableau *t = malloc(sizeof(*t));
	uint64_t counts[PLACE_WHOLE + 1], whole = 0, all;

	if (!t)
		return error_nomem(err);
	count_demand_by_size(counts, demand, n);
	if (count_first_fit_gpus(&all, counts, err) < 0)
		return -1;
	(void)init_tableau(t, demand, n);
	solve_cutting_stock(t);
	for (uint32_t row = 0; row < t->n; row++) {
		uint64_t often = (uint64_t)(t->x[row] + 1e-6);

		/* Sizes that were rounded up have other counts than the demand. */
		for (uint32_t i = 0; i < t->n; i++)
			if (t->basis[row][i] && counts[t->size[i]] / t->basis[row][i] < often)
				often = counts[t->size[i]] / t->basis[row][i];
		for (uint32_t i = 0; i < t->n; i++)
			counts[t->size[i]] -= often * t->basis[row][i];
		whole += often;
	}
	if (count_first_fit_gpus(ret, counts, err) < 0)
		return -1;
	*ret = *ret + whole < all ? *ret + whole : all;
	return 0;
}
