/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/label-writer.h"

#include "node/agent/api/patch.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <string.h>

/* The agent's own change returns through the watch after a moment. Until then the Node looks as before. */
#define SETTLE_NS (2 * NS_PER_SEC)
/* Changes by other writers that are further apart than this are no conflict. */
#define DRIFT_RESET_NS (600 * NS_PER_SEC)

/* Another writer has changed what the agent had written. */
static void count_drift(struct label_writer *w, uint64_t now)
{
	if (w->drift_ns != 0 && now - w->drift_ns > DRIFT_RESET_NS)
		backoff_reset(&w->drift);
	w->drift_ns = now;
	w->written = false;
	/* The first correction is immediate: the likeliest reason is a person with kubectl. */
	w->not_before_ns = now;
	if (w->drift.failures > 0)
		w->not_before_ns += backoff_next(&w->drift, 0, now);
	else
		w->drift.failures = 1;
	log_info("labels are not as written, putting them right",
		LOG_UINT("times", w->drift.failures));
	if (w->drift.failures == LABEL_ROUNDS_REPORTED && w->on_conflict)
		w->on_conflict(w->arg, w->drift.failures);
}

static void send_label_patch(struct label_writer *w, json_t *patch)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = json_dumps(patch, JSON_COMPACT);

	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, node_object_name(w->node));
	buf_puts(&path, "?fieldManager=gpusliced");
	if (!body || !buf_ok(&path)) {
		task_wait(&w->task, SETTLE_NS);
		return;
	}
	(void)snprintf(w->uid, sizeof(w->uid), "%s", node_object_uid(w->node));
	w->sent = w->generation;
	task_send(&w->task, &(struct api_request){ .method = "PATCH",
				    .path = buf_str(&path),
				    .content_type = API_MERGE_PATCH,
				    .body = body });
}

/* How long to wait before the agent may compare the Node with the labels, and patch it. */
static uint64_t get_label_patch_wait(struct label_writer *w, uint64_t now)
{
	uint64_t settled = w->written ? w->written_ns + SETTLE_NS : 0;
	uint64_t at = settled > w->not_before_ns ? settled : w->not_before_ns;

	return at > now ? at - now : 0;
}

static void sync_node_labels(struct label_writer *w)
{
	struct error err = ERROR_INIT;
	uint64_t now = time_mono_ns(), wait;
	json_t *patch = NULL;

	if (!w->node || node_object_state(w->node) != NODE_PRESENT)
		return;
	if (strcmp(w->uid, node_object_uid(w->node)) != 0) { /* another Node of that name */
		w->written = false;
		w->not_before_ns = 0;
	}
	wait = get_label_patch_wait(w, now);
	if (wait) {
		task_wait(&w->task, wait);
		return;
	}
	if (label_patch(&patch, w->desired_labels, w->excluded_label,
		    node_object_labels(w->node), node_object_annotation(w->node, LABEL_RECORD),
		    &err) < 0) {
		w->task.last_error = err;
		task_complain(&w->task);
		task_wait(&w->task, SETTLE_NS);
		return;
	}
	if (!patch) {
		task_reached(&w->task);
		w->written = true;
		(void)snprintf(w->uid, sizeof(w->uid), "%s", node_object_uid(w->node));
		return;
	}
	if (w->written) {
		count_drift(w, now);
		wait = get_label_patch_wait(w, now);
	}
	if (wait)
		task_wait(&w->task, wait);
	else
		send_label_patch(w, patch);
	json_decref(patch);
}

static void on_label_patch_reply(struct label_writer *w, const struct api_reply *reply,
	const struct error *err)
{
	if (err) {
		if (reply->status != 409 || task_fails_often(&w->task))
			task_complain(&w->task);
		return;
	}
	task_wait(&w->task, label_writer_wrote(w) ? SETTLE_NS : 0);
}

const struct label_writer_kind label_writer_node = { .sync = sync_node_labels,
	.done = on_label_patch_reply };
