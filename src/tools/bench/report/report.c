/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/report.h"

#include "tools/bench/report/internal.h"

#include <math.h>
#include <stdio.h>

/* The page around the tables and plots. */

/* --- shared by all parts --- */

static bool is_simulated(const struct report_page *p)
{
	return p->report->r->head.simulated || (p->earlier && p->earlier->r->head.simulated);
}

struct svg report_plot(struct report_page *p, double width, double height)
{
	return (struct svg){ .b = p->b,
		.width = width,
		.height = height,
		.count = &p->plots,
		.watermark = is_simulated(p) ? "SIMULATED" : NULL };
}

const char *report_mode_class(enum bench_mode m)
{
	static const char *const classes[BENCH_MODES] = { "m0", "m1", "m2", "m3", "m4", "m5",
		"m6", "m7" };

	return (unsigned int)m < BENCH_MODES ? classes[m] : "m0";
}

const char *report_error(const struct estimate *e, char *buf)
{
	struct interval i = estimate_interval(e);

	double percent = 100 * (i.high - i.low) / 2 / e->value;

	*buf = '\0';
	if (e->value > 0 && isfinite(percent))
		(void)snprintf(buf, REPORT_CELL_MAX, "± %.1f%%", percent);
	return buf;
}

const char *report_kind_name(const struct report_kind *k, char *buf)
{
	(void)snprintf(buf, REPORT_CELL_MAX, "%u %.100s", k->replicas, k->workload);
	return buf;
}

const char *report_percent(double share, char *buf)
{
	return bench_print_number(100 * share, buf);
}

/* --- head --- */

static void render_page_begin(struct report_page *p)
{
	const struct bench_head *h = &p->report->r->head;

	buf_puts(p->b,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
		"<meta http-equiv=\"Content-Security-Policy\" "
		"content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n<title>");
	html_textf(p->b, "%sGPU sharing benchmark: %.200s",
		is_simulated(p) ? "SIMULATED - " : "", report_text(h->gpu));
	buf_printf(p->b, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", report_style);
	if (is_simulated(p))
		buf_puts(p->b,
			"<header class=\"simulated\"><p><strong>SIMULATED</strong> No GPU was measured: "
			"these figures show how a report looks, not how a GPU does.</p></header>\n"
			"<div class=\"paper\" aria-hidden=\"true\">SIMULATED</div>\n");
	buf_puts(p->b, "<main>\n");
	html_element(p->b, "h1",
		p->earlier ? "GPU sharing benchmark: before and after"
			   : "GPU sharing benchmark");
}

static void render_fact(struct buf *b, const char *name, const char *text)
{
	if (!*report_text(text))
		return;
	buf_puts(b, "<div>");
	html_span(b, "dt", "", name);
	html_span(b, "dd", "", text);
	buf_puts(b, "</div>\n");
}

/* Formats a number with its unit. "" if unknown. */
static const char *format_head_amount(char *buf, const char *before, double v, const char *unit)
{
	*buf = '\0';
	if (isfinite(v) && v > 0)
		(void)snprintf(buf, REPORT_CELL_MAX, "%s%.6g%s", before, v, unit);
	return buf;
}

static void render_head_facts(struct report_page *p, const struct bench_head *h)
{
	char text[REPORT_CELL_MAX], run[REPORT_CELL_MAX], seed[REPORT_CELL_MAX];

	(void)snprintf(run, sizeof(run), "%u repetitions of %.6g s, each after %.6g s",
		h->repetitions, isfinite(h->seconds) ? h->seconds : 0,
		isfinite(h->warmup_s) ? h->warmup_s : 0);
	(void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)h->seed);
	buf_puts(p->b, "<dl class=\"facts\">\n");
	render_fact(p->b, "GPU", h->gpu);
	render_fact(p->b, "driver", h->driver);
	render_fact(p->b, "CUDA", h->cuda);
	render_fact(p->b, "measured", h->made);
	render_fact(p->b, "length", run);
	render_fact(p->b, "multiprocessors",
		format_head_amount(text, "", h->multiprocessors, ""));
	render_fact(p->b, "memory", format_head_amount(text, "", h->memory_mib, " MiB"));
	render_fact(p->b, "power limit", format_head_amount(text, "", h->power_limit_w, " W"));
	render_fact(p->b, "compute mode", h->compute_mode);
	render_fact(p->b, "MIG", h->mig ? "on" : "");
	render_fact(p->b, "UUID", h->uuid);
	render_fact(p->b, "kernel", h->kernel);
	render_fact(p->b, "CPU", h->cpu);
	render_fact(p->b, "gpuslice", h->version);
	render_fact(p->b, "seed", seed);
	render_fact(p->b, "price an hour",
		format_head_amount(text, "USD ", h->usd_per_hour, ""));
	render_fact(p->b, "price from", h->price_source);
	render_fact(p->b, "command", h->command);
	buf_puts(p->b, "</dl>\n");
	if (h->interrupted)
		buf_puts(p->b,
			"<p class=\"warning\"><strong>Interrupted.</strong> What is here is whole, "
			"but it is not all that was asked for.</p>\n");
}

