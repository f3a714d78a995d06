/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* `gpuslice plan --trace`: compares placement policies on a trace. Thread: main. */
#include "lib/base/error.h"
#include "lib/base/strv.h"
#include "tools/simulate/replay.h"

struct plan_trace {
	const char *nodes, *pods;    /* files */
	const struct strv *policies; /* empty: all */
	uint64_t seeds, first_seed;
	enum replay_mix mix;
	bool json;
};

/* Returns 0, < 0, or after an interrupt the exit status of ERR_CANCELLED; the finished runs are then
 * printed. */
int plan_trace_run(const struct plan_trace *t, struct error *err) MUST_USE;
