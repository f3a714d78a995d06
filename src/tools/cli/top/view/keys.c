/* SPDX-License-Identifier: Apache-2.0 */
/* What a key does in `gpuslice top` (view.h). */
#include "tools/cli/top/view/view.h"

#include <string.h>

#define SEC UINT64_C(1000000000)

static const uint64_t intervals[] = { TOP_INTERVAL_MIN_NS, SEC, 2 * SEC, 5 * SEC, 10 * SEC,
	30 * SEC, 60 * SEC, 300 * SEC };

static void lengthen_interval(struct top_state *s)
{
	for (size_t i = 0; i < ARRAY_LEN(intervals); i++) {
		if (intervals[i] > s->interval_ns) {
			s->interval_ns = intervals[i];
			return;
		}
	}
}

static void shorten_interval(struct top_state *s)
{
	for (size_t i = ARRAY_LEN(intervals); i-- > 0;) {
		if (intervals[i] < s->interval_ns) {
			s->interval_ns = intervals[i];
			return;
		}
	}
}

static void select_top_table(struct top_state *s, enum top_table table)
{
	s->choice.table = table;
	s->scroll = 0;
	if (!top_sort_fits(s->choice.sort, table))
		s->choice.sort = TOP_BY_GPU;
}

/* To the next sort column of this table (@step 1), or to the one before. */
static void step_sort(struct top_state *s, unsigned step)
{
	do {
		s->choice.sort = (s->choice.sort + step) % TOP_SORT_COUNT_;
	} while (!top_sort_fits(s->choice.sort, s->choice.table));
}

static void scroll_up(struct top_state *s, size_t n)
{
	s->scroll -= n < s->scroll ? n : s->scroll;
}

/* May go beyond the end; top_screen() corrects it. */
static void scroll_down(struct top_state *s, size_t n)
{
	s->scroll = n > SIZE_MAX - s->scroll ? SIZE_MAX : s->scroll + n;
}

static bool scroll_by_key(struct top_state *s, int key)
{
	size_t page = s->page > 1 ? s->page - 1 : 1;

	switch (key) {
	case TOP_KEY_UP:
		scroll_up(s, 1);
		return true;
	case TOP_KEY_DOWN:
		scroll_down(s, 1);
		return true;
	case TOP_KEY_PAGE_UP:
		scroll_up(s, page);
		return true;
	case TOP_KEY_PAGE_DOWN:
		scroll_down(s, page);
		return true;
	case TOP_KEY_HOME:
		s->scroll = 0;
		return true;
	case TOP_KEY_END:
		s->scroll = SIZE_MAX;
		return true;
	default:
		return false;
	}
}

/* --- typing a filter --- */

/* Removes one character, all of its bytes. */
static void rub_out(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
		n--;
	if (n > 0)
		n--;
	text[n] = '\0';
}

static enum top_action apply_filter_key(struct top_state *s, int key)
{
	char *filter = s->choice.filter;
	size_t n = strlen(filter);

	s->scroll = 0;
	if (key == TOP_KEY_ENTER || key == '\n' || key == '\r') {
		s->typing = false;
	} else if (key == TOP_KEY_ESCAPE || key == '\033') {
		s->typing = false;
		memcpy(filter, s->before, TOP_FILTER_MAX);
	} else if (key == TOP_KEY_BACKSPACE || key == '\b' || key == 0x7f) {
		rub_out(filter);
	} else if (key == ('u' & 0x1f)) {
		filter[0] = '\0';
	} else if (key >= ' ' && key < 0x100 && n + 1 < TOP_FILTER_MAX) {
		filter[n] = (char)key;
		filter[n + 1] = '\0';
	} else {
		return TOP_NOTHING;
	}
	return TOP_REDRAW;
}

static void begin_typing(struct top_state *s)
{
	memcpy(s->before, s->choice.filter, TOP_FILTER_MAX);
	s->typing = true;
}

enum top_action top_press(struct top_state *s, int key)
{
	if (s->typing)
		return apply_filter_key(s, key);
	if (scroll_by_key(s, key))
		return TOP_REDRAW;
	if (s->help && key != 'q') {
		s->help = false;
		return TOP_REDRAW;
	}
	switch (key) {
	case 'q':
		return TOP_QUIT;
	case 'p':
		select_top_table(s, TOP_PODS);
		break;
	case 'l':
		select_top_table(s, TOP_SLICES);
		break;
	case 'g':
		select_top_table(s, TOP_GPUS);
		break;
	case 's':
		step_sort(s, 1);
		break;
	case 'S':
		step_sort(s, TOP_SORT_COUNT_ - 1);
		break;
	case 'r':
		s->choice.reverse = !s->choice.reverse;
		break;
	case 'i':
		s->choice.hide_idle = !s->choice.hide_idle;
		break;
	case '/':
		begin_typing(s);
		break;
	case '?':
	case 'h':
		s->help = true;
		break;
	case ' ':
		s->paused = !s->paused;
		break;
	case '+':
	case '=':
		lengthen_interval(s);
		break;
	case '-':
		shorten_interval(s);
		break;
	default:
		return TOP_NOTHING;
	}
	return TOP_REDRAW;
}
