/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The condition on our Node that says whether its GPUs need a repair, for tools that act on it.
 *
 * Others may write a condition of the same type (EKS's node monitoring agent does). What is ours is known by the
 * beginning of its message. While a repair is needed the condition is False, also where another agent wrote it last; that another
 * agent says so is as good. What another has written is never made True.
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
	bool beats;   /* what is sent changes nothing but the heartbeat */
	uint64_t written_ns, changed_ns, not_before_ns;   /* monotonic; 0: not yet */
	struct backoff drift;                             /* of others who change it */
	void (*done)(void *arg, const struct error *err); /* NULL: it was written */
	void *arg;
};

/* .type, .done and .arg are the caller's to set after it. */
void condition_writer_init(struct condition_writer *w, uv_loop_t *loop);
void condition_writer_set(struct condition_writer *w, const struct node_repair *desired);
/* The Node has changed, or is known at last. */
void condition_writer_wake(struct condition_writer *w);

enum condition_change {
	CONDITION_SAME,      /* it says what is wanted, or it is another's and stays */
	CONDITION_HEARTBEAT, /* it says what is wanted and is ours */
	CONDITION_WRITE,
};

/* Pure: what to do, where the Node has @have (an object; NULL: none of the type). */
enum condition_change condition_decide(const json_t *have, const struct node_repair *desired);

/*
 * Pure: the strategic merge patch of the Node's status that makes @have what is wanted. A transition time stays
 * where the status does. Yours: json_decref(); NULL: no memory.
 */
json_t *condition_patch(const char *type, const json_t *have, const struct node_repair *desired,
	uint64_t wall_ns);
