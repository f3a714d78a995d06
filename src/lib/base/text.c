/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- UTF-8 --- */

size_t utf8_char_len(const void *text, size_t left)
{
	const unsigned char *s = text;
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
		n = utf8_char_len(s, left);
		if (!n)
			return false;
	}
	return true;
}

void utf8_make_valid(char *text)
{
	unsigned char *s = (unsigned char *)text;

	for (size_t left = strlen(text), n; left; s += n, left -= n) {
		n = utf8_char_len(s, left);
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
		n = utf8_char_len(s + i, len - i);
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

/* --- escapes --- */

#define CELL_MAX_BYTES 65536

size_t escape_control_len(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	if (*p && (*p < ' ' || *p == 0x7f))
		return 1;
	return *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

char *escape_line(char *text)
{
	char *p = text;
	size_t len;

	while (*p) {
		len = escape_control_len(p);
		memset(p, ' ', len);
		p += len ? len : 1;
	}
	return text;
}

static void add_hex_escaped(struct buf *b, const char *text)
{
	for (size_t len; *text; text += len ? len : 1) {
		len = escape_control_len(text);
		for (size_t i = 0; i < len; i++)
			buf_printf(b, "\\x%02x", (unsigned char)text[i]);
		if (!len)
			buf_putc(b, *text);
	}
}

void escape_csv(struct buf *b, const char *text)
{
	CLEANUP(buf_fini) struct buf plain = BUF_INIT(CELL_MAX_BYTES);
	CLEANUP(freep) char *valid = strdup(text);
	const char *p;

	if (!valid) {
		b->failed = true;
		return;
	}
	utf8_make_valid(valid);
	/* A spreadsheet skips leading blanks. */
	if (*text && strchr("=+-@\t\r", text[strspn(text, " ")]))
		buf_putc(&plain, '\'');
	add_hex_escaped(&plain, valid);
	if (!buf_ok(&plain))
		b->failed = true;
	p = buf_str(&plain);
	if (!p[strcspn(p, "\",")] && *p != '\'' && *p != ' ') {
		buf_puts(b, p);
		return;
	}
	buf_putc(b, '"');
	for (; *p; p++) {
		if (*p == '"')
			buf_putc(b, '"');
		buf_putc(b, *p);
	}
	buf_putc(b, '"');
}

void escape_shell(struct buf *b, const char *word)
{
	buf_putc(b, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_puts(b, "'\\''");
		else
			buf_putc(b, *word);
	}
	buf_putc(b, '\'');
}

/* --- figures next to the limits that judge them --- */

#define EXTRA_DIGITS_MAX 6   /* a smaller difference comes from arithmetic */
#define TEXT_MAX         400 /* the largest double has 309 digits */

int digits_to_differ(double v, double limit, int min)
{
	char is[TEXT_MAX], most[TEXT_MAX];

	if (!isfinite(v) || !isfinite(limit))
		return min;
	for (int n = min; n <= min + EXTRA_DIGITS_MAX; n++) {
		(void)snprintf(is, sizeof(is), "%.*f", n, v);
		(void)snprintf(most, sizeof(most), "%.*f", n, limit);
		if (strcmp(is, most) != 0)
			return n;
	}
	return min;
}

/* --- text for libfyaml --- */

/* The first tab after a ':', with or without blanks between them. */
static bool find_tab(const char *text, size_t len, struct utf8_position *at)
{
	bool colon = false;

	*at = (struct utf8_position){ .line = 1, .column = 1, .byte = '\t' };
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\t' && colon)
			return true;
		colon = text[i] == ':' || (colon && text[i] == ' ');
		at->column++;
		if (text[i] == '\n') {
			at->line++;
			at->column = 1;
		}
	}
	return false;
}

bool yaml_text_is_safe(const char *text, size_t len, struct utf8_position *at,
	char why[static YAML_TEXT_WHY_MAX])
{
	if (!utf8_is_text(text, len, at)) {
		(void)snprintf(why, YAML_TEXT_WHY_MAX,
			"expected UTF-8 text, found the byte 0x%02x", at->byte);
		return false;
	}
	if (!memchr(text, '?', len) || !find_tab(text, len, at))
		return true;
	(void)snprintf(why, YAML_TEXT_WHY_MAX,
		"expected spaces behind the ':' in a text with a '?', found a tab");
	return false;
}
