/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/report/page.h"

#include <string.h>

/* GitHub's Markdown. Block characters draw the pictures. */

#define BAR_WIDTH 40
#define GPU_WIDTH 48

/* Escapes markup, and turns line ends into blanks. */
static void escape_markdown(struct buf *b, const char *text)
{
	for (; *text; text++) {
		if (strchr("\\`*_{}[]<>()#+!|~&", *text))
			buf_putc(b, '\\');
		buf_putc(b, *text == '\n' || *text == '\r' ? ' ' : *text);
	}
}

static void add_markdown_heading(struct buf *b, const char *text)
{
	buf_puts(b, "\n## ");
	escape_markdown(b, text);
	buf_putc(b, '\n');
}

static void begin_markdown_page(struct buf *b, const char *title)
{
	buf_puts(b, "# ");
	escape_markdown(b, title);
	buf_putc(b, '\n');
}

static void add_markdown_paragraph(struct buf *b, const char *text)
{
	buf_putc(b, '\n');
	escape_markdown(b, text);
	buf_putc(b, '\n');
}

static void add_markdown_tiles(struct buf *b, const struct page_tile *t, size_t n)
{
	buf_putc(b, '\n');
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, "- **");
		escape_markdown(b, t[i].value);
		buf_puts(b, "** ");
		escape_markdown(b, t[i].label);
		buf_putc(b, '\n');
	}
}

static void add_markdown_repeated(struct buf *b, const char *what, size_t n)
{
	while (n--)
		buf_puts(b, what);
}

/* Adds text to a code block. Replaces only the characters that would end the block or the line. */
static void add_markdown_code(struct buf *b, const char *text)
{
	for (; *text; text++)
		buf_putc(b, *text == '`' || *text == '\n' || *text == '\r' ? ' ' : *text);
}

static void add_markdown_bars(struct buf *b, const struct page_bar *v, size_t n)
{
	double max = 0;
	size_t width = 0;

	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(v[i].label);

		max = v[i].value > max ? v[i].value : max;
		width = len > width ? len : width;
	}
	buf_puts(b, "\n```\n");
	for (size_t i = 0; i < n; i++) {
		size_t length = max > 0 ? (size_t)(v[i].value / max * BAR_WIDTH + 0.5) : 0;

		add_markdown_code(b, v[i].label);
		add_markdown_repeated(b, " ", width - strlen(v[i].label) + 2);
		add_markdown_repeated(b, v[i].kind == BAR_BROKEN ? "░" : "█", length);
		buf_printf(b, "%s%s\n", length ? " " : "", v[i].amount);
	}
	buf_puts(b, "```\n");
}

/* A part is as wide as its share of the GPU; the name is cut to fit. */
static void add_markdown_part(struct buf *b, const struct page_part *p, size_t width)
{
	size_t len = strlen(p->label), name = width > 1 ? width - 1 : 0;

	buf_putc(b, '|');
	if (p->owner == PAGE_IDLE) {
		add_markdown_repeated(b, ".", name);
		return;
	}
	for (size_t i = 0; i < name; i++)
		buf_putc(b, i < len && (unsigned char)p->label[i] >= ' ' &&
					    (unsigned char)p->label[i] < 0x7f &&
					    p->label[i] != '`'
				    ? p->label[i]
				    : ' ');
}

static void add_markdown_node(struct buf *b, const char *title, const struct page_gpu *gpus,
	size_t n)
{
	add_markdown_paragraph(b, title);
	buf_puts(b, "\n```\n");
	for (size_t g = 0; g < n; g++) {
		double end = 0;
		size_t at = 0;

		buf_printf(b, "GPU %-3zu ", g);
		for (size_t i = 0; i < gpus[g].n; i++) {
			size_t to;

			end += gpus[g].parts[i].share;
			to = (size_t)(end * GPU_WIDTH + 0.5);
			add_markdown_part(b, &gpus[g].parts[i], to > at ? to - at : 0);
			at = to > at ? to : at;
		}
		buf_puts(b, "|\n");
	}
	buf_puts(b, "```\n");
}

static void add_markdown_table(struct buf *b, const struct table *t)
{
	buf_putc(b, '\n');
	for (size_t i = 0; t->columns && i < t->cells.n; i++) {
		buf_puts(b, i % t->columns ? " " : "| ");
		escape_markdown(b, t->cells.v[i]);
		buf_puts(b, " |");
		if ((i + 1) % t->columns)
			continue;
		buf_putc(b, '\n');
		if (i + 1 == t->columns) {
			buf_putc(b, '|');
			add_markdown_repeated(b, " --- |", t->columns);
			buf_putc(b, '\n');
		}
	}
}

static void end_markdown_page(struct buf *b)
{
	(void)b;
}

const struct page_form page_markdown = { begin_markdown_page, add_markdown_heading,
	add_markdown_paragraph, add_markdown_tiles, add_markdown_bars, add_markdown_node,
	add_markdown_table, end_markdown_page };
