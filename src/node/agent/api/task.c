/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/api/task.h"

#include "lib/base/log.h"
#include "lib/base/time.h"

#include <string.h>

#define FORBIDDEN_NS (60 * NS_PER_SEC)
#define OFTEN        4 /* failures in a row */

static void on_task_timer(uv_timer_t *t)
{
	struct api_task *task = t->data;

	if (!task->call && (task->api || task->local))
		task->on_due(task);
}

void task_init(struct api_task *t, uv_loop_t *loop, const char *complaint,
	void (*on_due)(struct api_task *t),
	void (*done)(struct api_task *t, const struct api_reply *reply,
		const struct error *err))
{
	*t = (struct api_task){ .on_due = on_due,
		.done = done,
		.complaint = complaint,
		.backoff = BACKOFF_API };
	(void)uv_timer_init(loop, &t->timer);
	t->timer.data = t;
}

void task_poke(struct api_task *t)
{
	if (t->call)
		t->poked = true;
	else if ((t->api || t->local) && !uv_is_active((uv_handle_t *)&t->timer))
		task_wait(t, 0);
}

void task_wait(struct api_task *t, uint64_t ns)
{
	(void)uv_timer_start(&t->timer, on_task_timer, (ns + NS_PER_MS - 1) / NS_PER_MS, 0);
}

static void retry_failed_task(struct api_task *t, uint64_t retry_after_ns,
	const struct error *err)
{
	/* A missing right does not appear within moments. */
	if (err->code == ERR_PERMISSION && retry_after_ns < FORBIDDEN_NS)
		retry_after_ns = FORBIDDEN_NS;
	t->last_error = *err;
	task_wait(t, backoff_next(&t->backoff, retry_after_ns, backoff_random()));
}

static void on_reply(void *arg, const struct api_reply *reply, const struct error *err)
{
	struct api_task *t = arg;
	bool again = t->poked;

	t->call = NULL;
	t->poked = false;
	if (err)
		retry_failed_task(t, reply->retry_after_ns, err);
	else if (t->writes)
		task_reached(t);
	t->done(t, reply, err);
	if (again)
		task_poke(t);
}

void task_send(struct api_task *t, const struct api_request *req)
{
	struct error err = ERROR_INIT;

	(void)uv_timer_stop(&t->timer);
	t->poked = false;
	t->writes = strcmp(req->method, "GET") != 0;
	if (api_send(t->api, req, on_reply, t, &t->call, &err) == 0)
		return;
	retry_failed_task(t, 0, &err);
	task_complain(t);
}

void task_reached(struct api_task *t)
{
	error_clear(&t->last_error);
	backoff_reset(&t->backoff);
	if (*t->logged_error)
		log_info("well again", LOG_STR("was", t->complaint));
	t->logged_error[0] = '\0';
}

void task_complain(struct api_task *t)
{
	if (!strcmp(t->logged_error, t->last_error.msg))
		return;
	memcpy(t->logged_error, t->last_error.msg, sizeof(t->logged_error));
	log_warn(t->complaint, LOG_STR("reason", t->last_error.msg));
}

bool task_fails_often(const struct api_task *t)
{
	return t->backoff.failures >= OFTEN;
}

bool task_is_fault(const struct api_task *t)
{
	enum error_code code = t->last_error.code;

	return code != ERR_NONE && code != ERR_UNAVAILABLE && code != ERR_TIMEOUT &&
	       code != ERR_EXISTS;
}

void task_close(struct api_task *t)
{
	t->call = api_cancel(t->call);
	t->api = NULL;
	uv_close((uv_handle_t *)&t->timer, NULL);
}
