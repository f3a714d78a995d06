/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- order --- */

/*
 * Sort key of a row. Scenarios with mode exclusive only come last. Other scenarios keep the order of the result.
 * Modes are in the order of enum bench_mode.
 */
struct report_row_key {
	bool last;
	size_t scenario, workload, index; /* indexes of the first row with this value */
	enum bench_mode mode;
};

static int compare_sizes(size_t a, size_t b)
{
	return (a > b) - (a < b);
}

static int compare_keys(const void *pa, const void *pb)
{
	const struct report_row_key *a = pa, *b = pb;
	int by[] = { compare_sizes(a->last, b->last), compare_sizes(a->scenario, b->scenario),
		compare_sizes(a->workload, b->workload),
		compare_sizes((size_t)a->mode, (size_t)b->mode),
		compare_sizes(a->index, b->index) };

	for (size_t i = 0; i < ARRAY_LEN(by); i++)
		if (by[i])
			return by[i];
	return 0;
}

static bool is_row_of_group(const struct bench_row *a, const struct bench_row *b, bool workload)
{
	return a->n && !strcmp(a->scenario, b->scenario) &&
	       (!workload || !strcmp(a->workload, b->workload));
}

static struct report_row_key make_row_key(const struct bench_result *r, size_t index)
{
	const struct bench_row *row = &r->rows[index];
	struct report_row_key k = { .last = true, .index = index, .mode = row->mode };

	while (!is_row_of_group(&r->rows[k.scenario], row, false))
		k.scenario++;
	while (!is_row_of_group(&r->rows[k.workload], row, true))
		k.workload++;
	for (size_t i = k.scenario; i < r->n_rows && k.last; i++)
		k.last = r->rows[i].mode == BENCH_EXCLUSIVE ||
			 !is_row_of_group(&r->rows[i], row, false);
	return k;
}

static int make_rows(struct bench_report_model *model, struct error *err)
{
	const struct bench_result *r = model->r;
	CLEANUP(freep) struct report_row_key *keys = calloc(r->n_rows + 1, sizeof(*keys));

	if (!keys)
		return error_nomem(err);
	for (size_t i = 0; i < r->n_rows; i++)
		if (r->rows[i].n)
			keys[model->n_rows++] = make_row_key(r, i);
	qsort(keys, model->n_rows, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < model->n_rows; i++) {
		model->rows[i].row = &r->rows[keys[i].index];
		if (bench_figures_make(&model->rows[i].f, r, model->rows[i].row, err) < 0)
			return -1;
	}
	return 0;
}

/* --- joined rows of a kind and mode --- */

static size_t fewest_blocks(const struct report_mode *m, size_t run)
{
	size_t n = m->rows[0].row->runs[run].n_blocks;

	for (size_t i = 1; i < m->n; i++)
		if (m->rows[i].row->runs[run].n_blocks < n)
			n = m->rows[i].row->runs[run].n_blocks;
	return n;
}

static int join_block(struct estimate_block *to, struct hist *h, const struct report_mode *m,
	size_t run, size_t block, struct error *err)
{
	hist_clear(h);
	to->seconds = m->rows[0].row->runs[run].blocks[block].seconds;
	for (size_t i = 0; i < m->n; i++)
		hist_merge(h, &m->rows[i].row->runs[run].blocks[block].times);
	return hist_pack(&to->times, h, err);
}

static int join_run(struct bench_run *to, struct hist *h, const struct report_mode *m,
	size_t run, struct error *err)
{
	size_t n = fewest_blocks(m, run), pods = 0;

	*to = m->rows[0].row->runs[run];
	to->n_blocks = 0;
	to->errors = 0;
	for (size_t i = 0; i < m->n; i++) {
		pods += m->rows[i].row->runs[run].n_pods;
		to->errors += m->rows[i].row->runs[run].errors;
		if (!to->doubt || !*to->doubt)
			to->doubt = m->rows[i].row->runs[run].doubt;
	}
	to->n_pods = pods < BENCH_PODS_MAX ? pods : BENCH_PODS_MAX;
	to->blocks = calloc(n + 1, sizeof(*to->blocks));
	to->units = calloc(to->n_pods * n + 1, sizeof(*to->units));
	if (!to->blocks || !to->units)
		return error_nomem(err);
	for (; to->n_blocks < n; to->n_blocks++)
		if (join_block(&to->blocks[to->n_blocks], h, m, run, to->n_blocks, err) < 0)
			return -1;
	pods = 0;
	for (size_t i = 0; i < m->n; i++) {
		const struct bench_run *from = &m->rows[i].row->runs[run];

		for (size_t k = 0; k < from->n_pods && pods < to->n_pods; k++, pods++)
			memcpy(to->units + pods * n, from->units + k * from->n_blocks,
				n * sizeof(*to->units));
	}
	return 0;
}

