/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stands on the screen: a model and what was chosen, as lines. Text and no terminal, so that tests and
 * --once see the same as who looks.
 * Thread: any (pure but for the locale).
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
	bool typing;                 /* of a filter: it holds already */
	char before[TOP_FILTER_MAX]; /* the filter that comes back with Escape */
	size_t scroll;               /* rows above the first that is shown */
	size_t page;                 /* rows that were shown last; set by top_screen() */
	unsigned width, height;      /* height 0: as long as it gets, and no line of keys */
	bool utf8;
	uint64_t interval_ns;
	bool unavailable; /* the last answer was none: */
	uint64_t unavailable_since_wall_ns, now_wall_ns;
	struct error why;
};

/* @m NULL: there was no answer yet. Puts .scroll right and sets .page. */
int top_screen(struct canvas *c, const struct top_model *m, struct top_state *s,
	struct error *err) MUST_USE;
