/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What Prometheus reads: a view as text, in dcgm-exporter's names and in ours.
 *
 * Two groups. DCGM_* families are those that the counters file asks for, with dcgm-exporter's labels, so that
 * its dashboards go on (metrics/dcgm). gpuslice_* families, and the few in OpenCost's manner, say what
 * DCGM has no name for: slices, shares, turns, money, the agent itself (metrics/own); one table gives each its
 * name, type, unit and help, and docs/metrics.md is held against it.
 *
 * What the view does not know has no line. A family whose lines are all absent has no head either.
 * Thread: any; nothing is kept between calls but in struct metrics_xids and metrics_clocks, which have locks.
 */
#include "lib/base/buf.h"
#include "node/metrics/clocks.h"
#include "node/metrics/counters/counters.h"
#include "node/metrics/options.h"
#include "node/metrics/xids.h"
#include "node/view/view.h"

enum metrics_format {
	METRICS_PROMETHEUS,  /* text format 0.0.4 */
	METRICS_OPENMETRICS, /* 1.0.0 */
};

/*
 * What a client that sends this Accept header gets (NULL or "": none was sent): OpenMetrics if it names that, in a
 * version that we write, at least as dear as plain text; else the text format.
 */
enum metrics_format metrics_format_of_accept(const char *accept);
const char *metrics_content_type(enum metrics_format format);

/* What of all GPUs with all their slices held by pods with long names fits into. */
#define METRICS_BYTES_MAX (64U << 20)

struct metrics_request {
	const struct view *view;
	const struct metrics_counters *counters;
	const struct metrics_options *options;
	struct metrics_xids *xids;     /* NULL: no XIDs of a window */
	struct metrics_clocks *clocks; /* NULL: no clock events */
	enum metrics_format format;
};

/* Appends the text. ERR_LIMIT: it does not fit into @out; ERR_NOMEM. */
int metrics_render(struct buf *out, const struct metrics_request *rq,
	struct error *err) MUST_USE;

/* --- the table of our families, for docs and tests --- */

enum metrics_type {
	METRICS_GAUGE,
	METRICS_COUNTER,
	METRICS_INFO,    /* always 1; what it says is in the labels */
	METRICS_UNKNOWN, /* "untyped" in the text format */
};

struct metrics_family {
	const char *name;  /* without _total and _info, which the type adds */
	const char *unit;  /* with which the name ends; NULL: none */
	const char *help;  /* one sentence, no full stop */
	uint8_t type;      /* enum metrics_type */
	const char *extra; /* labels besides those of what it is about; NULL: none */
};

/* The families of ours in the order of the text; NULL behind the last. */
const struct metrics_family *metrics_family_at(size_t i);
