/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the demo shows: GPUs and their slices with the pods in them, the steps done so far, and
 * what comes next. On a terminal one picture that is redrawn in place; else plain lines.
 *
 * Drawing is pure: a frame goes into a buf, for a given width and height.
 * Thread: main.
 */
#include "lib/base/buf.h"
#include "tools/cli/demo/node.h"

#include <stdbool.h>

enum demo_mark { DEMO_RUNNING, DEMO_DONE, DEMO_FAILED };

struct demo_step_line {
	enum demo_mark mark;
	char title[96];
	char result[320]; /* what was expected and found */
};

#define DEMO_STEPS_MAX 16

struct demo_picture {
	const char *headline;   /* "simulated p3.8xlarge: 4 x Tesla V100-SXM2-16GB" */
	const char *command;    /* what a user would have typed for this step; NULL */
	const char *resource;   /* whose slices are shown */
	struct demo_node *node; /* NULL: none is up */
	const struct demo_step_line *steps;
	size_t n_steps;
	const char *footer; /* several lines; NULL */
};

/* The picture in at most @height lines (0: any) of @width columns. */
void demo_draw(struct buf *b, const struct demo_picture *p, unsigned width, unsigned height,
	bool colour);

/* Only the GPUs and the waiting pods, indented: for plain output. */
void demo_draw_node(struct buf *b, const struct demo_picture *p, unsigned width, bool colour);

struct demo_screen {
	bool live; /* redraw in place */
	bool colour;
	unsigned drawn; /* lines of the last frame */
	char *last;     /* the last frame, not to draw it twice */
};

void demo_screen_init(struct demo_screen *s, bool plain);
void demo_screen_update(struct demo_screen *s, const struct demo_picture *p);
void demo_screen_fini(struct demo_screen *s); /* leaves the cursor below the last frame */
