/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares two results row by row against limits, and decides whether a change passed.
 *
 *	pass          the whole interval of the measured value keeps the limit
 *	fail          the whole interval breaks the limit
 *	inconclusive  all else; more repetitions can help. Also if something disturbed one of the two
 *	              measurements (bench_row_doubts())
 *
 * Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

enum compare_measure {
	COMPARE_RATE, /* units per second of all pods of the row; more is better */
	COMPARE_MEAN, /* this and all below: less is better */
	COMPARE_P50,
	COMPARE_P95,
	COMPARE_P99,
	COMPARE_SLOWDOWN, /* mean divided by the mean of one pod alone in the same result */
	COMPARE_MEASURES
};
/* The words of struct compare_limit texts and of the output: "rate", "p99". */
extern const char *const compare_measure_names[COMPARE_MEASURES];

/*
 * Relative: @b may be worse than @a by this share. Else: an upper limit of @b, or a lower limit for a rate. In ns,
 * units per second, or a ratio.
 */
struct compare_limit {
	enum compare_measure measure;
	bool relative;
	double value;
};

/*
 * Parses "p99_ms=20", "min_rate=100", "max_slowdown=1.3", "p99=5%", "rate=5%". The words are those of a plan's
 * SLO. ERR_INVALID names the expected form.
 */
int compare_limit_parse(struct compare_limit *ret, const char *text,
	struct error *err) MUST_USE;

enum compare_verdict { COMPARE_PASS, COMPARE_FAIL, COMPARE_INCONCLUSIVE };
extern const char *const compare_verdict_names[3]; /* "pass", "fail", "inconclusive" */

/* One limit applied to one row. */
struct compare_line {
	const struct bench_row *a, *b;
	const struct compare_limit *limit;
	struct estimate was, is;         /* the measure: ns, units per second, or a ratio */
	double change;                   /* .is / .was */
	struct interval change_interval; /* of .change */
	enum compare_verdict verdict;
	/* What disturbed one of the rows; .verdict is then COMPARE_INCONCLUSIVE. "": no disturbance. */
	const char *doubt;
};

struct compare_options {
	const struct compare_limit *limits; /* none: throughput and p99, 5 % each */
	size_t n_limits;
	/* BENCH_MODES: compares rows of the same mode. Else: compares rows of mode_a in a with rows of
	 * mode_b in b. */
	enum bench_mode mode_a, mode_b;
};

struct compare {
	size_t n;
	struct compare_line *lines;
	/* Measured rows without a measured counterpart. Without named modes, .only_a makes .verdict
	 * COMPARE_INCONCLUSIVE. */
	size_t only_a, only_b;
	size_t doubtful_rows; /* pairs with a disturbed row */
	size_t failed_rows;   /* rows of b with errors where a has none; each is a failure */
	/*
	 * Checks that passed in a and fail in b: a failure. Checks known only in a: COMPARE_INCONCLUSIVE. Both are
	 * 0 if modes are named.
	 */
	size_t failed_checks, lost_checks;
	enum compare_verdict verdict;
};

/* The first check of @b, from @from on, that passed in @a and fails in @b. NULL: none. */
const struct bench_isolation *compare_failed_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from);

/* The first check of @a, from @from on, that is known in @a and not in @b. NULL: none. */
const struct bench_isolation *compare_find_lost_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from);
/* The first measured row of @a, from @from on, that has no counterpart in the same mode of @b. NULL: none. */
const struct bench_row *compare_find_lost_row(const struct bench_result *a,
	const struct bench_result *b, const struct bench_row *from);

/* Both results and the limits must outlive *@ret. ERR_INVALID: no row in common. ERR_NOMEM. */
int compare_make(struct compare *ret, const struct bench_result *a,
	const struct bench_result *b, const struct compare_options *o,
	struct error *err) MUST_USE;
void compare_fini(struct compare *c);
