/* SPDX-License-Identifier: Apache-2.0 */
/* The screen from top to bottom: the head, the GPUs, the table or the help, the line of keys. */
#include "tools/cli/top/view/view.h"

#include "lib/base/time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* --- the head --- */

#define NARROW   60 /* columns */
#define LOW      16 /* lines; a lower screen has only one head line */
#define PART_MAX 320

/* Formats "2026-11-25T12:00:00.000Z" for the head. The text comes from another process. */
static void format_sample_time(char *ret, size_t cap, const char *wall, bool narrow)
{
	if (strlen(wall) < 19 || wall[10] != 'T')
		(void)snprintf(ret, cap, "%.24s", wall);
	else if (narrow)
		(void)snprintf(ret, cap, "%.8s", wall + 11);
	else
		(void)snprintf(ret, cap, "%.10s %.8s UTC", wall, wall + 11);
}

/* Adds a part after two blanks if it fits as a whole. The first part of a line is always added, cut
 * if necessary. */
static void add_head_part(struct canvas *c, enum canvas_style style, const char *text)
{
	if (c->column == 0) {
		canvas_add(c, style, text);
	} else if (width_measure_text(text, c->utf8) + 2 <= canvas_left(c)) {
		canvas_add(c, CANVAS_PLAIN, "  ");
		canvas_add(c, style, text);
	}
}

static void add_head_partf(struct canvas *c, enum canvas_style style, const char *fmt, ...)
	PRINTF(3, 4);
