/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One thing in the cluster that is to be as we want it: looked at, asked for with one request at a
 * time, and tried again with back-off until it is so. The owner embeds a task and says in .on_due
 * what to ask for now, if anything.
 *
 *	task_poke() -> .look() -> task_send() ... -> .done(), then back-off or rest
 *
 * Thread: loop.
 */
#include "io/kube-api/api.h"
#include "io/kube-api/backoff.h"

#include <stdbool.h>

struct api_task {
	struct api *api; /* NULL until there is one: pokes do nothing, unless: */
	bool local;      /* the API server is not needed */
	uv_timer_t timer;
	struct api_call *call;
	void (*on_due)(struct api_task *t);
	/* An answer came; @err is NULL if it was a good one. May send again. */
	void (*done)(struct api_task *t, const struct api_reply *reply,
		const struct error *err);
	struct backoff backoff;
	struct error last_error; /* why it is not so yet; ERR_NONE: it is, or was not tried */
	bool writes;             /* what is under way changes something */
	bool poked;              /* poked while a request was under way */
	const char *complaint;   /* for the log: "labels not written yet" */
	char logged_error[ERROR_MSG_MAX]; /* the trouble that the log has; "": none */
	void *owner; /* for .on_due and .done, where the task is not a first member */
};

/* @complaint: what the log says while there is trouble; borrowed. */
void task_init(struct api_task *t, uv_loop_t *loop, const char *complaint,
	void (*look)(struct api_task *t),
	void (*done)(struct api_task *t, const struct api_reply *reply,
		const struct error *err));

/* Something may have to be done: looks soon, but not before a wait is over. */
void task_poke(struct api_task *t);

/* Looks in @ns, whatever else is planned. */
void task_wait(struct api_task *t, uint64_t ns);

/* At most one at a time. A request that cannot even be sent is logged and tried again as any other.
 * One that changes something, and is answered well, is task_reached(); a good GET proves little. */
void task_send(struct api_task *t, const struct api_request *req);

/* All is as wanted: no trouble any more, and no back-off. Logged if trouble was. */
void task_reached(struct api_task *t);

/* Logs .last_error, unless it is the one that was logged last. */
void task_complain(struct api_task *t);

/* For .done: that somebody else was first (409) is worth no word unless it goes on. */
bool task_fails_often(const struct api_task *t);

/* Whether .last_error is this task's own. That the API server is away, or somebody else was first, is none, and passes. */
bool task_is_fault(const struct api_task *t);

/* Cancels and closes; its memory is to stay until the loop has run. */
void task_close(struct api_task *t);
