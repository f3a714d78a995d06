/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal: draws lines and reads keys. While it is open the signals that end a program come through
 * terminal_read() instead, so that the terminal is always put back as it was.
 * Thread: main; one at a time.
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/canvas.h"

#include <stdbool.h>

struct terminal {
	void *screen; /* private: ncurses' */
	int signals;  /* private: a signalfd */
	bool colour;
	unsigned width, height;
};

/* ERR_UNSUPPORTED: $TERM is unknown, or cannot do it. @colour false: none, whatever the terminal can. */
int terminal_open(struct terminal *t, bool colour, struct error *err) MUST_USE;
void terminal_close(struct terminal *t);

/* Readable when terminal_read() has something to say. */
#define TERMINAL_FDS 2
void terminal_fds(const struct terminal *t, int ret[TERMINAL_FDS]);

/* Does not block. The next key (a byte, or one of tools/cli/top/view/keys.h), or: */
enum {
	TERMINAL_NONE = -1,    /* no more for now */
	TERMINAL_RESIZED = -2, /* .width and .height are new */
	TERMINAL_ENDED = -3,   /* it is gone, or a signal says that we end: *ret_signal, or 0 */
};
int terminal_read(struct terminal *t, int *ret_signal);

void terminal_draw(const struct terminal *t, const struct canvas *c);
