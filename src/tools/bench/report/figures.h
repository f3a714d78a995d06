/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A row of a result as figures for people: planner.md, section 9. Pure. Thread: any. */
#include "tools/bench/result/result.h"

struct bench_figures {
	struct estimate rate, mean, p50, p95,
		p99;            /* units per second of all pods of the row; ns */
	double cv;              /* of the rate from one repetition to the next */
	double slowdown;        /* mean by the mean of one alone; NaN */
	double kept;            /* rate of all pods by what one alone does; NaN */
	double jain;            /* of the rates of the row's pods, mean over repetitions */
	struct bench_gpu gpu;   /* mean over repetitions */
	double usd_per_million; /* units, if these pods pay for the whole GPU; NaN */
	uint64_t errors;
	const char *error; /* "" */
	size_t doubts;     /* repetitions that were disturbed */
	const char *doubt; /* by what; "" */
};

/* The row has at least one repetition. ERR_NOMEM. */
int bench_figures_make(struct bench_figures *ret, const struct bench_result *r,
	const struct bench_row *row, struct error *err) MUST_USE;
