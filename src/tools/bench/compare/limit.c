/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/compare/compare.h"

#include "lib/base/parse.h"

#include <string.h>

#define TOLERANCE 0.05

const char *const compare_measure_names[COMPARE_MEASURES] = {
	[COMPARE_RATE] = "rate",
	[COMPARE_MEAN] = "mean",
	[COMPARE_P50] = "p50",
	[COMPARE_P95] = "p95",
	[COMPARE_P99] = "p99",
	[COMPARE_SLOWDOWN] = "slowdown",
};

const struct compare_limit compare_defaults[2] = {
	{ COMPARE_RATE, true, TOLERANCE },
	{ COMPARE_P99, true, TOLERANCE },
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
