/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * NVML's figures of processes: when the arbiter asks for them, and what they change in the grants. A subscriber
 * of the control socket reads them (abi/arbiter-control.h). Thread: loop. Blocks: for /proc.
 */
#include "node/arbiter/control/request.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct arbiter;

/* Called by readings.c, implemented by the other parts. */
struct readings_ops {
	/* Whether a subscriber reads NVML for the arbiter. */
	bool (*possible)(const struct arbiter *a);
	/* As control_request_reading() (control/control.h). */
	bool (*request_reading)(struct arbiter *a, uint64_t seq, const char *gpus_json);
	/* Abandons the members of processes that executed another program. */
	void (*detect_exec)(struct arbiter *a);
	/* The grants have the figures of @r, which ends with the call. */
	void (*on_applied)(struct arbiter *a, const struct reading *r);
	/* Requests that waited for a reading: @wait says whether they may wait for another one. */
	void (*retry_waiting)(struct arbiter *a, bool wait);
};

struct readings {
	const struct readings_ops *ops;
	uv_timer_t timer;
	uint64_t seq, requested_ns, applied_ns; /* 0: none */
	bool waiting;
	bool repeat; /* ask again after the present answer */
	uint64_t generation;
};

/* Arms the timer of the periodic readings. @ops must stay valid. */
void readings_start(struct arbiter *a, const struct readings_ops *ops);

/* No reading is requested afterwards. The handle closes as the loop runs. */
void readings_stop(struct arbiter *a);

/* Whether a subscriber reads NVML, so that a reading may be expected. */
bool readings_possible(const struct arbiter *a);

/*
 * Requests a reading within CONTROL_READ_SOON_MS, or after the answer that is outstanding. Further calls until
 * then change nothing. Does nothing without a subscriber.
 */
void readings_request_soon(struct arbiter *a);

/* A client subscribed: the first reading is due soon. An answer that was outstanding is ignored. */
void readings_subscribed(struct arbiter *a);

/*
 * No subscriber reads NVML any more, or it did not answer in time: tasks of ended processes are dropped, and
 * requests that wait are answered now.
 */
void readings_unsubscribed(struct arbiter *a);

/*
 * Applies the subscriber's answer to the grants, then calls .on_applied and .retry_waiting. @r stays the
 * caller's. An answer to an earlier question (.seq) is ignored.
 */
void readings_apply(struct arbiter *a, const struct reading *r);
