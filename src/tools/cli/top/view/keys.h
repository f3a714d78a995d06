/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The effect of a key on the shown state. Thread: any (pure). */
#include "tools/cli/top/view/screen/screen.h"

/* Keys that are not a byte. */
enum {
	TOP_KEY_UP = 0x100,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
};

enum top_action {
	TOP_NOTHING, /* the key has no meaning here */
	TOP_REDRAW,
	TOP_QUIT,
};

/* @key: a key, or a byte of a character while the user types a filter. */
enum top_action top_press(struct top_state *s, int key);

/* Limits of --interval. The keys + and - stay within them. */
#define TOP_INTERVAL_MIN_NS UINT64_C(500000000)
#define TOP_INTERVAL_MAX_NS UINT64_C(3600000000000)
