/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of figures: those of a scenario, and what changed since an earlier result. */
#include "tools/bench/report/internal.h"

#include "tools/bench/compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- a scenario --- */

/* A row for each kind of pods and mode. A column without any value is omitted. */

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
		report_mode_class(r->row->mode));
	html_text(b, r->row->mode_name);
	buf_puts(b, "</th>");
	for (unsigned int c = 0; c < COLUMNS; c++) {
		if (!shown[c])
			continue;
		format_table_cell(text, (enum bench_table_column)c, r);
		html_span(b, "td", c == ERRORS && r->f.errors ? " class=\"failed\"" : "", text);
	}
	buf_puts(b, "</tr>\n");
	render_row_errors(b, r, width);
}

static void render_table_kind(struct buf *b, const struct report_kind *k, size_t width)
{
	char name[REPORT_CELL_MAX], asked[BENCH_NUMBER_MAX];

	buf_printf(b, "<tr class=\"kind\"><th scope=\"rowgroup\" colspan=\"%zu\">", width);
	html_span(b, "b", "", report_kind_name(k, name));
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

/* --- changes since another result --- */

/*
 * Throughput and p99 of each row that both results have. This part shows whether a change is
 * statistically significant. Whether a change is too large depends on limits: see `gpuslice bench compare`.
 */

enum change_class { BETTER, WORSE, OPEN, CHANGES };

static const struct compare_limit measures[] = { { COMPARE_RATE, true, 0 },
	{ COMPARE_P99, true, 0 } };

static enum change_class classify_change(const struct compare_line *l)
{
	bool more = l->limit->measure == COMPARE_RATE;

	if (l->change_interval.low > 1)
		return more ? BETTER : WORSE;
	if (l->change_interval.high < 1)
		return more ? WORSE : BETTER;
	return OPEN; /* the interval contains 1, or there is none */
}

static void render_change_value(struct buf *b, const struct compare_line *l,
	const struct estimate *e)
{
	char text[BENCH_NUMBER_MAX];

	html_span(b, "td", "",
		l->limit->measure == COMPARE_RATE ? bench_print_number(e->value, text)
						  : bench_print_ns(e->value, text));
}

static void render_change_line(struct buf *b, const struct compare_line *l)
{
	static const struct {
		const char *class, *word;
	} how[CHANGES] = { [BETTER] = { "passed", "better" },
		[WORSE] = { "failed", "worse" },
		[OPEN] = { "open", "cannot be told" } };
	double low = 100 * (l->change_interval.low - 1),
	       high = 100 * (l->change_interval.high - 1);
	enum change_class c = classify_change(l);

	render_change_value(b, l, &l->was);
	render_change_value(b, l, &l->is);
	buf_puts(b, "<td>");
	if (!isfinite(l->change))
		buf_puts(b, "-");
	else if (!isfinite(low) || !isfinite(high))
		buf_printf(b, "%+.1f%%", 100 * (l->change - 1));
	else
		buf_printf(b, "%+.1f%% <small>(%+.1f to %+.1f)</small>", 100 * (l->change - 1),
			low, high);
	buf_printf(b, "</td><td class=\"%s\">%s</td>", how[c].class, how[c].word);
}

/* The first line of a row. The lines of a row are in the order of .measures. NULL: the earlier result has no
 * such row. */
static const struct compare_line *lines_of(const struct compare *c, const struct bench_row *row)
{
	for (size_t i = 0; i < c->n; i += ARRAY_LEN(measures))
		if (c->lines[i].b == row)
			return &c->lines[i];
	return NULL;
}

static void render_change_row(struct buf *b, const struct compare *c,
	const struct bench_row *row)
{
	const struct compare_line *l = lines_of(c, row);

	if (!l)
		return;
	buf_puts(b, "<tr>");
	html_span(b, "th", " scope=\"row\"", row->scenario);
	buf_puts(b, "<td class=\"text\">");
	if (isfinite(row->weight))
		html_textf(b, "%.100s, weight %g", row->workload, row->weight);
	else
		html_textf(b, "%u %.100s", row->replicas, row->workload);
	buf_printf(b, "</td><td class=\"text\"><span class=\"key %s\"></span>",
		report_mode_class(row->mode));
	html_text(b, row->mode_name);
	buf_puts(b, "</td>");
	for (size_t i = 0; i < ARRAY_LEN(measures); i++)
		render_change_line(b, &l[i]);
	buf_puts(b, "</tr>\n");
}

static void render_change_table(struct report_page *p, const struct compare *c)
{
	buf_puts(p->b,
		"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Changes\"><table "
		"class=\"changes\">\n<caption>What was, what is, and the change with its 95 % interval"
		"</caption>\n<thead><tr><th scope=\"col\">scenario</th><th scope=\"col\" class=\"text\">pods</th>"
		"<th scope=\"col\" class=\"text\">mode</th><th scope=\"col\">units/s before</th>"
		"<th scope=\"col\">after</th><th scope=\"col\">change</th><th scope=\"col\">which is</th>"
		"<th scope=\"col\">p99 before</th><th scope=\"col\">after</th><th scope=\"col\">change</th>"
		"<th scope=\"col\">which is</th></tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < p->report->n_rows; i++)
		render_change_row(p->b, c, p->report->rows[i].row);
	buf_puts(p->b, "</tbody></table></div>\n");
}

static void render_change_counts(struct buf *b, const struct compare *c, enum compare_measure m,
	const char *name)
{
	size_t n[CHANGES] = { 0 };

	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].limit->measure == m)
			n[classify_change(&c->lines[i])]++;
	buf_printf(b, "<li>%s: %zu better, %zu worse, %zu that cannot be told.</li>\n", name,
		n[BETTER], n[WORSE], n[OPEN]);
}

