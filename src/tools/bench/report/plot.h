/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Draws SVG plots within a page. The page's style has the colors. A coordinate is always a finite number, whatever
 * the value. Pure. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"
#include "tools/bench/result/result.h"

#include <stddef.h>

struct plot {
	struct buf *b;
	double width, height;
	unsigned int *count; /* number of plots on the page, for unique names */
	bool simulated;
};

struct plot_scale {
	double low, high; /* .low < .high; .low is above 0 if .log */
	double from, to;  /* their positions on the plot */
	bool log;
};

#define PLOT_TICKS_MAX 16

/* @title names the plot. @what describes the plot for screen readers. Both are escaped. */
void plot_begin(struct plot *p, const char *title, const char *what);
void plot_end(struct plot *p);

/* @class, here and below: class names of the page's style. */
void plot_line(struct plot *p, const char *class, double x1, double y1, double x2, double y2);
void plot_rect(struct plot *p, const char *class, double x, double y, double width,
	double height);
/* The text is escaped. @class also has the alignment at @x: "start", "mid" or "end". */
void plot_text(struct plot *p, const char *class, double x, double y, const char *fmt, ...)
	PRINTF(5, 6);

/* A path: begin, points, end. */
void plot_path_begin(struct plot *p, const char *class);
void plot_move(struct plot *p, double x, double y);
void plot_to(struct plot *p, double x, double y);
void plot_path_end(struct plot *p);

/* Position of @v. A value outside the scale is at the nearer end. */
double plot_at(const struct plot_scale *s, double v);
/* Round numbers on the scale, in order. Returns their number. */
size_t plot_ticks(double ret[static PLOT_TICKS_MAX], const struct plot_scale *s);
/* A round number of at least @v, for the end of a scale. 1 unless @v is finite and above 0. */
double plot_round_up(double v);

/* The class of a mode's color, "m0" to "m7". The same in all plots and tables. */
const char *plot_mode_class(enum bench_mode m);
