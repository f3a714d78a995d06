/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/canvas.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
	if (!c->runs || c->n_runs == c->cap_runs) {
		size_t cap = c->cap_runs ? 2 * c->cap_runs : 256;
		struct canvas_run *runs = reallocarray(c->runs, cap, sizeof(*runs));

		if (!runs) {
			c->failed = true;
			return;
		}
		c->runs = runs;
		c->cap_runs = cap;
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
