/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/plan/view/report/page.h"

#include "lib/base/escape.h"

#include <ctype.h>
#include <string.h>

/* One self-contained HTML file: no script, no fonts, no downloads. */

#define HUE_STEP 137 /* degrees; the golden angle: neighbors in a list differ */
#define HUES     360

static void add_html_element(struct buf *b, const char *name, const char *text)
{
	buf_printf(b, "<%s>", name);
	escape_html(b, text);
	buf_printf(b, "</%s>\n", name);
}

static void begin_html_page(struct buf *b, const char *title)
{
	buf_puts(b, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
		    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		    "<meta http-equiv=\"Content-Security-Policy\" "
		    "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
	add_html_element(b, "title", title);
	buf_printf(b, "<style>\n%s</style>\n<body>\n<main>\n", page_style);
	add_html_element(b, "h1", title);
}

static void add_html_heading(struct buf *b, const char *text)
{
	add_html_element(b, "h2", text);
}

static void add_html_paragraph(struct buf *b, const char *text)
{
	add_html_element(b, "p", text);
}

static void add_html_tiles(struct buf *b, const struct page_tile *t, size_t n)
{
	buf_puts(b, "<dl class=\"tiles\">\n");
	for (size_t i = 0; i < n; i++) {
		buf_puts(b, "<div>");
		add_html_element(b, "dt", t[i].label);
		add_html_element(b, "dd", t[i].value);
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
		add_html_element(b, "span", v[i].label);
		add_html_element(b, "b", v[i].amount);
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
	escape_html(b, idle ? "nobody's" : p->label);
	buf_printf(b, ", %.1f %%\">", p->share * 100);
	escape_html(b, idle ? "idle" : p->label);
	buf_puts(b, "</li>");
}

static void add_html_node(struct buf *b, const char *title, const struct page_gpu *gpus,
	size_t n)
{
	buf_puts(b, "<section class=\"node\">\n");
	add_html_element(b, "h3", title);
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
	buf_puts(b, "<div class=\"scroll\" tabindex=\"0\"><table>\n");
	for (size_t i = 0; t->columns && i < t->cells.n; i++) {
		const char *tag = i < t->columns ? "th" : "td";

		if (i % t->columns == 0)
			buf_puts(b, "<tr>");
		buf_printf(b, "<%s%s%s>", tag, i < t->columns ? " scope=\"col\"" : "",
			is_figures(t, i % t->columns) ? " class=\"figure\"" : "");
		escape_html(b, t->cells.v[i]);
		buf_printf(b, "</%s>", tag);
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
