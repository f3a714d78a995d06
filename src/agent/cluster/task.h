/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One thing in the cluster that is to be as we want it: looked at, asked for with one request at a
 * time, and tried again with back-off until it is so. The owner embeds a task and says in .look
 * what to ask for now, if anything.
 *
 *	task_poke() -> .look() -> task_send() ... -> .done(), then back-off or rest
 *
 * Thread: loop.
 */
#include "kube/api/api.h"
#include "kube/api/backoff.h"

#include <stdbool.h>

struct task {
	struct api *api; /* NULL until there is one: pokes do nothing, unless: */
	bool local;      /* the API server is not needed */
	uv_timer_t timer;
	struct api_call *call;
	void (*look)(struct task *t);
	/* An answer came; @err is NULL if it was a good one. May send again. */
	void (*done)(struct task *t, const struct api_reply *reply, const struct error *err);
	struct backoff backoff;
	struct error trouble; /* of the last try; ERR_NONE: it went well */
	bool again;           /* poked while a request was under way */
	char told[ERROR_MSG_MAX];
	void *owner; /* for .look and .done, where the task is not a first member */
};

void task_init(struct task *t, uv_loop_t *loop, void (*look)(struct task *t),
	void (*done)(struct task *t, const struct api_reply *reply, const struct error *err));

/* Something may have to be done: looks soon, but not before a wait is over. */
void task_poke(struct task *t);

/* Looks in @ns, whatever else is planned. */
void task_wait(struct task *t, uint64_t ns);

/* At most one at a time. A request that cannot even be sent is tried again as any other. */
void task_send(struct task *t, const struct api_request *req);

/* Whether .trouble is another one than when this was last asked: for the log. */
bool task_trouble_is_new(struct task *t);

/* Cancels and closes; its memory is to stay until the loop has run. */
void task_close(struct task *t);
