/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <stdio.h>

/* Plot of the throughput of one kind of pods, one bar for each mode. Pods with different weights are parts
 * of a bar. */

#define WIDTH  560
#define LEFT   112 /* left edge of the bars; mode names end here */
#define RIGHT  416 /* right edge of the bars; figures follow */
#define TOP    30
#define HEIGHT 320 /* the same as the plot beside it, unless there are many bars */
#define STEP   26  /* minimum distance of two bars */
#define SPACED 60  /* maximum distance of two bars */
#define BOTTOM 46
#define WAS    5 /* height of a bar of the earlier result */
#define LETTER 7 /* approximate width of a letter of a label */

struct bench_bars {
	struct plot plot;
	struct plot_scale x;
	double step, bar, bottom;
	const struct report_mode *earlier[BENCH_MODES]; /* of the earlier result; NULL */
	const char *line_name;
	double line; /* reference value of the bars; NaN */
};

static double finite_max(double a, double b)
{
	return isfinite(b) && b > a ? b : a;
}

/* The reference of pods with a requested rate is this rate. The reference of other pods is the rate of one
 * pod alone. */
static void choose_line(struct bench_bars *d, const struct report_kind *k)
{
	d->line = NAN;
	if (isfinite(k->offered)) {
		d->line_name = "asked for";
		d->line = k->offered;
	} else if (k->alone) {
		d->line_name = "one alone";
		d->line = k->alone->f.rate.value;
	}
	if (!(d->line > 0) || !isfinite(d->line))
		d->line = NAN;
}

static double find_largest_rate(const struct bench_bars *d, const struct report_kind *k)
{
	double max = finite_max(0, d->line);

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *was = d->earlier[k->modes[i].mode];

		max = finite_max(max, was ? was->f.rate.value : 0);
		max = finite_max(max, k->modes[i].f.rate.value);
		max = finite_max(max, estimate_interval(&k->modes[i].f.rate).high);
		max = finite_max(max, k->modes[i].all->planned_rate);
	}
	return max;
}

static void draw_axis(struct bench_bars *d)
{
	double ticks[PLOT_TICKS_MAX];
	char text[BENCH_NUMBER_MAX];
	size_t n = plot_ticks(ticks, &d->x);

	for (size_t i = 0; i < n; i++) {
		double x = plot_at(&d->x, ticks[i]);

		plot_line(&d->plot, "grid", x, TOP, x, d->bottom);
		(void)snprintf(text, sizeof(text), "%g", ticks[i]);
		plot_text(&d->plot, "tick mid", x, d->bottom + 15, "%s", text);
	}
	plot_text(&d->plot, "tick mid", (LEFT + RIGHT) / 2.0, d->bottom + 32,
		"units per second, all pods of the kind");
}

static void draw_bar_parts(struct bench_bars *d, const struct report_mode *m, double y)
{
	double from = 0;
	char class[32];

	(void)snprintf(class, sizeof(class), "bar %s", plot_mode_class(m->mode));
	for (size_t i = 0; i < m->n; i++) {
		double rate = m->rows[i].f.rate.value, to = from + finite_max(0, rate);
		double x = plot_at(&d->x, from), width = plot_at(&d->x, to) - x;

		plot_rect(&d->plot, class, x, y, width, d->bar);
		if (m->n > 1 && width > 3 * LETTER)
			plot_text(&d->plot, "inside mid", x + width / 2, y + d->bar / 2 + 4,
				"%g", report_weight(m, i));
		from = to;
	}
}

static void draw_interval(struct bench_bars *d, const struct estimate *e, double middle)
{
	struct interval i = estimate_interval(e);
	double low = plot_at(&d->x, i.low), high = plot_at(&d->x, i.high);

	if (!isfinite(i.low) || !isfinite(i.high))
		return;
	plot_line(&d->plot, "whisker", low, middle, high, middle);
	plot_line(&d->plot, "whisker", low, middle - 4, low, middle + 4);
	plot_line(&d->plot, "whisker", high, middle - 4, high, middle + 4);
}

/* Draws a pale bar above, with its figure. */
static void draw_earlier_bar(struct bench_bars *d, const struct report_mode *was, double y)
{
	char class[32], rate[BENCH_NUMBER_MAX];

	(void)snprintf(class, sizeof(class), "bar was %s", plot_mode_class(was->mode));
	plot_rect(&d->plot, class, LEFT, y - WAS, plot_at(&d->x, was->f.rate.value) - LEFT,
		WAS);
	plot_text(&d->plot, "tick start", RIGHT + 8, y - WAS / 2.0 + 1, "was %s",
		bench_print_number(was->f.rate.value, rate));
}

static void draw_mode_bar(struct bench_bars *d, const struct report_mode *m, size_t at)
{
	double y = TOP + (double)at * d->step + (d->step - d->bar) / 2, middle = y + d->bar / 2;
	char rate[BENCH_NUMBER_MAX], error[REPORT_CELL_MAX];

	plot_text(&d->plot, "label end", LEFT - 8, middle + 4, "%s", m->name);
	draw_bar_parts(d, m, y);
	if (m->f.rate.value > 0)
		draw_interval(d, &m->f.rate, middle);
	if (isfinite(m->all->planned_rate)) {
		double x = plot_at(&d->x, m->all->planned_rate);

		plot_line(&d->plot, "planned", x, y - 3, x, y + d->bar + 3);
	}
	if (d->earlier[m->mode])
		draw_earlier_bar(d, d->earlier[m->mode], y);
	plot_text(&d->plot, "label start", RIGHT + 8, middle + 4, "%s %s%s",
		bench_print_number(m->f.rate.value, rate), report_error(&m->f.rate, error),
		m->f.errors ? " errors!" : "");
}

static void draw_line(struct bench_bars *d)
{
	double x = plot_at(&d->x, d->line);

	if (isnan(d->line))
		return;
	plot_line(&d->plot, "mark", x, TOP - 6, x, d->bottom);
	plot_text(&d->plot, x > (LEFT + RIGHT) / 2.0 ? "label end" : "label start",
		x > (LEFT + RIGHT) / 2.0 ? x + 4 : x - 4, TOP - 11, "%s", d->line_name);
}

void report_bars(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k)
{
	double step = fmin(SPACED, fmax(STEP, (HEIGHT - TOP - BOTTOM) / (double)k->n));
	struct bench_bars d = { .step = step,
		.bar = step * 0.62,
		.bottom = TOP + step * (double)k->n };
	char title[REPORT_CELL_MAX + REPORT_CELL_MAX], name[REPORT_CELL_MAX];

	for (unsigned int m = 0; m < BENCH_MODES; m++)
		d.earlier[m] =
			report_find(p->earlier, s->name, k->workload, (enum bench_mode)m);
	choose_line(&d, k);
	d.x = (struct plot_scale){ 0, plot_round_up(find_largest_rate(&d, k)), LEFT, RIGHT,
		false };
	d.plot = report_plot(p, WIDTH, d.bottom + BOTTOM);
	(void)snprintf(title, sizeof(title), "Throughput of %s in %.100s",
		report_kind_name(k, name), s->name);
	plot_begin(&d.plot, title,
		"A bar for each mode with its 95 % interval, in units per second. The table has the figures.");
	draw_axis(&d);
	for (size_t i = 0; i < k->n; i++)
		draw_mode_bar(&d, &k->modes[i], i);
	draw_line(&d);
	plot_end(&d.plot);
}
