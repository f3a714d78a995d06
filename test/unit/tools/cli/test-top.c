/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"
#include "support/view-sample.h"

#include "lib/base/fd.h"
#include "node/view/json/json.h"
#include "tools/cli/top/view/view.h"

#include <limits.h>
#include <locale.h>
#include <wchar.h>

#define SEC UINT64_C(1000000000)

static struct top_model *model_of(enum view_sample_kind kind)
{
	CLEANUP(view_unrefp) struct view *v = NULL;
	CLEANUP(freep) char *json = NULL;
	struct top_model *m = NULL;
	struct error err = ERROR_INIT;
	size_t len = 0;

	assert_ok(view_sample(&v, kind, &err), &err);
	json = view_json(v, VIEW_PART_NODE, &len);
	assert_non_null(json);
	assert_ok(top_model_read(&m, json, len, &err), &err);
	return m;
}

/* --- golden screens --- */

#define UNAVAILABLE_SINCE                                                      \
	.unavailable = true, .unavailable_since_wall_ns = VIEW_SAMPLE_WALL_NS, \
	.now_wall_ns = VIEW_SAMPLE_WALL_NS + 95 * SEC,                         \
	.why = { .msg = "connect to '/run/gpuslice/gpusliced.sock': gone" }

static const struct golden {
	const char *file;
	int kind; /* enum view_sample_kind; -1: no answer yet */
	struct top_state state;
} goldens[] = {
	{ "mixed-120", VIEW_SAMPLE_MIXED, { .width = 120 } },
	{ "mixed-120x40", VIEW_SAMPLE_MIXED, { .width = 120, .height = 40 } },
	{ "mixed-120x40-ascii", VIEW_SAMPLE_MIXED,
		{ .width = 120, .height = 40, .utf8 = false } },
	{ "mixed-200", VIEW_SAMPLE_MIXED, { .width = 200 } },
	{ "mixed-80x24", VIEW_SAMPLE_MIXED, { .width = 80, .height = 24 } },
	{ "mixed-40x10", VIEW_SAMPLE_MIXED, { .width = 40, .height = 10 } },
	{ "mixed-80x24-end", VIEW_SAMPLE_MIXED,
		{ .width = 80, .height = 24, .scroll = 10000 } },
	{ "mixed-received", VIEW_SAMPLE_MIXED,
		{ .width = 120, .height = 40, .choice = { .sort = TOP_BY_RECEIVED } } },
	{ "mixed-name-reversed", VIEW_SAMPLE_MIXED,
		{ .width = 120,
			.height = 40,
			.choice = { .sort = TOP_BY_NAME, .reverse = true } } },
	{ "mixed-filter", VIEW_SAMPLE_MIXED,
		{ .width = 100, .height = 30, .choice = { .filter = "RESEARCH" } } },
	{ "mixed-no-match", VIEW_SAMPLE_MIXED,
		{ .width = 100,
			.height = 30,
			.typing = true,
			.choice = { .filter = "nobody" } } },
	{ "mixed-slices", VIEW_SAMPLE_MIXED,
		{ .width = 140, .choice = { .table = TOP_SLICES } } },
	{ "mixed-slices-busy", VIEW_SAMPLE_MIXED,
		{ .width = 100, .choice = { .table = TOP_SLICES, .hide_idle = true } } },
	{ "mixed-gpus", VIEW_SAMPLE_MIXED, { .width = 100, .choice = { .table = TOP_GPUS } } },
	{ "mixed-stale", VIEW_SAMPLE_MIXED, { .width = 80, .height = 24, UNAVAILABLE_SINCE } },
	{ "mixed-paused", VIEW_SAMPLE_MIXED, { .width = 60, .height = 16, .paused = true } },
	{ "mixed-help", VIEW_SAMPLE_MIXED, { .width = 80, .height = 24, .help = true } },
	{ "no-answer", -1, { .width = 80, .height = 10, UNAVAILABLE_SINCE } },
	{ "empty", VIEW_SAMPLE_EMPTY, { .width = 80, .height = 24 } },
	{ "one", VIEW_SAMPLE_ONE, { .width = 80, .height = 24 } },
	{ "unpriced", VIEW_SAMPLE_UNPRICED, { .width = 120 } },
	{ "sixteen-80x24", VIEW_SAMPLE_SIXTEEN, { .width = 80, .height = 24 } },
	{ "sixteen-gpus-80x24", VIEW_SAMPLE_SIXTEEN,
		{ .width = 80, .height = 24, .choice = { .table = TOP_GPUS } } },
};

