/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/header.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool is_header_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Whether the text is a "token" of RFC 9110. */
static bool is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char lower = (char)(text[i] | 0x20);

		if ((lower < 'a' || lower > 'z') && !is_header_digit(text[i]) &&
			(text[i] == '\0' || !strchr("!#$%&'*+-.^_`|~", text[i])))
			return false;
	}
	return len > 0;
}

static bool has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f)
			return true;
	return false;
}

static bool is_content_length(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!is_header_digit(text[i]))
			return false;
	return len > 0;
}

static bool is_header_named(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(text, word, len) == 0;
}

static const char *check_http_header(struct http_headers *h, const char *name, size_t name_len,
	const char *value, size_t value_len)
{
	if (!is_token(name, name_len))
		return "the name of a header has a character that no name may have\n";
	if (has_control(value, value_len))
		return "the value of a header has a control character\n";
	if (is_header_named(name, name_len, "Host") && ++h->hosts > 1)
		return "there is more than one Host header\n";
	if (is_header_named(name, name_len, "Transfer-Encoding"))
		h->encodings++;
	if (!is_header_named(name, name_len, "Content-Length"))
		return NULL;
	if (++h->lengths > 1)
		return "there is more than one Content-Length header\n";
	return is_content_length(value, value_len) ? NULL : "Content-Length is no number\n";
}

void http_headers_add(struct http_headers *h, const char *name, size_t name_len,
	const char *value, size_t value_len)
{
	const char *wrong =
		check_http_header(h, name, name_len, value ? value : "", value ? value_len : 0);

	if (!h->wrong)
		h->wrong = wrong;
}

const char *http_headers_wrong(const struct http_headers *h)
{
	if (!h->wrong && h->lengths && h->encodings)
		return "there are Content-Length and Transfer-Encoding\n";
	return h->wrong;
}
