/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When units are launched, and how a unit's time is measured.
 *
 *	FLOW_PIPELINE  .depth units are in flight at any time. A unit's time is from the end of its predecessor
 *	               to its own end.
 *	FLOW_CLOSED    One unit after another, with a pause between. A unit's time is from its launch to its
 *	               end.
 *	others         Requests arrive independent of earlier requests. A unit's time begins at its arrival, and
 *	               so includes the wait for earlier requests.
 *
 * A program that must kill itself does so in the middle of a burst of units. With a fair-share scheduler, that is
 * within a quantum of its own slice. The program prints {"dies_ns": ...} first. Thread: one.
 */
#include "tools/bench/stats/hist.h"
#include "tools/bench/load/work-unit.h"

#include <stdatomic.h>

#define FLOW_DEPTH_MAX    1024
#define FLOW_ARRIVALS_MAX 1000000

enum flow_kind { FLOW_PIPELINE, FLOW_CLOSED, FLOW_PERIODIC, FLOW_POISSON, FLOW_LIST };

struct flow_arrival {
	uint64_t at_ns; /* since the beginning */
	uint32_t units;
};

struct flow_plan {
	enum flow_kind kind;
	uint32_t depth;     /* FLOW_PIPELINE */
	uint64_t pause_ns;  /* FLOW_CLOSED */
	uint64_t period_ns; /* FLOW_PERIODIC; FLOW_POISSON: its mean */
	uint64_t seed;      /* all but FLOW_PIPELINE and FLOW_CLOSED */
	uint64_t die_ns; /* FLOW_PIPELINE: kills itself so long after the beginning; 0: never */
	size_t n;        /* FLOW_LIST: in order of time; repeats after the last entry */
	const struct flow_arrival *list;
};

extern atomic_bool flow_stop; /* any thread or signal handler can set it to end the flow */

/*
 * Begins at @begin_ns of the monotonic clock and runs until the end of @c, or until flow_stop. Ends the program if
 * the GPU fails.
 */
void flow_run(const struct flow_plan *p, const struct work_unit *u, struct count *c,
	uint64_t begin_ns);
