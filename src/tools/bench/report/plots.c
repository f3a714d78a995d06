/* SPDX-License-Identifier: Apache-2.0 */
/* The plots of a kind of pods: throughput by mode, times of units by mode, and each pod's share of the work. */
#include "tools/bench/report/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- throughput --- */

/* One bar for each mode. Pods with different weights are parts of a bar. */

#define BARS_WIDTH  560
#define BARS_LEFT   112 /* left edge of the bars; mode names end here */
#define BARS_RIGHT  416 /* right edge of the bars; figures follow */
#define BARS_TOP    30
#define BARS_HEIGHT 320 /* minimum height: that of the plot beside the bars */
#define BARS_STEP   26  /* minimum distance of two bars */
#define BARS_SPACED 60  /* maximum distance of two bars */
#define BARS_BOTTOM 46
#define BARS_WAS    5 /* height of a bar of the earlier result */
#define BARS_LETTER 7 /* approximate width of a letter of a label */

struct bench_bars {
	struct svg plot;
	struct svg_scale x;
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
static void choose_line(struct bench_bars *bars, const struct report_kind *k)
{
	bars->line = NAN;
	if (isfinite(k->offered)) {
		bars->line_name = "asked for";
		bars->line = k->offered;
	} else if (k->alone) {
		bars->line_name = "one alone";
		bars->line = k->alone->f.rate.value;
	}
	if (!(bars->line > 0) || !isfinite(bars->line))
		bars->line = NAN;
}

static double find_largest_rate(const struct bench_bars *bars, const struct report_kind *k)
{
	double max = finite_max(0, bars->line);

	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *was = bars->earlier[k->modes[i].mode];

		max = finite_max(max, was ? was->f.rate.value : 0);
		max = finite_max(max, k->modes[i].f.rate.value);
		max = finite_max(max, estimate_interval(&k->modes[i].f.rate).high);
		max = finite_max(max, k->modes[i].all->planned_rate);
	}
	return max;
}

static void draw_axis(struct bench_bars *bars)
{
	double ticks[SVG_TICKS_MAX];
	size_t n = svg_scale_ticks(ticks, &bars->x);

	for (size_t i = 0; i < n; i++) {
		double x = svg_scale_at(&bars->x, ticks[i]);

		svg_line(&bars->plot, "grid", x, BARS_TOP, x, bars->bottom);
		svg_text(&bars->plot, "tick mid", x, bars->bottom + 15, "%g", ticks[i]);
	}
	svg_text(&bars->plot, "tick mid", (BARS_LEFT + BARS_RIGHT) / 2.0, bars->bottom + 32,
		"units per second, all pods of the kind");
}

static void draw_bar_parts(struct bench_bars *bars, const struct report_mode *m, double y)
{
	double from = 0;
	char class[32];

	(void)snprintf(class, sizeof(class), "bar %s", report_mode_class(m->mode));
	for (size_t i = 0; i < m->n; i++) {
		double rate = m->rows[i].f.rate.value, to = from + finite_max(0, rate);
		double x = svg_scale_at(&bars->x, from), width = svg_scale_at(&bars->x, to) - x;

		svg_rect(&bars->plot, class, x, y, width, bars->bar);
		if (m->n > 1 && width > 3 * BARS_LETTER)
			svg_text(&bars->plot, "inside mid", x + width / 2,
				y + bars->bar / 2 + 4, "%g", report_weight(m, i));
		from = to;
	}
}

static void draw_interval(struct bench_bars *bars, const struct estimate *e, double middle)
{
	struct interval i = estimate_interval(e);
	double low = svg_scale_at(&bars->x, i.low), high = svg_scale_at(&bars->x, i.high);

	if (!isfinite(i.low) || !isfinite(i.high))
		return;
	svg_line(&bars->plot, "whisker", low, middle, high, middle);
	svg_line(&bars->plot, "whisker", low, middle - 4, low, middle + 4);
	svg_line(&bars->plot, "whisker", high, middle - 4, high, middle + 4);
}

