/* SPDX-License-Identifier: Apache-2.0 */
/* A result of `gpuslice bench` as text and as CSV (bench.h). */
#include "lib/base/text.h"
#include "lib/report/table.h"
#include "tools/bench/report/figures.h"
#include "tools/cli/bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEADS     14
#define HEADS_MAX 20

/* With about three digits. */
static void add_bench_number(struct table *t, double v, double scale, const char *unit)
{
	char cell[BENCH_NUMBER_MAX];

	table_addf(t, "%s%s", bench_print_number(v * scale, cell), isfinite(v) ? unit : "");
}

static void add_ns(struct table *t, double ns)
{
	char cell[BENCH_NUMBER_MAX];

	table_add(t, bench_print_ns(ns, cell));
}

/* Half the width of the confidence interval, in percent of the value. */
static void add_error(struct table *t, const struct estimate *e)
{
	struct interval i = estimate_interval(e);

	if (!isfinite(i.high) || !(e->value > 0))
		table_add(t, "?");
	else
		table_addf(t, "%.1f%%", 100 * (i.high - i.low) / 2 / e->value);
}

/* Columns that only some results have. */
struct row_extras {
	bool cost, planned;
};

static void add_bench_row(struct table *t, const struct bench_row *row,
	const struct bench_figures *f, const struct row_extras *more)
{
	table_add(t, row->scenario);
	table_add(t, row->mode_name);
	if (isnan(row->weight))
		table_addf(t, "%u %s", row->replicas, row->workload);
	else
		table_addf(t, "%s, weight %g", row->workload, row->weight);
	add_bench_number(t, f->rate.value, 1, "");
	add_error(t, &f->rate);
	add_bench_number(t, f->kept, 100, "%");
	add_ns(t, f->mean.value);
	add_ns(t, f->p50.value);
	add_ns(t, f->p99.value);
	add_error(t, &f->p99);
	if (row->replicas > 1)
		add_bench_number(t, f->jain, 1, "");
	else
		table_add(t, "-");
	add_bench_number(t, f->gpu.busy, 100, "%");
	add_bench_number(t, f->gpu.sm_active, 100, "%");
	add_bench_number(t, f->gpu.power_w, 1, " W");
	if (more->cost)
		add_bench_number(t, f->usd_per_million, 1, "");
	if (more->planned) {
		add_ns(t, row->planned_s * 1e9);
		if (row->planned_s > 0 && f->mean.value > 0)
			table_addf(t, "%+.1f%%",
				100 * (row->planned_s * 1e9 / f->mean.value - 1));
		else
			table_add(t, "-");
	}
	if (f->errors)
		table_addf(t, "%llu: %.60s", (unsigned long long)f->errors, f->error);
	else
		table_add(t, "");
}

static void print_bench_head(struct buf *b, const struct bench_head *h)
{
	if (h->simulated)
		buf_puts(b, "SIMULATED: no GPU was measured.\n");
	buf_printf(b, "%s%s%s, driver %s, CUDA %s, %s. %u repetitions of %g s after %g s.\n",
		h->gpu, *h->uuid ? " " : "", h->uuid, h->driver, h->cuda, h->made,
		h->repetitions, h->seconds, h->warmup_s);
	if (h->usd_per_hour > 0)
		buf_printf(b, "The GPU costs %.4g USD an hour: %s.\n", h->usd_per_hour,
			h->price_source);
	if (h->interrupted)
		buf_puts(b,
			"Interrupted: what is here is whole, but not all that was asked for.\n");
	buf_puts(b, "\n");
}

/* Scenarios come in the order of the result, modes within a scenario in the order of the enum. */
static bool is_first_of_scenario(const struct bench_result *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(r->rows[k].scenario, r->rows[i].scenario))
			return false;
	return true;
}

static int add_scenario(struct table *t, const struct bench_result *r, const char *scenario,
	const struct row_extras *more, struct error *err)
{
	for (unsigned int m = 0; m < BENCH_MODES; m++)
		for (size_t i = 0; i < r->n_rows; i++) {
			const struct bench_row *row = &r->rows[i];
			struct bench_figures f;

			if (row->mode != (enum bench_mode)m ||
				strcmp(row->scenario, scenario) != 0 || !row->n)
				continue;
			if (bench_figures_make(&f, r, row, err) < 0)
				return -1;
			add_bench_row(t, row, &f, more);
		}
	return 0;
}

/* "98.7%", "412 ms". */
static void add_figure(struct table *t, const struct bench_isolation *isolation)
{
	char value[BENCH_NUMBER_MAX];

	if (isnan(isolation->value))
		table_add(t, "-");
	else
		table_addf(t, "%s%s%s", bench_print_figure(isolation->value, value),
			strcmp(isolation->unit, "%") != 0 ? " " : "", isolation->unit);
}

