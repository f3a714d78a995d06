/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"
#include "tools/bench/report/rank.h"

#include <math.h>
#include <stdio.h>

/*
 * The summary in words. For each kind of pods in each scenario: the mode with the most work, the mode with the
 * shortest p99, and the modes without a significant difference. Modes with errors are named, but not compared.
 */

/* Renders " (not to be told from turns and mps)". */
static void render_tied_modes(struct buf *b, const struct report_kind *k,
	const struct report_mode *best, enum rank_by by)
{
	const struct report_mode *same[BENCH_MODES];
	size_t n = 0;

	if (!rank_is_sure(best, by))
		return;
	for (size_t i = 0; i < k->n && n < BENCH_MODES; i++)
		if (&k->modes[i] != best && rank_has(&k->modes[i], by) &&
			rank_is_same(best, &k->modes[i], by))
			same[n++] = &k->modes[i];
	if (n)
		buf_puts(b, " (not to be told from ");
	for (size_t i = 0; i < n; i++)
		html_textf(b, "%s%s", !i ? "" : i + 1 < n ? ", " : " and ", same[i]->name);
	if (n)
		buf_puts(b, ")");
}

static void render_mode_name(struct buf *b, const struct report_mode *m)
{
	buf_printf(b, "<span class=\"whole\"><span class=\"key %s\"></span><b>",
		plot_mode_class(m->mode));
	html_text(b, m->name);
	buf_puts(b, "</b></span>");
}

/* Without a line break between number and unit. */
static void render_unbroken_ns(struct buf *b, double ns)
{
	char text[BENCH_NUMBER_MAX];

	buf_printf(b, "<span class=\"whole\">%s</span>", bench_print_ns(ns, text));
}

static void render_mode_rate(struct buf *b, const struct report_mode *m)
{
	char rate[BENCH_NUMBER_MAX], error[REPORT_CELL_MAX], kept[BENCH_NUMBER_MAX];

	report_error(&m->f.rate, error);
	buf_printf(b, "<span class=\"whole\">%s units/s%s%s</span>",
		bench_print_number(m->f.rate.value, rate), *error ? " " : "", error);
	if (isfinite(m->f.kept))
		buf_printf(b, ", %s%% of one alone", report_percent(m->f.kept, kept));
}

/* For pods without a requested rate. */
static void render_work_ranking(struct buf *b, const struct report_kind *k)
{
	const struct report_mode *best = rank_best(k, RANK_WORK),
				 *worst = rank_worst(k, RANK_WORK);

	buf_puts(b, best != worst ? "Most work under " : "Work under ");
	render_mode_name(b, best);
	buf_puts(b, ": ");
	render_mode_rate(b, best);
	render_tied_modes(b, k, best, RANK_WORK);
	if (worst != best &&
		!(rank_is_sure(best, RANK_WORK) && rank_is_same(best, worst, RANK_WORK))) {
		buf_puts(b, "; least under ");
		render_mode_name(b, worst);
		buf_puts(b, ": ");
		render_mode_rate(b, worst);
	}
	buf_puts(b, ". ");
}

/* For pods with a requested rate: the modes that do not keep up. */
static void render_unserved_modes(struct buf *b, const struct report_kind *k)
{
	char rate[BENCH_NUMBER_MAX], asked[BENCH_NUMBER_MAX];
	size_t n = 0, errors = 0, doubts = 0;

	bench_print_number(k->offered, asked);
	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *m = &k->modes[i];

		errors += m->f.errors > 0;
		doubts += m->f.doubts > 0;
		if (!rank_has(m, RANK_WORK) || rank_is_served(k, m))
			continue;
		buf_puts(b, n++ ? ", " : "Does not keep up under ");
		render_mode_name(b, m);
		buf_printf(b, ": %s", bench_print_number(m->f.rate.value, rate));
	}
	if (n)
		buf_printf(b, " of the %s units/s that are asked for. ", asked);
	else
		buf_printf(b, "The %s units/s that are asked for are served in every mode%s. ",
			asked,
			errors   ? " that had no errors"
			: doubts ? " that nothing disturbed"
				 : "");
}

