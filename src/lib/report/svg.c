/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/report/svg.h"

#include "lib/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* --- shapes --- */

#define FAR 1e4 /* larger than any plot */

/* Browsers refuse "nan" and "inf". */
static double clamp_coordinate(double v)
{
	return !isfinite(v) ? 0 : v > FAR ? FAR : v < -FAR ? -FAR : v;
}

void svg_begin(struct svg *svg, const char *title, const char *what)
{
	unsigned int id = ++*svg->count;

	buf_printf(svg->b,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
		"viewBox=\"0 0 %.0f %.0f\" aria-labelledby=\"t%u d%u\">\n<title id=\"t%u\">",
		clamp_coordinate(svg->width), clamp_coordinate(svg->height), id, id, id);
	html_text(svg->b, title);
	if (svg->watermark)
		html_textf(svg->b, " (%s)", svg->watermark);
	buf_printf(svg->b, "</title>\n<desc id=\"d%u\">", id);
	html_text(svg->b, what);
	buf_puts(svg->b, "</desc>\n");
}

void svg_end(struct svg *svg)
{
	double x = clamp_coordinate(svg->width / 2), y = clamp_coordinate(svg->height / 2);

	if (svg->watermark) {
		buf_printf(svg->b,
			"<text class=\"watermark mid\" aria-hidden=\"true\" x=\"%.0f\" y=\"%.0f\" "
			"font-size=\"%.0f\" transform=\"rotate(-14 %.0f %.0f)\">",
			x, y, clamp_coordinate(svg->width / (double)strlen(svg->watermark)), x,
			y);
		html_text(svg->b, svg->watermark);
		buf_puts(svg->b, "</text>\n");
	}
	buf_puts(svg->b, "</svg>\n");
}

void svg_line(struct svg *svg, const char *class, double x1, double y1, double x2, double y2)
{
	buf_printf(svg->b,
		"<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class,
		clamp_coordinate(x1), clamp_coordinate(y1), clamp_coordinate(x2),
		clamp_coordinate(y2));
}

void svg_rect(struct svg *svg, const char *class, double x, double y, double width,
	double height)
{
	buf_printf(svg->b,
		"<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
		class, clamp_coordinate(x), clamp_coordinate(y),
		width > 0 ? clamp_coordinate(width) : 0,
		height > 0 ? clamp_coordinate(height) : 0);
}

void svg_text(struct svg *svg, const char *class, double x, double y, const char *fmt, ...)
{
	va_list ap;

	buf_printf(svg->b, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class,
		clamp_coordinate(x), clamp_coordinate(y));
	va_start(ap, fmt);
	html_vtextf(svg->b, fmt, ap);
	va_end(ap);
	buf_puts(svg->b, "</text>\n");
}

void svg_path_begin(struct svg *svg, const char *class)
{
	svg->in_path = false;
	buf_printf(svg->b, "<path class=\"%s\" d=\"", class);
}

void svg_path_to(struct svg *svg, double x, double y)
{
	buf_printf(svg->b, "%c%.1f %.1f", svg->in_path ? 'L' : 'M', clamp_coordinate(x),
		clamp_coordinate(y));
	svg->in_path = true;
}

void svg_path_end(struct svg *svg)
{
	buf_puts(svg->b, "\"/>\n");
}

/* --- scales --- */

double svg_scale_at(const struct svg_scale *s, double v)
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

static size_t ticks_linear(double *ret, const struct svg_scale *s)
{
	double step = svg_round_up((s->high - s->low) / 6);
	size_t n = 0;

	for (size_t i = 0; i < SVG_TICKS_MAX; i++) {
		double v = (ceil(s->low / step) + (double)i) * step;

		if (!(v <= s->high * (1 + 1e-9)))
			break;
		ret[n++] = v;
	}
	return n;
}

/* The more decades, the fewer ticks in each. */
static size_t ticks_log(double *ret, const struct svg_scale *s)
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
	while (power > 0 && power <= s->high && n < SVG_TICKS_MAX) {
		for (size_t i = 0; i < steps[k].n && n < SVG_TICKS_MAX; i++) {
			double v = power * steps[k].of[i];

			if (v >= s->low * (1 - 1e-9) && v <= s->high * (1 + 1e-9))
				ret[n++] = v;
		}
		power *= 10;
	}
	return n;
}

size_t svg_scale_ticks(double ret[static SVG_TICKS_MAX], const struct svg_scale *s)
{
	if (!(s->high > s->low) || !isfinite(s->high - s->low) || (s->log && !(s->low > 0)))
		return 0;
	return s->log ? ticks_log(ret, s) : ticks_linear(ret, s);
}

double svg_round_up(double v)
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
