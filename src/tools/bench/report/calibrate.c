/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/calibrate.h"

#include "tools/bench/report/figures.h"

#include <math.h>
#include <stdlib.h>

#define BUSY_MIN \
	0.9 /* minimum GPU utilization of one pod alone; below it, other pods fill the idle time and hide the loss */

/*
 * Whether the row is usable: several equal pods that always have work, of which one alone keeps the GPU busy.
 */
static int check_calibration_row(bool *ret, const struct bench_result *r,
	const struct bench_row *row, struct error *err)
{
	const struct bench_row *one = bench_row_find_exclusive(r, row->workload);
	struct bench_figures f;
	const char *why;

	*ret = false;
	if (!row->n || row->pods < 2 || row->replicas != row->pods || row->offered > 0 || !one)
		return 0;
	for (size_t i = 0; i < row->n; i++)
		if (row->runs[i].errors)
			return 0;
	if (bench_row_doubts(row, &why) || bench_row_doubts(one, &why))
		return 0;
	if (bench_figures_make(&f, r, one, err) < 0)
		return -1;
	*ret = f.gpu.busy >= BUSY_MIN;
	return 0;
}

static int by_sigma(const void *a, const void *b)
{
	const struct bench_cost *x = a, *y = b;

	return (x->sigma > y->sigma) - (x->sigma < y->sigma);
}

static int cost_of_row(struct bench_cost *ret, const struct bench_result *r,
	const struct bench_row *row, struct error *err)
{
	struct estimate alone, all, ratio;
	struct interval i;

	if (bench_row_estimate(&alone, bench_row_find_exclusive(r, row->workload),
		    ESTIMATE_RATE, err) < 0 ||
		bench_row_estimate(&all, row, ESTIMATE_RATE, err) < 0)
		return -1;
	*ret = (struct bench_cost){ NAN, NAN, 1, row->scenario };
	if (!(alone.value > 0) || !(all.value > 0))
		return 0;
	ratio = estimate_ratio(&all, &alone);
	i = estimate_ratio_interval(&all, &alone);
	ret->sigma = fmax(0, ratio.value - 1);
	ret->half = isfinite(i.high) ? (i.high - i.low) / 2 : NAN;
	return 0;
}

int bench_cost_of(struct bench_cost *ret, const struct bench_result *r, enum bench_mode m,
	struct error *err)
{
	CLEANUP(freep) struct bench_cost *costs = calloc(r->n_rows + 1, sizeof(*costs));
	size_t n = 0;

	*ret = (struct bench_cost){ NAN, NAN, 0, "" };
	if (!costs)
		return error_nomem(err);
	for (size_t i = 0; i < r->n_rows; i++) {
		bool is = false;

		if (r->rows[i].mode != m)
			continue;
		if (check_calibration_row(&is, r, &r->rows[i], err) < 0)
			return -1;
		if (!is)
			continue;
		if (cost_of_row(&costs[n], r, &r->rows[i], err) < 0)
			return -1;
		n += !isnan(costs[n].sigma);
	}
	if (!n)
		return 0;
	qsort(costs, n, sizeof(*costs), by_sigma);
	*ret = costs[n / 2];
	ret->rows = n;
	return 0;
}
