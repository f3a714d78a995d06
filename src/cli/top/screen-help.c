/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/screen-parts.h"

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

/* The columns that need a word. */
static const struct {
	const char *head, *what;
} heads[] = {
	{ "SHARE", "of a whole GPU, as configured" },
	{ "GOT", "of a whole GPU, in the agent's last interval" },
	{ "PEAK", "the most memory since the container began" },
	{ "TURNS", "times that it was let onto the GPU; WAITS: times that it waited for that" },
	{ "COST/H", "its share of the node's price" },
};

void screen_help(struct canvas *c)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		canvas_cell(c, CANVAS_BOLD, keys[i].key, 8, WIDTH_LEFT);
		canvas_put(c, CANVAS_PLAIN, keys[i].what);
		canvas_end_line(c);
	}
	canvas_end_line(c);
	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		canvas_cell(c, CANVAS_BOLD, heads[i].head, 8, WIDTH_LEFT);
		canvas_put(c, CANVAS_PLAIN, heads[i].what);
		canvas_end_line(c);
	}
}
