/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"
#include "tools/bench/report/rank.h"

#include <math.h>

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
			plot_mode_class((enum bench_mode)m), bench_mode_names[m]);
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
