/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/screen/internal.h"

#include "tools/cli/top/view/figures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Widths between the bars; the first column gets the rest. */
#define SECOND    24
#define THIRD     22
#define BARS      4
#define HEAD_ROWS 4
#define HOT_C     85 /* degrees C; GPUs begin to throttle near it */

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

void screen_frame(struct canvas *c, const struct top_model *m)
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

size_t screen_frame_lines(const struct top_model *m)
{
	size_t lines = HEAD_ROWS + 1;

	for (size_t i = 0; i < m->n_gpus; i++)
		lines += *reason_of(&m->gpus[i]) ? 3 : 2;
	return lines;
}