static void add_head_partf(struct canvas *c, enum canvas_style style, const char *fmt, ...)
{
	char text[PART_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_head_part(c, style, text);
}

static void add_stale_part(struct canvas *c, const struct top_model *m,
	const struct top_state *s)
{
	char since[TIME_RFC3339_MAX], age[TIME_AGE_MAX];

	time_rfc3339(s->unavailable_since_wall_ns, since);
	time_age(s->now_wall_ns > s->unavailable_since_wall_ns
			 ? s->now_wall_ns - s->unavailable_since_wall_ns
			 : 0,
		age);
	canvas_addf(c, CANVAS_BAD, "%s since %.8s UTC (%s): %s", m ? "STALE" : "NO ANSWER",
		since + 11, age, s->why.msg);
	canvas_end_line(c);
}

/* A low screen shows only the first problem. */
static void draw_problem_line(struct canvas *c, const struct top_state *s, const char *what,
	const char *why)
{
	if (!*why || (s->height && s->height < LOW && c->lines > 1))
		return;
	canvas_add(c, CANVAS_WARN, what);
	canvas_add(c, CANVAS_PLAIN, ": ");
	canvas_add(c, CANVAS_PLAIN, why);
	canvas_end_line(c);
}

static void second_line(struct canvas *c, const struct top_model *m)
{
	char money[FIGURE_MAX];

	add_head_partf(c, CANVAS_PLAIN, "Driver %s",
		*m->driver_version ? m->driver_version : "unknown");
	add_head_partf(c, CANVAS_PLAIN, "CUDA %s",
		*m->cuda_version ? m->cuda_version : "unknown");
	if (m->config_generation != TOP_UNKNOWN)
		add_head_partf(c, CANVAS_PLAIN, "Config %" PRIu64 "%s%s", m->config_generation,
			*m->config_sharing ? ", " : "", m->config_sharing);
	if (m->n_gpus > 0 || m->nvml_up)
		add_head_partf(c, CANVAS_PLAIN, "%zu GPU%s", m->n_gpus,
			m->n_gpus == 1 ? "" : "s");
	else
		add_head_part(c, CANVAS_PLAIN, "GPUs unknown");
	if (m->priced)
		add_head_partf(c, CANVAS_PLAIN, "%s %s/h",
			figure_money(money, m->price_nano_per_hour), m->currency);
	canvas_end_line(c);
}

/* Time, node, driver, config, and their problems. @m may be NULL. */
static void screen_head(struct canvas *c, const struct top_model *m, const struct top_state *s)
{
	bool narrow = c->width < NARROW;
	char when[PART_MAX];

	if (m) {
		format_sample_time(when, sizeof(when), m->wall_time, narrow);
		add_head_part(c, CANVAS_BOLD, when);
		add_head_part(c, CANVAS_BOLD, *m->node ? m->node : m->hostname);
		add_head_partf(c, CANVAS_PLAIN, "gpuslice %s",
			*m->agent_version ? m->agent_version : "unknown");
	} else {
		add_head_part(c, CANVAS_BOLD, "gpuslice top");
	}
	if (s->paused)
		add_head_part(c, CANVAS_WARN, "paused");
	canvas_end_line(c);
	if (m && !(s->height && s->height < LOW))
		second_line(c, m);
	if (s->unavailable)
		add_stale_part(c, m, s);
	if (!m)
		return;
	if (!m->nvml_up)
		draw_problem_line(c, s, "NVML is not usable",
			*m->nvml_error ? m->nvml_error : "starting");
	draw_problem_line(c, s, "Config refused, the one before stays", m->config_error);
	if (m->n_warnings > 1)
		draw_problem_line(c, s, "Warnings, the first", m->warning);
	else if (m->n_warnings)
		draw_problem_line(c, s, "Warning", m->warning);
	if (m->n_degraded) {
		(void)snprintf(when, sizeof(when), "Degraded, %.64s", m->degraded);
		draw_problem_line(c, s, when, m->degraded_reason);
	}
	if (!m->holders_known)
		draw_problem_line(c, s, "Pods are not known",
			*m->holders_error ? m->holders_error
					  : "the kubelet has not answered yet");
}

/* --- the frame of the GPUs, as nvidia-smi's --- */

/* Widths between the bars; the first column gets the rest. */
#define SECOND      24
#define THIRD       22
#define BARS        4
#define HEAD_ROWS   4
#define FRAME_WIDTH 80 /* minimum */
#define HOT_C       85 /* degrees C; GPUs begin to throttle near it */

static size_t first_width(const struct canvas *c)
{
	return c->width - SECOND - THIRD - BARS;
}

static void draw_frame_fill(struct canvas *c, char fill, size_t n)
{
	char text[2] = { fill, '\0' };

	while (n--)
		canvas_add(c, CANVAS_PLAIN, text);
}

static void draw_frame_rule(struct canvas *c, char corner, char fill, char cross)
{
	char ends[2] = { corner, '\0' }, inner[2] = { cross, '\0' };

	canvas_add(c, CANVAS_PLAIN, ends);
	draw_frame_fill(c, fill, first_width(c));
	canvas_add(c, CANVAS_PLAIN, inner);
	draw_frame_fill(c, fill, SECOND);
	canvas_add(c, CANVAS_PLAIN, inner);
	draw_frame_fill(c, fill, THIRD);
	canvas_add(c, CANVAS_PLAIN, ends);
	canvas_end_line(c);
}

struct screen_piece {
	const char *text;
	enum canvas_style style;
};

/* " left      right " in @width columns; only the left text is cut. */
static void draw_frame_box(struct canvas *c, struct screen_piece left,
	struct screen_piece right, size_t width)
{
	size_t taken = width_measure_text(right.text, c->utf8);

	canvas_add(c, CANVAS_PLAIN, "|");
	if (taken > width - 2)
		taken = width - 2;
	canvas_add(c, CANVAS_PLAIN, " ");
	canvas_cell(c, left.style, left.text, width - 2 - taken, WIDTH_LEFT);
	canvas_cell(c, right.style, right.text, taken, WIDTH_LEFT);
	canvas_add(c, CANVAS_PLAIN, " ");
}

static struct screen_piece make_plain_piece(const char *text)
{
	return (struct screen_piece){ .text = text, .style = CANVAS_PLAIN };
}

static void end_boxes(struct canvas *c)
{
	canvas_add(c, CANVAS_PLAIN, "|");
	canvas_end_line(c);
}

static void draw_frame_head(struct canvas *c)
{
	draw_frame_rule(c, '+', '-', '+');
	draw_frame_box(c, make_plain_piece("GPU  Name"), make_plain_piece(""), first_width(c));
	draw_frame_box(c, make_plain_piece("Bus-Id"), make_plain_piece("MIG"), SECOND);
	draw_frame_box(c, make_plain_piece("Health"), make_plain_piece("Last XID"), THIRD);
	end_boxes(c);
	draw_frame_box(c, make_plain_piece("     Temp"), make_plain_piece("Pwr:Usage/Cap"),
		first_width(c));
	draw_frame_box(c, make_plain_piece(""), make_plain_piece("Memory-Usage"), SECOND);
	draw_frame_box(c, make_plain_piece("GPU-Util"), make_plain_piece("Held"), THIRD);
	end_boxes(c);
	draw_frame_rule(c, '|', '=', '+');
}

static struct screen_piece get_health_piece(const struct top_gpu *g)
{
	if (!g->present)
		return (struct screen_piece){ .text = "gone", .style = CANVAS_BAD };
	if (strcmp(g->health, "healthy") != 0)
		return (struct screen_piece){ .text = *g->health ? g->health : "unknown",
			.style = CANVAS_BAD };
	if (*g->refused)
		return (struct screen_piece){ .text = "refused", .style = CANVAS_WARN };
	return (struct screen_piece){ .text = "healthy", .style = CANVAS_GOOD };
}

static const char *reason_of(const struct top_gpu *g)
{
	return *g->reason ? g->reason : g->refused;
}

static void name_line(struct canvas *c, const struct top_gpu *g)
{
	char name[256], xid[16] = "-", index[16] = "-";

	if (g->index != TOP_NONE)
		(void)snprintf(index, sizeof(index), "%" PRIu32, g->index);
	(void)snprintf(name, sizeof(name), "%3s  %s", index, *g->name ? g->name : "unknown");
	if (g->last_xid != 0 && g->last_xid != TOP_NONE)
		(void)snprintf(xid, sizeof(xid), "%" PRIu32, g->last_xid);
	draw_frame_box(c, (struct screen_piece){ .text = name, .style = CANVAS_BOLD },
		make_plain_piece(""), first_width(c));
	draw_frame_box(c, make_plain_piece(*g->bus_id ? g->bus_id : "-"),
		make_plain_piece(top_mig_mode(g)), SECOND);
	draw_frame_box(c, get_health_piece(g),
		(struct screen_piece){ .text = xid,
			.style = *xid == '-' ? CANVAS_PLAIN : CANVAS_WARN },
		THIRD);
	end_boxes(c);
}

static uint64_t widen_frame_figure(uint32_t v)
{
	return v == TOP_NONE ? TOP_UNKNOWN : v;
}

static void figures_line(struct canvas *c, const struct top_gpu *g)
{
	char temperature[FIGURE_MAX + 8], power[2 * FIGURE_MAX + 8], memory[2 * FIGURE_MAX + 8],
		busy[FIGURE_MAX], held[FIGURE_MAX], a[FIGURE_MAX], b[FIGURE_MAX];

	(void)snprintf(temperature, sizeof(temperature), "     %4s",
		figure_real(a, g->temperature, "C"));
	(void)snprintf(power, sizeof(power), "%s / %4s", figure_real(a, g->power_watts, "W"),
		figure_real(b, g->power_limit_watts, "W"));
	(void)snprintf(memory, sizeof(memory), "%s / %8s", figure_mib(a, g->memory_used),
		figure_mib(b, g->memory_total));
	draw_frame_box(c,
		(struct screen_piece){ .text = temperature,
			.style = g->temperature >= HOT_C ? CANVAS_WARN : CANVAS_PLAIN },
		make_plain_piece(power), first_width(c));
	draw_frame_box(c, make_plain_piece(""), make_plain_piece(memory), SECOND);
	(void)snprintf(a, sizeof(a), "%6s",
		figure_whole_percent(busy, widen_frame_figure(g->busy)));
	draw_frame_box(c, make_plain_piece(a),
		make_plain_piece(figure_whole_percent(held, widen_frame_figure(g->allocated))),
		THIRD);
	end_boxes(c);
}

static void reason_line(struct canvas *c, const struct top_gpu *g)
{
	canvas_add(c, CANVAS_PLAIN, "|      ");
	canvas_cell(c, CANVAS_BAD, reason_of(g), canvas_left(c) - 2, WIDTH_LEFT);
	canvas_add(c, CANVAS_PLAIN, " |");
	canvas_end_line(c);
}

/* Two lines for each GPU, and a third if there is a reason. Needs FRAME_WIDTH columns. */
static void screen_frame(struct canvas *c, const struct top_model *m)
{
	draw_frame_head(c);
	for (size_t i = 0; i < m->n_gpus; i++) {
		name_line(c, &m->gpus[i]);
		figures_line(c, &m->gpus[i]);
		if (*reason_of(&m->gpus[i]))
			reason_line(c, &m->gpus[i]);
	}
	draw_frame_rule(c, '+', '-', '+');
}

static size_t screen_frame_lines(const struct top_model *m)
{
	size_t lines = HEAD_ROWS + 1;

	for (size_t i = 0; i < m->n_gpus; i++)
		lines += *reason_of(&m->gpus[i]) ? 3 : 2;
	return lines;
}

/* --- the help --- */

#define WORD_WIDTH 8
#define LINES_MAX  100

static const struct {
	const char *key, *what;
} keys[] = {
	{ "p", "containers, a row for each GPU that one is on" },
	{ "l", "slices: every seat, held or free" },
	{ "g", "GPUs and MIG devices" },
	{ "s, S", "sort by the next column, the one before" },
	{ "r", "the other way round" },
	{ "/", "filter: part of a namespace, pod, container, resource, UUID" },
	{ "i", "hide what is idle" },
	{ "arrows", "scroll; also PgUp, PgDn, Home, End" },
	{ "+, -", "look less often, more often" },
	{ "space", "hold the picture" },
	{ "q", "quit" },
};

/* Columns that need an explanation. */
static const struct {
	const char *head, *what;
} heads[] = {
	{ "SHARE", "of a whole GPU, as configured" },
	{ "GOT", "of a whole GPU, in the agent's last interval" },
	{ "PEAK", "the most memory since the container began" },
	{ "TURNS", "times that it was let onto the GPU; WAITS: times that it waited for that" },
	{ "COST/H", "its share of the node's price" },
};

static void draw_help_line(struct canvas *c, uint32_t end, const char *word, const char *what)
{
	if (c->lines >= end)
		return;
	canvas_cell(c, CANVAS_BOLD, word, WORD_WIDTH, WIDTH_LEFT);
	canvas_add(c, CANVAS_PLAIN, what);
	canvas_end_line(c);
}

/* The keys, in at most @lines. */
static void screen_help(struct canvas *c, size_t lines)
{
	uint32_t end = c->lines + (uint32_t)(lines < LINES_MAX ? lines : LINES_MAX);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		draw_help_line(c, end, keys[i].key, keys[i].what);
	draw_help_line(c, end, "", "");
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		draw_help_line(c, end, heads[i].head, heads[i].what);
}

/* --- the screen --- */

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
