/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The condition on the agent's Node that says whether its GPUs need a repair, for tools that act on it.
 *
 * Other agents may write a condition of the same type (EKS's node monitoring agent does). The beginning of the
 * message identifies the agent's own condition. While a repair is needed, the condition is False, even if
 * another agent wrote it last. A False of another agent serves as well and stays. The agent never sets another
 * agent's condition to True.
 * Thread: loop.
 */
#include "node/agent/api/node-object.h"
#include "node/agent/api/task.h"
#include "model/health/repair.h"

#define CONDITION_HEARTBEAT_NS (300 * UINT64_C(1000000000))

struct condition_writer {
	struct api_task task;
	const char *type;         /* "": none is written; borrowed */
	struct node_object *node; /* borrowed; NULL: not yet */
	struct node_repair desired;
	char uid[64]; /* of the Node that was written last */
	bool beats;   /* the request changes only the heartbeat */
	uint64_t written_ns, changed_ns, not_before_ns;   /* monotonic; 0: not yet */
	struct backoff drift;                             /* for changes by other writers */
	void (*done)(void *arg, const struct error *err); /* NULL: it was written */
	void *arg;
};

/* The caller sets .type, .done and .arg afterwards. */
void condition_writer_init(struct condition_writer *w, uv_loop_t *loop);
/* Sets the desired condition, and writes it if it differs. REPAIR_UNKNOWN: nothing is written. */
void condition_writer_set(struct condition_writer *w, const struct node_repair *desired);
/* The Node has changed, or has become known. */
void condition_writer_wake(struct condition_writer *w);

enum condition_change {
	CONDITION_SAME,      /* as desired, or another agent's, which stays */
	CONDITION_HEARTBEAT, /* as desired and the agent's own */
	CONDITION_WRITE,
};

/* Pure: what to do if the Node has @have (an object; NULL: no condition of the type). */
enum condition_change condition_decide(const json_t *have, const struct node_repair *desired);

/*
 * Pure: the strategic merge patch of the Node's status that turns @have into what is desired. If the status
 * stays, the transition time stays. Caller's: json_decref(); NULL: no memory.
 */
json_t *condition_patch(const char *type, const json_t *have, const struct node_repair *desired,
	uint64_t wall_ns);
