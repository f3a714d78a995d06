/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to bench/report: the parts of a page. Each adds to .b. Pure. */
#include "lib/base/buf.h"
#include "tools/bench/report/model.h"
#include "tools/bench/report/plot.h"

#define REPORT_CELL_MAX 160

struct report_page {
	struct buf *b;
	const struct bench_report_model *report,
		*earlier;   /* .earlier NULL: there is one result */
	unsigned int plots; /* so far */
};

/* What differs from before, if there is a before. ERR_INVALID, ERR_NOMEM. */
int report_changes(struct report_page *p, struct error *err) MUST_USE;
void report_summary(struct report_page *p);
void report_overview(struct report_page *p);
void report_checks(struct report_page *p);
/* In a sentence: which modes have walls. */
void report_render_checks(struct report_page *p);
void report_table(struct report_page *p, const struct report_scenario *s);

/* Throughput of a kind by mode. */
void report_bars(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k);
/* How many units take longer than what, by mode. ERR_NOMEM. */
int report_latency_plot(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err) MUST_USE;
/* What each pod of a kind had of its work over time: a plot for each mode with several pods. ERR_NOMEM. */
int report_shares(struct report_page *p, const struct report_scenario *s,
	const struct report_kind *k, struct error *err) MUST_USE;

/* A plot of this size on the page. */
struct plot report_plot(struct report_page *p, double width, double height);

/* "± 0.5%", half of the 95 % interval of the value; "" where there is none. @buf has REPORT_CELL_MAX bytes, here and
 * below. */
const char *report_error(const struct estimate *e, char *buf);
/* "3 burn" */
const char *report_kind_name(const struct report_kind *k, char *buf);
/* @share of 1 in percent, without the sign. */
const char *report_percent(double share, char *buf);

extern const char report_style[]; /* style.css */
extern const size_t report_style_len;
