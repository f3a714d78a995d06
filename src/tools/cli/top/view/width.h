/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Measures the columns that a text takes on a terminal, and cuts texts to columns. The texts come from
 * outside. Control characters, also those beyond ASCII, and characters that the terminal cannot show
 * become '?'.
 *
 * Characters beyond ASCII need a UTF-8 locale of the process (setlocale()). If @utf8 is false, or the
 * text is not valid UTF-8, each of them becomes one '?'.
 * Thread: any (pure, except for the locale).
 */
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

enum width_side {
	WIDTH_LEFT,
	WIDTH_RIGHT,
	WIDTH_NAME, /* left; cut in the middle, as the end distinguishes the names of pods */
	WIDTH_CUT   /* left, without blanks after it */
};

size_t width_measure_text(const char *text, bool utf8);

/* Appends @text in exactly @width columns (WIDTH_CUT: at most): filled with blanks, or cut with an
 * ellipsis. Returns the number of columns. */
size_t width_fit(struct buf *b, const char *text, size_t width, enum width_side side,
	bool utf8);