/* --- scenarios --- */

static bool has_planned_rate(const struct report_kind *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (isfinite(k->modes[i].all->planned_rate))
			return true;
	return false;
}

static int render_kind_plots(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err)
{
	char name[REPORT_CELL_MAX];

	if (s->n > 1)
		html_element(p->b, "h3", report_kind_name(k, name));
	buf_puts(p->b, "<div class=\"plots\">\n<figure>");
	report_bars(p, s, k);
	buf_printf(p->b,
		"<figcaption>Throughput by mode, with the 95 %% interval%s%s</figcaption></figure>\n<figure>",
		has_planned_rate(k) ? "; the thick line is what the planner says" : "",
		p->earlier ? "; pale: before" : "");
	if (report_latency_plot(p, s, k, err) < 0)
		return -1;
	buf_printf(p->b,
		"<figcaption>Times of units: further left is better; the square is the longest%s"
		"</figcaption></figure>\n</div>\n",
		p->earlier ? "; pale: before" : "");
	return report_shares(p, s, k, err);
}

static int render_report_scenario(struct report_page *p, const struct report_scenario *s,
	struct error *err)
{
	buf_puts(p->b, "<section class=\"scenario\">\n");
	if (s->compares)
		html_element(p->b, "h2", s->name);
	else
		buf_puts(p->b, "<h2>One pod alone, which the others are held against</h2>\n");
	report_table(p, s);
	for (size_t k = 0; s->compares && k < s->n; k++)
		if (render_kind_plots(p, s, &s->kinds[k], err) < 0)
			return -1;
	buf_puts(p->b, "</section>\n");
	return 0;
}

/* --- end --- */

static void render_report_notes(struct report_page *p)
{
	const struct bench_result *r = p->report->r;

	if (!r->n_notes)
		return;
	buf_puts(p->b, "<section>\n<h2>Notes</h2>\n<ul>\n");
	for (size_t i = 0; i < r->n_notes; i++)
		html_element(p->b, "li", report_text(r->notes[i]));
	buf_puts(p->b, "</ul>\n</section>\n");
}

static void render_method(struct report_page *p)
{
	const struct bench_head *h = &p->report->r->head;

	buf_puts(p->b,
		"<section>\n<h2>How it was measured</h2>\n<p>Each scenario runs in each mode with the same pods "
		"and the same work. All of them are gone through once in mixed order, then again in another "
		"order, so that what changes with time, as clocks and heat do, falls on all alike. "
		"Each repetition runs warm before it counts.</p>\n");
	if (h->repetitions < 2)
		buf_puts(p->b,
			"<p>There was one repetition, which says nothing of how others would differ: "
			"no interval is told, and small differences mean nothing.</p>\n");
	else
		buf_puts(p->b,
			"<p>Intervals are of 95 %. They have two parts: what differs within a repetition, by a "
			"bootstrap of its blocks, and what differs from one repetition to the next beyond "
			"that (Student's t). <q>Not to be told from</q> means that the interval of the ratio "
			"has 1 in it: more repetitions may tell.</p>\n");
	buf_puts(p->b,
		"<p>A unit's time is from the end of the one before it to its own where units are kept in "
		"flight, from its launch to its end where they follow each other, and from when it was due "
		"where they arrive at a rate. Times are kept in classes of 0.8 %. Modes with errors are not "
		"held against others. <code>gpuslice bench compare</code> says whether two results "
		"differ.</p>\n</section>\n");
}

static int render_report_page(struct report_page *p, struct error *err)
{
	const struct bench_report_model *r = p->report;

	render_page_begin(p);
	if (p->earlier) {
		buf_puts(p->b, "<h2>Before</h2>\n");
		render_head_facts(p, &p->earlier->r->head);
		buf_puts(p->b, "<h2>After</h2>\n");
	}
	render_head_facts(p, &r->r->head);
	if (report_changes(p, err) < 0)
		return -1;
	report_summary(p);
	report_overview(p);
	report_checks(p);
	for (size_t i = 0; i < r->n_scenarios; i++)
		if (render_report_scenario(p, &r->scenarios[i], err) < 0)
			return -1;
	if (!r->n_rows && !r->r->n_checks)
		buf_puts(p->b, "<p class=\"warning\">Nothing was measured.</p>\n");
	render_report_notes(p);
	render_method(p);
	buf_puts(p->b, "</main>\n</body>\n</html>\n");
	return 0;
}

int bench_report(struct buf *b, const struct bench_result *r, const struct bench_result *before,
	struct error *err)
{
	CLEANUP(report_fini) struct bench_report_model report = { .n_rows = 0 };
	CLEANUP(report_fini) struct bench_report_model was = { .n_rows = 0 };
	struct report_page page = { .b = b,
		.report = &report,
		.earlier = before ? &was : NULL };

	if (report_make(&report, r, err) < 0)
		return -1;
	if (before && report_make(&was, before, err) < 0)
		return -1;
	if (render_report_page(&page, err) < 0)
		return -1;
	if (!buf_ok(b))
		return error_set(err, ERR_LIMIT, "the report: expected at most %zu MiB",
			b->max >> 20);
	return 0;
}
