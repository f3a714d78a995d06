/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prices and predictions for a result of `gpuslice bench`, and how far predictions and measurements differ
 * (bench.h).
 */
#include "tools/cli/bench/bench.h"

#include "io/price/import/load.h"
#include "lib/base/parse.h"
#include "lib/report/table.h"
#include "tools/bench/report/figures.h"
#include "tools/cli/profile/profile.h"
#include "tools/plan/fit/fit.h"
#include "tools/plan/gpus/gpus.h"
#include "tools/plan/input/input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- prices --- */

int bench_price(struct bench_head *h, struct strv *texts, const char *price,
	const struct strv *files, const char *region, struct error *err)
{
	CLEANUP(price_catalogue_freep) struct price_catalogue *c = NULL;
	struct price p;
	char text[256];
	double amount;

	if (parse_double(price, &amount)) {
		if (!(amount >= 0) || amount > 1e6)
			return error_set(err, ERR_INVALID,
				"--price: expected an amount an hour up to a million, found '%.40s'",
				price);
		h->usd_per_hour = amount;
		h->price_source = "given";
		return 0;
	}
	if (price_catalogue_load_all(&c, files, NULL, NULL, err) < 0)
		return -1;
	if (price_find(c, price, region ? region : "", &p, err) < 0)
		return error_prefix(err, "--price");
	if (!p.gpus)
		return error_set(err, ERR_INVALID,
			"--price: the catalogue does not say how many GPUs %s has", p.type);
	h->usd_per_hour = (double)p.nano_per_hour / (double)PRICE_NANO / p.gpus;
	(void)snprintf(text, sizeof(text), "%s by its %u GPU%s, %s, %s%s%s", p.type, p.gpus,
		p.gpus == 1 ? "" : "s", p.region, p.source, *p.stamp ? ", " : "", p.stamp);
	h->price_source = bench_store_text(texts, text);
	return 0;
}

/* --- predictions --- */

struct bench_profiles {
	struct plan_input *in;
	struct fit *fit;
};

int bench_profiles_read(struct bench_profiles **ret, const struct strv *files,
	struct error *err)
{
	CLEANUP(bench_profiles_freep) struct bench_profiles *p = calloc(1, sizeof(*p));

	if (!p)
		return error_nomem(err);
	if (plan_input_new(&p->in, err) < 0)
		return -1;
	for (size_t i = 0; i < files->n; i++)
		if (plan_input_read(p->in, files->v[i], err) < 0)
			return -1;
	if (plan_input_end(p->in, err) < 0 ||
		fit_new(&p->fit, &p->in->policy, p->in->workloads, p->in->n_workloads,
			plan_gpus, plan_n_gpus, err) < 0)
		return -1;
	*ret = STEAL_PTR(p);
	return 0;
}

struct bench_profiles *bench_profiles_free(struct bench_profiles *p)
{
	if (!p)
		return NULL;
	(void)fit_free(p->fit);
	(void)plan_input_free(p->in);
	free(p);
	return NULL;
}

static bool find_workload_profile(uint32_t *ret, const struct bench_profiles *p,
	const struct suite_workload *w)
{
	for (uint32_t i = 0; i < p->in->n_workloads; i++)
		if (!strcmp(p->in->workloads[i].name, w->name)) {
			*ret = i;
			return true;
		}
	*ret = 0;
	return w->command && p->in->n_workloads == 1;
}

static bool get_predict_way(enum bench_mode m, enum predict_way *ret)
{
	static const struct {
		bool known;
		enum predict_way way;
	} ways[BENCH_MODES] = {
		[BENCH_EXCLUSIVE] = { true, PREDICT_ALONE },
		[BENCH_TIME_SLICING] = { true, PREDICT_TIME_SLICING },
		[BENCH_FAIR_SHARE] = { true, PREDICT_SLICES },
		[BENCH_FAIR_SHARE_WEIGHTED] = { true, PREDICT_SLICES_WEIGHTED },
		[BENCH_FAIR_SHARE_LATENCY] = { true, PREDICT_SLICES_LATENCY },
		[BENCH_MPS] = { true, PREDICT_MPS },
		[BENCH_MPS_LIMITED] = { true, PREDICT_MPS_LIMITED },
		[BENCH_MIG] = { false, PREDICT_ALONE },
	};

	*ret = ways[m].way;
	return ways[m].known;
}

