/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan --trace`: placement policies side by side, on a trace. Thread: main. */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "tools/plan/place/replay.h"

struct plan_trace {
	const char *nodes, *pods;    /* files */
	const struct strv *policies; /* empty: all */
	uint64_t seeds, first_seed;
	enum replay_mix mix;
	bool json;
};

/* Prints as much as was done when it is interrupted; returns 0, 130 then, or < 0. */
int plan_trace_run(const struct plan_trace *t, struct error *err) MUST_USE;
