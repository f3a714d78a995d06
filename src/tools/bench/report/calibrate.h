/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The cost of sharing on this GPU, from a result: how much less several GPU-filling pods do together than one of
 * them alone. Input of the planner (docs/plan.md, calibration). Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

struct bench_cost {
	double sigma;    /* GPU time added per unit of GPU time; NaN: not measured */
	double half;     /* half width of the 95 % interval of .sigma; NaN: unknown */
	size_t rows;     /* number of rows, of which .sigma is the median */
	const char *row; /* scenario of the median row */
};

/* Mode: BENCH_TIME_SLICING or BENCH_FAIR_SHARE. ERR_NOMEM. */
int bench_cost_of(struct bench_cost *ret, const struct bench_result *r, enum bench_mode m,
	struct error *err) MUST_USE;
