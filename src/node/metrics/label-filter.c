/* SPDX-License-Identifier: Apache-2.0 */
#include "node/metrics/label-filter.h"

#include "lib/base/buf.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct metrics_label_filter {
	bool all;
	size_t n;
	regex_t patterns[METRICS_LABEL_PATTERNS_MAX];
};

/* --- from Go's expressions to POSIX's --- */

static const struct {
	char letter;
	const char *outside, *inside; /* of brackets; NULL: not possible there */
} classes[] = {
	{ 'A', "^", NULL },
	{ 'B', "\\B", NULL },
	{ 'D', "[^0-9]", NULL },
	{ 'S', "[^[:space:]]", NULL },
	{ 'W', "[^[:alnum:]_]", NULL },
	{ 'b', "\\b", NULL },
	{ 'd', "[0-9]", "0-9" },
	{ 's', "[[:space:]]", "[:space:]" },
	{ 'w', "[[:alnum:]_]", "[:alnum:]_" },
	{ 'z', "$", NULL },
};

/* Appends the character behind a backslash; false: POSIX has no equivalent. */
static bool append_escaped_char(struct buf *to, char c, bool inside)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (classes[i].letter == c) {
			const char *text = inside ? classes[i].inside : classes[i].outside;

			buf_puts(to, text ? text : "");
			return text;
		}
	if (!ispunct((unsigned char)c))
		return false;
	if (inside && strchr("[]^-", c))
		buf_printf(to, "[.%c.]", c);
	else if (!inside && strchr(".[]{}()*+?^$|\\", c))
		buf_printf(to, "\\%c", c);
	else
		buf_add(to, &c, 1);
	return true;
}

/* From behind '[' to behind its ']'; NULL: no ']', or no equivalent. */
static const char *append_bracket(struct buf *to, const char *p)
{
	const char *end;

	buf_puts(to, "[");
	if (*p == '^')
		buf_add(to, p++, 1);
	if (*p == ']')
		buf_add(to, p++, 1);
	while (*p && *p != ']') {
		if (*p == '\\') {
			if (!append_escaped_char(to, p[1], true))
				return NULL;
			p += 2;
		} else if (*p == '[' && p[1] == ':' && (end = strstr(p + 2, ":]"))) {
			buf_add(to, p, (size_t)(end + 2 - p));
			p = end + 2;
		} else if (*p == '[') {
			buf_puts(to, "[.[.]");
			p++;
		} else {
			buf_add(to, p++, 1);
		}
	}
	buf_puts(to, "]");
	return *p ? p + 1 : NULL;
}

/* From '(': groups of all kinds become plain groups. NULL: flags. */
static const char *append_group(struct buf *to, const char *p)
{
	buf_puts(to, "(");
	if (p[1] != '?')
		return p + 1;
	if (p[2] == ':')
		return p + 3;
	p += p[2] == 'P' ? 3 : 2;
	p = *p == '<' ? strchr(p, '>') : NULL;
	return p ? p + 1 : NULL;
}

/* {n}, {n,} and {n,m} stay; any other brace is literal. */
static const char *append_brace(struct buf *to, const char *p)
{
	size_t n = 1 + strspn(p + 1, "0123456789");

	if (n > 1 && p[n] == ',')
		n += 1 + strspn(p + n + 1, "0123456789");
	if (n == 1 || p[n] != '}') {
		buf_puts(to, "\\{");
		return p + 1;
	}
	buf_add(to, p, n + 1);
	return p + n + 1;
}

static bool is_repetition(char c)
{
	return c == '*' || c == '+' || c == '?' || c == '}';
}

/* One step; NULL: no equivalent. */
static const char *append_next_piece(struct buf *to, const char *p)
{
	const char *from = p;

	switch (*p) {
	case '\\':
		return append_escaped_char(to, p[1], false) ? p + 2 : NULL;
	case '[':
		return append_bracket(to, p + 1);
	case '(':
		return append_group(to, p);
	case '{':
		p = append_brace(to, p);
		break;
	default:
		buf_add(to, p++, 1);
		break;
	}
	/* Lazy or greedy makes no difference to whether a key matches. */
	if (is_repetition(p[-1]) && p > from && *p == '?' && *from != '}')
		p++;
	return p;
}

static bool translate_label_pattern(struct buf *to, const char *p, int *ret_flags)
{
	*ret_flags = REG_EXTENDED | REG_NOSUB;
	if (!strncmp(p, "(?i)", 4)) {
		*ret_flags |= REG_ICASE;
		p += 4;
	}
	while (p && *p)
		p = append_next_piece(to, p);
	return p && buf_ok(to);
}

static bool compile_label_pattern(regex_t *ret, const char *pattern)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(8 * METRICS_LABEL_PATTERN_MAX);
	int flags;

	return strlen(pattern) <= METRICS_LABEL_PATTERN_MAX &&
	       translate_label_pattern(&text, pattern, &flags) &&
	       regcomp(ret, buf_str(&text), flags) == 0;
}

/* --- the filter --- */

static int warn_label_pattern(struct strv *warnings, const char *pattern, struct error *err)
{
	char text[300];

	if (!warnings)
		return 0;
	(void)snprintf(text, sizeof(text),
		"the pod label pattern '%.150s' is not understood, and matches nothing",
		pattern);
	return strv_add(warnings, text, err);
}

int metrics_label_filter_new(struct metrics_label_filter **ret, const struct strv *patterns,
	struct strv *warnings, struct error *err)
{
	CLEANUP(metrics_label_filter_freep)
	struct metrics_label_filter *f = calloc(1, sizeof(*f));

	if (!f)
		return error_nomem(err);
	f->all = true;
	for (size_t i = 0; i < patterns->n; i++) {
		const char *pattern = patterns->v[i];

		if (!*pattern)
			continue;
		f->all = false;
		if (f->n < METRICS_LABEL_PATTERNS_MAX &&
			compile_label_pattern(&f->patterns[f->n], pattern))
			f->n++;
		else if (warn_label_pattern(warnings, pattern, err) < 0)
			return -1;
	}
	*ret = STEAL_PTR(f);
	return 0;
}

struct metrics_label_filter *metrics_label_filter_free(struct metrics_label_filter *f)
{
	if (!f)
		return NULL;
	for (size_t i = 0; i < f->n; i++)
		regfree(&f->patterns[i]);
	free(f);
	return NULL;
}

bool metrics_label_filter_has(const struct metrics_label_filter *f, const char *key)
{
	for (size_t i = 0; i < f->n; i++)
		if (regexec(&f->patterns[i], key, 0, NULL, 0) == 0)
			return true;
	return f->all;
}

void metrics_label_name(char *to, size_t cap, const char *key)
{
	size_t n = 0;

	if (isdigit((unsigned char)*key) && cap > 1)
		to[n++] = '_';
	for (; *key && n + 1 < cap; key++)
		to[n++] = (char)(isalnum((unsigned char)*key) ? *key : '_');
	to[n] = '\0';
}
