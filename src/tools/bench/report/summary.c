/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first part of a page: the summary in words, the table of all kinds of pods and modes, and the isolation tests.
 * Throughput alone would favor modes without isolation.
 */
#include "tools/bench/report/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- isolation --- */

static void render_check_mode(struct buf *b, const char *name)
{
	enum bench_mode m = bench_mode_of(name);

	if (m != BENCH_MODES)
		buf_printf(b, "<span class=\"key %s\"></span>", report_mode_class(m));
	html_text(b, name);
}

static void render_check_figure(struct buf *b, const struct bench_isolation *isolation)
{
	char value[BENCH_NUMBER_MAX];
	const char *unit = report_text(isolation->unit);

	if (isfinite(isolation->value))
		html_textf(b, "%s%s%.60s", bench_print_figure(isolation->value, value),
			*unit && strcmp(unit, "%") != 0 ? " " : "", unit);
}

static void render_check_row(struct buf *b, const struct bench_isolation *isolation)
{
	buf_puts(b, "<tr>");
	html_span(b, "th", " scope=\"row\"", report_text(isolation->name));
	buf_puts(b, "<td>");
	render_check_mode(b, report_text(isolation->mode_name));
	buf_printf(b, "</td><td class=\"%s</td><td class=\"amount\">",
		!isolation->known   ? "open\">inconclusive"
		: isolation->passed ? "passed\">PASS"
				    : "failed\">FAIL");
	render_check_figure(b, isolation);
	buf_puts(b, "</td>");
	html_span(b, "td", " class=\"words\"", report_text(isolation->what));
	buf_puts(b, "</tr>\n");
}

void report_checks(struct report_page *p)
{
	const struct bench_result *r = p->report->r;

	if (!r->n_checks)
		return;
	buf_puts(p->b,
		"<section>\n<h2>Isolation</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
		"aria-label=\"Isolation\"><table class=\"checks\">\n<caption>What must hold between pods, "
		"and whether it does</caption>\n<thead><tr><th scope=\"col\">check</th>"
		"<th scope=\"col\">mode</th><th scope=\"col\">result</th>"
		"<th scope=\"col\">figure</th><th scope=\"col\">what was seen</th></tr></thead>\n<tbody>\n");
	for (size_t i = 0; i < r->n_checks; i++)
		render_check_row(p->b, &r->checks[i]);
	buf_puts(p->b, "</tbody></table></div>\n</section>\n");
}

static bool is_check_of_mode(const struct bench_isolation *isolation, enum bench_mode m)
{
	return isolation->known && isolation->mode_name &&
	       bench_mode_of(isolation->mode_name) == m;
}

/* Number of conclusive checks of a mode. *@passed: how many of them passed. */
static size_t count_judged_checks(const struct bench_result *r, enum bench_mode m,
	size_t *passed)
{
	size_t n = 0;

	*passed = 0;
	for (size_t i = 0; i < r->n_checks; i++) {
		n += is_check_of_mode(&r->checks[i], m);
		*passed += is_check_of_mode(&r->checks[i], m) && r->checks[i].passed;
	}
	return n;
}

/* Renders "mps: memory and fault fail", or "turns: all 4 pass". */
static void render_mode_checks(struct buf *b, const struct bench_result *r, enum bench_mode m,
	size_t n, size_t passed)
{
	size_t n_lines = 0, failed = n - passed;

	buf_puts(b, "<span class=\"whole\">");
	render_check_mode(b, bench_mode_names[m]);
	buf_puts(b, "</span>: ");
	if (!failed && n > 1)
		buf_printf(b, "all %zu pass", n);
	else if (!failed)
		buf_puts(b, "passes");
	for (size_t i = 0; i < r->n_checks; i++) {
		if (!is_check_of_mode(&r->checks[i], m) || r->checks[i].passed)
			continue;
		n_lines++;
		html_textf(b, "%s%.100s",
			n_lines == 1       ? ""
			: n_lines < failed ? ", "
					   : " and ",
			report_text(r->checks[i].name));
	}
	if (failed)
		buf_printf(b, " <strong class=\"failed\">%s</strong>",
			failed > 1 ? "fail" : "fails");
}

/* A sentence on the isolation of each mode. */
static void report_render_checks(struct report_page *p)
{
	const struct bench_result *r = p->report->r;
	size_t n_lines = 0, n, passed;

	for (unsigned int m = 0; m < BENCH_MODES; m++) {
		n = count_judged_checks(r, (enum bench_mode)m, &passed);
		if (!n)
			continue;
		buf_puts(p->b, n_lines++ ? "; " : "<p><b class=\"of\">Isolation</b>: ");
		render_mode_checks(p->b, r, (enum bench_mode)m, n, passed);
	}
	if (n_lines)
		buf_puts(p->b, ".</p>\n");
}

/* --- summary in words --- */

