/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Plots as SVG within a page: shapes, and scales from values to positions. @class, throughout: class names of the
 * page's style, which has the colors and the alignment of text. A coordinate is always a finite number, whatever the
 * value. Texts are escaped.
 *
 * Pure. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* --- shapes --- */

struct svg {
	struct buf *b;
	double width, height;
	unsigned int *count;   /* number of plots on the page, for unique names */
	const char *watermark; /* across the plot, and in its title; NULL: none */
	bool in_path;          /* the path has a point */
};

/* Begin and end a plot; the shapes come between the two. @title names the plot. @what describes it for screen
 * readers. The caller sets .b, .width, .height, .count and .watermark before; svg_begin() counts *.count up. */
void svg_begin(struct svg *svg, const char *title, const char *what);
void svg_end(struct svg *svg);

/* A straight line, and a rectangle by its upper left corner. A width or height below 0 counts as 0. */
void svg_line(struct svg *svg, const char *class, double x1, double y1, double x2, double y2);
void svg_rect(struct svg *svg, const char *class, double x, double y, double width,
	double height);
/* @class also has the alignment at @x: "start", "mid" or "end". The text is cut as by html_textf(). */
void svg_text(struct svg *svg, const char *class, double x, double y, const char *fmt, ...)
	PRINTF(5, 6);

/* Straight lines from point to point. Order of calls: svg_path_begin(), svg_path_to() for each point,
 * svg_path_end(). */
void svg_path_begin(struct svg *svg, const char *class);
void svg_path_to(struct svg *svg, double x, double y);
void svg_path_end(struct svg *svg);

/* --- scales --- */

struct svg_scale {
	double low, high; /* .low < .high; .low is above 0 if .log */
	double from, to;  /* their positions on the plot */
	bool log;
};

#define SVG_TICKS_MAX 16

/* Position of @v. A value outside the scale is at the nearer end. */
double svg_scale_at(const struct svg_scale *s, double v);
/* Round numbers on the scale, in order. Returns their number. */
size_t svg_scale_ticks(double ret[static SVG_TICKS_MAX], const struct svg_scale *s);
/* A round number of at least @v, for the end of a scale. 1 unless @v is finite and above 0. */
double svg_round_up(double v);
