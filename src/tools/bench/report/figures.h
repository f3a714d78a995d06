/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The figures of a row for tables and pages (docs/bench.md). Pure. Thread: any. */
#include "tools/bench/result/result.h"

struct bench_figures {
	struct estimate rate, mean, p50, p95,
		p99;     /* rate: units per second of all pods of the row; others: ns */
	double cv;       /* of the rate between repetitions */
	double slowdown; /* mean divided by the mean of one pod alone; NaN */
	double kept;     /* rate of all pods divided by the rate of one pod alone; NaN */
	double jain;     /* fairness of the rates of the row's pods, mean over repetitions */
	struct bench_gpu gpu;   /* mean over repetitions */
	double usd_per_million; /* per million units, if these pods pay for the whole GPU; NaN */
	uint64_t errors;
	const char *error; /* "" */
	size_t doubts;     /* disturbed repetitions */
	const char *doubt; /* the first disturbance; "" */
};

/* The row has at least one repetition. ERR_NOMEM. */
int bench_figures_make(struct bench_figures *ret, const struct bench_result *r,
	const struct bench_row *row, struct error *err) MUST_USE;