/*
 * For each kind of pods in each scenario: the mode with the most work, the mode with the
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
	buf_printf(b, "<span class=\"whole\"><span class=\"key %s\"></span>",
		report_mode_class(m->mode));
	html_span(b, "b", "", m->name);
	buf_puts(b, "</span>");
}

/* Without a line break between number and unit. */
static void render_unbroken_ns(struct buf *b, double ns)
{
	char text[BENCH_NUMBER_MAX];

	html_span(b, "span", " class=\"whole\"", bench_print_ns(ns, text));
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

	buf_puts(b, "<li>");
	html_span(b, "b", " class=\"of\"", report_kind_name(k, name));
	buf_puts(b, ": ");
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

/* --- overview table --- */

/* Overview table of all kinds of pods and modes: share of the work, and p99. */

static bool is_mode_used(const struct bench_report_model *r, enum bench_mode mode)
{
	if (mode == BENCH_EXCLUSIVE)
		return false;
	for (size_t i = 0; i < r->n_modes; i++)
		if (r->modes[i].mode == mode)
			return true;
	return false;
}

static const struct report_mode *find_kind_mode(const struct report_kind *k,
	enum bench_mode mode)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->modes[i].mode == mode)
			return &k->modes[i];
	return NULL;
}

/* Share of the requested rate, or of the rate of one pod alone. */
static double compute_work_share(const struct report_kind *k, const struct report_mode *m)
{
	return isfinite(k->offered) ? m->f.rate.value / k->offered : m->f.kept;
}

/*
 * Bold: the best mode, and modes without a significant difference from the best. For a requested rate, bold: the
 * modes that keep up.
 */
static const char *get_best_class(const struct report_kind *k, const struct report_mode *m,
	enum rank_by by)
{
	const struct report_mode *best = rank_best(k, by);

	if (!rank_has(m, by) || rank_count(k, by) < 2)
		return "";
	if (by == RANK_WORK && isfinite(k->offered))
		return rank_is_served(k, m) ? " class=\"best\"" : "";
	return m == best || (rank_is_sure(m, by) && rank_is_same(best, m, by))
		       ? " class=\"best\""
		       : "";
}

static void render_overview_cell(struct buf *b, const struct report_kind *k,
	const struct report_mode *m)
{
	char text[BENCH_NUMBER_MAX];
	double work;

	if (!m) {
		buf_puts(b, "<td></td>");
		return;
	}
	if (!report_counts(m)) {
		buf_puts(b, m->f.errors ? "<td class=\"failed\">errors</td>"
					: "<td class=\"open\">inconclusive</td>");
		return;
	}
	work = compute_work_share(k, m);
	buf_printf(b, "<td><span%s>", get_best_class(k, m, RANK_WORK));
	if (isfinite(work))
		buf_printf(b, "%s%%", report_percent(work, text));
	else
		buf_printf(b, "%s/s", bench_print_number(m->f.rate.value, text));
	buf_printf(b, "</span><br/><small%s>p99 %s</small></td>",
		get_best_class(k, m, RANK_LATENCY), bench_print_ns(m->f.p99.value, text));
}

static void render_overview_kind(struct buf *b, const struct report_scenario *s, size_t at,
	const bool *used)
{
	const struct report_kind *k = &s->kinds[at];
	char name[REPORT_CELL_MAX];

	buf_puts(b, "<tr>");
	if (!at) {
		buf_printf(b, "<th scope=\"rowgroup\" rowspan=\"%zu\">", s->n);
		html_text(b, s->name);
		buf_puts(b, "</th>");
	}
	buf_puts(b, "<th scope=\"row\">");
	html_text(b, report_kind_name(k, name));
	buf_puts(b, isfinite(k->offered) ? "<br/><small>of what is asked for</small></th>"
					 : "<br/><small>of one alone</small></th>");
	for (unsigned int m = 0; m < BENCH_MODES; m++)
		if (used[m])
			render_overview_cell(b, k, find_kind_mode(k, (enum bench_mode)m));
	buf_puts(b, "</tr>\n");
}

static void render_overview_header(struct buf *b, const bool *used)
{
	buf_puts(b, "<thead><tr><th scope=\"col\">scenario</th><th scope=\"col\">pods</th>");
	for (unsigned int m = 0; m < BENCH_MODES; m++) {
		if (!used[m])
			continue;
		buf_printf(b, "<th scope=\"col\"><span class=\"key %s\"></span>%s</th>",
			report_mode_class((enum bench_mode)m), bench_mode_names[m]);
	}
	buf_puts(b, "</tr></thead>\n");
}

void report_overview(struct report_page *p)
{
	const struct bench_report_model *r = p->report;
	bool used[BENCH_MODES], any = false;

	for (unsigned int m = 0; m < BENCH_MODES; m++) {
		used[m] = is_mode_used(r, (enum bench_mode)m);
		any |= used[m];
	}
	if (!any)
		return;
	buf_puts(p->b,
		"<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Overview\">\n"
		"<table class=\"overview\">\n<caption>Throughput of all pods of a kind, and the time "
		"that 99 of 100 units do not pass. Bold: the best, and what cannot be told from it</caption>\n");
	render_overview_header(p->b, used);
	for (size_t i = 0; i < r->n_scenarios; i++) {
		if (!r->scenarios[i].compares)
			continue;
		buf_puts(p->b, "<tbody>\n");
		for (size_t k = 0; k < r->scenarios[i].n; k++)
			render_overview_kind(p->b, &r->scenarios[i], k, used);
		buf_puts(p->b, "</tbody>\n");
	}
	buf_puts(p->b, "</table></div>\n");
}
