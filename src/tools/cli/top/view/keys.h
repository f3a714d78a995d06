/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a key does to what is shown. Thread: any (pure). */
#include "tools/cli/top/view/screen/screen.h"

/* Keys that are no byte. */
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
	TOP_NOTHING, /* a key that means nothing here */
	TOP_REDRAW,
	TOP_QUIT,
};

/* A key, or a byte of a character while a filter is typed. */
enum top_action top_press(struct top_state *s, int key);

/* For --interval and the keys + and -. */
#define TOP_INTERVAL_MIN_NS UINT64_C(500000000)
#define TOP_INTERVAL_MAX_NS UINT64_C(3600000000000)
