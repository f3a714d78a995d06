/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cost/print.h"

#include "base/utf8.h"
#include "price/price.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NANO_HOUR_NS 3600 /* nanoseconds in a billionth of an hour */

/* A control character at @p, also those that UTF-8 writes as two bytes (U+0080 to U+009F). */
static size_t control_len(const unsigned char *p)
{
	if (*p < ' ' || *p == 0x7f)
		return 1;
	return p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f ? 2 : 0;
}

/* @text with each byte of its control characters through @escape. */
static void copy(struct buf *b, const char *text,
	void (*escape)(struct buf *b, unsigned char c))
{
	CLEANUP(freep) char *valid = strdup(text);
	const unsigned char *p = (const unsigned char *)valid;

	if (!valid) {
		b->failed = true;
		return;
	}
	utf8_make_valid(valid);
	while (*p) {
		size_t n = control_len(p);

		if (n == 0)
			buf_putc(b, (char)*p++);
		for (; n > 0; n--)
			escape(b, *p++);
	}
}

static void to_mark(struct buf *b, unsigned char c)
{
	if (c < 0x80 || c == 0xc2)
		buf_putc(b, '?');
}

static void to_hex(struct buf *b, unsigned char c)
{
	buf_printf(b, "\\x%02x", c);
}

void cost_clean(struct buf *b, const char *text)
{
	copy(b, text, to_mark);
}

void cost_csv_cell(struct buf *b, const char *text)
{
	CLEANUP(buf_fini) struct buf plain = BUF_INIT(64 * 1024);
	const char *p;
	bool quoted;

	/* A spreadsheet takes a text that begins so for a formula; blanks in front do not stop it. */
	if (*text && strchr("=+-@\t\r", text[strspn(text, " ")]))
		buf_putc(&plain, '\'');
	copy(&plain, text, to_hex);
	if (!buf_ok(&plain))
		b->failed = true;
	p = buf_str(&plain);
	quoted = p[strcspn(p, "\",")] != '\0' || *p == '\'' || *p == ' ';
	if (!quoted) {
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

const char *cost_hours(int64_t ns, unsigned decimals, char *buf)
{
	int64_t unit = NANO_HOUR_NS, v;

	if (decimals >= 9)
		return price_text(ns / NANO_HOUR_NS, 0, buf);
	for (unsigned i = decimals; i < 9; i++)
		unit *= 10;
	v = ns / unit + (ns % unit >= unit / 2);
	for (unsigned i = decimals; i < 9; i++)
		v *= 10;
	return price_text(v, decimals, buf);
}
