/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/screen/screen.h"

#include "tools/cli/top/view/columns.h"
#include "tools/cli/top/view/screen/internal.h"

#include <stdio.h>
#include <string.h>

#define UNLIMITED       SIZE_MAX
#define KEY_LINES       1
#define TABLE_LINES     4 /* minimum height of the table below the frame: head and three rows */
#define TABLE_LINES_MIN 12 /* with fewer the GPUs have no table of their own */

/* Lines left above the key line. */
static size_t get_lines_left(const struct canvas *c, const struct top_state *s)
{
	size_t taken = c->lines + KEY_LINES;

	if (s->height == 0)
		return UNLIMITED;
	return s->height > taken ? s->height - taken : 0;
}

/* --- the GPUs above the table --- */

static int draw_boards(struct canvas *c, const struct top_model *m, size_t lines,
	struct error *err)
{
	const struct top_choice choice = { .table = TOP_BOARDS };
	struct columns_options style = { .table = TOP_BOARDS, .sort = TOP_SORT_COUNT_ };
	struct top_rows rows;
	size_t shown = lines - 1;

	if (top_rows_make(&rows, m, &choice, err) < 0)
		return -1;
	if (shown < rows.n)
		shown--; /* for the line with the number of GPUs that are not shown */
	columns_draw(c, &rows, 0, shown, &style);
	if (shown < rows.n) {
		canvas_addf(c, CANVAS_DIM, "%zu more GPUs: g shows GPUs alone", rows.n - shown);
		canvas_end_line(c);
	}
	top_rows_fini(&rows);
	return 0;
}

/* Draws the GPUs in the frame if there is room. Otherwise one line each, and only as many as leave
 * half of the screen to the table below. */
static int draw_gpus(struct canvas *c, const struct top_model *m, const struct top_state *s,
	struct error *err)
{
	size_t left = get_lines_left(c, s), half = left == UNLIMITED ? left : left / 2;

	if (m->n_gpus == 0) {
		canvas_add(c, CANVAS_WARN,
			m->nvml_up ? "no GPUs" : "GPUs are not known: NVML has not answered");
		canvas_end_line(c);
		return 0;
	}
	if (c->width >= FRAME_WIDTH && screen_frame_lines(m) <= half) {
		screen_frame(c, m);
		return 0;
	}
	if (left < TABLE_LINES_MIN)
		return 0;
	if (half > m->n_gpus + 1)
		half = m->n_gpus + 1;
	return draw_boards(c, m, half, err);
}

/* --- the table --- */

static const char *what_of(enum top_table t)
{
	return t == TOP_SLICES ? "slices" : t == TOP_GPUS ? "GPUs" : "containers";
}

/* Explains a table without rows. @any: some rows are hidden. */
static void print_empty_table(struct canvas *c, const struct top_model *m, enum top_table table,
	bool any)
{
	if (any)
		canvas_addf(c, CANVAS_DIM, "no %s that match", what_of(table));
	else if (table == TOP_PODS && !m->holders_known)
		canvas_add(c, CANVAS_WARN,
			"containers are not known: the kubelet has not answered; check its PodResources socket "
			"(gpusliced --kubelet-dir)");
	else if (table == TOP_GPUS && !m->nvml_up)
		canvas_add(c, CANVAS_WARN, "GPUs are not known: NVML has not answered");
	else
		canvas_addf(c, CANVAS_DIM, "no %s", what_of(table));
	canvas_end_line(c);
}

static void clamp_scroll(struct top_state *s, size_t n)
{
	size_t max = n > s->page ? n - s->page : 0;

	if (s->scroll > max)
		s->scroll = max;
}

static int draw_table(struct canvas *c, const struct top_model *m, struct top_state *s,
	size_t *ret_n, size_t *ret_all, struct error *err)
{
	const struct columns_options style = { .table = s->choice.table,
		.sort = s->choice.sort,
		.priced = m->priced };
	size_t left = get_lines_left(c, s);
	struct top_rows rows;

	if (top_rows_make(&rows, m, &s->choice, err) < 0)
		return -1;
	s->page = left == UNLIMITED ? rows.n : left > 0 ? left - 1 : 0;
	clamp_scroll(s, rows.n);
	if (left > 0 && rows.n > 0)
		columns_draw(c, &rows, s->scroll, s->page, &style);
	if (left > 0 && rows.n == 0)
		print_empty_table(c, m, s->choice.table, rows.all > 0);
	*ret_n = rows.n;
	*ret_all = rows.all;
	top_rows_fini(&rows);
	return 0;
}

/* --- the key line --- */

static void key_line(struct canvas *c, const struct top_state *s, size_t n, size_t all)
{
	char where[128] = "";

	if (s->typing) {
		canvas_addf(c, CANVAS_BOLD, "filter: %s_", s->choice.filter);
		return;
	}
	if (n)
		(void)snprintf(where, sizeof(where), "%zu-%zu of %zu %s", s->scroll + 1,
			s->scroll + s->page < n ? s->scroll + s->page : n, n,
			what_of(s->choice.table));
	canvas_add(c, CANVAS_DIM, where);
	if (n < all)
		canvas_addf(c, CANVAS_DIM, "%s(%zu hidden)", n ? " " : "", all - n);
	if (*s->choice.filter)
		canvas_addf(c, CANVAS_BOLD, "  filter %s", s->choice.filter);
	canvas_addf(c, CANVAS_DIM, "  by %s%s  every %gs  ?=help q=quit",
		top_sort_name(s->choice.sort), s->choice.reverse ? " reversed" : "",
		(double)s->interval_ns / 1e9);
}

/* Draws the key line as the last line of the screen. */
static void draw_screen_end(struct canvas *c, const struct top_state *s, size_t n, size_t all)
{
	if (s->height == 0)
		return;
	while (c->lines + KEY_LINES < s->height)
		canvas_end_line(c);
	key_line(c, s, n, all);
	canvas_end_line(c);
}

int top_screen(struct canvas *c, const struct top_model *m, struct top_state *s,
	struct error *err)
{
	size_t n = 0, all = 0;

	screen_head(c, m, s);
	c->faded = s->unavailable;
	if (s->help)
		screen_help(c, get_lines_left(c, s));
	else if (m && s->choice.table != TOP_GPUS && draw_gpus(c, m, s, err) < 0)
		return -1;
	else if (m && s->choice.table == TOP_GPUS && c->width >= FRAME_WIDTH &&
		 screen_frame_lines(m) + TABLE_LINES <= get_lines_left(c, s))
		screen_frame(c, m);
	if (m && !s->help && draw_table(c, m, s, &n, &all, err) < 0)
		return -1;
	c->faded = false;
	draw_screen_end(c, s, n, all);
	if (c->failed || !buf_ok(&c->text))
		return error_nomem(err);
	return 0;
}