static int join_mode_rows(struct report_mode *m, struct error *err)
{
	CLEANUP(freep) struct hist *h = calloc(1, sizeof(*h));
	struct bench_row *to = &m->joined;
	size_t runs = m->rows[0].row->n;

	*to = *m->rows[0].row;
	to->n = 0;
	to->runs = NULL;
	to->weight = NAN;
	to->replicas = 0;
	to->planned_rate = 0;
	to->offered = 0;
	for (size_t i = 0; i < m->n; i++) {
		const struct bench_row *row = m->rows[i].row;

		runs = row->n < runs ? row->n : runs;
		to->replicas += row->replicas;
		to->planned_rate += row->planned_rate;
		to->offered += row->offered / (double)m->n;
	}
	to->runs = calloc(runs + 1, sizeof(*to->runs));
	if (!h || !to->runs)
		return error_nomem(err);
	while (to->n < runs) {
		/* Counts the run first, so that report_fini() frees it also after a failure. */
		to->n++;
		if (join_run(&to->runs[to->n - 1], h, m, to->n - 1, err) < 0)
			return -1;
	}
	return 0;
}

static void row_fini(struct bench_row *row)
{
	for (size_t i = 0; i < row->n; i++) {
		for (size_t k = 0; k < row->runs[i].n_blocks; k++)
			hist_packed_fini(&row->runs[i].blocks[k].times);
		free(row->runs[i].blocks);
		free(row->runs[i].units);
	}
	free(row->runs);
}

/* --- groups --- */

static int make_mode(struct bench_report_model *model, size_t from, size_t end,
	struct error *err)
{
	struct report_mode *m = &model->modes[model->n_modes++];

	*m = (struct report_mode){ .mode = model->rows[from].row->mode,
		.name = model->rows[from].row->mode_name,
		.rows = &model->rows[from],
		.n = end - from,
		.all = model->rows[from].row,
		.f = model->rows[from].f };
	if (m->n == 1)
		return 0;
	if (join_mode_rows(m, err) < 0)
		return -1;
	m->all = &m->joined;
	return bench_figures_make(&m->f, model->r, m->all, err);
}

static const struct report_row *find_exclusive_row(const struct bench_report_model *model,
	const char *workload)
{
	const struct bench_row *alone = bench_row_find_exclusive(model->r, workload);

	for (size_t i = 0; alone && i < model->n_rows; i++)
		if (model->rows[i].row == alone)
			return &model->rows[i];
	return NULL;
}

static int make_kind(struct bench_report_model *model, size_t from, size_t end,
	struct error *err)
{
	struct report_kind *k = &model->kinds[model->n_kinds++];
	const char *workload = model->rows[from].row->workload;

	*k = (struct report_kind){ .workload = workload,
		.alone = find_exclusive_row(model, workload),
		.modes = &model->modes[model->n_modes] };
	for (size_t i = from, next; i < end; i = next, k->n++) {
		for (next = i + 1; next < end; next++)
			if (model->rows[next].row->mode != model->rows[i].row->mode)
				break;
		if (make_mode(model, i, next, err) < 0)
			return -1;
	}
	k->replicas = k->modes[0].all->replicas;
	k->offered = k->modes[0].all->offered * k->replicas;
	return 0;
}

static int make_scenario(struct bench_report_model *model, size_t from, size_t end,
	struct error *err)
{
	struct report_scenario *s = &model->scenarios[model->n_scenarios++];

	*s = (struct report_scenario){ .name = model->rows[from].row->scenario,
		.kinds = &model->kinds[model->n_kinds],
		.rows = &model->rows[from],
		.n_rows = end - from };
	for (size_t i = from; i < end; i++)
		s->compares |= model->rows[i].row->mode != BENCH_EXCLUSIVE;
	for (size_t i = from, next; i < end; i = next, s->n++) {
		for (next = i + 1; next < end; next++)
			if (strcmp(model->rows[next].row->workload,
				    model->rows[i].row->workload) != 0)
				break;
		if (make_kind(model, i, next, err) < 0)
			return -1;
	}
	return 0;
}

