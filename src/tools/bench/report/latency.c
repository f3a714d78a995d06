/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Plot of the share of units that take longer than a time. Both axes are logarithmic, so the tail is as visible as
 * the middle. A histogram, or the usual curve from 0 to 1, would squeeze the tail into a corner.
 */

#define WIDTH             560
#define HEIGHT            320
#define LEFT              58
#define RIGHT             346 /* right edge of the curves; the legend follows */
#define TOP               14
#define BOTTOM            274
#define PLOTTED_SHARE_MIN 1e-5 /* smallest share that is drawn */
#define STEP              34   /* of the legend's lines */
#define LABEL             46   /* width of a time on the axis, with a margin */
#define SEEN              1.2  /* smallest visible step on the plot */
#define CURVES            (2 * BENCH_MODES + 1)
#define QUANTILE          0.99
#define FIRST             0.2 /* quantile where the time axis begins; faster units show little */

struct latency_curve {
	const char *name;
	enum bench_mode mode;
	bool earlier; /* of the earlier result; not in the legend */
	struct hist times;
};

struct latency_plot {
	struct plot plot;
	struct plot_scale x, y;
	size_t n;
	struct latency_curve curves[CURVES];
};

static void add_curve(struct latency_plot *t, const char *name, enum bench_mode mode,
	const struct bench_row *row)
{
	struct latency_curve *c = &t->curves[t->n];

	for (size_t r = 0; r < row->n; r++)
		for (size_t i = 0; i < row->runs[r].n_blocks; i++)
			hist_merge(&c->times, &row->runs[r].blocks[i].times);
	c->name = name;
	c->mode = mode;
	if (c->times.n > 0)
		t->n++;
	else
		c->earlier = false;
}

/* Adds the earlier curves first, so that they are below the others. */
static void add_earlier_curves(struct latency_plot *t, const struct bench_report_model *before,
	const struct report_scenario *s, const struct report_kind *k)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *was =
			report_find(before, s->name, k->workload, k->modes[i].mode);

		if (!was)
			continue;
		t->curves[t->n].earlier = true;
		add_curve(t, was->name, was->mode, was->all);
	}
}

static void make_scales(struct latency_plot *t)
{
	double first = INFINITY, last = 0, max = 0, min;

	for (size_t i = 0; i < t->n; i++) {
		const struct hist *h = &t->curves[i].times;

		first = fmin(first, hist_quantile(h, FIRST));
		last = fmax(last, hist_quantile(h, 1));
		max = fmax(max, (double)h->n);
	}
	first = fmax(first, 1);
	last = fmax(last, first);
	if (last < 2 * first) {
		first /= 1.4;
		last *= 1.4;
	}
	min = pow(10, floor(-log10(fmax(max, 1000))));
	t->x = (struct plot_scale){ first, last, LEFT, RIGHT, true };
	t->y = (struct plot_scale){ fmax(min, PLOTTED_SHARE_MIN), 1, BOTTOM, TOP, true };
}

static void short_ns(char *buf, double ns)
{
	if (ns < 1e3)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%g ns", ns);
	else if (ns < 1e6)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%g us", ns / 1e3);
	else if (ns < 1e9)
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%g ms", ns / 1e6);
	else
		(void)snprintf(buf, BENCH_NUMBER_MAX, "%g s", ns / 1e9);
}

static void draw_tails_axes(struct latency_plot *t)
{
	static const double shares[] = { 1, 1e-1, 1e-2, 1e-3, 1e-4, PLOTTED_SHARE_MIN };
	double ticks[PLOT_TICKS_MAX];
	char text[BENCH_NUMBER_MAX];
	size_t n = plot_ticks(ticks, &t->x);
	double free_from = 0;

	for (size_t i = 0; i < n; i++) {
		double x = plot_at(&t->x, ticks[i]);

		plot_line(&t->plot, "grid", x, TOP, x, BOTTOM);
		if (x < free_from)
			continue;
		short_ns(text, ticks[i]);
		plot_text(&t->plot, "tick mid", x, BOTTOM + 16, "%s", text);
		free_from = x + LABEL;
	}
	for (size_t i = 0; i < ARRAY_LEN(shares) && shares[i] >= t->y.low * 0.99; i++) {
		double y = plot_at(&t->y, shares[i]);

		plot_line(&t->plot, "grid", LEFT, y, RIGHT, y);
		plot_text(&t->plot, "tick end", LEFT - 6, y + 4, "%g%%", 100 * shares[i]);
	}
	plot_line(&t->plot, "mark", LEFT, plot_at(&t->y, 1 - QUANTILE), RIGHT,
		plot_at(&t->y, 1 - QUANTILE));
	plot_text(&t->plot, "tick start", LEFT + 4, plot_at(&t->y, 1 - QUANTILE) - 4, "p99");
	plot_text(&t->plot, "tick mid", (LEFT + RIGHT) / 2.0, BOTTOM + 36,
		"time of a unit: this share of them takes longer");
}

