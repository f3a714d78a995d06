/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the type of a plain scalar, and reads integers (yaml.h, "Semantics"). */
#include "lib/yaml/yaml.h"

#include "lib/base/parse.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Resolution table of go-yaml v2, which NVIDIA's loader uses: YAML 1.1, with the words in these spellings
 * only. Source: https://github.com/go-yaml/yaml/blob/v2.4.0/resolve.go */
static const struct {
	const char *text;
	enum yaml_type type;
	bool b;
} words[] = {
	{ "", YAML_NULL, false },
	{ "~", YAML_NULL, false },
	{ "null", YAML_NULL, false },
	{ "Null", YAML_NULL, false },
	{ "NULL", YAML_NULL, false },
	{ "y", YAML_BOOL, true },
	{ "Y", YAML_BOOL, true },
	{ "yes", YAML_BOOL, true },
	{ "Yes", YAML_BOOL, true },
	{ "YES", YAML_BOOL, true },
	{ "on", YAML_BOOL, true },
	{ "On", YAML_BOOL, true },
	{ "ON", YAML_BOOL, true },
	{ "true", YAML_BOOL, true },
	{ "True", YAML_BOOL, true },
	{ "TRUE", YAML_BOOL, true },
	{ "n", YAML_BOOL, false },
	{ "N", YAML_BOOL, false },
	{ "no", YAML_BOOL, false },
	{ "No", YAML_BOOL, false },
	{ "NO", YAML_BOOL, false },
	{ "off", YAML_BOOL, false },
	{ "Off", YAML_BOOL, false },
	{ "OFF", YAML_BOOL, false },
	{ "false", YAML_BOOL, false },
	{ "False", YAML_BOOL, false },
	{ "FALSE", YAML_BOOL, false },
};

#define NUMBER_MAX 64

/* "0x1f", "0b101", "0o17" and "017", with an optional sign before. */
static bool based_integer(const char *text, int64_t *ret)
{
	bool minus = *text == '-';
	unsigned base = 8;
	uint64_t v = 0;

	if (*text == '-' || *text == '+')
		text++;
	if (text[0] != '0' || !text[1])
		return false;
	text++;
	if (*text == 'x' || *text == 'X')
		base = 16;
	else if (*text == 'b' || *text == 'B')
		base = 2;
	if (base != 8 || *text == 'o' || *text == 'O')
		text++;
	if (!*text)
		return false;
	for (; *text; text++) {
		static const char digits[] = "0123456789abcdef";
		const char *d = strchr(digits, *text | 0x20);

		if (!d || (unsigned)(d - digits) >= base ||
			__builtin_mul_overflow(v, base, &v) ||
			__builtin_add_overflow(v, (uint64_t)(d - digits), &v))
			return false;
	}
	if (v > INT64_MAX)
		return false;
	*ret = minus ? -(int64_t)v : (int64_t)v;
	return true;
}

static bool parse_number_scalar(struct yaml_node *n)
{
	char text[NUMBER_MAX];
	size_t len = 0;

	if (!n->len || n->len >= sizeof(text) || !strchr("+-.0123456789", n->text[0]))
		return false;
	for (size_t i = 0; i < n->len; i++) {
		if (n->text[i] != '_')
			text[len++] = n->text[i];
	}
	text[len] = '\0';
	if (!based_integer(text, &n->i) && !parse_i64(text, &n->i)) {
		if (!parse_double(text, &n->f))
			return false;
		n->type = YAML_FLOAT;
		return true;
	}
	n->type = YAML_INT;
	n->f = (double)n->i;
	return true;
}

void yaml_resolve(struct yaml_node *n)
{
	n->type = YAML_STR;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!strcmp(n->text, words[i].text)) {
			n->type = words[i].type;
			n->b = words[i].b;
			return;
		}
	}
	(void)parse_number_scalar(n);
}

const char *yaml_type_name(enum yaml_type t)
{
	static const char *const names[] = {
		[YAML_NULL] = "null",
		[YAML_BOOL] = "bool",
		[YAML_INT] = "number",
		[YAML_FLOAT] = "number",
		[YAML_STR] = "string",
		[YAML_LIST] = "array",
		[YAML_OBJECT] = "object",
	};

	return names[t];
}

bool yaml_integer(const struct yaml_node *n, int64_t *ret)
{
	if (n->type == YAML_FLOAT && n->f >= -9e15 && n->f <= 9e15 && n->f == trunc(n->f)) {
		*ret = (int64_t)n->f;
		return true;
	}
	if (n->type != YAML_INT)
		return false;
	*ret = n->i;
	return true;
}
