/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a report: Markdown and HTML. */
#include "tools/cli/plan/view/page.h"

#include "lib/report/html.h"

#include <ctype.h>
#include <string.h>

/* --- GitHub's Markdown; block characters draw the pictures --- */

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

/* --- one self-contained HTML file: no script, no fonts, no downloads --- */

#define HUE_STEP 137 /* degrees; the golden angle: neighbors in a list differ */
#define HUES     360

static void begin_html_page(struct buf *b, const char *title)
{
	buf_puts(b, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" "
		    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
	html_element(b, "title", title);
	buf_printf(b, "<style>\n%s</style>\n<body>\n<main>\n", page_style);
	html_element(b, "h1", title);
}

static void add_html_heading(struct buf *b, const char *text)
{
	html_element(b, "h2", text);
}

static void add_html_paragraph(struct buf *b, const char *text)
{
	html_element(b, "p", text);
}

static void add_html_tiles(struct buf *b, const struct page_tile *t, size_t n)
{
	buf_puts(b, "<dl class=\"tiles\">\n");
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, "<div>");
		html_element(b, "dt", t[i].label);
		html_element(b, "dd", t[i].value);
		buf_puts(b, "</div>\n");
	}
	buf_puts(b, "</dl>\n");
}

static void add_html_bars(struct buf *b, const struct page_bar *v, size_t n)
{
	static const char *const classes[] = { [BAR_PLAIN] = "bar",
		[BAR_PLAN] = "bar plan",
		[BAR_BROKEN] = "bar broken" };
	double max = 0;

	for (size_t i = 0; i < n; i++)
		max = v[i].value > max ? v[i].value : max;
	buf_puts(b, "<ul class=\"bars\">\n");
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, "<li>");
		html_element(b, "span", v[i].label);
		html_element(b, "b", v[i].amount);
		buf_printf(b,
			"<div class=\"track\" aria-hidden=\"true\"><div class=\"%s\" "
			"style=\"width:%.2f%%\"></div></div></li>\n",
			classes[v[i].kind], max > 0 ? v[i].value / max * 100 : 0);
	}
	buf_puts(b, "</ul>\n");
}

static void add_html_gpu_part(struct buf *b, const struct page_part *p)
{
	bool idle = p->owner == PAGE_IDLE;

	buf_printf(b, "<li class=\"%s\" style=\"flex-grow:%.4f;--h:%u\" title=\"",
		idle ? "idle" : "part", p->share,
		idle ? 0 : (unsigned)((uint64_t)p->owner * HUE_STEP % HUES));
	html_text(b, idle ? "nobody's" : p->label);
	buf_printf(b, ", %.1f %%\">", p->share * 100);
	html_text(b, idle ? "idle" : p->label);
	buf_puts(b, "</li>");
}

static void add_html_node(struct buf *b, const char *title, const struct page_gpu *gpus,
	size_t n)
{
	buf_puts(b, "<section class=\"node\">\n");
	html_element(b, "h3", title);
	for (size_t g = 0; g < n; g++) {
		buf_printf(b, "<div class=\"gpu\"><span>GPU %zu</span><ul>", g);
		for (size_t i = 0; i < gpus[g].n; i++)
			add_html_gpu_part(b, &gpus[g].parts[i]);
		buf_puts(b, "</ul></div>\n");
	}
	buf_puts(b, "</section>\n");
}

/* An amount, time or count. "4 x g6.xlarge, spot" also begins with a digit, but is none. */
static bool is_figure(const char *cell)
{
	return (isdigit((unsigned char)cell[0]) && !strstr(cell, ", ")) || !strcmp(cell, "-") ||
	       !*cell;
}

/* Whether all cells of the column are figures, which are right-aligned. */
static bool is_figures(const struct table *t, size_t column)
{
	for (size_t i = t->columns + column; i < t->cells.n; i += t->columns)
		if (!is_figure(t->cells.v[i]))
			return false;
	return true;
}

static void add_html_table(struct buf *b, const struct table *t)
{
	static const char *const attributes[2][2] = { { "", " class=\"figure\"" },
		{ " scope=\"col\"", " scope=\"col\" class=\"figure\"" } };

	buf_puts(b, "<div class=\"scroll\" tabindex=\"0\"><table>\n");
	for (size_t i = 0; t->columns && i < t->cells.n; i++) {
		bool head = i < t->columns;

		if (i % t->columns == 0)
			buf_puts(b, "<tr>");
		html_span(b, head ? "th" : "td",
			attributes[head][is_figures(t, i % t->columns)], t->cells.v[i]);
		if ((i + 1) % t->columns == 0)
			buf_puts(b, "</tr>\n");
	}
	buf_puts(b, "</table></div>\n");
}

static void end_html_page(struct buf *b)
{
	buf_puts(b, "</main>\n</body>\n</html>\n");
}

const struct page_form page_html = { begin_html_page, add_html_heading, add_html_paragraph,
	add_html_tiles, add_html_bars, add_html_node, add_html_table, end_html_page };
