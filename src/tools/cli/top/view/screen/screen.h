/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The screen: a model and the user's choices as lines. The screen is text without a terminal, so that
 * tests and --once get the same lines as a terminal.
 * Thread: any (pure, except for the locale).
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/canvas.h"
#include "tools/cli/top/view/rows.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct top_state {
	struct top_choice choice;
	bool help, paused;
	bool typing;                 /* the user types a filter, which already applies */
	char before[TOP_FILTER_MAX]; /* the filter that Escape restores */
	size_t scroll;               /* rows above the first shown row */
	size_t page;                 /* rows that fit the table; set by top_screen() */
	unsigned width, height;      /* .height 0: no limit, and no key line */
	bool utf8;
	uint64_t interval_ns;
	bool unavailable; /* the last request failed; details: */
	uint64_t unavailable_since_wall_ns, now_wall_ns;
	struct error why;
};

/* @m NULL: no answer yet. Corrects .scroll and sets .page. */
int top_screen(struct canvas *c, const struct top_model *m, struct top_state *s,
	struct error *err) MUST_USE;
