/* SPDX-License-Identifier: Apache-2.0 */
#include "model/sched/quantum-end.h"

const char *const sched_end_reason_names[SCHED_ENDS] = {
	[SCHED_END_EXPIRED] = "expired",
	[SCHED_END_RENEWED] = "renewed",
	[SCHED_END_IDLE] = "idle",
	[SCHED_END_CAP] = "cap",
	[SCHED_END_INTERRUPTED] = "interrupted",
	[SCHED_END_GANG] = "gang",
	[SCHED_END_LATENCY] = "latency",
	[SCHED_END_CONCURRENT] = "concurrent",
	[SCHED_END_CHANGED] = "changed",
	[SCHED_END_CLOSED] = "closed",
};