static const struct suite_scenario *find_scenario(const struct suite *s, const char *name)
{
	for (size_t i = 0; i < s->n_scenarios; i++)
		if (!strcmp(s->scenarios[i].name, name))
			return &s->scenarios[i];
	return NULL;
}

static const struct suite_workload *find_suite_workload(const struct suite *s, const char *name)
{
	for (size_t i = 0; i < s->n_workloads; i++)
		if (!strcmp(s->workloads[i].name, name))
			return &s->workloads[i];
	return NULL;
}

/* All pods that share the GPU in a row. Returns 0 if a workload among them has no profile. */
static size_t fill_pods(struct predict_pod *pods, const struct bench_profiles *p,
	const struct suite *s, const struct bench_row *row)
{
	const struct suite_scenario *sc = find_scenario(s, row->scenario);
	size_t n = 0;

	if (row->mode == BENCH_EXCLUSIVE) {
		const struct suite_workload *w = find_suite_workload(s, row->workload);

		pods[0] = (struct predict_pod){ 0, 1, false };
		return w && find_workload_profile(&pods[0].workload, p, w);
	}
	for (uint32_t i = 0; sc && i < sc->n; i++) {
		const struct suite_workload *w = &s->workloads[sc->tenants[i].workload];
		uint32_t at;

		if (!find_workload_profile(&at, p, w))
			return 0;
		for (uint32_t k = 0; k < sc->tenants[i].replicas && n < PLAN_PODS_MAX; k++) {
			pods[n] =
				(struct predict_pod){ at, suite_weight((uint32_t)n), w->waits };
			n++;
		}
	}
	return sc && n == sc->pods ? n : 0;
}

/* Whether @pod belongs to the row: same workload and, if the row has a weight, same weight. */
static bool is_pod_of_row(const struct bench_row *row, const struct suite *s,
	const struct bench_profiles *p, const struct predict_pod *pod)
{
	const struct suite_workload *w = find_suite_workload(s, row->workload);
	uint32_t at = 0;

	return w && find_workload_profile(&at, p, w) && at == pod->workload &&
	       (isnan(row->weight) || fabs(row->weight - pod->weight) < 1e-9);
}

static int predict_row(struct bench_row *row, const struct plan_gpu *gpu, const struct suite *s,
	const struct bench_profiles *p, struct error *err)
{
	struct predict_pod pods[PLAN_PODS_MAX];
	struct fit_times times[PLAN_PODS_MAX];
	enum predict_way way;
	size_t n = fill_pods(pods, p, s, row), of = 0;
	double sum_s = 0, rate = 0;

	if (!n || !get_predict_way(row->mode, &way))
		return 0;
	if (fit_predict(times, p->fit, gpu, way, pods, n, 1.0 / (double)n, err) < 0)
		return error_prefix(err, "%s, %s", row->scenario, row->mode_name);
	for (size_t i = 0; i < n; i++) {
		if (!is_pod_of_row(row, s, p, &pods[i]))
			continue;
		if (!times[i].known)
			return error_set(err, ERR_UNAVAILABLE, "%s, %s: the profile has no %s",
				row->scenario, row->mode_name, times[i].missing);
		sum_s += times[i].times.mean_s;
		rate += times[i].times.rate;
		of++;
	}
	if (of) {
		row->planned_s = sum_s / (double)of;
		row->planned_rate = rate;
	}
	return 0;
}

int bench_predict(struct bench_result *r, const struct suite *s, const struct bench_profiles *p,
	struct error *err)
{
	const char *name = profile_gpu(r->head.gpu);
	const struct plan_gpu *gpu = plan_gpu_find(name);

	if (!gpu)
		return error_set(err, ERR_NOT_FOUND,
			"the planner's catalogue has no GPU '%.60s', so it predicts nothing of it",
			r->head.gpu);
	for (size_t i = 0; i < r->n_rows; i++) {
		struct error why = ERROR_INIT;

		if (predict_row(&r->rows[i], gpu, s, p, &why) < 0)
			(void)fprintf(stderr, "gpuslice bench: no prediction: %s\n", why.msg);
	}
	return 0;
}