static void draw_top_text(struct buf *text, const struct top_model *m, struct top_state *s)
{
	struct error err = ERROR_INIT;
	struct canvas c;

	canvas_init(&c, s->width, s->utf8);
	assert_ok(top_screen(&c, m, s, &err), &err);
	assert_ok(canvas_print(&c, text, &err), &err);
	canvas_fini(&c);
}

static void check_golden(const struct golden *g)
{
	CLEANUP(top_model_freep)
	struct top_model *m = g->kind < 0 ? NULL : model_of((enum view_sample_kind)g->kind);
	CLEANUP(buf_fini) struct buf text = BUF_INIT(1 << 20), golden = BUF_INIT(1 << 20);
	struct top_state s = g->state;
	struct error err = ERROR_INIT;
	char path[PATH_MAX];

	s.utf8 = !strstr(g->file, "ascii");
	s.interval_ns = 2 * SEC;
	draw_top_text(&text, m, &s);
	(void)snprintf(path, sizeof(path), "%s/test/data/top/%s.txt", TEST_SOURCE, g->file);
	if (getenv("TOP_GOLDEN_UPDATE"))
		assert_ok(file_write_atomic(path, buf_str(&text), text.len, 0644, &err), &err);
	assert_ok(file_read(path, &golden, &err), &err);
	if (strcmp(buf_str(&text), buf_str(&golden)) != 0)
		fail_msg("%s.txt has:\n%s\nthe screen is:\n%s", g->file, buf_str(&golden),
			buf_str(&text));
}

static void top_screen__matches_the_golden_files(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(goldens); i++)
		check_golden(&goldens[i]);
}

/* The documentation shows the present screen. */
static void docs__show_the_golden_screen(void **state)
{
	CLEANUP(buf_fini) struct buf page = BUF_INIT(1 << 20), golden = BUF_INIT(1 << 20);
	struct error err = ERROR_INIT;

	(void)state;
	assert_ok(file_read(TEST_SOURCE "/docs/top.md", &page, &err), &err);
	assert_ok(file_read(TEST_SOURCE "/test/data/top/mixed-120.txt", &golden, &err), &err);
	if (!strstr(buf_str(&page), buf_str(&golden)))
		fail_msg("docs/top.md does not have test/data/top/mixed-120.txt");
}

/* --- all sizes --- */

static size_t columns_of(const char *line, size_t len)
{
	wchar_t wide[1024];
	char copy[4096];
	size_t n;
	int width;

	assert_true(len < sizeof(copy));
	memcpy(copy, line, len);
	copy[len] = '\0';
	n = mbstowcs(wide, copy, ARRAY_LEN(wide) - 1);
	assert_true(n != (size_t)-1);
	wide[n] = L'\0';
	width = wcswidth(wide, n);
	assert_true(width >= 0);
	return (size_t)width;
}

static void check_size(const struct top_model *m, struct top_state *s)
{
	struct error err = ERROR_INIT;
	struct canvas c;
	const char *p;

	canvas_init(&c, s->width, s->utf8);
	assert_ok(top_screen(&c, m, s, &err), &err);
	if (s->height > 2 && c.lines > s->height)
		fail_msg("%u lines on %ux%u", c.lines, s->width, s->height);
	for (p = buf_str(&c.text); *p; p += strcspn(p, "\n") + 1) {
		if (columns_of(p, strcspn(p, "\n")) > s->width)
			fail_msg("too wide on %ux%u: %.*s", s->width, s->height,
				(int)strcspn(p, "\n"), p);
	}
	canvas_fini(&c);
}

