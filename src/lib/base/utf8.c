/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/utf8.h"

#include <string.h>

/* Length of the character at @s, where @left bytes remain; 0: it is invalid. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
	size_t n = *s < 0x80   ? 1
		   : *s < 0xc2 ? 0
		   : *s < 0xe0 ? 2
		   : *s < 0xf0 ? 3
		   : *s < 0xf5 ? 4
			       : 0;

	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if (n == 3 && ((*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] > 0x9f)))
		return 0;
	if (n == 4 && ((*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] > 0x8f)))
		return 0;
	return n;
}

bool utf8_is_valid(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t left = strlen(text), n;

	for (; left; s += n, left -= n) {
		n = utf8_len(s, left);
		if (!n)
			return false;
	}
	return true;
}

void utf8_make_valid(char *text)
{
	unsigned char *s = (unsigned char *)text;

	for (size_t left = strlen(text), n; left; s += n, left -= n) {
		n = utf8_len(s, left);
		if (!n) {
			*s = '?';
			n = 1;
		}
	}
}

static bool is_control(unsigned char c)
{
	return (c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f;
}

bool utf8_is_text(const char *text, size_t len, struct utf8_position *ret)
{
	const unsigned char *s = (const unsigned char *)text;
	uint32_t line = 1, column = 1;

	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_len(s + i, len - i);
		if (!n || is_control(s[i])) {
			*ret = (struct utf8_position){ line, column, s[i] };
			return false;
		}
		column++;
		if (s[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return true;
}
