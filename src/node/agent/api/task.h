/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes one thing in the cluster equal its desired state, with one request at a time and back-off. The owner
 * embeds a task. Its .on_due decides which request to send now, if any.
 *
 * 1. task_poke() or task_wait() arms the timer.
 * 2. The timer calls .on_due(), which calls task_send() if something differs.
 * 3. The answer, or its error, calls .done(). An error arms the timer with back-off first; after a success the
 *    task rests.
 *
 * Thread: loop.
 */
#include "io/kube-api/api.h"
#include "lib/base/backoff.h"

#include <stdbool.h>

struct api_task {
	/* NULL until there is an API client. Pokes do nothing then, unless .local. */
	struct api *api;
	bool local; /* the task does not need the API server */
	uv_timer_t timer;
	struct api_call *call;
	void (*on_due)(struct api_task *t);
	/* An answer came, or an error; @err NULL: success. May send again. */
	void (*done)(struct api_task *t, const struct api_reply *reply,
		const struct error *err);
	struct backoff backoff;
	struct error last_error;          /* ERR_NONE: desired state reached, or not tried */
	bool writes;                      /* the request under way changes something */
	bool poked;                       /* during a request */
	const char *complaint;            /* for the log: "labels not written yet" */
	char logged_error[ERROR_MSG_MAX]; /* the last error in the log; "": none */
	void *owner; /* for .on_due and .done, where the task is not a first member */
};

/* @complaint: the log message while the task fails; borrowed. */
void task_init(struct api_task *t, uv_loop_t *loop, const char *complaint,
	void (*on_due)(struct api_task *t),
	void (*done)(struct api_task *t, const struct api_reply *reply,
		const struct error *err));

/* Calls .on_due soon, but not before a wait is over. */
void task_poke(struct api_task *t);

/* Calls .on_due in @ns, whatever else is planned. */
void task_wait(struct api_task *t, uint64_t ns);

/*
 * Sends one request; at most one is under way. A request that cannot be sent is logged, and retried as any other.
 * A successful request that changes something implies task_reached(). A successful GET does not: it proves little.
 */
void task_send(struct api_task *t, const struct api_request *req);

/* The desired state is reached: clears the error and the back-off. Logs it after an error. */
void task_reached(struct api_task *t);

/* Logs .last_error, unless it is the last one in the log. */
void task_complain(struct api_task *t);

/* For .done: a conflict with another writer (409) is not worth a log line unless it goes on. */
bool task_fails_often(const struct api_task *t);

/*
 * Whether .last_error is a fault of this task. An unavailable API server or a conflict with another writer is not;
 * both pass.
 */
bool task_is_fault(const struct api_task *t);

/* Cancels the request and closes the timer. The owner keeps the memory until the loop has run. */
void task_close(struct api_task *t);