static void top_screen__fits_every_terminal(void **state)
{
	(void)state;
	for (int kind = 0; kind < VIEW_SAMPLE_COUNT_; kind++) {
		CLEANUP(top_model_freep)
		struct top_model *m = model_of((enum view_sample_kind)kind);

		for (unsigned width = 1; width < 170; width += width < 20 ? 1 : 7) {
			for (unsigned height = 8; height < 60; height += 3) {
				struct top_state s = { .width = width,
					.height = height,
					.utf8 = true,
					.choice = { .table = (enum top_table)(
							    (width + height) % TOP_BOARDS) },
					.help = (width + height) % 5 == 0 };

				check_size(m, &s);
			}
		}
	}
}

/* --- styles --- */

/* Style of the run that has @text; -1: there is none. */
static int style_of(const struct canvas *c, const char *text)
{
	for (size_t i = 0; i < c->n_runs; i++) {
		const struct canvas_run *r = &c->runs[i];

		if (r->len >= strlen(text) &&
			memmem(c->text.data + r->begin, r->len, text, strlen(text)))
			return (int)r->style;
	}
	return -1;
}

static void check_style(const struct top_model *m, bool away, const char *text, int style)
{
	struct top_state s = { .width = 120,
		.utf8 = true,
		.choice = { .sort = TOP_BY_MEMORY },
		UNAVAILABLE_SINCE };
	struct error err = ERROR_INIT;
	struct canvas c;

	s.unavailable = away;
	canvas_init(&c, s.width, s.utf8);
	assert_ok(top_screen(&c, m, &s, &err), &err);
	if (style_of(&c, text) != style)
		fail_msg("'%s' has style %d, expected %d", text, style_of(&c, text), style);
	canvas_fini(&c);
}

static void top_screen__highlights_unhealthy_gpus(void **state)
{
	CLEANUP(top_model_freep) struct top_model *m = model_of(VIEW_SAMPLE_MIXED);

	(void)state;
	check_style(m, false, "unhealthy", CANVAS_BAD);
	check_style(m, false, "over limit", CANVAS_BAD);
	check_style(m, false, "healthy", CANVAS_GOOD);
	check_style(m, false, "XID 79", CANVAS_BAD);
	check_style(m, false, "NAMESPACE", CANVAS_HEAD);
	check_style(m, false, "MEMORY", CANVAS_SORTED);
	check_style(m, false, "ended", CANVAS_DIM);
	check_style(m, false, "jupyter-amelie", CANVAS_PLAIN);
	check_style(m, false, "STALE", -1);
}

static void top_screen__dims_old_figures(void **state)
{
	CLEANUP(top_model_freep) struct top_model *m = model_of(VIEW_SAMPLE_MIXED);

	(void)state;
	check_style(m, true, "STALE since 12:00:00 UTC (1m35s)", CANVAS_BAD);
	check_style(m, true, "jupyter-amelie", CANVAS_DIM);
	check_style(m, true, "unhealthy", CANVAS_BAD);
}

/* --- runs cover the text --- */

static void canvas__has_each_byte_in_one_run(void **state)
{
	CLEANUP(top_model_freep) struct top_model *m = model_of(VIEW_SAMPLE_MIXED);
	struct top_state s = { .width = 90, .height = 40, .utf8 = true };
	struct error err = ERROR_INIT;
	struct canvas c;
	size_t at = 0;

	(void)state;
	canvas_init(&c, s.width, s.utf8);
	assert_ok(top_screen(&c, m, &s, &err), &err);
	for (size_t i = 0; i < c.n_runs; i++) {
		while (at < c.text.len && c.text.data[at] == '\n')
			at++;
		assert_int_equal(c.runs[i].begin, at);
		assert_null(memchr(c.text.data + at, '\n', c.runs[i].len));
		at += c.runs[i].len;
	}
	canvas_fini(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(top_screen__matches_the_golden_files),
		cmocka_unit_test(docs__show_the_golden_screen),
		cmocka_unit_test(top_screen__fits_every_terminal),
		cmocka_unit_test(top_screen__highlights_unhealthy_gpus),
		cmocka_unit_test(top_screen__dims_old_figures),
		cmocka_unit_test(canvas__has_each_byte_in_one_run),
	};

	(void)setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