/* Omits invisible steps, but never the last step to the longest time. */
static void draw_curve(struct latency_plot *t, const struct latency_curve *c)
{
	const struct hist *h = &c->times;
	double x = t->x.from, y = t->y.to, at = x;
	uint64_t so_far = 0;
	char class[32];

	(void)snprintf(class, sizeof(class), "curve%s %s", c->earlier ? " was" : "",
		plot_mode_class(c->mode));
	plot_path_begin(&t->plot, class);
	plot_move(&t->plot, x, y);
	for (unsigned int i = h->from; i < h->to; i++) {
		double below;

		if (!h->counts[i])
			continue;
		so_far += h->counts[i];
		at = plot_at(&t->x, hist_middle(i));
		if (so_far >= h->n)
			break;
		below = plot_at(&t->y, (double)(h->n - so_far) / (double)h->n);
		if (at - x < SEEN && below - y < SEEN)
			continue;
		plot_to(&t->plot, at, y);
		plot_to(&t->plot, at, below);
		x = at;
		y = below;
	}
	plot_to(&t->plot, at, y);
	plot_path_end(&t->plot);
	(void)snprintf(class, sizeof(class), "dot%s %s", c->earlier ? " was" : "",
		plot_mode_class(c->mode));
	plot_rect(&t->plot, class, at - 3, y - 3, 6, 6);
}

static void draw_legend(struct latency_plot *t)
{
	size_t line = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct latency_curve *c = &t->curves[i];
		double y = TOP + 10 + (double)line * STEP;
		char class[32], p99[BENCH_NUMBER_MAX], longest[BENCH_NUMBER_MAX];

		if (c->earlier)
			continue;
		line++;
		(void)snprintf(class, sizeof(class), "curve %s", plot_mode_class(c->mode));
		plot_line(&t->plot, class, RIGHT + 14, y, RIGHT + 40, y);
		plot_text(&t->plot, "label start", RIGHT + 48, y + 4, "%s", c->name);
		plot_text(&t->plot, "tick start", RIGHT + 48, y + 18, "p99 %s, max %s",
			bench_print_ns(hist_quantile(&c->times, QUANTILE), p99),
			bench_print_ns(hist_quantile(&c->times, 1), longest));
	}
}

int report_latency_plot(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err)
{
	CLEANUP(freep) struct latency_plot *t = calloc(1, sizeof(*t));
	char title[REPORT_CELL_MAX + REPORT_CELL_MAX], name[REPORT_CELL_MAX];

	if (!t)
		return error_nomem(err);
	t->plot = report_plot(p, WIDTH, HEIGHT);
	if (k->alone && k->modes[0].mode != BENCH_EXCLUSIVE)
		add_curve(t, "one alone", BENCH_EXCLUSIVE, k->alone->row);
	add_earlier_curves(t, p->earlier, s, k);
	for (size_t i = 0; i < k->n && t->n < CURVES; i++)
		add_curve(t, k->modes[i].name, k->modes[i].mode, k->modes[i].all);
	if (!t->n)
		return 0;
	make_scales(t);
	(void)snprintf(title, sizeof(title), "Times of units of %s in %.100s",
		report_kind_name(k, name), s->name);
	plot_begin(&t->plot, title,
		"A curve for each mode: the share of units that take longer than a time, on logarithmic axes. "
		"The legend says p99 and the longest time; the table has other figures.");
	draw_tails_axes(t);
	for (size_t i = 0; i < t->n; i++)
		draw_curve(t, &t->curves[i]);
	draw_legend(t);
	plot_end(&t->plot);
	return 0;
}
