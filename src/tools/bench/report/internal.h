/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Private to bench/report: the parts of a page. All of them append to a buffer. Pure. Thread: the owner of the buffer.
 */
#include "lib/report/html.h"
#include "lib/report/svg.h"
#include "tools/bench/report/model.h"

#include <stddef.h>

#define REPORT_CELL_MAX 160

struct report_page {
	struct buf *b;
	/* .earlier NULL: a report of one result. */
	const struct bench_report_model *report, *earlier;
	unsigned int plots; /* number of plots so far */
};

/* Changes from the earlier result; nothing without .earlier. ERR_INVALID, ERR_NOMEM. */
int report_changes(struct report_page *p, struct error *err) MUST_USE;
/* For each scenario that compares modes, and each kind of pods: the ranking of the modes, and errors. */
void report_summary(struct report_page *p);
/* One table with a column for each used mode. */
void report_overview(struct report_page *p);
/* The isolation tests; nothing if the result has none. */
void report_checks(struct report_page *p);
/* All figures of the scenario's rows, without columns that have no value. */
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
struct svg report_plot(struct report_page *p, double width, double height);

/* A text of the result; "": there is none. */
static inline const char *report_text(const char *text)
{
	return text ? text : "";
}

/* The class of a mode's color, "m0" to "m7". The same in all plots and tables. */
const char *report_mode_class(enum bench_mode m);

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