static void render_latency_ranking(struct buf *b, const struct report_kind *k)
{
	const struct report_mode *best = rank_best(k, RANK_LATENCY),
				 *worst = rank_worst(k, RANK_LATENCY);
	char times[BENCH_NUMBER_MAX];

	if (!best)
		return;
	buf_puts(b, best != worst ? "Shortest p99 under " : "p99 under ");
	render_mode_name(b, best);
	buf_puts(b, ": ");
	render_unbroken_ns(b, best->f.p99.value);
	render_tied_modes(b, k, best, RANK_LATENCY);
	if (worst != best && !(rank_is_sure(best, RANK_LATENCY) &&
				     rank_is_same(best, worst, RANK_LATENCY))) {
		buf_puts(b, "; longest under ");
		render_mode_name(b, worst);
		buf_puts(b, ": ");
		render_unbroken_ns(b, worst->f.p99.value);
		buf_printf(b, ", %s times that",
			bench_print_number(worst->f.p99.value / best->f.p99.value, times));
	}
	buf_puts(b, ".");
}

/* Renders the pods' shares in modes with weights. */
static void render_weighted_shares(struct buf *b, const struct report_kind *k)
{
	char percent[BENCH_NUMBER_MAX];

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *m = &k->modes[i];

		if (m->n < 2 || !report_counts(m))
			continue;
		buf_puts(b, " Under ");
		render_mode_name(b, m);
		for (size_t w = 0; w < m->n; w++)
			buf_printf(b, "%s%g", w ? ", " : " weights ", report_weight(m, w));
		buf_puts(b, " gave ");
		for (size_t w = 0; w < m->n; w++)
			buf_printf(b, "%s%s%%", w ? ", " : "",
				report_percent(m->rows[w].f.rate.value / m->f.rate.value,
					percent));
		buf_puts(b, ".");
	}
}

static void render_kind_errors(struct buf *b, const struct report_kind *k)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++) {
		if (!k->modes[i].f.errors)
			continue;
		buf_puts(b, n++ ? ", " : " <strong>Errors</strong> under ");
		render_mode_name(b, &k->modes[i]);
	}
	if (n)
		buf_puts(b, ", which is not held against the others.");
}

/* Inconclusive modes: something disturbed their measurement. */
static void render_inconclusive_modes(struct buf *b, const struct report_kind *k)
{
	const char *why = NULL;

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *m = &k->modes[i];

		if (!m->f.doubts || m->f.errors)
			continue;
		buf_puts(b, why ? ", " : " <strong>Inconclusive</strong> under ");
		render_mode_name(b, m);
		why = why ? why : m->f.doubt;
	}
	if (!why)
		return;
	buf_puts(b, ": ");
	html_text(b, why);
	buf_puts(b, ".");
}

static void render_kind_summary(struct buf *b, const struct report_kind *k)
{
	char name[REPORT_CELL_MAX];

	buf_puts(b, "<li><b class=\"of\">");
	html_text(b, report_kind_name(k, name));
	buf_puts(b, "</b>: ");
	if (!rank_best(k, RANK_WORK))
		buf_puts(b, "nothing was measured without errors or disturbance.");
	else if (isfinite(k->offered))
		render_unserved_modes(b, k);
	else
		render_work_ranking(b, k);
	render_latency_ranking(b, k);
	render_weighted_shares(b, k);
	render_kind_errors(b, k);
	render_inconclusive_modes(b, k);
	buf_puts(b, "</li>\n");
}

void report_summary(struct report_page *p)
{
	size_t n = 0;

	buf_puts(p->b, "<section>\n<h2>What each way of sharing gives</h2>\n");
	for (size_t i = 0; i < p->report->n_scenarios; i++) {
		const struct report_scenario *s = &p->report->scenarios[i];

		if (!s->compares)
			continue;
		n++;
		html_element(p->b, "h3", s->name);
		buf_puts(p->b, "<ul>\n");
		for (size_t k = 0; k < s->n; k++)
			render_kind_summary(p->b, &s->kinds[k]);
		buf_puts(p->b, "</ul>\n");
	}
	report_render_checks(p);
	if (!n)
		buf_puts(p->b, "<p>No pods shared the GPU in this result.</p>\n");
	buf_puts(p->b, "</section>\n");
}
