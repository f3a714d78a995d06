/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Why a share's quantum ended. The scheduler counts each end. Status and metrics show the counts. */
enum sched_end_reason {
	SCHED_END_EXPIRED, /* its time is over, and another share is next */
	SCHED_END_RENEWED, /* its time is over, and the same share goes on with another quantum */
	SCHED_END_IDLE, /* the share had no work, or its burst was about to end, and the GPU did not wait for more */
	SCHED_END_CAP, /* the bucket of its cap is empty */
	/* a share that is behind, and gave up its own quantum as it was idle, comes in between */
	SCHED_END_INTERRUPTED,
	SCHED_END_GANG, /* a slice with several GPUs starts its quantum on all of them */
	/* of a slice with several GPUs: a latency share is at work on one of them */
	SCHED_END_LATENCY,
	SCHED_END_CONCURRENT, /* all gates open, as time sharing would leave the GPU idle */
	/* the slice is time-shared on other GPUs than before, or the share got priority or MPS */
	SCHED_END_CHANGED,
	SCHED_END_CLOSED, /* the slice's last process on the GPU is gone */
	SCHED_ENDS,
	SCHED_END_NONE = SCHED_ENDS /* the quantum goes on */
};

/* "expired", "renewed", ...: in JSON, and the label "reason" of metrics. */
extern const char *const sched_end_reason_names[SCHED_ENDS];
