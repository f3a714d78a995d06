/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/compare/compare.h"
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * Changes between two results: throughput and p99 of each row that both have. This part shows whether a change is
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
	return OPEN; /* also if there is no interval */
}

static void render_change_value(struct buf *b, const struct compare_line *l,
	const struct estimate *e)
{
	char text[BENCH_NUMBER_MAX];

	buf_puts(b, "<td>");
	html_text(b, l->limit->measure == COMPARE_RATE ? bench_print_number(e->value, text)
						       : bench_print_ns(e->value, text));
	buf_puts(b, "</td>");
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
	buf_puts(b, "<tr><th scope=\"row\">");
	html_text(b, row->scenario);
	buf_puts(b, "</th><td class=\"text\">");
	if (isfinite(row->weight))
		html_textf(b, "%.100s, weight %g", row->workload, row->weight);
	else
		html_textf(b, "%u %.100s", row->replicas, row->workload);
	buf_printf(b, "</td><td class=\"text\"><span class=\"key %s\"></span>",
		plot_mode_class(row->mode));
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
