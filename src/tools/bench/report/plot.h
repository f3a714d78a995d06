/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What plots are drawn with: SVG within a page whose style has the colours. A coordinate is always a number that lies on
 * the plot, whatever the figure is. Pure. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"
#include "tools/bench/result/result.h"

#include <stddef.h>

struct plot {
	struct buf *b;
	double width, height;
	unsigned int *count; /* of plots on the page, for names that are its own */
	bool simulated;
};

struct plot_scale {
	double low, high; /* low < high; above 0 if .log */
	double from, to;  /* where these are on the plot */
	bool log;
};

#define PLOT_TICKS_MAX 16

/* @title says what it shows, @what in more words for those who do not see it; both are escaped. */
void plot_begin(struct plot *p, const char *title, const char *what);
void plot_end(struct plot *p);

/* @class: words of the page's style, here and below. */
void plot_line(struct plot *p, const char *class, double x1, double y1, double x2, double y2);
void plot_rect(struct plot *p, const char *class, double x, double y, double width,
	double height);
/* The text is escaped. @class also says where it stands: "start", "mid" or "end" at @x. */
void plot_text(struct plot *p, const char *class, double x, double y, const char *fmt, ...)
	PRINTF(5, 6);

/* A path: begin, points, end. */
void plot_path_begin(struct plot *p, const char *class);
void plot_move(struct plot *p, double x, double y);
void plot_to(struct plot *p, double x, double y);
void plot_path_end(struct plot *p);

/* Where @v is; what is beyond an end of the scale is at that end. */
double plot_at(const struct plot_scale *s, double v);
/* Round numbers on the scale, in order. Returns how many. */
size_t plot_ticks(double ret[static PLOT_TICKS_MAX], const struct plot_scale *s);
/* A round number that is not below @v, for the end of a scale; 1 for what is no number above 0. */
double plot_round_up(double v);

/* The class of a mode's colour, "m0" to "m7": the same in all plots and tables. */
const char *plot_mode_class(enum bench_mode m);
