/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/width.h"

#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define NAME_END 5 /* characters that differ between the pods of one Deployment or ReplicaSet */

/* One thing to draw: a character, or a replacement. */
struct glyph {
	const char *text;
	size_t len, columns;
	const char *next;
};

static bool decode_character(const char *p, wchar_t *ret, size_t *len)
{
	mbstate_t state = { 0 };
	size_t n = mbrtowc(ret, p, strlen(p) < 4 ? strlen(p) : 4, &state);

	if (n == 0 || n > 4)
		return false;
	*len = n;
	return true;
}

/* The bytes of a character that cannot be drawn: up to the next first byte of a character. */
static size_t count_undrawable_bytes(const char *p)
{
	size_t n = 1;

	while (((unsigned char)p[n] & 0xc0) == 0x80)
		n++;
	return n;
}

/* Whether the mark changes the direction of the following text, and with it the layout of the line. */
static bool changes_direction(wchar_t c)
{
	return c == 0x200e || c == 0x200f || c == 0x061c || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2066 && c <= 0x2069);
}

static struct glyph next_glyph(const char *p, bool utf8)
{
	unsigned char c = (unsigned char)*p;
	wchar_t wide;
	size_t len;
	int columns;

	if (c < 0x80)
		return (struct glyph){ .text = c < ' ' || c == 0x7f ? "?" : p,
			.len = 1,
			.columns = 1,
			.next = p + 1 };
	if (utf8 && decode_character(p, &wide, &len)) {
		columns = changes_direction(wide) ? -1 : wcwidth(wide);
		if (columns >= 0)
			return (struct glyph){ .text = p,
				.len = len,
				.columns = (size_t)columns,
				.next = p + len };
	}
	return (struct glyph){ .text = "?",
		.len = 1,
		.columns = 1,
		.next = p + count_undrawable_bytes(p) };
}

size_t width_measure_text(const char *text, bool utf8)
{
	size_t width = 0;

	while (*text) {
		struct glyph g = next_glyph(text, utf8);

		width += g.columns;
		text = g.next;
	}
	return width;
}

static void add_blanks(struct buf *b, size_t n)
{
	while (n--)
		buf_putc(b, ' ');
}

/* Adds the text that fits into @width, including the combining characters after it. */
static size_t add_fitting_text(struct buf *b, const char *text, size_t width, bool utf8)
{
	size_t used = 0;

	while (*text) {
		struct glyph g = next_glyph(text, utf8);

		if (used + g.columns > width)
			break;
		buf_add(b, g.text, g.len);
		used += g.columns;
		text = g.next;
	}
	return used;
}

/* The end of @text, at most @width columns wide. It does not begin with a combining character. */
static const char *find_text_tail(const char *text, size_t width, bool utf8)
{
	size_t left = width_measure_text(text, utf8);

	while (*text) {
		struct glyph g = next_glyph(text, utf8);

		if (left <= width && g.columns)
			break;
		left -= g.columns;
		text = g.next;
	}
	return text;
}

/* Cuts @text, which is wider than @width. */
static size_t add_cut_text(struct buf *b, const char *text, size_t width, enum width_side side,
	bool utf8)
{
	size_t tail = 0, used;

	if (side == WIDTH_NAME) {
		tail = width / 2 > NAME_END ? width / 2 : NAME_END;
		if (tail > width - 1)
			tail = width - 1;
	}
	used = add_fitting_text(b, text, width - 1 - tail, utf8) + 1;
	buf_puts(b, utf8 ? "…" : "~");
	return tail ? used + add_fitting_text(b, find_text_tail(text, tail, utf8), tail, utf8)
		    : used;
}

size_t width_fit(struct buf *b, const char *text, size_t width, enum width_side side, bool utf8)
{
	size_t all = width_measure_text(text, utf8), used;

	if (width == 0)
		return 0;
	if (all > width) {
		used = add_cut_text(b, text, width, side, utf8);
	} else {
		if (side == WIDTH_RIGHT)
			add_blanks(b, width - all);
		used = add_fitting_text(b, text, all, utf8) +
		       (side == WIDTH_RIGHT ? width - all : 0);
	}
	/* fills also the column that a wide character left when it was cut off */
	if (side == WIDTH_CUT)
		return used;
	add_blanks(b, width - used);
	return width;
}
