/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines of styled text of a known width. Text beyond the width is cut, so that no line is longer than
 * the terminal's, whatever the names. Both outputs use the canvas: ncurses draws it, and plain text
 * prints it.
 * Thread: the owner's of the canvas; any for the width of text (pure, except for the locale).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* --- the width of text --- */

/*
 * Measures the columns that a text takes on a terminal, and cuts texts to columns. The texts come from
 * outside. Control characters, also those beyond ASCII, and characters that the terminal cannot show
 * become '?'.
 *
 * Characters beyond ASCII need a UTF-8 locale of the process (setlocale()). If @utf8 is false, or the
 * text is not valid UTF-8, each of them becomes one '?'.
 */

enum width_side {
	WIDTH_LEFT,
	WIDTH_RIGHT,
	WIDTH_NAME, /* left; cut in the middle, as the end distinguishes the names of pods */
	WIDTH_CUT   /* left, without blanks after it */
};

/* The columns that @text takes. */
size_t width_measure_text(const char *text, bool utf8);

/* Appends @text in exactly @width columns (WIDTH_CUT: at most): filled with blanks, or cut with an
 * ellipsis. Returns the number of columns. */
size_t width_fit(struct buf *b, const char *text, size_t width, enum width_side side,
	bool utf8);

/* --- the canvas --- */

enum canvas_style {
	CANVAS_PLAIN,
	CANVAS_BOLD,
	CANVAS_DIM,
	CANVAS_GOOD,
	CANVAS_WARN,
	CANVAS_BAD,
	CANVAS_HEAD,   /* heads of a table */
	CANVAS_SORTED, /* head of the sort column */
	CANVAS_STYLE_COUNT_,
};

/* A run of one style within a line. Runs are in order and have no gaps. */
struct canvas_run {
	uint32_t line;
	uint32_t begin, len; /* in bytes of .text */
	enum canvas_style style;
};

struct canvas {
	unsigned width;
	bool utf8;
	bool faded;      /* the text that follows is stale: plain text becomes dim */
	struct buf text; /* lines, each with '\n' at its end */
	struct canvas_run *runs;
	size_t n_runs, room_runs;
	uint32_t lines;
	size_t column; /* of the current line */
	bool failed;   /* out of memory */
};

#define CANVAS_BYTES_MAX (16U << 20)

/* An empty canvas of @width columns. It takes no memory before the first text. */
void canvas_init(struct canvas *c, unsigned width, bool utf8);
void canvas_fini(struct canvas *c);

/* Appends text to the current line, cut with an ellipsis at the end of the line. */
void canvas_add(struct canvas *c, enum canvas_style style, const char *text);
void canvas_addf(struct canvas *c, enum canvas_style style, const char *fmt, ...) PRINTF(3, 4);

/* Appends @text in exactly @width columns, or in the rest of the line if that is less. */
void canvas_cell(struct canvas *c, enum canvas_style style, const char *text, size_t width,
	enum width_side side);

/* Columns left in the current line. */
size_t canvas_left(const struct canvas *c);
void canvas_end_line(struct canvas *c);

/* Fills the rest of the line with @fill. */
void canvas_fill(struct canvas *c, enum canvas_style style, char fill);

/* The text for output without a screen: without blanks at the ends of lines. */
int canvas_print(const struct canvas *c, struct buf *to, struct error *err) MUST_USE;
