/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal: draws lines and reads keys. While the terminal is open, terminal_read() receives the
 * signals that end a program, so that the program always restores the terminal.
 * Thread: main; one terminal at a time.
 */
#include "lib/base/error.h"
#include "tools/cli/top/view/canvas.h"

#include <stdbool.h>

struct terminal {
	void *screen; /* private: of ncurses */
	int signals;  /* private: a signalfd */
	bool colour;
	unsigned width, height;
};

/* ERR_UNSUPPORTED: $TERM is unknown or lacks a capability. @colour false: no colors on any terminal. */
int terminal_open(struct terminal *t, bool colour, struct error *err) MUST_USE;
void terminal_close(struct terminal *t);

/* Descriptors that are readable when terminal_read() has a result. */
#define TERMINAL_FDS 2
void terminal_fds(const struct terminal *t, int ret[TERMINAL_FDS]);

/* Does not block. Returns the next key (a byte, or a key of tools/cli/top/view/keys.h), or: */
enum {
	TERMINAL_NONE = -1,    /* no key now */
	TERMINAL_RESIZED = -2, /* .width and .height have changed */
	TERMINAL_ENDED = -3,   /* no terminal, or *ret_signal ends the program */
};
int terminal_read(struct terminal *t, int *ret_signal);

void terminal_draw(const struct terminal *t, const struct canvas *c);
