/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Table of a scenario: a row for each kind of pods and mode. A column without any value is omitted. */

#define ERRORS_MAX 5 /* error texts of a row */

enum bench_table_column {
	PODS,
	RATE,
	RATE_ERROR,
	KEPT,
	MEAN,
	P50,
	P95,
	P99,
	P99_ERROR,
	SLOWDOWN,
	JAIN,
	BUSY,
	SM,
	DRAM,
	POWER,
	CLOCK,
	USD,
	PLANNED,
	PLANNED_ERROR,
	ERRORS,
	COLUMNS
};

static const struct {
	const char *head, *what;
} columns[COLUMNS] = {
	[PODS] = { "pods", "of this kind; their weight, if they have one" },
	[RATE] = { "units/s", "of all pods of the row" },
	[RATE_ERROR] = { "± 95%", "half of the interval of units/s" },
	[KEPT] = { "of one, or asked",
		"units/s by what one pod does alone; of pods that are asked for a rate, by that" },
	[MEAN] = { "mean", "time of a unit" },
	[P50] = { "p50", "half of the units take no longer" },
	[P95] = { "p95", "95 of 100 units take no longer" },
	[P99] = { "p99", "99 of 100 units take no longer" },
	[P99_ERROR] = { "± 95%", "half of the interval of p99" },
	[SLOWDOWN] = { "slowdown", "mean by that of one pod alone" },
	[JAIN] = { "Jain", "how evenly pods get on: 1 if all do the same" },
	[BUSY] = { "GPU busy", "NVML's utilization" },
	[SM] = { "SM active", "of the multiprocessors" },
	[DRAM] = { "DRAM active", "of the memory's cycles" },
	[POWER] = { "power W", "of the whole GPU" },
	[CLOCK] = { "clock MHz", "of the multiprocessors" },
	[USD] = { "USD per million", "units, if these pods pay for the whole GPU" },
	[PLANNED] = { "model mean", "what the planner says" },
	[PLANNED_ERROR] = { "model error", "of the mean" },
	[ERRORS] = { "errors", "units or pods that failed" },
};

static void format_number_cell(char *buf, double v, const char *unit)
{
	char text[BENCH_NUMBER_MAX];

	(void)snprintf(buf, REPORT_CELL_MAX, "%s%s", bench_print_number(v, text),
		isfinite(v) ? unit : "");
}

static void format_percent_cell(char *buf, double v)
{
	char text[BENCH_NUMBER_MAX];

	(void)snprintf(buf, REPORT_CELL_MAX, "%s%s", report_percent(v, text),
		isfinite(v) ? "%" : "");
}

static void format_pods_cell(char *buf, const struct bench_row *row)
{
	if (!isfinite(row->weight))
		(void)snprintf(buf, REPORT_CELL_MAX, "%u", row->replicas);
	else
		(void)snprintf(buf, REPORT_CELL_MAX, "weight %g", row->weight);
}

/* Formats a figure about the amount of work. */
static void rate_cell(char *buf, enum bench_table_column c, const struct report_row *r)
{
	const struct bench_figures *f = &r->f;

	if (c == RATE)
		format_number_cell(buf, f->rate.value, "");
	else if (c == RATE_ERROR)
		report_error(&f->rate, buf);
	else if (c == KEPT)
		format_percent_cell(buf,
			isfinite(r->row->offered)
				? f->rate.value / (r->row->offered * r->row->replicas)
				: f->kept);
	else if (c == SLOWDOWN)
		format_number_cell(buf, f->slowdown, "x");
	else
		format_number_cell(buf, r->row->replicas > 1 ? f->jain : NAN, "");
}

static void format_time_cell(char *buf, enum bench_table_column c, const struct report_row *r)
{
	const struct bench_figures *f = &r->f;
	double ns = c == MEAN  ? f->mean.value
		    : c == P50 ? f->p50.value
		    : c == P95 ? f->p95.value
			       : f->p99.value;

	if (c == P99_ERROR)
		report_error(&f->p99, buf);
	else
		(void)bench_print_ns(f->rate.value > 0 ? ns : NAN, buf);
}

static void gpu_cell(char *buf, enum bench_table_column c, const struct bench_gpu *g)
{
	if (c == BUSY || c == SM || c == DRAM)
		format_percent_cell(buf, c == BUSY ? g->busy
					 : c == SM ? g->sm_active
						   : g->dram_active);
	else
		format_number_cell(buf, c == POWER ? g->power_w : g->sm_clock_mhz, "");
}

static void planned_error(char *buf, const struct report_row *r)
{
	double percent = 100 * (r->row->planned_s * 1e9 / r->f.mean.value - 1);

	if (r->f.mean.value > 0 && isfinite(percent))
		(void)snprintf(buf, REPORT_CELL_MAX, "%+.1f%%", percent);
}