/* Renders what weakens the comparison. */
static void render_change_doubts(struct report_page *p, const struct compare *c)
{
	const struct bench_result *is = p->report->r, *was = p->earlier->r;

	if (is->head.gpu && was->head.gpu && strcmp(is->head.gpu, was->head.gpu) != 0)
		buf_puts(p->b,
			"<li>The GPUs are not of one model: what changed may be that.</li>\n");
	for (size_t i = 0; i < is->n_sizes; i++) {
		const struct bench_size *s = &is->sizes[i],
					*before = bench_size_of(was, s->workload);

		if (!before || (before->rounds == s->rounds &&
				       before->multiprocessors == s->multiprocessors))
			continue;
		buf_puts(p->b, "<li>A kernel of ");
		html_text(p->b, s->workload);
		buf_puts(p->b,
			" is not the same work as before; <code>gpuslice bench --like</code> "
			"takes what there was.</li>\n");
	}
	if (c->only_a || c->only_b)
		buf_printf(p->b,
			"<li>Rows that only one of both has: %zu before, %zu after.</li>\n",
			c->only_a, c->only_b);
	for (const struct bench_isolation *k = compare_failed_check(was, is, is->checks); k;
		k = compare_failed_check(was, is, k + 1)) {
		buf_puts(p->b, "<li><strong>Passed before and fails now</strong>: ");
		html_textf(p->b, "%.100s under %.100s.", k->name, k->mode_name);
		buf_puts(p->b, "</li>\n");
	}
	for (const struct bench_isolation *k = compare_find_lost_check(was, is, was->checks); k;
		k = compare_find_lost_check(was, is, k + 1)) {
		buf_puts(p->b, "<li><strong>Known before and not now</strong>: ");
		html_textf(p->b, "%.100s under %.100s.", k->name, k->mode_name);
		buf_puts(p->b, "</li>\n");
	}
	if (c->failed_rows)
		buf_printf(p->b,
			"<li><strong>Rows with errors that were not there before: %zu.</strong></li>\n",
			c->failed_rows);
}

int report_changes(struct report_page *p, struct error *err)
{
	const struct compare_options o = { .limits = measures,
		.n_limits = ARRAY_LEN(measures),
		.mode_a = BENCH_MODES,
		.mode_b = BENCH_MODES };
	CLEANUP(compare_fini) struct compare c = { .n = 0 };

	if (!p->earlier)
		return 0;
	if (compare_make(&c, p->earlier->r, p->report->r, &o, err) < 0)
		return -1;
	buf_puts(p->b, "<section>\n<h2>What changed</h2>\n<ul>\n");
	render_change_counts(p->b, &c, COMPARE_RATE, "Throughput");
	render_change_counts(p->b, &c, COMPARE_P99, "p99");
	render_change_doubts(p, &c);
	buf_puts(p->b,
		"</ul>\n<p class=\"quiet\">A change is told where its interval has no 0 in it. Of a hundred figures "
		"that did not change, five look as if they had: what counts is size, and what several rows "
		"agree in.</p>\n");
	render_change_table(p, &c);
	buf_puts(p->b, "</section>\n");
	return 0;
}
