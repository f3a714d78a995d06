/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A measured value and its statistical error. A measurement consists of repetitions, and each repetition is
 * divided into blocks of time. So an effect that lasts longer than a block, such as a burst, does not count as
 * many independent times.
 *
 * The error has two parts:
 *
 *	1. The error within a repetition, by a bootstrap of its blocks.
 *	2. The error between repetitions, as far as repetitions differ by more than part 1 explains.
 *
 * Intervals are 95 % intervals by Student's t, with the degrees of freedom of both parts (Satterthwaite).
 *
 * Sources: B. Efron, R. Tibshirani, An Introduction to the Bootstrap, 1993; F. Satterthwaite, An Approximate
 * Distribution of Estimates of Variance Components, 1946; M. Abramowitz, I. Stegun, Handbook of Mathematical
 * Functions, 26.7.5. The same input gives the same estimate. Thread: any.
 */
#include "tools/bench/stats/hist.h"

enum estimate_of {
	ESTIMATE_RATE, /* units per second */
	ESTIMATE_MEAN, /* this and all below: ns */
	ESTIMATE_P50,
	ESTIMATE_P95,
	ESTIMATE_P99,
	ESTIMATES
};

struct estimate_block {
	double seconds;
	struct hist_packed times; /* of the units that ended in the block */
};

struct estimate_run {
	size_t n;
	const struct estimate_block *blocks;
};

struct estimate {
	double value;
	double error;   /* standard error */
	double freedom; /* degrees of freedom of .error; 0: unknown, as one repetition does not show how others differ */
};

/* Of @n > 0 repetitions. ERR_NOMEM. */
int estimate_make(struct estimate *ret, enum estimate_of what, const struct estimate_run *runs,
	size_t n, struct error *err) MUST_USE;

struct interval {
	double low, high;
};

/* Unbounded if .freedom is 0. */
struct interval estimate_interval(const struct estimate *e);

/* @b / @a, of two separate measurements. @a's value is above 0. */
struct estimate estimate_ratio(const struct estimate *a, const struct estimate *b);
/*
 * The 95 % interval of @b / @a. It is the interval of the ratio's logarithm, so both sides are equally wide.
 */
struct interval estimate_ratio_interval(const struct estimate *a, const struct estimate *b);

/* The 97.5 % quantile of Student's t with @freedom >= 1. */
double estimate_t(double freedom);

/* Fairness index of @v: 1 if all values are equal, 1/n if one value has everything (R. Jain et al., 1984); 0
 * without data. */
double estimate_jain(const double *v, size_t n);
/* Standard deviation divided by the mean. 0 for fewer than two values, or for a mean of 0. */
double estimate_cv(const double *v, size_t n);
