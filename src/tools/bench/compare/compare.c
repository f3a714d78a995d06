/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/compare/compare.h"

#include "lib/base/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const compare_verdict_names[3] = {
	[COMPARE_PASS] = "pass",
	[COMPARE_FAIL] = "fail",
	[COMPARE_INCONCLUSIVE] = "inconclusive",
};

#define TOLERANCE 0.05

/* If the user names no limit. */
static const struct compare_limit compare_defaults[2] = {
	{ COMPARE_RATE, true, TOLERANCE },
	{ COMPARE_P99, true, TOLERANCE },
};

static const enum estimate_of estimate_of_measure[COMPARE_MEASURES] = {
	[COMPARE_RATE] = ESTIMATE_RATE,
	[COMPARE_MEAN] = ESTIMATE_MEAN,
	[COMPARE_P50] = ESTIMATE_P50,
	[COMPARE_P95] = ESTIMATE_P95,
	[COMPARE_P99] = ESTIMATE_P99,
	[COMPARE_SLOWDOWN] = ESTIMATE_MEAN,
};

/* --- matching rows --- */

static bool is_comparable_row(const struct bench_row *a, const struct bench_row *b,
	const struct compare_options *o)
{
	bool modes = o->mode_a == BENCH_MODES ? a->mode == b->mode
					      : a->mode == o->mode_a && b->mode == o->mode_b;
	/*
	 * With weights, one kind of pods has a row for each weight. Between different modes, weights do not count.
	 */
	bool weights = a->mode != b->mode || isnan(a->weight) || isnan(b->weight) ||
		       fabs(a->weight - b->weight) < 1e-9;

	return modes && weights && a->replicas == b->replicas &&
	       !strcmp(a->scenario, b->scenario) && !strcmp(a->workload, b->workload);
}

static const struct bench_row *same_row(const struct bench_row *a, const struct bench_result *b,
	const struct compare_options *o)
{
	for (size_t i = 0; i < b->n_rows; i++)
		if (b->rows[i].n && is_comparable_row(a, &b->rows[i], o))
			return &b->rows[i];
	return NULL;
}

static uint64_t count_row_errors(const struct bench_row *row)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < row->n; i++)
		sum += row->runs[i].errors;
	return sum;
}

/* --- one limit --- */

/* Returns 1 if the measure is unknown: the result has no measurement of one pod alone. */
static int estimate_row_measure(struct estimate *ret, enum compare_measure m,
	const struct bench_row *row, const struct bench_result *r, struct error *err)
{
	const struct bench_row *one =
		m == COMPARE_SLOWDOWN ? bench_row_find_exclusive(r, row->workload) : NULL;
	struct estimate base;

	if (m == COMPARE_SLOWDOWN && !one)
		return 1;
	if (bench_row_estimate(ret, row, estimate_of_measure[m], err) < 0)
		return -1;
	if (!one)
		return 0;
	if (bench_row_estimate(&base, one, ESTIMATE_MEAN, err) < 0)
		return -1;
	if (!(base.value > 0))
		return 1;
	*ret = estimate_ratio(&base, ret);
	return 0;
}

/* Verdict for an upper limit. */
static enum compare_verdict compare_interval_to_limit(struct interval i, double limit)
{
	if (!isfinite(i.low) || !isfinite(i.high))
		return COMPARE_INCONCLUSIVE;
	return i.high <= limit ? COMPARE_PASS
	       : i.low > limit ? COMPARE_FAIL
			       : COMPARE_INCONCLUSIVE;
}

/* A lower limit is an upper limit of the negated value. */
static struct interval negate_interval(struct interval i)
{
	return (struct interval){ -i.high, -i.low };
}

static enum compare_verdict decide_line_verdict(const struct compare_line *l)
{
	bool more = l->limit->measure == COMPARE_RATE;
	struct interval i = l->limit->relative ? l->change_interval : estimate_interval(&l->is);
	double limit = l->limit->value;

	if (l->limit->relative)
		limit = more ? 1 - limit : 1 + limit;
	return more ? compare_interval_to_limit(negate_interval(i), -limit)
		    : compare_interval_to_limit(i, limit);
}

static int make_compare_line(struct compare_line *l, const struct bench_result *a,
	const struct bench_result *b, struct error *err)
{
	int of_a = estimate_row_measure(&l->was, l->limit->measure, l->a, a, err);
	int of_b =
		of_a < 0 ? -1 : estimate_row_measure(&l->is, l->limit->measure, l->b, b, err);

	if (of_a < 0 || of_b < 0)
		return -1;
	l->verdict = COMPARE_INCONCLUSIVE;
	l->change = NAN;
	l->change_interval = (struct interval){ NAN, NAN };
	if (of_b)
		return 0;
	if (!of_a && l->was.value > 0) {
		l->change = l->is.value / l->was.value;
		l->change_interval = estimate_ratio_interval(&l->was, &l->is);
	}
	if (!*l->doubt)
		l->verdict = decide_line_verdict(l);
	return 0;
}