/* Draws a pale bar above, with its figure. */
static void draw_earlier_bar(struct bench_bars *bars, const struct report_mode *was, double y)
{
	char class[32], rate[BENCH_NUMBER_MAX];

	(void)snprintf(class, sizeof(class), "bar was %s", report_mode_class(was->mode));
	svg_rect(&bars->plot, class, BARS_LEFT, y - BARS_WAS,
		svg_scale_at(&bars->x, was->f.rate.value) - BARS_LEFT, BARS_WAS);
	svg_text(&bars->plot, "tick start", BARS_RIGHT + 8, y - BARS_WAS / 2.0 + 1, "was %s",
		bench_print_number(was->f.rate.value, rate));
}

static void draw_mode_bar(struct bench_bars *bars, const struct report_mode *m, size_t at)
{
	double y = BARS_TOP + (double)at * bars->step + (bars->step - bars->bar) / 2,
	       middle = y + bars->bar / 2;
	char rate[BENCH_NUMBER_MAX], error[REPORT_CELL_MAX];

	svg_text(&bars->plot, "label end", BARS_LEFT - 8, middle + 4, "%s", m->name);
	draw_bar_parts(bars, m, y);
	if (m->f.rate.value > 0)
		draw_interval(bars, &m->f.rate, middle);
	if (isfinite(m->all->planned_rate)) {
		double x = svg_scale_at(&bars->x, m->all->planned_rate);

		svg_line(&bars->plot, "planned", x, y - 3, x, y + bars->bar + 3);
	}
	if (bars->earlier[m->mode])
		draw_earlier_bar(bars, bars->earlier[m->mode], y);
	svg_text(&bars->plot, "label start", BARS_RIGHT + 8, middle + 4, "%s %s%s",
		bench_print_number(m->f.rate.value, rate), report_error(&m->f.rate, error),
		m->f.errors ? " errors!" : "");
}

static void draw_line(struct bench_bars *bars)
{
	double x = svg_scale_at(&bars->x, bars->line);

	if (isnan(bars->line))
		return;
	svg_line(&bars->plot, "mark", x, BARS_TOP - 6, x, bars->bottom);
	svg_text(&bars->plot, x > (BARS_LEFT + BARS_RIGHT) / 2.0 ? "label end" : "label start",
		x > (BARS_LEFT + BARS_RIGHT) / 2.0 ? x + 4 : x - 4, BARS_TOP - 11, "%s",
		bars->line_name);
}

void report_bars(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k)
{
	double step = fmin(BARS_SPACED,
		fmax(BARS_STEP, (BARS_HEIGHT - BARS_TOP - BARS_BOTTOM) / (double)k->n));
	struct bench_bars bars = { .step = step,
		.bar = step * 0.62,
		.bottom = BARS_TOP + step * (double)k->n };
	char title[REPORT_CELL_MAX + REPORT_CELL_MAX], name[REPORT_CELL_MAX];

	for (unsigned int m = 0; m < BENCH_MODES; m++)
		bars.earlier[m] =
			report_find(p->earlier, s->name, k->workload, (enum bench_mode)m);
	choose_line(&bars, k);
	bars.x = (struct svg_scale){ 0, svg_round_up(find_largest_rate(&bars, k)), BARS_LEFT,
		BARS_RIGHT, false };
	bars.plot = report_plot(p, BARS_WIDTH, bars.bottom + BARS_BOTTOM);
	(void)snprintf(title, sizeof(title), "Throughput of %s in %.100s",
		report_kind_name(k, name), s->name);
	svg_begin(&bars.plot, title,
		"A bar for each mode with its 95 % interval, in units per second. The table has the figures.");
	draw_axis(&bars);
	for (size_t i = 0; i < k->n; i++)
		draw_mode_bar(&bars, &k->modes[i], i);
	draw_line(&bars);
	svg_end(&bars.plot);
}

/* --- times of units --- */

/*
 * The share of units that take longer than a time. Both axes are logarithmic, so the tail is as visible as
 * the middle. A histogram, or the usual curve from 0 to 1, would squeeze the tail into a corner.
 */

#define TAILS_WIDTH       560
#define TAILS_HEIGHT      320
#define TAILS_LEFT        58
#define TAILS_RIGHT       346 /* right edge of the curves; the legend follows */
#define TAILS_TOP         14
#define TAILS_BOTTOM      274
#define PLOTTED_SHARE_MIN 1e-5 /* smallest share that is drawn */
#define TAILS_STEP        34   /* of the legend's lines */
#define TAILS_LABEL       46   /* width of a time on the axis, with a margin */
#define TAILS_SEEN        1.2  /* smallest visible step on the plot */
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
	struct svg plot;
	struct svg_scale x, y;
	size_t n;
	struct latency_curve curves[CURVES];
};

