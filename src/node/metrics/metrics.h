/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Renders what Prometheus reads: a view as text, with dcgm-exporter's names and with gpuslice's own.
 *
 *	DCGM_*      the families of the counters file, with dcgm-exporter's labels, for its dashboards (metrics/dcgm);
 *	gpuslice_*  what DCGM has no name for: slices, shares, quanta, cost, the agent itself (metrics/own);
 *	others      a few with OpenCost's names (metrics/own).
 *
 * One table gives each of gpuslice's families its name, type, unit and help; docs/metrics.md is checked against
 * it.
 *
 * A figure that the view does not know has no line. A family without lines has no head either.
 * Thread: any. Only struct metrics_xids and metrics_clocks keep state between calls; they have locks.
 */
#include "lib/base/buf.h"
#include "node/metrics/recent.h"
#include "node/metrics/counters/counters.h"
#include "node/metrics/options.h"
#include "node/view/view.h"

enum metrics_format {
	METRICS_PROMETHEUS,  /* text format 0.0.4 */
	METRICS_OPENMETRICS, /* 1.0.0 */
};

/*
 * The format for a client that sends this Accept header; NULL or "": no header. OpenMetrics if the header names
 * it in a supported version, with at least the quality of plain text. Else the text format.
 */
enum metrics_format metrics_format_of_accept(const char *accept);
/* The value of the Content-Type header for a text of this format. */
const char *metrics_content_type(enum metrics_format format);

/* Enough for all GPUs, with all slices held by pods with long names. */
#define METRICS_BYTES_MAX (64U << 20)

struct metrics_request {
	const struct view *view;
	const struct metrics_counters *counters;
	const struct metrics_options *options;
	struct metrics_xids *xids;     /* NULL: no XIDs of a time window */
	struct metrics_clocks *clocks; /* NULL: no clock events */
	enum metrics_format format;
};

/* Appends the text. ERR_LIMIT: it does not fit into @out; ERR_NOMEM. */
int metrics_render(struct buf *out, const struct metrics_request *rq,
	struct error *err) MUST_USE;

/* --- the table of gpuslice's families, for docs and tests --- */

enum metrics_type {
	METRICS_GAUGE,
	METRICS_COUNTER,
	METRICS_INFO,    /* always 1; the labels have the information */
	METRICS_UNKNOWN, /* "untyped" in the text format */
};

struct metrics_family {
	const char *name;  /* without _total or _info, which the type adds */
	const char *unit;  /* the end of the name; NULL: none */
	const char *help;  /* one sentence, no full stop */
	uint8_t type;      /* enum metrics_type */
	const char *extra; /* labels besides those of its object; NULL: none */
};

/* gpuslice's families in the order of the text; NULL after the last. */
const struct metrics_family *metrics_family_at(size_t i);
