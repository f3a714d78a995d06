/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a change passed: two results, row by row, against limits. A limit is kept if the whole interval of what was
 * measured keeps it, broken if the whole interval breaks it, and else nobody can tell: then more repetitions
 * would help. So it is where something disturbed one of the two (bench_row_doubts()). Pure. Thread: any.
 */
#include "tools/bench/result/result.h"

enum compare_measure {
	COMPARE_RATE, /* units per second of all pods of the row; more is better */
	COMPARE_MEAN, /* the others: less is better */
	COMPARE_P50,
	COMPARE_P95,
	COMPARE_P99,
	COMPARE_SLOWDOWN, /* mean by the mean of one pod alone in the same result */
	COMPARE_MEASURES
};
extern const char *const compare_measure_names[COMPARE_MEASURES];

/* Relative: @b may be worse than @a by this share. Else: what @b may be at most, of the rate at least; ns, units per
 * second, or a ratio. */
struct compare_limit {
	enum compare_measure measure;
	bool relative;
	double value;
};

/* What nobody asked for is judged by: throughput and p99, by 5 %. */
extern const struct compare_limit compare_defaults[2];

/*
 * "p99_ms=20", "min_rate=100", "max_slowdown=1.3"; "p99=5%", "rate=5%". The words are those of a plan's SLO.
 * ERR_INVALID says what is expected.
 */
int compare_limit_parse(struct compare_limit *ret, const char *text,
	struct error *err) MUST_USE;

enum compare_verdict { COMPARE_PASS, COMPARE_FAIL, COMPARE_INCONCLUSIVE };
extern const char *const compare_verdict_names[3]; /* "pass", "fail", "inconclusive" */

/* One limit for one row. */
struct compare_line {
	const struct bench_row *a, *b;
	const struct compare_limit *limit;
	struct estimate was, is;         /* of the measure: ns, units per second, a ratio */
	double change;                   /* is / was */
	struct interval change_interval; /* of that */
	enum compare_verdict verdict;
	const char *
		doubt; /* what disturbed one of the rows, so that .verdict is COMPARE_INCONCLUSIVE; "" */
};

struct compare_options {
	const struct compare_limit *limits; /* none: compare_defaults */
	size_t n_limits;
	/* BENCH_MODES: each row with that of the same mode; else rows of this mode of a with those of that mode of b. */
	enum bench_mode mode_a, mode_b;
};

struct compare {
	size_t n;
	struct compare_line *lines;
	/* Rows that the other has not, or not measured. Where no modes are named those of a make it COMPARE_INCONCLUSIVE: */
	size_t only_a, only_b;
	size_t doubtful_rows; /* pairs of rows of which one was disturbed */
	size_t failed_rows;   /* rows of b with errors where a has none: each is a failure */
	/* That passed in a and fail in b, a failure; that were known in a alone, COMPARE_INCONCLUSIVE. Not where modes are named. */
	size_t failed_checks, lost_checks;
	enum compare_verdict verdict;
};

/* The first check of @b from @from on that passed in @a and fails in @b; NULL: there is none. */
const struct bench_isolation *compare_failed_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from);

/* The first check of @a from @from on that was known there and is not in @b; NULL: there is none. */
const struct bench_isolation *compare_find_lost_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from);
/* The first row of @a from @from on that was measured and has none like it in the same mode of @b; NULL. */
const struct bench_row *compare_find_lost_row(const struct bench_result *a,
	const struct bench_result *b, const struct bench_row *from);

/* Both results and the limits must outlive *ret. ERR_INVALID: they have no row in common; ERR_NOMEM. */
int compare_make(struct compare *ret, const struct bench_result *a,
	const struct bench_result *b, const struct compare_options *o,
	struct error *err) MUST_USE;
void compare_fini(struct compare *c);
