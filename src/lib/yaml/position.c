/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/yaml/position.h"

#include <stdbool.h>
#include <string.h>

struct fy_token *yaml_event_token(struct fy_event *e)
{
	struct fy_token *token = fy_event_get_token(e);
	const struct fy_mark *from, *to;

	if (!token)
		return NULL;
	if (e->type != FYET_DOCUMENT_START &&
		(e->type != FYET_SCALAR || fy_token_scalar_style(token) != FYSS_PLAIN))
		return token;
	from = fy_token_start_mark(token);
	to = fy_token_end_mark(token);
	return from && to && from->input_pos == to->input_pos ? NULL : token;
}

/* Start of the character before the one at @at. */
static size_t step_back(const char *text, size_t at)
{
	while (at && ((unsigned char)text[--at] & 0xc0) == 0x80)
		;
	return at;
}

/* Whether a control character or space outside ASCII is at @at. None may follow a name. */
static bool breaks_name(const char *text, size_t len, size_t at)
{
	const unsigned char *c = (const unsigned char *)text + at;
	size_t left = len - at;

	if (left >= 2 && c[0] == 0xc2)
		return c[1] <= 0xa0; /* U+0080 to U+00A0 */
	if (left < 3 || (c[0] != 0xe2 && c[0] != 0xe3))
		return false;
	if (c[0] == 0xe3) /* U+3000 */
		return c[1] == 0x80 && c[2] == 0x80;
	/* U+2000 to U+200A, U+202F, U+205F */
	return (c[1] == 0x80 && (c[2] <= 0x8a || c[2] == 0xaf)) ||
	       (c[1] == 0x81 && c[2] == 0x9f);
}

/* Whether the name of an anchor or alias ends at @at and has @n characters, or more if @or_more. */
static bool follows_name(const char *text, size_t len, size_t at, size_t n, bool or_more)
{
	size_t done = 0;

	while (at && (done <= n || or_more)) {
		at = step_back(text, at);
		/* A name may contain '*' and '&'. */
		if ((text[at] == '*' || text[at] == '&') && done &&
			(done == n || (done > n && or_more)))
			return true;
		if (strchr(" \t\r\n,[]{}", text[at]) || breaks_name(text, len, at))
			return false;
		done++;
	}
	return false;
}

/*
 * Finds the character that must not follow the name of an anchor or alias. libfyaml 0.8 points at it. libfyaml
 * 0.7 points behind it, by as many characters as the name has, but never past the end of the text.
 */
static size_t find_name_break(const char *text, size_t len, size_t reported_at)
{
	size_t at = reported_at;

	for (size_t n = 0;; n++) {
		if (breaks_name(text, len, at) &&
			follows_name(text, len, at, n, n == 0 || reported_at == len))
			return at;
		if (!at)
			return reported_at;
		at = step_back(text, at);
	}
}

void yaml_error_position(const char *text, size_t len, const struct fy_diag_error *e,
	uint32_t *ret_line, uint32_t *ret_column)
{
	const struct fy_mark *mark = e->fyt ? fy_token_start_mark(e->fyt) : NULL;
	size_t at, reported_at = mark ? mark->input_pos : len + 1;

	*ret_line = e->line > 0 ? (uint32_t)e->line : 1;
	*ret_column = e->column > 0 ? (uint32_t)e->column : 1;
	if (reported_at > len || !e->msg || strncmp(e->msg, "illegal unicode ", 16) != 0)
		return;
	at = find_name_break(text, len, reported_at);
	if (at == reported_at)
		return;
	for (size_t i = at; i < reported_at; i++)
		*ret_line -= text[i] == '\n';
	*ret_column = 1;
	for (; at && text[at - 1] != '\n'; at = step_back(text, at))
		++*ret_column;
}
