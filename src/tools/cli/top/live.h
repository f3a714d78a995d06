/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The two outputs of `gpuslice top`: text, and a live screen. Both block. Thread: main. */
#include "lib/http/client/get.h"
#include "tools/cli/top/view/view.h"

struct top_plan {
	struct top_state state; /* .interval_ns, .choice and .utf8 are set */
	uint64_t count;         /* pictures; only plain */
	bool json;              /* only plain: the agent's answer, unchanged */
	bool colour;            /* only live */
};

/* Prints text on standard output, .state.width columns wide. Returns 0, also if the output fails:
 * main.c reports that. < 0: the agent gave no valid answer. */
int top_plain(struct http_get *agent, const struct top_plan *plan, struct error *err) MUST_USE;

/* Runs on the terminal, where the screen also reports an unavailable agent. Returns 0, < 0, or 128
 * plus the signal that ended it; SIGINT returns 0. */
int top_live(struct http_get *agent, const struct top_plan *plan, struct error *err) MUST_USE;
