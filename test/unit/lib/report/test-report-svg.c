/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "lib/report/svg.h"

#include <math.h>
#include <string.h>

static void svg__has_shapes_that_a_browser_accepts(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	unsigned int count = 1;
	struct svg svg = { .b = &b, .width = 90, .height = 40, .count = &count };

	(void)state;
	svg_begin(&svg, "<t>", "it's");
	svg_line(&svg, "grid", NAN, -INFINITY, 1e9, 1.25);
	svg_rect(&svg, "bar", 1, 2, -3, NAN);
	svg_text(&svg, "tick mid", 1, 2, "%s", "a&b");
	svg_path_begin(&svg, "curve");
	for (int i = 0; i < 3; i++)
		svg_path_to(&svg, i, 2 * i);
	svg_path_end(&svg);
	svg_end(&svg);
	assert_string_equal(buf_str(&b),
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" "
		"viewBox=\"0 0 90 40\" aria-labelledby=\"t2 d2\">\n"
		"<title id=\"t2\">&lt;t&gt;</title>\n<desc id=\"d2\">it&#39;s</desc>\n"
		"<line class=\"grid\" x1=\"0.0\" y1=\"0.0\" x2=\"10000.0\" y2=\"1.2\"/>\n"
		"<rect class=\"bar\" x=\"1.0\" y=\"2.0\" width=\"0.0\" height=\"0.0\"/>\n"
		"<text class=\"tick mid\" x=\"1.0\" y=\"2.0\">a&amp;b</text>\n"
		"<path class=\"curve\" d=\"M0.0 0.0L1.0 2.0L2.0 4.0\"/>\n</svg>\n");
}

static void svg__has_the_watermark_in_its_title_and_across(void **state)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(4096);
	unsigned int count = 0;
	struct svg svg = { .b = &b,
		.width = 90,
		.height = 40,
		.count = &count,
		.watermark = "DRAFT" };

	(void)state;
	svg_begin(&svg, "t", "d");
	svg_end(&svg);
	assert_non_null(strstr(buf_str(&b), "<title id=\"t1\">t (DRAFT)</title>"));
	assert_non_null(strstr(buf_str(&b), "font-size=\"18\""));
	assert_non_null(strstr(buf_str(&b), ">DRAFT</text>\n</svg>"));
}

static void svg_scale__keeps_values_within_the_plot(void **state)
{
	static const double ends[] = { -INFINITY, -1e308, -1, 0, 5e-324, 1e-320, 1e-9, 1, 1.5,
		1e3, 1.7e308, INFINITY, NAN };
	double ticks[SVG_TICKS_MAX];

	(void)state;
	for (size_t a = 0; a < ARRAY_LEN(ends); a++)
		for (size_t b = 0; b < ARRAY_LEN(ends); b++)
			for (int log = 0; log < 2; log++) {
				struct svg_scale s = { ends[a], ends[b], 10, 110, log };
				size_t n = svg_scale_ticks(ticks, &s);

				assert_in_range(n, 0, SVG_TICKS_MAX);
				for (size_t i = 0; i < n; i++) {
					double at = svg_scale_at(&s, ticks[i]);

					assert_true(
						isfinite(ticks[i]) && at >= 10 && at <= 110);
					assert_true(!i || ticks[i] > ticks[i - 1]);
				}
				for (size_t i = 0; i < ARRAY_LEN(ends); i++)
					assert_true(svg_scale_at(&s, ends[i]) >= 10 &&
						    svg_scale_at(&s, ends[i]) <= 110);
			}
	assert_true(
		svg_round_up(7) == 8 && svg_round_up(0.21) == 0.25 && svg_round_up(NAN) == 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(svg__has_shapes_that_a_browser_accepts),
		cmocka_unit_test(svg__has_the_watermark_in_its_title_and_across),
		cmocka_unit_test(svg_scale__keeps_values_within_the_plot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
