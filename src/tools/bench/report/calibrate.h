/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What sharing costs on this GPU, from a result: what pods that keep the GPU busy alone do less together than one of them
 * alone. For the planner (docs/plan.md, calibration). Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

struct bench_cost {
	double sigma;    /* GPU time that is added to each unit; NaN: not measured */
	double half;     /* of the 95 % interval, in the same unit; NaN: not known */
	size_t rows;     /* that it is the middle of */
	const char *row; /* the scenario of the middle one */
};

/* Of BENCH_TIME_SLICING or BENCH_FAIR_SHARE. ERR_NOMEM. */
int bench_cost_of(struct bench_cost *ret, const struct bench_result *r, enum bench_mode m,
	struct error *err) MUST_USE;
