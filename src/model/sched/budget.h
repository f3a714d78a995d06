/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A budget of time that grows by a percentage of the clock, up to a limit: what something may cost in the long run, and at
 * once after a rest. Zeroed memory is a budget that is full at its first use. Pure. Thread: one. */
#include "lib/base/minmax.h"

struct sched_budget {
	uint64_t ns; /* left, as of .at */
	uint64_t at;
};

/* Adds what has come up to @now, at @percent of the time; at most @max_ns are left then. */
static inline void sched_budget_fill(struct sched_budget *b, uint64_t percent, uint64_t max_ns,
	uint64_t now)
{
	uint64_t came = min_u64(now - b->at, max_ns * 100 / percent);

	b->ns = min_u64(b->ns + came * percent / 100, max_ns);
	b->at = now;
}

/* Returns when @ns are left, at @percent of the time; @now: they are. The budget was filled at @now. */
static inline uint64_t sched_budget_time(const struct sched_budget *b, uint64_t ns,
	uint64_t percent, uint64_t now)
{
	return b->ns >= ns ? now : now + (ns - b->ns) * 100 / percent + 1;
}
