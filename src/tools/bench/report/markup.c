/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a page are written with: escaped text, and plots in SVG. */
#include "tools/bench/report/internal.h"

#include "lib/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- text within HTML --------------------------------------------------------------------------------------- */

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

/* ---- plots -------------------------------------------------------------------------------------------------- */

#define TEXT_MAX_BYTES 256
#define FAR            1e4 /* larger than any plot */

/* Browsers refuse "nan" and "inf". */
static double clamp_coordinate(double v)
{
	return !isfinite(v) ? 0 : v > FAR ? FAR : v < -FAR ? -FAR : v;
}

void plot_begin(struct plot *p, const char *title, const char *what)
{
	unsigned int id = ++*p->count;

	buf_printf(p->b,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
		"viewBox=\"0 0 %.0f %.0f\" aria-labelledby=\"t%u d%u\">\n<title id=\"t%u\">",
		clamp_coordinate(p->width), clamp_coordinate(p->height), id, id, id);
	html_text(p->b, title);
	if (p->simulated)
		buf_puts(p->b, " (SIMULATED)");
	buf_printf(p->b, "</title>\n<desc id=\"d%u\">", id);
	html_text(p->b, what);
	buf_puts(p->b, "</desc>\n");
}

void plot_end(struct plot *p)
{
	if (p->simulated)
		buf_printf(p->b,
			"<text class=\"watermark mid\" aria-hidden=\"true\" x=\"%.0f\" y=\"%.0f\" "
			"font-size=\"%.0f\" transform=\"rotate(-14 %.0f %.0f)\">SIMULATED</text>\n",
			clamp_coordinate(p->width / 2), clamp_coordinate(p->height / 2),
			clamp_coordinate(p->width / 9), clamp_coordinate(p->width / 2),
			clamp_coordinate(p->height / 2));
	buf_puts(p->b, "</svg>\n");
}

void plot_line(struct plot *p, const char *class, double x1, double y1, double x2, double y2)
{
	buf_printf(p->b,
		"<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
		clamp_coordinate(x1), clamp_coordinate(y1), clamp_coordinate(x2),
		clamp_coordinate(y2));
}

void plot_rect(struct plot *p, const char *class, double x, double y, double width,
	double height)
{
	buf_printf(p->b,
		"<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
		class, clamp_coordinate(x), clamp_coordinate(y),
		width > 0 ? clamp_coordinate(width) : 0,
		height > 0 ? clamp_coordinate(height) : 0);
}

void plot_text(struct plot *p, const char *class, double x, double y, const char *fmt, ...)
{
	char text[TEXT_MAX_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	buf_printf(p->b, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class,
		clamp_coordinate(x), clamp_coordinate(y));
	html_text(p->b, text);
	buf_puts(p->b, "</text>\n");
}

void plot_path_begin(struct plot *p, const char *class)
{
	buf_printf(p->b, "<path class=\"%s\" d=\"", class);
}

void plot_move(struct plot *p, double x, double y)
{
	buf_printf(p->b, "M%.1f %.1f", clamp_coordinate(x), clamp_coordinate(y));
}

void plot_to(struct plot *p, double x, double y)
{
	buf_printf(p->b, "L%.1f %.1f", clamp_coordinate(x), clamp_coordinate(y));
}

void plot_path_end(struct plot *p)
{
	buf_puts(p->b, "\"/>\n");
}

/* ---- scales ------------------------------------------------------------------------------------------------- */

double plot_at(const struct plot_scale *s, double v)
{
	double share;

	if (s->log)
		share = log(v / s->low) / log(s->high / s->low);
	else
		share = (v - s->low) / (s->high - s->low);
	if (isnan(share))
		share = 0;
	share = share < 0 ? 0 : share > 1 ? 1 : share;
	return s->from + share * (s->to - s->from);
}

static double power_below(double v)
{
	return pow(10, floor(log10(v)));
}

static size_t ticks_linear(double *ret, const struct plot_scale *s)
{
	double step = plot_round_up((s->high - s->low) / 6);
	size_t n = 0;

	for (size_t i = 0; i < PLOT_TICKS_MAX; i++) {
		double v = (ceil(s->low / step) + (double)i) * step;

		if (!(v <= s->high * (1 + 1e-9)))
			break;
		ret[n++] = v;
	}
	return n;
}

/* The more decades, the fewer ticks in each. */
static size_t ticks_log(double *ret, const struct plot_scale *s)
{
	static const struct {
		double decades; /* upper limit */
		size_t n;
		double of[6];
	} steps[] = { { 1, 6, { 1, 1.5, 2, 3, 5, 7 } }, { 2, 3, { 1, 2, 5 } },
		{ 4, 2, { 1, 3 } }, { INFINITY, 1, { 1 } } };
	double decades = log10(s->high / s->low), power = power_below(s->low);
	size_t n = 0, k = 0;

	while (k + 1 < ARRAY_LEN(steps) && decades >= steps[k].decades)
		k++;
	while (power > 0 && power <= s->high && n < PLOT_TICKS_MAX) {
		for (size_t i = 0; i < steps[k].n && n < PLOT_TICKS_MAX; i++) {
			double v = power * steps[k].of[i];

			if (v >= s->low * (1 - 1e-9) && v <= s->high * (1 + 1e-9))
				ret[n++] = v;
		}
		power *= 10;
	}
	return n;
}

size_t plot_ticks(double ret[static PLOT_TICKS_MAX], const struct plot_scale *s)
{
	if (!(s->high > s->low) || !isfinite(s->high - s->low) || (s->log && !(s->low > 0)))
		return 0;
	return s->log ? ticks_log(ret, s) : ticks_linear(ret, s);
}

double plot_round_up(double v)
{
	static const double steps[] = { 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 };
	double power;

	if (!(v > 0) || !isfinite(v))
		return 1;
	power = power_below(v);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (power * steps[i] >= v)
			return power * steps[i];
	return power * 10;
}

const char *plot_mode_class(enum bench_mode m)
{
	static const char *const classes[BENCH_MODES] = { "m0", "m1", "m2", "m3", "m4", "m5",
		"m6", "m7" };

	return (unsigned int)m < BENCH_MODES ? classes[m] : "m0";
}