/* --- all rows --- */

static enum compare_verdict pick_worse_verdict(enum compare_verdict a, enum compare_verdict b)
{
	if (a == COMPARE_FAIL || b == COMPARE_FAIL)
		return COMPARE_FAIL;
	return a == COMPARE_INCONCLUSIVE || b == COMPARE_INCONCLUSIVE ? COMPARE_INCONCLUSIVE
								      : COMPARE_PASS;
}

static int add_compared_row(struct compare *c, const struct bench_row *a,
	const struct bench_row *b, const struct bench_result *of_a,
	const struct bench_result *of_b, const struct compare_options *o, struct error *err)
{
	const char *doubt;

	if (!bench_row_doubts(b, &doubt))
		(void)bench_row_doubts(a, &doubt);
	c->doubtful_rows += *doubt != '\0';
	if (count_row_errors(b) && !count_row_errors(a) && !*doubt) {
		c->failed_rows++;
		c->verdict = COMPARE_FAIL;
	}
	for (size_t k = 0; k < o->n_limits; k++) {
		struct compare_line *l = &c->lines[c->n];

		*l = (struct compare_line){ .a = a,
			.b = b,
			.limit = &o->limits[k],
			.doubt = doubt };
		if (make_compare_line(l, of_a, of_b, err) < 0)
			return -1;
		c->verdict = pick_worse_verdict(c->verdict, l->verdict);
		c->n++;
	}
	return 0;
}

/* Number of rows in @b without a counterpart in @a. */
static size_t rows_without(const struct bench_result *b, const struct bench_result *a,
	const struct compare_options *o)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n_rows; i++) {
		const struct bench_row *row = &b->rows[i];
		bool found = !row->n || (o->mode_b != BENCH_MODES && row->mode != o->mode_b);

		for (size_t k = 0; !found && k < a->n_rows; k++)
			found = a->rows[k].n && is_comparable_row(&a->rows[k], row, o);
		n += !found;
	}
	return n;
}

static int add_compared_rows(struct compare *c, const struct bench_result *a,
	const struct bench_result *b, const struct compare_options *o, struct error *err)
{
	size_t both = 0;

	for (size_t i = 0; i < a->n_rows; i++) {
		const struct bench_row *row = &a->rows[i];
		const struct bench_row *other = row->n ? same_row(row, b, o) : NULL;

		if (!other) {
			c->only_a +=
				row->n && (o->mode_a == BENCH_MODES || row->mode == o->mode_a);
			continue;
		}
		both++;
		if (add_compared_row(c, row, other, a, b, o, err) < 0)
			return -1;
	}
	if (!both)
		return error_set(err, ERR_INVALID,
			"the two results have no row in common: the same scenario, workload and "
			"replicas, in %s",
			o->mode_a == BENCH_MODES ? "the same mode"
						 : "the modes that were named");
	c->only_b = rows_without(b, a, o);
	if (c->only_a && o->mode_a == BENCH_MODES)
		c->verdict = pick_worse_verdict(c->verdict, COMPARE_INCONCLUSIVE);
	return 0;
}

const struct bench_row *compare_find_lost_row(const struct bench_result *a,
	const struct bench_result *b, const struct bench_row *from)
{
	const struct compare_options o = { .mode_a = BENCH_MODES, .mode_b = BENCH_MODES };

	for (size_t i = from ? (size_t)(from - a->rows) : 0; i < a->n_rows; i++)
		if (a->rows[i].n && !same_row(&a->rows[i], b, &o))
			return &a->rows[i];
	return NULL;
}

/* The known check of the same name and mode, or NULL. */
static const struct bench_isolation *known_check(const struct bench_result *r,
	const struct bench_isolation *like)
{
	for (size_t i = 0; i < r->n_checks; i++) {
		const struct bench_isolation *isolation = &r->checks[i];

		if (isolation->known && !strcmp(isolation->name, like->name) &&
			!strcmp(isolation->mode_name, like->mode_name))
			return isolation;
	}
	return NULL;
}

static bool has_check_passed(const struct bench_result *r, const struct bench_isolation *like)
{
	const struct bench_isolation *isolation = known_check(r, like);

	return isolation && isolation->passed;
}

const struct bench_isolation *compare_find_lost_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from)
{
	for (size_t i = from ? (size_t)(from - a->checks) : 0; i < a->n_checks; i++)
		if (a->checks[i].known && !known_check(b, &a->checks[i]))
			return &a->checks[i];
	return NULL;
}

