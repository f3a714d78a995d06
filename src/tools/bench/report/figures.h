/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The figures of a result for tables and pages (docs/bench.md): those of a row, numbers as text, and the cost of
 * sharing. Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

struct bench_figures {
	/* .rate: units per second of all pods of the row; the others: ns. */
	struct estimate rate, mean, p50, p95, p99;
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

/* --- numbers as text --- */

/* A terminal and a page show a number with the same text. */

#define BENCH_NUMBER_MAX 32

/* ns as "378 us" or "1.46 ms"; "-" unless above 0 and finite. @buf has BENCH_NUMBER_MAX bytes. Returns @buf. */
const char *bench_print_ns(double ns, char *buf);

/* The figure of an isolation test, with the precision of its verdict: "98.7", "412", "1000.4". "-" unless
 * finite. */
const char *bench_print_figure(double v, char *buf);

/* About three digits: "9.87", "98.7", "987". "-" unless finite. @buf as above. Returns @buf. */
const char *bench_print_number(double v, char *buf);

/* --- cost of sharing --- */

/*
 * The cost of sharing on this GPU, from a result: how much less several GPU-filling pods do together than one of
 * them alone. Input of the planner (docs/plan.md, calibration).
 */

struct bench_cost {
	double sigma;    /* GPU time added per unit of GPU time; NaN: not measured */
	double half;     /* half width of the 95 % interval of .sigma; NaN: unknown */
	size_t rows;     /* number of rows, of which .sigma is the median */
	const char *row; /* scenario of the median row */
};

/* Mode: BENCH_TIME_SLICING or BENCH_FAIR_SHARE. ERR_NOMEM. */
int bench_cost_of(struct bench_cost *ret, const struct bench_result *r, enum bench_mode m,
	struct error *err) MUST_USE;
