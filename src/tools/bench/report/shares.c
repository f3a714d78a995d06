/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"
#include "tools/bench/report/number.h"
#include "tools/bench/report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Plot of each pod's share of a kind's work, block by block, through all repetitions. Bands are stacked, so that a
 * growing band visibly takes from another band. Dashes show the entitled shares.
 */

#define WIDTH   210
#define HEIGHT  166
#define LEFT    38
#define RIGHT   188 /* right edge of the bands; pod names follow */
#define TOP     10
#define BOTTOM  128
#define GAP     3   /* between repetitions */
#define BANDS   16  /* maximum number of bands; further pods share the last band */
#define COLUMNS 120 /* maximum number of columns; a column joins blocks if there are more */
#define LETTER  11  /* height of a label */

struct shares {
	struct plot plot;
	const struct report_mode *mode;
	struct plot_scale y;
	size_t runs, bands;
	double weights[BANDS], sum_weights;
	double seconds; /* of the drawn runs */
};

/* A period of time: the units of each band in it. */
struct shares_column {
	double x, width;
	double units[BANDS], all;
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
	s->bands = pods < BANDS ? pods : BANDS;
	for (size_t i = 0; i < pods; i++) {
		double w = report_weight(s->mode, i);

		s->weights[get_pod_band(s, i)] += w;
		s->sum_weights += w;
	}
	s->runs = s->mode->all->n < COLUMNS ? s->mode->all->n : COLUMNS;
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
	size_t room = COLUMNS / s->runs, each = (run->n_blocks + room - 1) / room, n = 0;

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
		plot_mode_class(s->mode->mode));
	plot_path_begin(&s->plot, class);
	for (size_t i = 0; i < n; i++) {
		double y = plot_at(&s->y, compute_share_below(&c[i], band + 1));

		if (i)
			plot_to(&s->plot, c[i].x, y);
		else
			plot_move(&s->plot, c[i].x, y);
		plot_to(&s->plot, c[i].x + c[i].width, y);
	}
	for (size_t i = n; i-- > 0;) {
		double y = plot_at(&s->y, compute_share_below(&c[i], band));

		plot_to(&s->plot, c[i].x + c[i].width, y);
		plot_to(&s->plot, c[i].x, y);
	}
	plot_path_end(&s->plot);
}

static int draw_runs(struct shares *s, struct error *err)
{
	CLEANUP(freep) struct shares_column *c = calloc(COLUMNS, sizeof(*c));
	double gaps = GAP * (double)(s->runs - 1), room = RIGHT - LEFT - gaps, x = LEFT;

	if (!c)
		return error_nomem(err);
	/* The width of a repetition is proportional to its length. Very many repetitions have no gaps. */
	if (room < (RIGHT - LEFT) / 2.0)
		room = RIGHT - LEFT;
	for (size_t i = 0; i < s->runs; i++) {
		const struct bench_run *run = &s->mode->all->runs[i];
		double width = room * run->seconds / s->seconds;
		size_t n = run->n_blocks ? make_columns(c, s, run, x, width) : 0;

		for (size_t band = 0; n && band < s->bands; band++)
			draw_band(s, c, n, band);
		plot_text(&s->plot, "tick mid", x + width / 2, BOTTOM + 15, "%s",
			s->runs > 9 ? ""
				    : (const char *[]){ "1", "2", "3", "4", "5", "6", "7", "8",
					      "9" }[i]);
		x += width + (room < RIGHT - LEFT ? GAP : 0);
	}
	return 0;
}

static void draw_shares_axes(struct shares *s)
{
	for (int percent = 0; percent <= 100; percent += 25) {
		double y = plot_at(&s->y, percent / 100.0);

		plot_line(&s->plot, "grid", LEFT, y, RIGHT, y);
		if (percent % 50 == 0)
			plot_text(&s->plot, "tick end", LEFT - 5, y + 4, "%d%%", percent);
	}
	plot_text(&s->plot, "tick mid", (LEFT + RIGHT) / 2.0, BOTTOM + 31,
		s->runs > 1 ? "repetition" : "one repetition");
}

/* Draws the entitled borders, and the pod's weight or number between them. */
static void draw_targets(struct shares *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->bands; i++) {
		double from = plot_at(&s->y, sum / s->sum_weights), to;

		sum += s->weights[i];
		to = plot_at(&s->y, sum / s->sum_weights);
		if (i + 1 < s->bands)
			plot_line(&s->plot, "target", LEFT, to, RIGHT, to);
		if (from - to < LETTER)
			continue;
		if (s->mode->n > 1)
			plot_text(&s->plot, "tick start", RIGHT + 5, (from + to) / 2 + 4, "w%g",
				s->weights[i]);
		else
			plot_text(&s->plot, "tick start", RIGHT + 5, (from + to) / 2 + 4, "%zu",
				i + 1);
	}
}

static int draw_mode_shares(struct report_page *p, const struct report_scenario *sc,
	const struct report_kind *k, const struct report_mode *m, struct error *err)
{
	struct shares s = { .plot = report_plot(p, WIDTH, HEIGHT),
		.mode = m,
		.y = { 0, 1, BOTTOM, TOP, false } };
	char title[2 * REPORT_CELL_MAX], name[REPORT_CELL_MAX], jain[BENCH_NUMBER_MAX];

	make_bands(&s, pods_of(m->all));
	(void)snprintf(title, sizeof(title), "Shares of %s in %.100s, %s",
		report_kind_name(k, name), sc->name, m->name);
	buf_puts(p->b, "<figure>");
	plot_begin(&s.plot, title,
		"The share of the kind's units that each pod ended, block by block, on top of each other.");
	draw_shares_axes(&s);
	if (draw_runs(&s, err) < 0)
		return -1;
	draw_targets(&s);
	plot_end(&s.plot);
	buf_printf(p->b, "<figcaption><span class=\"key %s\"></span>",
		plot_mode_class(m->mode));
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
