/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/escape.h"

#include "lib/base/utf8.h"

#include <stdlib.h>
#include <string.h>

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

/* Tab and line feed are blanks in HTML. In a CSV cell and on a terminal they are control characters. */
static bool is_html_blank(char c)
{
	return c == '\t' || c == '\n';
}

void escape_html(struct buf *b, const char *text)
{
	static const struct {
		char c;
		const char *entity;
	} entities[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" },
		{ '\'', "&#39;" } };

	for (size_t len; *text; text += len) {
		const char *entity = NULL;

		len = escape_control_len(text);
		if (len && !is_html_blank(*text)) {
			buf_puts(b, "\xef\xbf\xbd");
			continue;
		}
		len = 1;
		for (size_t i = 0; i < ARRAY_LEN(entities); i++)
			if (entities[i].c == *text)
				entity = entities[i].entity;
		if (entity)
			buf_puts(b, entity);
		else
			buf_putc(b, *text);
	}
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