/* "-" or "": unknown. */
static void format_table_cell(char *buf, enum bench_table_column c, const struct report_row *r)
{
	*buf = '\0';
	switch (c) {
	case PODS:
		format_pods_cell(buf, r->row);
		break;
	case RATE:
	case RATE_ERROR:
	case KEPT:
	case SLOWDOWN:
	case JAIN:
		rate_cell(buf, c, r);
		break;
	case MEAN:
	case P50:
	case P95:
	case P99:
	case P99_ERROR:
		format_time_cell(buf, c, r);
		break;
	case BUSY:
	case SM:
	case DRAM:
	case POWER:
	case CLOCK:
		gpu_cell(buf, c, &r->f.gpu);
		break;
	case USD:
		format_number_cell(buf, isfinite(r->row->offered) ? NAN : r->f.usd_per_million,
			"");
		break;
	case PLANNED:
		(void)bench_print_ns(r->row->planned_s * 1e9, buf);
		break;
	case PLANNED_ERROR:
		planned_error(buf, r);
		break;
	case ERRORS:
		if (r->f.errors)
			(void)snprintf(buf, REPORT_CELL_MAX, "%llu",
				(unsigned long long)r->f.errors);
		break;
	case COLUMNS:
		break;
	}
}

static bool has_column_values(const struct report_scenario *s, enum bench_table_column c)
{
	char text[REPORT_CELL_MAX];

	if (c == RATE || c == PODS)
		return true;
	for (size_t i = 0; i < s->n_rows; i++) {
		format_table_cell(text, c, &s->rows[i]);
		if (*text && strcmp(text, "-") != 0)
			return true;
	}
	return false;
}

static bool is_new(const struct bench_row *row, size_t run)
{
	for (size_t i = 0; i < run; i++)
		if (row->runs[i].errors && !strcmp(row->runs[i].error, row->runs[run].error))
			return false;
	return row->runs[run].errors && *row->runs[run].error;
}

/* Renders the error texts of a row, each text once. */
static void render_row_errors(struct buf *b, const struct report_row *r, size_t width)
{
	size_t n = 0;

	if (!r->f.errors)
		return;
	buf_printf(b, "<tr class=\"error\"><td></td><td colspan=\"%zu\">", width - 1);
	for (size_t i = 0; i < r->row->n; i++) {
		if (!is_new(r->row, i))
			continue;
		if (++n > ERRORS_MAX)
			break;
		buf_puts(b, n > 1 ? "<br/>" : "");
		html_text(b, r->row->runs[i].error);
	}
	buf_puts(b, !n ? "No text says why." : n > ERRORS_MAX ? "<br/>and more" : "");
	buf_puts(b, "</td></tr>\n");
}

static void render_table_row(struct buf *b, const struct report_row *r, const bool *shown,
	size_t width)
{
	char text[REPORT_CELL_MAX];

	buf_printf(b, "<tr><th scope=\"row\"><span class=\"key %s\"></span>",
		plot_mode_class(r->row->mode));
	html_text(b, r->row->mode_name);
	buf_puts(b, "</th>");
	for (unsigned int c = 0; c < COLUMNS; c++) {
		if (!shown[c])
			continue;
		format_table_cell(text, (enum bench_table_column)c, r);
		buf_puts(b, c == ERRORS && r->f.errors ? "<td class=\"failed\">" : "<td>");
		html_text(b, text);
		buf_puts(b, "</td>");
	}
	buf_puts(b, "</tr>\n");
	render_row_errors(b, r, width);
}

static void render_table_kind(struct buf *b, const struct report_kind *k, size_t width)
{
	char name[REPORT_CELL_MAX], asked[BENCH_NUMBER_MAX];

	buf_printf(b, "<tr class=\"kind\"><th scope=\"rowgroup\" colspan=\"%zu\"><b>", width);
	html_text(b, report_kind_name(k, name));
	buf_puts(b, "</b>");
	if (isfinite(k->offered))
		buf_printf(b, ", asked for %s units/s", bench_print_number(k->offered, asked));
	buf_puts(b, "</th></tr>\n");
}

static void render_table_header(struct buf *b, const bool *shown)
{
	buf_puts(b, "<thead><tr><th scope=\"col\">mode</th>");
	for (unsigned int c = 0; c < COLUMNS; c++) {
		if (!shown[c])
			continue;
		buf_puts(b, "<th scope=\"col\" title=\"");
		html_text(b, columns[c].what);
		buf_puts(b, "\">");
		html_text(b, columns[c].head);
		buf_puts(b, "</th>");
	}
	buf_puts(b, "</tr></thead>\n");
}

static void render_table_body(struct buf *b, const struct report_scenario *s, const bool *shown,
	size_t width)
{
	for (size_t k = 0; k < s->n; k++) {
		const struct report_kind *kind = &s->kinds[k];

		buf_puts(b, "<tbody>\n");
		render_table_kind(b, kind, width);
		for (size_t m = 0; m < kind->n; m++)
			for (size_t i = 0; i < kind->modes[m].n; i++)
				render_table_row(b, &kind->modes[m].rows[i], shown, width);
		buf_puts(b, "</tbody>\n");
	}
}

void report_table(struct report_page *p, const struct report_scenario *s)
{
	bool shown[COLUMNS];
	size_t width = 1;

	for (unsigned int c = 0; c < COLUMNS; c++) {
		shown[c] = has_column_values(s, (enum bench_table_column)c);
		width += shown[c];
	}
	buf_puts(p->b,
		"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table of ");
	html_text(p->b, s->name);
	buf_puts(p->b, "\">\n<table class=\"figures\">\n<caption>");
	html_textf(p->b, "%.200s: what was measured", s->name);
	buf_puts(p->b, "</caption>\n");
	render_table_header(p->b, shown);
	render_table_body(p->b, s, shown, width);
	buf_puts(p->b, "</table></div>\n");
}
