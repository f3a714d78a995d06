/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines of styled text of a known width. What is put behind the width is cut, so that no line is ever longer than
 * the terminal's, whatever names there are. The same canvas is drawn by ncurses and printed as plain text.
 * Thread: whoever owns it.
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "tools/cli/top/view/width.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum canvas_style {
	CANVAS_PLAIN,
	CANVAS_BOLD,
	CANVAS_DIM,
	CANVAS_GOOD,
	CANVAS_WARN,
	CANVAS_BAD,
	CANVAS_HEAD,   /* head of a table */
	CANVAS_SORTED, /* and of the column that it is sorted by */
	CANVAS_STYLE_COUNT_,
};

/* A run of one style within a line; runs come in order and leave no gap. */
struct canvas_run {
	uint32_t line;
	uint32_t begin, len; /* bytes of .text */
	enum canvas_style style;
};

struct canvas {
	unsigned width;
	bool utf8;
	bool faded;      /* what is put now is old: plain text is dim */
	struct buf text; /* lines, each ended by '\n' */
	struct canvas_run *runs;
	size_t n_runs, cap_runs;
	uint32_t lines;
	size_t column; /* of the line that is being written */
	bool failed;   /* out of memory */
};

#define CANVAS_BYTES_MAX (16U << 20)

void canvas_init(struct canvas *c, unsigned width, bool utf8);
void canvas_fini(struct canvas *c);

/* Text at the end of the line that is being written, cut with an ellipsis where the line ends. */
void canvas_add(struct canvas *c, enum canvas_style style, const char *text);
void canvas_addf(struct canvas *c, enum canvas_style style, const char *fmt, ...) PRINTF(3, 4);

/* The same in exactly @width columns, or what is left of the line. */
void canvas_cell(struct canvas *c, enum canvas_style style, const char *text, size_t width,
	enum width_side side);

/* Columns that are left in the line. */
size_t canvas_left(const struct canvas *c);
void canvas_end_line(struct canvas *c);

/* Fills the rest of the line with @fill. */
void canvas_fill(struct canvas *c, enum canvas_style style, char fill);

/* The text with no blanks at the ends of lines, as it is printed where there is no screen. */
int canvas_print(const struct canvas *c, struct buf *to, struct error *err) MUST_USE;
