/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The two ways of showing: text, and a screen that keeps up. Both block. Thread: main. */
#include "tools/cli/top/view/screen/screen.h"
#include "lib/http/client/get.h"

struct top_plan {
	struct top_state state; /* .interval_ns, .choice and .utf8 are set */
	uint64_t count;         /* pictures; plain only */
	bool json;              /* plain only: what the agent said, as it said it */
	bool colour;            /* live only */
};

/* As text on standard output, .state.width columns wide. Returns 0, or < 0 at the first picture that there is none of. */
int top_plain(struct http_get *agent, const struct top_plan *plan, struct error *err) MUST_USE;

/* On the terminal. An agent that is away is told on the screen. Returns 0, or 128 and the signal that ended it. */
int top_live(struct http_get *agent, const struct top_plan *plan, struct error *err) MUST_USE;
