/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/figures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- figures of a row --- */

#define SECONDS_AN_HOUR 3600
#define MILLION         1e6

/* Mean of the known values. */
static double mean_of(const struct bench_row *row, size_t member)
{
	double sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < row->n; i++) {
		double v;

		memcpy(&v, (const char *)&row->runs[i].gpu + member, sizeof(v));
		if (isnan(v))
			continue;
		sum += v;
		n++;
	}
	return n ? sum / (double)n : NAN;
}

static double run_rate(const struct bench_run *run)
{
	double sum = 0;

	for (size_t p = 0; p < run->n_pods; p++)
		sum += bench_pod_rate(run, p);
	return sum;
}

static void of_runs(struct bench_figures *f, const struct bench_row *row)
{
	double rates[BENCH_RUNS_MAX], pods[BENCH_PODS_MAX];

	f->error = "";
	for (size_t i = 0; i < row->n; i++) {
		const struct bench_run *run = &row->runs[i];

		for (size_t p = 0; p < run->n_pods; p++)
			pods[p] = bench_pod_rate(run, p);
		f->jain += estimate_jain(pods, run->n_pods) / (double)row->n;
		rates[i] = run_rate(run);
		if (run->errors && !f->errors)
			f->error = run->error;
		f->errors += run->errors;
	}
	f->cv = estimate_cv(rates, row->n);
}

/* Unknown is not 0. */
static void set_figures_unknown(struct bench_figures *f)
{
	f->rate = f->mean = f->p50 = f->p95 = f->p99 =
		(struct estimate){ .value = NAN, .error = NAN };
	f->cv = f->jain = NAN;
}

int bench_figures_make(struct bench_figures *ret, const struct bench_result *r,
	const struct bench_row *row, struct error *err)
{
	const struct bench_row *one = bench_row_find_exclusive(r, row->workload);
	struct bench_figures f = { .slowdown = NAN, .kept = NAN, .usd_per_million = NAN };
	struct estimate rate, mean;

	if (bench_row_estimate(&f.rate, row, ESTIMATE_RATE, err) < 0 ||
		bench_row_estimate(&f.mean, row, ESTIMATE_MEAN, err) < 0 ||
		bench_row_estimate(&f.p50, row, ESTIMATE_P50, err) < 0 ||
		bench_row_estimate(&f.p95, row, ESTIMATE_P95, err) < 0 ||
		bench_row_estimate(&f.p99, row, ESTIMATE_P99, err) < 0)
		return -1;
	of_runs(&f, row);
	if (bench_row_failed(row))
		set_figures_unknown(&f);
	f.doubts = bench_row_doubts(row, &f.doubt);
	if (one) {
		if (bench_row_estimate(&rate, one, ESTIMATE_RATE, err) < 0 ||
			bench_row_estimate(&mean, one, ESTIMATE_MEAN, err) < 0)
			return -1;
		f.slowdown =
			mean.value > 0 && f.mean.value > 0 ? f.mean.value / mean.value : NAN;
		f.kept = rate.value > 0 ? f.rate.value / rate.value : NAN;
	}
	f.gpu = (struct bench_gpu){ mean_of(row, offsetof(struct bench_gpu, busy)),
		mean_of(row, offsetof(struct bench_gpu, sm_active)),
		mean_of(row, offsetof(struct bench_gpu, dram_active)),
		mean_of(row, offsetof(struct bench_gpu, mem_used_mib)),
		mean_of(row, offsetof(struct bench_gpu, power_w)),
		mean_of(row, offsetof(struct bench_gpu, sm_clock_mhz)) };
	if (r->head.usd_per_hour > 0 && f.rate.value > 0)
		f.usd_per_million =
			r->head.usd_per_hour / SECONDS_AN_HOUR / f.rate.value * MILLION;
	*ret = f;
	return 0;
}

/* --- numbers as text --- */

const char *bench_print_ns(double ns, char *buf)
{
	if (!(ns > 0) || !isfinite(ns))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else if (ns < 1e6)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f us",
			ns < 1e4   ? 2
			: ns < 1e5 ? 1
				   : 0,
			ns / 1e3);
	else if (ns < 1e9)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f ms",
			ns < 1e7   ? 2
			: ns < 1e8 ? 1
				   : 0,
			ns / 1e6);
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.2f s", ns / 1e9);
	return buf;
}

const char *bench_print_figure(double v, char *buf)
{
	if (!isfinite(v))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f",
			fabs(v) >= 100 && v == rint(v) ? 0 : 1, v);
	return buf;
}

const char *bench_print_number(double v, char *buf)
{
	double size = fabs(v);

	if (!isfinite(v))
		(void)snprintf(buf, BENCH_NUMBER_MAX, "-");
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%.*f",
			size < 9.995   ? 2
			: size < 99.95 ? 1
				       : 0,
			v);
	return buf;
}

/* --- cost of sharing --- */

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
