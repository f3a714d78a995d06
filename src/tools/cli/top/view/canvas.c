/* SPDX-License-Identifier: Apache-2.0 */
/* Styled text on lines of a known width, and how many columns a text takes. */
#include "tools/cli/top/view/canvas.h"

#include "lib/base/array.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* --- the width of text --- */

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

/* --- the canvas --- */

void canvas_init(struct canvas *c, unsigned width, bool utf8)
{
	*c = (struct canvas){ .width = width,
		.utf8 = utf8,
		.text = BUF_INIT(CANVAS_BYTES_MAX) };
}

void canvas_fini(struct canvas *c)
{
	buf_fini(&c->text);
	free(c->runs);
	*c = (struct canvas){ .width = 0 };
}

/* Adds the text from @begin to the end as a run, or extends the last run. */
static void extend_canvas_run(struct canvas *c, enum canvas_style style, size_t begin)
{
	struct canvas_run *last = c->n_runs ? &c->runs[c->n_runs - 1] : NULL;
	size_t len = c->text.len - begin;

	if (len == 0)
		return;
	if (c->faded && (style == CANVAS_PLAIN || style == CANVAS_BOLD || style == CANVAS_GOOD))
		style = CANVAS_DIM;
	if (last && last->line == c->lines && last->style == style) {
		last->len += (uint32_t)len;
		return;
	}
	if (!ARRAY_GROW(&c->runs, c->n_runs, &c->room_runs, ARRAY_NO_LIMIT)) {
		c->failed = true;
		return;
	}
	c->runs[c->n_runs++] = (struct canvas_run){ .line = c->lines,
		.begin = (uint32_t)begin,
		.len = (uint32_t)len,
		.style = style };
}

size_t canvas_left(const struct canvas *c)
{
	return c->column < c->width ? c->width - c->column : 0;
}

void canvas_cell(struct canvas *c, enum canvas_style style, const char *text, size_t width,
	enum width_side side)
{
	size_t begin = c->text.len, left = canvas_left(c);

	c->column += width_fit(&c->text, text, width < left ? width : left, side, c->utf8);
	extend_canvas_run(c, style, begin);
}

void canvas_add(struct canvas *c, enum canvas_style style, const char *text)
{
	canvas_cell(c, style, text, canvas_left(c), WIDTH_CUT);
}

void canvas_addf(struct canvas *c, enum canvas_style style, const char *fmt, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	canvas_add(c, style, text);
}

void canvas_fill(struct canvas *c, enum canvas_style style, char fill)
{
	size_t begin = c->text.len;

	for (; canvas_left(c) > 0; c->column++)
		buf_putc(&c->text, fill);
	extend_canvas_run(c, style, begin);
}

void canvas_end_line(struct canvas *c)
{
	buf_putc(&c->text, '\n');
	c->lines++;
	c->column = 0;
}

int canvas_print(const struct canvas *c, struct buf *to, struct error *err)
{
	const char *p = buf_str(&c->text);

	if (c->failed || !buf_ok(&c->text))
		return error_nomem(err);
	while (*p) {
		size_t len = strcspn(p, "\n"), kept = len;

		while (kept > 0 && p[kept - 1] == ' ')
			kept--;
		buf_add(to, p, kept);
		buf_putc(to, '\n');
		p += len + (p[len] == '\n');
	}
	return buf_ok(to) ? 0 : error_nomem(err);
}
