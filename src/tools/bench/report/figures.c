/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/figures.h"

#include <math.h>
#include <string.h>

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