const struct bench_isolation *compare_failed_check(const struct bench_result *a,
	const struct bench_result *b, const struct bench_isolation *from)
{
	for (size_t i = from ? (size_t)(from - b->checks) : 0; i < b->n_checks; i++)
		if (b->checks[i].known && !b->checks[i].passed &&
			has_check_passed(a, &b->checks[i]))
			return &b->checks[i];
	return NULL;
}

static void add_checks(struct compare *c, const struct bench_result *a,
	const struct bench_result *b)
{
	const struct bench_isolation *f = compare_failed_check(a, b, NULL);
	const struct bench_isolation *l = compare_find_lost_check(a, b, NULL);

	for (; f; f = compare_failed_check(a, b, f + 1))
		c->failed_checks++;
	for (; l; l = compare_find_lost_check(a, b, l + 1))
		c->lost_checks++;
	if (c->failed_checks)
		c->verdict = COMPARE_FAIL;
	if (c->lost_checks)
		c->verdict = pick_worse_verdict(c->verdict, COMPARE_INCONCLUSIVE);
}

int compare_make(struct compare *ret, const struct bench_result *a,
	const struct bench_result *b, const struct compare_options *o, struct error *err)
{
	struct compare_options all = *o;

	if (!all.n_limits) {
		all.limits = compare_defaults;
		all.n_limits = ARRAY_LEN(compare_defaults);
	}
	*ret = (struct compare){ .verdict = COMPARE_PASS };
	ret->lines = calloc(a->n_rows * all.n_limits + 1, sizeof(*ret->lines));
	if (!ret->lines)
		return error_nomem(err);
	if (add_compared_rows(ret, a, b, &all, err) < 0) {
		compare_fini(ret);
		return -1;
	}
	if (o->mode_a == BENCH_MODES)
		add_checks(ret, a, b);
	return 0;
}

void compare_fini(struct compare *c)
{
	free(c->lines);
	*c = (struct compare){ 0 };
}

/* --- limits --- */

const char *const compare_measure_names[COMPARE_MEASURES] = {
	[COMPARE_RATE] = "rate",
	[COMPARE_MEAN] = "mean",
	[COMPARE_P50] = "p50",
	[COMPARE_P95] = "p95",
	[COMPARE_P99] = "p99",
	[COMPARE_SLOWDOWN] = "slowdown",
};

/* @unit: factor from the number in the text to the unit of struct compare_limit. */
static const struct limit_word {
	const char *name;
	enum compare_measure measure;
	double unit;
} absolute_words[] = {
	{ "mean_ms", COMPARE_MEAN, 1e6 },
	{ "p50_ms", COMPARE_P50, 1e6 },
	{ "p95_ms", COMPARE_P95, 1e6 },
	{ "p99_ms", COMPARE_P99, 1e6 },
	{ "min_rate", COMPARE_RATE, 1 },
	{ "max_slowdown", COMPARE_SLOWDOWN, 1 },
};

static int not_a_limit(const char *text, struct error *err)
{
	return error_set(err, ERR_INVALID,
		"limit '%.60s': expected mean_ms, p50_ms, p95_ms, p99_ms, min_rate or max_slowdown with "
		"'=' and a number above 0, or rate, mean, p50, p95, p99 or slowdown with '=' and a "
		"percentage, as in p99_ms=20 or rate=5%%",
		text);
}

static bool parse_limit_value(double *ret, const char *from, size_t len)
{
	char number[32];

	if (!len || len >= sizeof(number))
		return false;
	memcpy(number, from, len);
	number[len] = '\0';
	return parse_double(number, ret) && *ret >= 0;
}

/* Whether the first @len bytes of @text equal @word. */
static bool is_limit_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(text, word, len);
}

int compare_limit_parse(struct compare_limit *ret, const char *text, struct error *err)
{
	const char *equals = strchr(text, '='), *value = equals ? equals + 1 : NULL;
	size_t len = value ? strlen(value) : 0, name = value ? (size_t)(equals - text) : 0;
	double v = 0;

	if (!len)
		return not_a_limit(text, err);
	if (value[len - 1] == '%') {
		for (unsigned int m = 0; m < COMPARE_MEASURES; m++)
			if (is_limit_word(text, name, compare_measure_names[m]) &&
				parse_limit_value(&v, value, len - 1)) {
				*ret = (struct compare_limit){ (enum compare_measure)m, true,
					v / 100 };
				return 0;
			}
		return not_a_limit(text, err);
	}
	for (size_t i = 0; i < ARRAY_LEN(absolute_words); i++)
		if (is_limit_word(text, name, absolute_words[i].name) &&
			parse_limit_value(&v, value, len) && v > 0) {
			*ret = (struct compare_limit){ absolute_words[i].measure, false,
				v * absolute_words[i].unit };
			return 0;
		}
	return not_a_limit(text, err);
}
