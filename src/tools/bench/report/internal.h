/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/report: text and plots within HTML, and the parts of a page. All of them append to a buffer.
 * Pure. Thread: the owner of the buffer.
 */
#include "lib/base/buf.h"
#include "tools/bench/report/model.h"

#include <stddef.h>

/* ---- text within HTML --------------------------------------------------------------------------------------- */

/* Adds @text escaped, also for use between quotes: no character of it ends an element or an attribute. */
void html_text(struct buf *b, const char *text);
/* Formats @fmt, cuts the text after some hundred bytes, and escapes it. */
void html_textf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
/* Adds <@name>@text</@name>. @name is not escaped. */
void html_element(struct buf *b, const char *name, const char *text);

/* ---- plots -------------------------------------------------------------------------------------------------- */

/* SVG. The page's style has the colors. A coordinate is always a finite number, whatever the value. */

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

/* ---- parts of a page ---------------------------------------------------------------------------------------- */

#define REPORT_CELL_MAX 160

struct report_page {
	struct buf *b;
	const struct bench_report_model *report,
		*earlier;   /* .earlier NULL: a report of one result */
	unsigned int plots; /* number of plots so far */
};

/* Changes from the earlier result; nothing without .earlier. ERR_INVALID, ERR_NOMEM. */
int report_changes(struct report_page *p, struct error *err) MUST_USE;
void report_summary(struct report_page *p);
void report_overview(struct report_page *p);
void report_checks(struct report_page *p);
void report_table(struct report_page *p, const struct report_scenario *s);

/* Plot of a kind's throughput by mode. */
void report_bars(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k);
/* Plot of the share of units that take longer than a time, by mode. ERR_NOMEM. */
int report_latency_plot(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err) MUST_USE;
/* Plots of each pod's share of the kind's work over time, for each mode with several pods. ERR_NOMEM. */
int report_shares(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err) MUST_USE;

/* A new plot of this size on the page. */
struct plot report_plot(struct report_page *p, double width, double height);

/*
 * "± 0.5%", half of the 95 % interval of the value. "" without an interval. Here and below, @buf has
 * REPORT_CELL_MAX bytes.
 */
const char *report_error(const struct estimate *e, char *buf);
/* "3 burn" */
const char *report_kind_name(const struct report_kind *k, char *buf);
/* @share (1 is 100 %) in percent, without the sign. */
const char *report_percent(double share, char *buf);

extern const char report_style[]; /* style.css */
extern const size_t report_style_len;
