/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define QUANTITY_MAX 64 /* digits of a quantity */

bool parse_u64(const char *text, uint64_t *ret)
{
	uint64_t v = 0;

	if (!*text)
		return false;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return false;
		if (__builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return false;
	}
	*ret = v;
	return true;
}

bool parse_u32(const char *text, uint32_t *ret)
{
	uint64_t v;

	if (!parse_u64(text, &v) || v > UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

bool parse_i64(const char *text, int64_t *ret)
{
	bool minus = *text == '-';
	uint64_t v;

	if (*text == '-' || *text == '+')
		text++;
	if (!parse_u64(text, &v) || v > (uint64_t)INT64_MAX + minus)
		return false;
	*ret = minus ? (int64_t)(0 - v) : (int64_t)v;
	return true;
}

bool parse_double(const char *text, double *ret)
{
	char *end = NULL;
	double v;

	/* strtod() would also accept blanks, "inf", "nan" and hexadecimal. */
	if (!*text || text[strspn(text, "0123456789.eE+-")] != '\0')
		return false;
	errno = 0;
	v = strtod(text, &end);
	if (errno || *end || end == text || !isfinite(v))
		return false;
	*ret = v;
	return true;
}

bool parse_bool(const char *text, bool *ret)
{
	static const char *const words[2][6] = {
		{ "0", "f", "F", "FALSE", "false", "False" },
		{ "1", "t", "T", "TRUE", "true", "True" },
	};

	for (int v = 0; v < 2; v++) {
		for (int i = 0; i < 6; i++) {
			if (!strcmp(text, words[v][i])) {
				*ret = v == 1;
				return true;
			}
		}
	}
	return false;
}

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	/* Longer units first, since "m" is a prefix of "ms". */
	{ "ns", 1 },
	{ "us", 1000 },
	{ "\xc2\xb5s", 1000 }, /* U+00B5 micro sign */
	{ "\xce\xbcs", 1000 }, /* U+03BC Greek mu */
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", UINT64_C(60000000000) },
	{ "h", UINT64_C(3600000000000) },
};

static const struct unit *find_duration_unit(const char *text)
{
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strncmp(text, units[i].name, strlen(units[i].name)))
			return &units[i];
	}
	return NULL;
}

/* Reads "12", "1.5", ".5", "1." and moves *text behind it. Ignores fraction digits past 18. */
static bool parse_decimal_number(const char **text, uint64_t *whole, uint64_t *frac,
	uint64_t *scale)
{
	const char *p = *text;
	bool digits = false;

	*whole = 0;
	*frac = 0;
	*scale = 1;
	for (; isdigit((unsigned char)*p); p++, digits = true) {
		if (__builtin_mul_overflow(*whole, 10, whole) ||
			__builtin_add_overflow(*whole, (uint64_t)(*p - '0'), whole))
			return false;
	}
	if (*p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, digits = true) {
			if (*scale >= UINT64_C(1000000000000000000))
				continue;
			*frac = *frac * 10 + (uint64_t)(*p - '0');
			*scale *= 10;
		}
	}
	*text = p;
	return digits;
}

bool parse_duration(const char *text, int64_t *ret_ns)
{
	bool minus = *text == '-';
	uint64_t sum = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (!strcmp(text, "0")) {
		*ret_ns = 0;
		return true;
	}
	if (!*text)
		return false;
	while (*text) {
		uint64_t whole, frac, scale;
		const struct unit *u;

		if (!parse_decimal_number(&text, &whole, &frac, &scale))
			return false;
		u = find_duration_unit(text);
		if (!u || __builtin_mul_overflow(whole, u->ns, &whole))
			return false;
		text += strlen(u->name);
		frac = (uint64_t)((double)frac * ((double)u->ns / (double)scale));
		if (__builtin_add_overflow(whole, frac, &whole) ||
			__builtin_add_overflow(sum, whole, &sum) || sum > INT64_MAX)
			return false;
	}
	*ret_ns = minus ? -(int64_t)sum : (int64_t)sum;
	return true;
}

/* Suffixes of Kubernetes' quantities. */
static const struct {
	const char *suffix;
	uint64_t factor;
} multiples[] = {
	{ "", 1 },
	{ "k", UINT64_C(1000) },
	{ "M", UINT64_C(1000000) },
	{ "G", UINT64_C(1000000000) },
	{ "T", UINT64_C(1000000000000) },
	{ "P", UINT64_C(1000000000000000) },
	{ "E", UINT64_C(1000000000000000000) },
	{ "Ki", UINT64_C(1) << 10 },
	{ "Mi", UINT64_C(1) << 20 },
	{ "Gi", UINT64_C(1) << 30 },
	{ "Ti", UINT64_C(1) << 40 },
	{ "Pi", UINT64_C(1) << 50 },
	{ "Ei", UINT64_C(1) << 60 },
};

/* 0: no such suffix. */
static uint64_t find_suffix_factor(const char *suffix)
{
	for (size_t i = 0; i < sizeof(multiples) / sizeof(multiples[0]); i++)
		if (!strcmp(suffix, multiples[i].suffix))
			return multiples[i].factor;
	return 0;
}

bool parse_bytes(const char *text, uint64_t *ret_bytes)
{
	uint64_t whole, frac, scale, part, factor;

	if (!parse_decimal_number(&text, &whole, &frac, &scale))
		return false;
	factor = find_suffix_factor(text);
	if (!factor || __builtin_mul_overflow(whole, factor, &whole) ||
		__builtin_mul_overflow(frac, factor, &part) || part % scale ||
		__builtin_add_overflow(whole, part / scale, &whole))
		return false;
	*ret_bytes = whole;
	return true;
}

bool parse_quantity(const char *text, double *ret)
{
	static const struct {
		const char *suffix;
		double factor;
	} parts[] = { { "m", 1e-3 }, { "u", 1e-6 }, { "n", 1e-9 } };
	size_t len = strspn(text, "0123456789.");
	char number[QUANTITY_MAX];

	/* "1e3" and "1E3" are exponents, "1E" is not. */
	if (len && strchr("eE", text[len]) && strpbrk(text + len, "0123456789"))
		return parse_double(text, ret) && *ret >= 0;
	if (!len || len >= sizeof(number))
		return false;
	memcpy(number, text, len);
	number[len] = '\0';
	if (!parse_double(number, ret))
		return false;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(text + len, parts[i].suffix) != 0)
			continue;
		*ret *= parts[i].factor;
		return true;
	}
	*ret *= (double)find_suffix_factor(text + len);
	return find_suffix_factor(text + len) != 0;
}
