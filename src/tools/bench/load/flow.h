/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When units are launched. Thread: one.
 *
 * FLOW_PIPELINE: so many are in flight at any time; a unit's time is from the end of the one before it to its own.
 * FLOW_CLOSED: one after the other, each awaited, with a pause between; its time is from its launch to its end.
 * One that is to die does so in the middle of a burst of units: where those who share the GPU take turns, in its own.
 * It prints {"dies_ns": ...} first.
 * The others are of an open world: requests arrive when they do, and one's time begins then, so it has the wait for
 * those before it.
 */
#include "tools/bench/stats/count.h"
#include "tools/bench/load/work-unit.h"

#include <stdatomic.h>

#define FLOW_DEPTH_MAX    1024
#define FLOW_ARRIVALS_MAX 1000000

enum flow_kind { FLOW_PIPELINE, FLOW_CLOSED, FLOW_PERIODIC, FLOW_POISSON, FLOW_LIST };

struct flow_arrival {
	uint64_t at_ns; /* from the beginning */
	uint32_t units;
};

struct flow_plan {
	enum flow_kind kind;
	uint32_t depth;     /* FLOW_PIPELINE */
	uint64_t pause_ns;  /* FLOW_CLOSED */
	uint64_t period_ns; /* FLOW_PERIODIC, FLOW_POISSON: the mean of it */
	uint64_t seed;      /* FLOW_POISSON */
	uint64_t die_ns; /* FLOW_PIPELINE: from the beginning, when it kills itself; 0: never */
	size_t n;        /* FLOW_LIST: in order of time; begins anew after the last one */
	const struct flow_arrival *list;
};

extern atomic_bool flow_stop; /* set by who wants it to end */

/* Begins at @begin_ns of the monotonic clock and goes on until the end of @c. Ends the program where the GPU fails. */
void flow_run(const struct flow_plan *p, const struct work_unit *u, struct count *c,
	uint64_t begin_ns);
