/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What was measured, and how sure that is. A measurement is some repetitions, each of them cut into blocks of time;
 * so what holds for longer than a block, as a burst does, is not taken for many independent times.
 *
 * The error has two parts: within a repetition, by a bootstrap of its blocks; and from one to the next, as far as
 * they differ by more than that explains. Intervals are of 95 %, by Student's t with the degrees of freedom of
 * both (Satterthwaite).
 *
 * Sources: B. Efron, R. Tibshirani, An Introduction to the Bootstrap, 1993; F. Satterthwaite, An Approximate
 * Distribution of Estimates of Variance Components, 1946; M. Abramowitz, I. Stegun, Handbook of Mathematical
 * Functions, 26.7.5. The same input gives the same estimate. Thread: any.
 */
#include "tools/bench/stats/hist.h"

enum estimate_of {
	ESTIMATE_RATE, /* units per second */
	ESTIMATE_MEAN, /* the others in ns */
	ESTIMATE_P50,
	ESTIMATE_P95,
	ESTIMATE_P99,
	ESTIMATES
};

struct estimate_block {
	double seconds;
	struct hist_packed times; /* of the units that ended in it */
};

struct estimate_run {
	size_t n;
	const struct estimate_block *blocks;
};

struct estimate {
	double value;
	double error; /* standard error */
	double freedom; /* its degrees of freedom; 0: not known, as one repetition says nothing of others */
};

/* Of @n > 0 repetitions. ERR_NOMEM. */
int estimate_make(struct estimate *ret, enum estimate_of what, const struct estimate_run *runs,
	size_t n, struct error *err) MUST_USE;

struct interval {
	double low, high;
};

/* Without bounds if .freedom is 0. */
struct interval estimate_interval(const struct estimate *e);

/* @b / @a, of two that were measured apart; @a's value is above 0. */
struct estimate estimate_ratio(const struct estimate *a, const struct estimate *b);
/* The same as an interval: of the ratio's logarithm, so that it is as wide to both sides. */
struct interval estimate_ratio_interval(const struct estimate *a, const struct estimate *b);

/* What 97.5 % of Student's t with @freedom >= 1 are not above. */
double estimate_t(double freedom);

/* How evenly @v is spread: 1 if all are equal, 1/n if one has all (R. Jain et al., 1984); 0 of nothing. */
double estimate_jain(const double *v, size_t n);
/* Standard deviation by mean; 0 of less than two, or of mean 0. */
double estimate_cv(const double *v, size_t n);
