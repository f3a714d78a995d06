/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/condition.h"

#include "lib/base/log.h"
#include "lib/base/time.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

#define OURS "gpuslice: " /* the beginning of the agent's messages */

/* The agent's own change returns through the watch after a moment. Until then the Node looks as before. */
#define SETTLE_NS (2 * NS_PER_SEC)
/* Changes by other writers that are further apart than this are no conflict. */
#define DRIFT_RESET_NS (600 * NS_PER_SEC)

/* --- decisions --- */

static const char *get_condition_text(const json_t *have, const char *key)
{
	const char *text = json_string_value(json_object_get(have, key));

	return text ? text : "";
}

static bool is_own_condition(const json_t *have)
{
	return strncmp(get_condition_text(have, "message"), OURS, strlen(OURS)) == 0;
}

struct condition_text {
	const char *status, *reason;
	char message[sizeof(OURS) + sizeof(((struct node_repair *)0)->message)];
};

static void make_text(struct condition_text *t, const struct node_repair *desired)
{
	bool needed = desired->state == REPAIR_NEEDED;

	t->status = needed ? "False" : "True";
	t->reason = needed ? desired->reason : "GPUsReady";
	(void)snprintf(t->message, sizeof(t->message), OURS "%s",
		needed ? desired->message : "no GPU needs a repair");
	utf8_make_valid(t->message);
}

enum condition_change condition_decide(const json_t *have, const struct node_repair *desired)
{
	struct condition_text t;
	bool is_false = !strcmp(get_condition_text(have, "status"), "False");

	if (desired->state == REPAIR_UNKNOWN)
		return CONDITION_SAME;
	if (have && !is_own_condition(have))
		return desired->state == REPAIR_NEEDED && !is_false ? CONDITION_WRITE
								    : CONDITION_SAME;
	make_text(&t, desired);
	if (!have || strcmp(get_condition_text(have, "status"), t.status) != 0 ||
		strcmp(get_condition_text(have, "reason"), t.reason) != 0 ||
		strcmp(get_condition_text(have, "message"), t.message) != 0)
		return CONDITION_WRITE;
	return CONDITION_HEARTBEAT;
}

json_t *condition_patch(const char *type, const json_t *have, const struct node_repair *desired,
	uint64_t wall_ns)
{
	char now[TIME_RFC3339_MAX];
	const char *since = now;
	struct condition_text t;

	time_rfc3339(wall_ns, now);
	make_text(&t, desired);
	if (!strcmp(get_condition_text(have, "status"), t.status) &&
		*get_condition_text(have, "lastTransitionTime"))
		since = get_condition_text(have, "lastTransitionTime");
	return json_pack("{s:{s:[{s:s, s:s, s:s, s:s, s:s, s:s}]}}", "status", "conditions",
		"type", type, "status", t.status, "reason", t.reason, "message", t.message,
		"lastHeartbeatTime", now, "lastTransitionTime", since);
}

/* --- writing --- */

static void send_condition_patch(struct condition_writer *w, const json_t *have)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	json_t *patch = condition_patch(w->type, have, &w->desired, time_wall_ns());
	CLEANUP(freep) char *body = patch ? json_dumps(patch, JSON_COMPACT) : NULL;

	json_decref(patch);
	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, node_object_name(w->node));
	buf_puts(&path, "/status?fieldManager=gpusliced");
	if (!body || !buf_ok(&path)) {
		task_wait(&w->task, SETTLE_NS);
		return;
	}
	(void)snprintf(w->uid, sizeof(w->uid), "%s", node_object_uid(w->node));
	task_send(&w->task, &(struct api_request){ .method = "PATCH",
				    .path = buf_str(&path),
				    .content_type = API_STRATEGIC_PATCH,
				    .body = body });
}

static void sync_node_condition(struct api_task *t)
{
	struct condition_writer *w = (struct condition_writer *)t;
	uint64_t now_ns = time_mono_ns();
	enum condition_change change;
	const json_t *have;

	if (!*w->type || !w->node || node_object_state(w->node) != NODE_PRESENT)
		return;
	if (strcmp(w->uid, node_object_uid(w->node)) != 0) /* another Node of that name */
		w->written_ns = w->not_before_ns = 0;
	have = node_object_condition(w->node);
	change = condition_decide(have, &w->desired);
	if (change == CONDITION_HEARTBEAT && w->written_ns &&
		now_ns - w->written_ns < CONDITION_HEARTBEAT_NS) {
		task_reached(t);
		task_wait(t, w->written_ns + CONDITION_HEARTBEAT_NS - now_ns);
		return;
	}
	if (change == CONDITION_SAME) {
		task_reached(t);
		w->done(w->arg, NULL);
		return;
	}
	if (w->not_before_ns > now_ns) {
		task_wait(t, w->not_before_ns - now_ns);
		return;
	}
	w->beats = change == CONDITION_HEARTBEAT;
	send_condition_patch(w, have);
}

static void on_condition_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct condition_writer *w = (struct condition_writer *)t;
	uint64_t now_ns = time_mono_ns();

	w->done(w->arg, err);
	if (err) {
		task_complain(t);
		return;
	}
	/* The agent must not make the next change from the Node's state before this one. */
	node_object_patched(w->node, reply->body);
	w->written_ns = now_ns;
	if (!w->beats) {
		/*
		 * If another agent changes the condition back, the same text is written after ever longer waits.
		 */
		if (now_ns - w->changed_ns > DRIFT_RESET_NS)
			backoff_reset(&w->drift);
		w->changed_ns = now_ns;
		w->not_before_ns = now_ns + SETTLE_NS + backoff_next(&w->drift, 0, now_ns);
	}
	task_wait(t, SETTLE_NS);
}

void condition_writer_init(struct condition_writer *w, uv_loop_t *loop)
{
	*w = (struct condition_writer){ .type = "" };
	w->drift = (struct backoff){ .min_ns = NS_PER_SEC, .max_ns = 300 * NS_PER_SEC };
	task_init(&w->task, loop, "node condition not written yet", sync_node_condition,
		on_condition_reply);
}

/* A heartbeat that waits must not delay a change. A wait after a failure, or for other writers, stays. */
static void sync_condition_now(struct condition_writer *w)
{
	if (w->task.last_error.code == ERR_NONE && !w->task.call)
		(void)uv_timer_stop(&w->task.timer);
	task_poke(&w->task);
}

void condition_writer_set(struct condition_writer *w, const struct node_repair *desired)
{
	bool same_state = w->desired.state == desired->state;

	if (same_state && !strcmp(w->desired.reason, desired->reason) &&
		!strcmp(w->desired.message, desired->message))
		return;
	w->desired = *desired;
	if (desired->state == REPAIR_UNKNOWN)
		return;
	/*
	 * Other writers do not delay a change by the agent itself. A new text for the same state can wait a
	 * moment.
	 */
	backoff_reset(&w->drift);
	w->not_before_ns = same_state && w->changed_ns ? w->changed_ns + SETTLE_NS : 0;
	sync_condition_now(w);
}

void condition_writer_wake(struct condition_writer *w)
{
	sync_condition_now(w);
}