static int make_report_scenarios(struct bench_report_model *model, struct error *err)
{
	if (make_rows(model, err) < 0)
		return -1;
	for (size_t i = 0, next; i < model->n_rows; i = next) {
		for (next = i + 1; next < model->n_rows; next++)
			if (strcmp(model->rows[next].row->scenario,
				    model->rows[i].row->scenario) != 0)
				break;
		if (make_scenario(model, i, next, err) < 0)
			return -1;
	}
	return 0;
}

int report_make(struct bench_report_model *ret, const struct bench_result *r, struct error *err)
{
	size_t n = r->n_rows + 1; /* at most as many groups as rows */

	*ret = (struct bench_report_model){ .r = r,
		.scenarios = calloc(n, sizeof(*ret->scenarios)),
		.kinds = calloc(n, sizeof(*ret->kinds)),
		.modes = calloc(n, sizeof(*ret->modes)),
		.rows = calloc(n, sizeof(*ret->rows)) };
	if (ret->scenarios && ret->kinds && ret->modes && ret->rows) {
		if (make_report_scenarios(ret, err) == 0)
			return 0;
	} else {
		(void)error_nomem(err);
	}
	report_fini(ret);
	return -1;
}

void report_fini(struct bench_report_model *model)
{
	for (size_t i = 0; i < model->n_modes; i++)
		row_fini(&model->modes[i].joined);
	free(model->scenarios);
	free(model->kinds);
	free(model->modes);
	free(model->rows);
	*model = (struct bench_report_model){ 0 };
}

double report_weight(const struct report_mode *m, size_t i)
{
	for (size_t k = 0; k < m->n; k++) {
		const struct bench_row *row = m->rows[k].row;

		if (i < row->runs[0].n_pods)
			return row->weight > 0 && isfinite(row->weight) ? row->weight : 1;
		i -= row->runs[0].n_pods;
	}
	return 1;
}

static const struct report_mode *find_mode(const struct report_kind *k, enum bench_mode mode)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->modes[i].mode == mode)
			return &k->modes[i];
	return NULL;
}

const struct report_mode *report_find(const struct bench_report_model *model,
	const char *scenario, const char *workload, enum bench_mode mode)
{
	for (size_t i = 0; model && i < model->n_scenarios; i++) {
		const struct report_scenario *s = &model->scenarios[i];

		if (strcmp(s->name, scenario) != 0)
			continue;
		for (size_t k = 0; k < s->n; k++)
			if (!strcmp(s->kinds[k].workload, workload))
				return find_mode(&s->kinds[k], mode);
	}
	return NULL;
}

bool report_counts(const struct report_mode *m)
{
	return !m->f.errors && !m->f.doubts && m->f.rate.value > 0 && isfinite(m->f.rate.value);
}

/* --- rank --- */

#define SERVED 0.98 /* of the requested rate */

static const struct estimate *rank_value(const struct report_mode *m, enum rank_by by)
{
	return by == RANK_WORK ? &m->f.rate : &m->f.p99;
}

bool rank_has(const struct report_mode *m, enum rank_by by)
{
	double v = rank_value(m, by)->value;

	return m->mode != BENCH_EXCLUSIVE && report_counts(m) && v > 0 && isfinite(v) &&
	       (by == RANK_WORK || m->n == 1);
}

size_t rank_count(const struct report_kind *k, enum rank_by by)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		n += rank_has(&k->modes[i], by);
	return n;
}

static const struct report_mode *find_extreme_mode(const struct report_kind *k, enum rank_by by,
	bool most)
{
	const struct report_mode *found = NULL;

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *m = &k->modes[i];

		if (!rank_has(m, by))
			continue;
		if (!found || (rank_value(m, by)->value > rank_value(found, by)->value) == most)
			found = m;
	}
	return found;
}

const struct report_mode *rank_best(const struct report_kind *k, enum rank_by by)
{
	return find_extreme_mode(k, by, by == RANK_WORK);
}

const struct report_mode *rank_worst(const struct report_kind *k, enum rank_by by)
{
	return find_extreme_mode(k, by, by != RANK_WORK);
}

bool rank_is_served(const struct report_kind *k, const struct report_mode *m)
{
	return m->f.rate.value >= SERVED * k->offered ||
	       (rank_is_sure(m, RANK_WORK) && estimate_interval(&m->f.rate).high >= k->offered);
}

bool rank_is_sure(const struct report_mode *m, enum rank_by by)
{
	return rank_value(m, by)->freedom >= 1;
}

bool rank_is_same(const struct report_mode *a, const struct report_mode *b, enum rank_by by)
{
	struct interval i = estimate_ratio_interval(rank_value(a, by), rank_value(b, by));

	return i.low <= 1 && i.high >= 1;
}