/* --- prediction errors --- */

static int compare_error_values(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The errors of one mode: percent without sign, sorted, and the row with the largest error. */
static int get_mode_errors(double *ret, size_t *n, const struct bench_row **worst,
	const struct bench_result *r, enum bench_mode m, struct error *err)
{
	double max = -1;

	*n = 0;
	*worst = NULL;
	for (size_t i = 0; i < r->n_rows; i++) {
		const struct bench_row *row = &r->rows[i];
		struct estimate mean;
		double off;

		if (row->mode != m || !row->n || !(row->planned_s > 0))
			continue;
		if (bench_row_estimate(&mean, row, ESTIMATE_MEAN, err) < 0)
			return -1;
		if (!(mean.value > 0))
			continue;
		off = 100 * fabs(row->planned_s * 1e9 / mean.value - 1);
		ret[(*n)++] = off;
		if (off > max) {
			max = off;
			*worst = row;
		}
	}
	qsort(ret, *n, sizeof(*ret), compare_error_values);
	return 0;
}

int bench_print_errors(struct buf *b, const struct bench_result *r, struct error *err)
{
	static const char *const heads[] = { "PREDICTED", "ROWS", "OFF BY, MEDIAN", "MOST",
		"IN", NULL };
	CLEANUP(freep) double *off = calloc(r->n_rows + 1, sizeof(*off));
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	int result = 0;

	if (!off)
		return error_nomem(err);
	table_init(&t, heads);
	for (unsigned int m = 0; m < BENCH_MODES && result == 0; m++) {
		const struct bench_row *worst;
		size_t n;

		result = get_mode_errors(off, &n, &worst, r, (enum bench_mode)m, err);
		if (result < 0 || !worst)
			continue;
		table_add(&t, bench_mode_names[m]);
		table_addf(&t, "%zu", n);
		table_addf(&t, "%.1f %%", off[n / 2]);
		table_addf(&t, "%.1f %%", off[n - 1]);
		table_addf(&t, "%s, %s", worst->scenario, worst->workload);
	}
	if (table_has_rows(&t)) {
		buf_puts(b, "\nMean times that the planner predicts from the profiles:\n");
		table_print(&t, b);
	}
	return result;
}

/* --- calibration --- */

int bench_write_calibration(struct buf *b, const struct bench_result *r, struct error *err)
{
	static const struct {
		enum bench_mode mode;
		const char *key;
	} keys[] = { { BENCH_TIME_SLICING, "time_slicing" }, { BENCH_FAIR_SHARE, "slices" } };
	const char *gpu = profile_gpu(r->head.gpu);
	size_t n = 0;

	if (!*gpu)
		return error_set(err, ERR_UNAVAILABLE,
			"the planner's catalogue has no GPU '%.60s'", r->head.gpu);
	buf_printf(b, "# gpuslice bench%s: %s, driver %s, %s\n",
		r->head.simulated ? ", SIMULATED" : "", r->head.gpu, r->head.driver,
		r->head.made);
	buf_printf(b, "version: gpuslice/plan/v1\ncalibration:\n- gpu: %s\n", gpu);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct bench_cost c;

		if (bench_cost_of(&c, r, keys[i].mode, err) < 0)
			return -1;
		if (isnan(c.sigma))
			continue;
		buf_printf(b, "  %s: %.4f  # ", keys[i].key, c.sigma);
		if (!isnan(c.half))
			buf_printf(b, "+-%.4f, ", c.half);
		buf_printf(b, "%s, the middle of %zu\n", c.row, c.rows);
		n++;
	}
	if (!n && r->head.inconclusive)
		return error_set(err, ERR_UNAVAILABLE,
			"what tells what sharing costs is inconclusive: %.200s",
			bench_first_doubt(r));
	if (!n)
		return error_set(err, ERR_UNAVAILABLE,
			"nothing was measured that tells what sharing costs: several pods alike that keep the GPU "
			"busy, as in '4 burn', by time-slicing or turns");
	return 0;
}
