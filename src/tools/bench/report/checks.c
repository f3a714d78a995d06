/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <string.h>

/* Renders the isolation tests. Throughput alone would favor modes without isolation. */

static const char *get_check_text(const char *text)
{
	return text ? text : "";
}

static void render_check_mode(struct buf *b, const char *name)
{
	enum bench_mode m = bench_mode_of(name);

	if (m != BENCH_MODES)
		buf_printf(b, "<span class=\"key %s\"></span>", plot_mode_class(m));
	html_text(b, name);
}

static void render_check_figure(struct buf *b, const struct bench_isolation *c)
{
	char value[BENCH_NUMBER_MAX];
	const char *unit = get_check_text(c->unit);

	if (isfinite(c->value))
		html_textf(b, "%s%s%.60s", bench_print_figure(c->value, value),
			*unit && strcmp(unit, "%") != 0 ? " " : "", unit);
}

static void render_check_row(struct buf *b, const struct bench_isolation *c)
{
	buf_puts(b, "<tr><th scope=\"row\">");
	html_text(b, get_check_text(c->name));
	buf_puts(b, "</th><td>");
	render_check_mode(b, get_check_text(c->mode_name));
	buf_printf(b, "</td><td class=\"%s</td><td class=\"amount\">",
		!c->known   ? "open\">inconclusive"
		: c->passed ? "passed\">PASS"
			    : "failed\">FAIL");
	render_check_figure(b, c);
	buf_puts(b, "</td><td class=\"words\">");
	html_text(b, get_check_text(c->what));
	buf_puts(b, "</td></tr>\n");
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

/* ---- summary ------------------------------------------------------------------------------------------------ */

static bool is_check_of_mode(const struct bench_isolation *c, enum bench_mode m)
{
	return c->known && c->mode_name && bench_mode_of(c->mode_name) == m;
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
	size_t said = 0, failed = n - passed;

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
		said++;
		html_textf(b, "%s%.100s",
			said == 1       ? ""
			: said < failed ? ", "
					: " and ",
			get_check_text(r->checks[i].name));
	}
	if (failed)
		buf_printf(b, " <strong class=\"failed\">%s</strong>",
			failed > 1 ? "fail" : "fails");
}

void report_render_checks(struct report_page *p)
{
	const struct bench_result *r = p->report->r;
	size_t said = 0, n, passed;

	for (unsigned int m = 0; m < BENCH_MODES; m++) {
		n = count_judged_checks(r, (enum bench_mode)m, &passed);
		if (!n)
			continue;
		buf_puts(p->b, said++ ? "; " : "<p><b class=\"of\">Isolation</b>: ");
		render_mode_checks(p->b, r, (enum bench_mode)m, n, passed);
	}
	if (said)
		buf_puts(p->b, ".</p>\n");
}