static void add_curve(struct latency_plot *plot, const char *name, enum bench_mode mode,
	const struct bench_row *row)
{
	struct latency_curve *c = &plot->curves[plot->n];

	for (size_t r = 0; r < row->n; r++)
		for (size_t i = 0; i < row->runs[r].n_blocks; i++)
			hist_merge(&c->times, &row->runs[r].blocks[i].times);
	c->name = name;
	c->mode = mode;
	if (c->times.n > 0)
		plot->n++;
	else
		c->earlier = false;
}

/* Adds the earlier curves first, so that they are below the others. */
static void add_earlier_curves(struct latency_plot *plot,
	const struct bench_report_model *before, const struct report_scenario *s,
	const struct report_kind *k)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct report_mode *was =
			report_find(before, s->name, k->workload, k->modes[i].mode);

		if (!was)
			continue;
		plot->curves[plot->n].earlier = true;
		add_curve(plot, was->name, was->mode, was->all);
	}
}

static void make_scales(struct latency_plot *plot)
{
	double first = INFINITY, last = 0, max = 0, min;

	for (size_t i = 0; i < plot->n; i++) {
		const struct hist *h = &plot->curves[i].times;

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
	plot->x = (struct svg_scale){ first, last, TAILS_LEFT, TAILS_RIGHT, true };
	plot->y = (struct svg_scale){ fmax(min, PLOTTED_SHARE_MIN), 1, TAILS_BOTTOM, TAILS_TOP,
		true };
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

static void draw_tails_axes(struct latency_plot *plot)
{
	static const double shares[] = { 1, 1e-1, 1e-2, 1e-3, 1e-4, PLOTTED_SHARE_MIN };
	double ticks[SVG_TICKS_MAX];
	char text[BENCH_NUMBER_MAX];
	size_t n = svg_scale_ticks(ticks, &plot->x);
	double free_from = 0;

	for (size_t i = 0; i < n; i++) {
		double x = svg_scale_at(&plot->x, ticks[i]);

		svg_line(&plot->plot, "grid", x, TAILS_TOP, x, TAILS_BOTTOM);
		if (x < free_from)
			continue;
		short_ns(text, ticks[i]);
		svg_text(&plot->plot, "tick mid", x, TAILS_BOTTOM + 16, "%s", text);
		free_from = x + TAILS_LABEL;
	}
	for (size_t i = 0; i < ARRAY_LEN(shares) && shares[i] >= plot->y.low * 0.99; i++) {
		double y = svg_scale_at(&plot->y, shares[i]);

		svg_line(&plot->plot, "grid", TAILS_LEFT, y, TAILS_RIGHT, y);
		svg_text(&plot->plot, "tick end", TAILS_LEFT - 6, y + 4, "%g%%",
			100 * shares[i]);
	}
	svg_line(&plot->plot, "mark", TAILS_LEFT, svg_scale_at(&plot->y, 1 - QUANTILE),
		TAILS_RIGHT, svg_scale_at(&plot->y, 1 - QUANTILE));
	svg_text(&plot->plot, "tick start", TAILS_LEFT + 4,
		svg_scale_at(&plot->y, 1 - QUANTILE) - 4, "p99");
	svg_text(&plot->plot, "tick mid", (TAILS_LEFT + TAILS_RIGHT) / 2.0, TAILS_BOTTOM + 36,
		"time of a unit: this share of them takes longer");
}

/* Omits invisible steps, but never the last step to the longest time. */
static void draw_curve(struct latency_plot *plot, const struct latency_curve *c)
{
	const struct hist *h = &c->times;
	double x = plot->x.from, y = plot->y.to, at = x;
	uint64_t so_far = 0;
	char class[32];

	(void)snprintf(class, sizeof(class), "curve%s %s", c->earlier ? " was" : "",
		report_mode_class(c->mode));
	svg_path_begin(&plot->plot, class);
	svg_path_to(&plot->plot, x, y);
	for (unsigned int i = h->from; i < h->to; i++) {
		double below;

		if (!h->counts[i])
			continue;
		so_far += h->counts[i];
		at = svg_scale_at(&plot->x, hist_middle(i));
		if (so_far >= h->n)
			break;
		below = svg_scale_at(&plot->y, (double)(h->n - so_far) / (double)h->n);
		if (at - x < TAILS_SEEN && below - y < TAILS_SEEN)
			continue;
		svg_path_to(&plot->plot, at, y);
		svg_path_to(&plot->plot, at, below);
		x = at;
		y = below;
	}
	svg_path_to(&plot->plot, at, y);
	svg_path_end(&plot->plot);
	(void)snprintf(class, sizeof(class), "dot%s %s", c->earlier ? " was" : "",
		report_mode_class(c->mode));
	svg_rect(&plot->plot, class, at - 3, y - 3, 6, 6);
}

static void draw_legend(struct latency_plot *plot)
{
	size_t line = 0;

	for (size_t i = 0; i < plot->n; i++) {
		const struct latency_curve *c = &plot->curves[i];
		double y = TAILS_TOP + 10 + (double)line * TAILS_STEP;
		char class[32], p99[BENCH_NUMBER_MAX], longest[BENCH_NUMBER_MAX];

		if (c->earlier)
			continue;
		line++;
		(void)snprintf(class, sizeof(class), "curve %s", report_mode_class(c->mode));
		svg_line(&plot->plot, class, TAILS_RIGHT + 14, y, TAILS_RIGHT + 40, y);
		svg_text(&plot->plot, "label start", TAILS_RIGHT + 48, y + 4, "%s", c->name);
		svg_text(&plot->plot, "tick start", TAILS_RIGHT + 48, y + 18, "p99 %s, max %s",
			bench_print_ns(hist_quantile(&c->times, QUANTILE), p99),
			bench_print_ns(hist_quantile(&c->times, 1), longest));
	}
}

int report_latency_plot(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err)
{
	CLEANUP(freep) struct latency_plot *plot = calloc(1, sizeof(*plot));
	char title[REPORT_CELL_MAX + REPORT_CELL_MAX], name[REPORT_CELL_MAX];

	if (!plot)
		return error_nomem(err);
	plot->plot = report_plot(p, TAILS_WIDTH, TAILS_HEIGHT);
	if (k->alone && k->modes[0].mode != BENCH_EXCLUSIVE)
		add_curve(plot, "one alone", BENCH_EXCLUSIVE, k->alone->row);
	add_earlier_curves(plot, p->earlier, s, k);
	for (size_t i = 0; i < k->n && plot->n < CURVES; i++)
		add_curve(plot, k->modes[i].name, k->modes[i].mode, k->modes[i].all);
	if (!plot->n)
		return 0;
	make_scales(plot);
	(void)snprintf(title, sizeof(title), "Times of units of %s in %.100s",
		report_kind_name(k, name), s->name);
	svg_begin(&plot->plot, title,
		"A curve for each mode: the share of units that take longer than a time, on logarithmic axes. "
		"The legend says p99 and the longest time; the table has other figures.");
	draw_tails_axes(plot);
	for (size_t i = 0; i < plot->n; i++)
		draw_curve(plot, &plot->curves[i]);
	draw_legend(plot);
	svg_end(&plot->plot);
	return 0;
}

/* --- shares of pods --- */

/*
 * Each pod's share of a kind's work, block by block, through all repetitions. Bands are stacked, so that a
 * growing band visibly takes from another band. Dashes show the entitled shares.
 */

#define SHARES_WIDTH  210
#define SHARES_HEIGHT 166
#define SHARES_LEFT   38
#define SHARES_RIGHT  188 /* right edge of the bands; pod names follow */
#define SHARES_TOP    10
#define SHARES_BOTTOM 128
#define SHARES_GAP    3  /* between repetitions */
#define SHARES_BANDS  16 /* maximum number of bands; further pods share the last band */
#define SHARES_COLUMNS \
	120 /* maximum number of columns; a column joins blocks if there are more */
#define SHARES_LETTER 11 /* height of a label */

struct shares {
	struct svg plot;
	const struct report_mode *mode;
	struct svg_scale y;
	size_t runs, bands;
	double weights[SHARES_BANDS], sum_weights;
	double seconds; /* of the drawn runs */
};

/* A period of time: the units of each band in it. */
struct shares_column {
	double x, width;
	double units[SHARES_BANDS], all;
};

static size_t pods_of(const struct bench_row *row)
{
	size_t n = SIZE_MAX;

	for (size_t i = 0; i < row->n; i++)
		n = row->runs[i].n_pods < n ? row->runs[i].n_pods : n;
	return n;
}

static size_t get_pod_band(const struct shares *s, size_t pod)
{
	return pod < s->bands ? pod : s->bands - 1;
}

static void make_bands(struct shares *s, size_t pods)
{
	s->bands = pods < SHARES_BANDS ? pods : SHARES_BANDS;
	for (size_t i = 0; i < pods; i++) {
		double w = report_weight(s->mode, i);

		s->weights[get_pod_band(s, i)] += w;
		s->sum_weights += w;
	}
	s->runs = s->mode->all->n < SHARES_COLUMNS ? s->mode->all->n : SHARES_COLUMNS;
	for (size_t i = 0; i < s->runs; i++)
		s->seconds += s->mode->all->runs[i].seconds;
}

static void fill_column(struct shares_column *c, const struct shares *s,
	const struct bench_run *run, size_t from, size_t end)
{
	*c = (struct shares_column){ .all = 0 };
	for (size_t pod = 0; pod < run->n_pods; pod++)
		for (size_t i = from; i < end; i++) {
			double units = (double)run->units[pod * run->n_blocks + i];

			c->units[get_pod_band(s, pod)] += units;
			c->all += units;
		}
}

/* Makes the columns of one repetition, side by side. Returns their number. */
static size_t make_columns(struct shares_column *ret, const struct shares *s,
	const struct bench_run *run, double x, double width)
{
	size_t room = SHARES_COLUMNS / s->runs, each = (run->n_blocks + room - 1) / room, n = 0;

	for (size_t from = 0; from < run->n_blocks; from += each, n++) {
		size_t end = from + each < run->n_blocks ? from + each : run->n_blocks;

		fill_column(&ret[n], s, run, from, end);
		ret[n].x = x + width * (double)from / (double)run->n_blocks;
		ret[n].width = width * (double)(end - from) / (double)run->n_blocks;
	}
	return n;
}

/* The share of all units in bands below @band. */
static double compute_share_below(const struct shares_column *c, size_t band)
{
	double sum = 0;

	for (size_t i = 0; i < band; i++)
		sum += c->units[i];
	return c->all > 0 ? sum / c->all : 0;
}

/* The path goes right along the upper border, and back along the lower border. */
static void draw_band(struct shares *s, const struct shares_column *c, size_t n, size_t band)
{
	char class[32];

	(void)snprintf(class, sizeof(class), "band%s %s", band % 2 ? " odd" : "",
		report_mode_class(s->mode->mode));
	svg_path_begin(&s->plot, class);
	for (size_t i = 0; i < n; i++) {
		double y = svg_scale_at(&s->y, compute_share_below(&c[i], band + 1));

		svg_path_to(&s->plot, c[i].x, y);
		svg_path_to(&s->plot, c[i].x + c[i].width, y);
	}
	for (size_t i = n; i-- > 0;) {
		double y = svg_scale_at(&s->y, compute_share_below(&c[i], band));

		svg_path_to(&s->plot, c[i].x + c[i].width, y);
		svg_path_to(&s->plot, c[i].x, y);
	}
	svg_path_end(&s->plot);
}

static int draw_runs(struct shares *s, struct error *err)
{
	CLEANUP(freep) struct shares_column *c = calloc(SHARES_COLUMNS, sizeof(*c));
	double gaps = SHARES_GAP * (double)(s->runs - 1),
	       room = SHARES_RIGHT - SHARES_LEFT - gaps, x = SHARES_LEFT;

	if (!c)
		return error_nomem(err);
	/* The width of a repetition is proportional to its length. Very many repetitions have no gaps. */
	if (room < (SHARES_RIGHT - SHARES_LEFT) / 2.0)
		room = SHARES_RIGHT - SHARES_LEFT;
	for (size_t i = 0; i < s->runs; i++) {
		const struct bench_run *run = &s->mode->all->runs[i];
		double width = room * run->seconds / s->seconds;
		size_t n = run->n_blocks ? make_columns(c, s, run, x, width) : 0;

		for (size_t band = 0; n && band < s->bands; band++)
			draw_band(s, c, n, band);
		svg_text(&s->plot, "tick mid", x + width / 2, SHARES_BOTTOM + 15, "%s",
			s->runs > 9 ? ""
				    : (const char *[]){ "1", "2", "3", "4", "5", "6", "7", "8",
					      "9" }[i]);
		x += width + (room < SHARES_RIGHT - SHARES_LEFT ? SHARES_GAP : 0);
	}
	return 0;
}

static void draw_shares_axes(struct shares *s)
{
	for (int percent = 0; percent <= 100; percent += 25) {
		double y = svg_scale_at(&s->y, percent / 100.0);

		svg_line(&s->plot, "grid", SHARES_LEFT, y, SHARES_RIGHT, y);
		if (percent % 50 == 0)
			svg_text(&s->plot, "tick end", SHARES_LEFT - 5, y + 4, "%d%%", percent);
	}
	svg_text(&s->plot, "tick mid", (SHARES_LEFT + SHARES_RIGHT) / 2.0, SHARES_BOTTOM + 31,
		s->runs > 1 ? "repetition" : "one repetition");
}

/* Draws the entitled borders, and the pod's weight or number between them. */
static void draw_targets(struct shares *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->bands; i++) {
		double from = svg_scale_at(&s->y, sum / s->sum_weights), to;

		sum += s->weights[i];
		to = svg_scale_at(&s->y, sum / s->sum_weights);
		if (i + 1 < s->bands)
			svg_line(&s->plot, "target", SHARES_LEFT, to, SHARES_RIGHT, to);
		if (from - to < SHARES_LETTER)
			continue;
		if (s->mode->n > 1)
			svg_text(&s->plot, "tick start", SHARES_RIGHT + 5, (from + to) / 2 + 4,
				"w%g", s->weights[i]);
		else
			svg_text(&s->plot, "tick start", SHARES_RIGHT + 5, (from + to) / 2 + 4,
				"%zu", i + 1);
	}
}

static int draw_mode_shares(struct report_page *p, const struct report_scenario *sc,
	const struct report_kind *k, const struct report_mode *m, struct error *err)
{
	struct shares s = { .plot = report_plot(p, SHARES_WIDTH, SHARES_HEIGHT),
		.mode = m,
		.y = { 0, 1, SHARES_BOTTOM, SHARES_TOP, false } };
	char title[2 * REPORT_CELL_MAX], name[REPORT_CELL_MAX], jain[BENCH_NUMBER_MAX];

	make_bands(&s, pods_of(m->all));
	(void)snprintf(title, sizeof(title), "Shares of %s in %.100s, %s",
		report_kind_name(k, name), sc->name, m->name);
	buf_puts(p->b, "<figure>");
	svg_begin(&s.plot, title,
		"The share of the kind's units that each pod ended, block by block, on top of each other.");
	draw_shares_axes(&s);
	if (draw_runs(&s, err) < 0)
		return -1;
	draw_targets(&s);
	svg_end(&s.plot);
	buf_printf(p->b, "<figcaption><span class=\"key %s\"></span>",
		report_mode_class(m->mode));
	html_text(p->b, m->name);
	if (m->n == 1)
		html_textf(p->b, ", Jain %s", bench_print_number(m->f.jain, jain));
	buf_puts(p->b, "</figcaption></figure>\n");
	return 0;
}

static bool is_mode_shared(const struct report_mode *m)
{
	return m->f.rate.value > 0 && pods_of(m->all) > 1;
}

int report_shares(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err)
{
	bool any = false;

	for (size_t i = 0; i < k->n; i++) {
		if (!is_mode_shared(&k->modes[i]))
			continue;
		if (!any)
			buf_puts(p->b, "<div class=\"shares\">\n");
		any = true;
		if (draw_mode_shares(p, s, k, &k->modes[i], err) < 0)
			return -1;
	}
	if (any)
		buf_puts(p->b,
			"</div>\n<p class=\"quiet\">Each pod's share of the kind's units, in blocks of a "
			"repetition. Dashes: what it should be, by weight (w) or equal.</p>\n");
	return 0;
}
