/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/cli/top/view/screen/internal.h"

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

void screen_help(struct canvas *c, size_t lines)
{
	uint32_t end = c->lines + (uint32_t)(lines < LINES_MAX ? lines : LINES_MAX);

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		draw_help_line(c, end, keys[i].key, keys[i].what);
	draw_help_line(c, end, "", "");
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		draw_help_line(c, end, heads[i].head, heads[i].what);
}
