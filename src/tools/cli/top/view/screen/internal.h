/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sections of the screen in files of their own. Pure; thread: any. */
#include "tools/cli/top/view/screen/screen.h"

/* Time, node, driver, config, and their problems. @m may be NULL. */
void screen_head(struct canvas *c, const struct top_model *m, const struct top_state *s);

/* All GPUs in the frame of nvidia-smi: two lines each, and a third if there is a reason. Needs
 * FRAME_WIDTH columns. */
#define FRAME_WIDTH 80
void screen_frame(struct canvas *c, const struct top_model *m);
size_t screen_frame_lines(const struct top_model *m);

/* The keys, in at most @lines. */
void screen_help(struct canvas *c, size_t lines);
