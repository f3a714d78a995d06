/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The screen of the demo: GPUs, their slices with the pods in them, the finished steps, and the next
 * step. A terminal shows one picture that is redrawn in place; other outputs get plain lines. Drawing
 * is pure: it puts a frame of a given width and height into a buf.
 * Thread: main.
 */
#include "lib/base/buf.h"
#include "tools/cli/demo/node.h"

#include <stdbool.h>

enum demo_mark { DEMO_RUNNING, DEMO_DONE, DEMO_FAILED };

struct demo_step_line {
	enum demo_mark mark;
	char title[96];
	char result[320]; /* expected and actual state */
};

#define DEMO_STEPS_MAX 16

struct demo_picture {
	const char *headline;   /* "simulated p3.8xlarge: 4 x Tesla V100-SXM2-16GB" */
	const char *command;    /* the command that a user would type for this step; NULL */
	const char *resource;   /* the resource that the slices belong to */
	struct demo_node *node; /* NULL: no node is up */
	const struct demo_step_line *steps;
	size_t n_steps;
	const char *footer; /* several lines; NULL */
};

/* The picture in at most @height lines (0: no limit) of @width columns. */
void demo_draw(struct buf *b, const struct demo_picture *p, unsigned width, unsigned height,
	bool colour);

/* Only the GPUs and the pods, indented, for plain output. */
void demo_draw_node(struct buf *b, const struct demo_picture *p, unsigned width, bool colour);

struct demo_screen {
	bool live; /* redraw in place */
	bool colour;
	unsigned drawn; /* lines of the last frame */
	char *last;     /* the last frame, to skip an equal one */
};

void demo_screen_init(struct demo_screen *s, bool plain);
void demo_screen_update(struct demo_screen *s, const struct demo_picture *p);
void demo_screen_fini(struct demo_screen *s); /* leaves the cursor below the last frame */
