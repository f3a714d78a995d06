/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/report/html.h"

#include "lib/base/escape.h"

#include <stdarg.h>
#include <stdio.h>

#define LINE_MAX_BYTES 512

void html_text(struct buf *b, const char *text)
{
	escape_html(b, text);
}

/* Removes a character that was cut in the middle as a whole. */
static void truncate_at_character(char *text, size_t len)
{
	while (len > 0 && ((unsigned char)text[len - 1] & 0xC0) == 0x80)
		len--;
	if (len > 0 && (unsigned char)text[len - 1] >= 0xC0)
		len--;
	text[len] = '\0';
}

void html_textf(struct buf *b, const char *fmt, ...)
{
	char line[LINE_MAX_BYTES];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (n >= (int)sizeof(line))
		truncate_at_character(line, sizeof(line) - 1);
	html_text(b, line);
}

void html_element(struct buf *b, const char *name, const char *text)
{
	buf_printf(b, "<%s>", name);
	html_text(b, text);
	buf_printf(b, "</%s>\n", name);
}