static void print_bench_checks(struct buf *b, const struct bench_result *r)
{
	static const char *const heads[] = { "ISOLATION", "MODE", "RESULT", "FIGURE", "WHAT",
		NULL };
	CLEANUP(table_fini) struct table t = { .columns = 0 };

	table_init(&t, heads);
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct bench_isolation *isolation = &r->checks[i];

		table_add(&t, isolation->name);
		table_add(&t, isolation->mode_name);
		table_add(&t, !isolation->known   ? "inconclusive"
			      : isolation->passed ? "PASS"
						  : "FAIL");
		add_figure(&t, isolation);
		table_add(&t, isolation->what);
	}
	if (table_has_rows(&t)) {
		buf_puts(b, r->n_rows ? "\n" : "");
		table_print(&t, b);
	}
}

/* Lists the rows from which no conclusion is possible, with the reason. */
static void print_bench_doubts(struct buf *b, const struct bench_result *r)
{
	bool any = false;

	for (size_t i = 0; i < r->n_rows; i++) {
		const struct bench_row *row = &r->rows[i];
		const char *why;
		size_t n = bench_row_doubts(row, &why);

		if (!n)
			continue;
		if (!any)
			buf_puts(b,
				"\nInconclusive: these rows say what disturbed them, not what the "
				"mode does.\n");
		any = true;
		buf_printf(b, "  %s, %s, %s, %zu of %zu repetitions: %s\n", row->scenario,
			row->mode_name, row->workload, n, row->n, why);
	}
}

int bench_print_text(struct buf *b, const struct bench_result *r, struct error *err)
{
	const char *heads[HEADS_MAX] = { "SCENARIO", "MODE", "PODS", "UNITS/S", "+-", "OF ONE",
		"MEAN", "P50", "P99", "+-", "JAIN", "BUSY", "SM", "POWER" };
	struct row_extras more = { .cost = r->head.usd_per_hour > 0 };
	size_t n = HEADS;
	CLEANUP(table_fini) struct table t = { .columns = 0 };
	int result = 0;

	for (size_t i = 0; i < r->n_rows; i++)
		more.planned = more.planned || r->rows[i].planned_s > 0;
	if (more.cost)
		heads[n++] = "USD/MILLION";
	if (more.planned) {
		heads[n++] = "PLANNED";
		heads[n++] = "OFF BY";
	}
	heads[n] = "ERRORS";
	print_bench_head(b, &r->head);
	table_init(&t, heads);
	for (size_t i = 0; i < r->n_rows && result == 0; i++)
		if (is_first_of_scenario(r, i))
			result = add_scenario(&t, r, r->rows[i].scenario, &more, err);
	if (r->n_rows)
		table_print(&t, b);
	if (result == 0 && more.planned)
		result = bench_print_errors(b, r, err);
	print_bench_checks(b, r);
	print_bench_doubts(b, r);
	for (size_t i = 0; i < r->n_notes; i++)
		buf_printf(b, "%s%s\n", i ? "" : "\n", r->notes[i]);
	return result;
}

/* --- csv --- */

static void write_csv_number(struct buf *b, double v)
{
	if (isnan(v))
		buf_puts(b, ",");
	else
		buf_printf(b, ",%.6g", v);
}

static void csv_row(struct buf *b, const struct bench_result *r, const struct bench_row *row,
	const struct bench_figures *f)
{
	const double figures[] = { row->weight, row->sm_share, row->mem_limit_mib, row->offered,
		f->mean.value / 1e9, f->p50.value / 1e9, f->p95.value / 1e9, f->p99.value / 1e9,
		f->cv, f->rate.value, f->rate.value / row->replicas, f->slowdown, f->kept,
		f->jain, f->gpu.busy, f->gpu.sm_active, f->gpu.dram_active, f->gpu.mem_used_mib,
		f->gpu.power_w, f->gpu.sm_clock_mhz, r->head.usd_per_hour, f->usd_per_million,
		row->planned_s, 100 * (row->planned_s * 1e9 / f->mean.value - 1) };

	buf_printf(b, "%s,%u,%u,", row->mode_name, row->pods, row->replicas);
	escape_csv(b, row->scenario);
	buf_putc(b, ',');
	escape_csv(b, row->workload);
	for (size_t i = 0; i < ARRAY_LEN(figures); i++)
		write_csv_number(b, figures[i]);
	buf_printf(b, ",%llu,%zu,%s,%zu\n", (unsigned long long)f->errors, row->n,
		r->head.simulated ? "true" : "false", f->doubts);
}

int bench_print_csv(struct buf *b, const struct bench_result *r, struct error *err)
{
	buf_puts(b,
		"mode,pods,replicas,scenario,workload,weight,sm_share,mem_limit_mib,offered_per_pod,"
		"mean_s,p50_s,p95_s,p99_s,cv,throughput_total,throughput_per_pod,"
		"slowdown_vs_exclusive,throughput_vs_exclusive,jain_index,gpu_busy,sm_active,"
		"dram_active,mem_used_mib,power_w,sm_clock_mhz,usd_h,usd_per_million,model_mean_s,"
		"model_error_pct,errors,repetitions,simulated,inconclusive\n");
	for (size_t i = 0; i < r->n_rows; i++) {
		struct bench_figures f;

		if (!r->rows[i].n)
			continue;
		if (bench_figures_make(&f, r, &r->rows[i], err) < 0)
			return -1;
		csv_row(b, r, &r->rows[i], &f);
	}
	return 0;
}
