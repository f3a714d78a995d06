/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many columns of a terminal a text takes, and texts cut to columns. Others wrote these texts: what would
 * drive the terminal (control characters, also those beyond ASCII) and what the terminal cannot show becomes '?'.
 *
 * Needs the process to be in a UTF-8 locale (setlocale()) for anything but ASCII; where @utf8 is false, or
 * the text is not valid UTF-8, every character beyond ASCII is one '?'.
 * Thread: any (pure but for the locale).
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum width_side {
	WIDTH_LEFT,
	WIDTH_RIGHT,
	WIDTH_NAME, /* left; cut in its middle, as the end is what tells names of pods apart */
	WIDTH_CUT   /* no blanks behind */
};

size_t width_measure_text(const char *text, bool utf8);

/* Appends @text in exactly @width columns (at most as many with WIDTH_CUT): filled with blanks, or cut
 * with an ellipsis. Returns the columns. */
size_t width_fit(struct buf *b, const char *text, size_t width, enum width_side side,
	bool utf8);
