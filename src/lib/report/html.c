/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/report/html.h"

#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_BYTES 512

void html_text(struct buf *b, const char *text)
{
	static const char special[] = "&<>\"'";
	static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };

	for (size_t len; *text; text += len ? len : 1) {
		const char *at = strchr(special, *text);

		len = escape_control_len(text);
		if (at)
			buf_puts(b, entities[at - special]);
		else if (len && *text != '\t' && *text != '\n') /* which are blanks in HTML */
			buf_puts(b, "\xef\xbf\xbd");
		else
			buf_putc(b, *text);
	}
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

void html_vtextf(struct buf *b, const char *fmt, va_list ap)
{
	char line[LINE_MAX_BYTES];

	if (vsnprintf(line, sizeof(line), fmt, ap) >= (int)sizeof(line))
		truncate_at_character(line, sizeof(line) - 1);
	html_text(b, line);
}

void html_textf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	html_vtextf(b, fmt, ap);
	va_end(ap);
}

void html_span(struct buf *b, const char *name, const char *attributes, const char *text)
{
	buf_printf(b, "<%s%s>", name, attributes);
	html_text(b, text);
	buf_printf(b, "</%s>", name);
}

void html_element(struct buf *b, const char *name, const char *text)
{
	html_span(b, name, "", text);
	buf_putc(b, '\n');
}
