/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the MIG manager's labels and annotation to the Node, and restarts the GPU operator's validators.
 * node-labels.h decides the contents.
 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "lib/base/text.h"

#include <stdio.h>
#include <string.h>

/* The agent's own change returns through the watch after a moment. Until then the Node looks as before. */
#define ECHO_NS (2 * NS_PER_SEC)

/* --- state, reason, clients --- */

static void read_mig_node_labels(const struct node_object *n,
	struct mig_node_labels_actual *ret)
{
	*ret = (struct mig_node_labels_actual){
		.labels = node_object_labels(n),
		.reason = node_object_annotation(n, MIG_REASON),
		.rebooted = node_object_annotation(n, MIG_REBOOTED),
		.old_paused = node_object_annotation(n, MIG_PAUSED_OLD),
	};
}

static bool is_mig_node_present(const struct mig *m)
{
	return m->c.link->node && node_object_state(m->c.link->node) == NODE_PRESENT;
}

static void send_mig_node_labels(struct mig *m, const json_t *patch)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = json_dumps(patch, JSON_COMPACT);

	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, m->c.link->node_name);
	buf_puts(&path, "?fieldManager=gpusliced");
	if (!body || !buf_ok(&path)) {
		task_wait(&m->node.task, ECHO_NS);
		return;
	}
	m->node.sent = m->node.generation;
	m->node.sent_ns = time_mono_ns();
	task_send(&m->node.task, &(struct api_request){ .method = "PATCH",
					 .path = buf_str(&path),
					 .content_type = API_MERGE_PATCH,
					 .body = body });
}

static void sync_mig_node_labels(struct api_task *t)
{
	struct mig *m = t->owner;
	struct mig_node_labels_actual now;
	struct error err = ERROR_INIT;
	uint64_t since = time_mono_ns() - m->node.sent_ns;
	json_t *patch = NULL;

	if (!is_mig_node_present(m))
		return;
	if (m->node.sent_ns && m->node.sent == m->node.generation && since < ECHO_NS &&
		t->last_error.code == ERR_NONE && !mig_node_is_in_sync(m)) {
		task_wait(t, ECHO_NS - since);
		return;
	}
	read_mig_node_labels(m->c.link->node, &now);
	if (mig_node_labels_patch(&patch, &m->node.desired, &now, &err) < 0) {
		t->last_error = err;
		task_complain(t);
		task_wait(t, ECHO_NS);
		return;
	}
	if (patch)
		send_mig_node_labels(m, patch);
	else
		task_reached(t);
	json_decref(patch);
}

static void on_mig_node_labels_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct mig *m = t->owner;

	if (err) {
		if (reply->status != 409 || task_fails_often(t))
			task_complain(t);
		return;
	}
	/*
	 * The watch will confirm the patch. If another writer was faster, the check after this wait finds the
	 * difference.
	 */
	task_wait(t, m->node.sent == m->node.generation ? ECHO_NS : 0);
}

static void request_mig_node_labels(struct mig *m)
{
	m->node.generation++;
	/* Not task_poke(), which would wait for the echo of the last patch. */
	if (m->node.task.call)
		m->node.task.poked = true;
	else if (m->node.task.api)
		task_wait(&m->node.task, 0);
}

static const char *copy_mig_label_text(char *to, size_t cap, const char *text)
{
	if (!text)
		return NULL;
	(void)snprintf(to, cap, "%s", text);
	utf8_make_valid(to); /* otherwise JSON cannot have it, and clients stay paused */
	return to;
}

void mig_node_set_state(struct mig *m, const char *state, const char *reason)
{
	m->node.desired.state =
		copy_mig_label_text(m->node.state, sizeof(m->node.state), state);
	m->node.desired.reason =
		copy_mig_label_text(m->node.reason, sizeof(m->node.reason), reason);
	m->node.since_wall_ns = time_wall_ns();
	request_mig_node_labels(m);
}

void mig_node_clients(struct mig *m, enum mig_clients clients)
{
	m->node.desired.clients = clients;
	m->node.desired.own = m->node.own;
	request_mig_node_labels(m);
}

void mig_node_rebooted(struct mig *m, const char *key)
{
	m->node.desired.rebooted =
		copy_mig_label_text(m->node.rebooted, sizeof(m->node.rebooted), key);
	request_mig_node_labels(m);
}

bool mig_node_is_in_sync(const struct mig *m)
{
	struct mig_node_labels_actual now;
	json_t *patch = NULL;
	bool same;

	if (!m->c.link->possible)
		return true;
	if (!is_mig_node_present(m))
		return false;
	read_mig_node_labels(m->c.link->node, &now);
	same = mig_node_labels_patch(&patch, &m->node.desired, &now, NULL) == 0 && !patch;
	json_decref(patch);
	return same;
}

/* --- the GPU operator's validators --- */

static void list_validators(struct mig *m)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

	buf_puts(&path, "/api/v1/namespaces/");
	api_escape(&path, m->c.options.operator_namespace);
	buf_puts(&path, "/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, m->c.link->node_name);
	if (buf_ok(&path))
		task_send(&m->validators.task,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) });
}

static void sync_mig_validators(struct api_task *t)
{
	struct mig *m = t->owner;

	if (m->validators.rerun)
		m->validators.step = MIG_VALIDATORS_LIST;
	m->validators.rerun = false;
	if (m->validators.step == MIG_VALIDATORS_DONE)
		return;
	if (m->validators.step == MIG_VALIDATORS_LIST)
		list_validators(m);
	else if (m->validators.pods.n > 0)
		task_send(t, &(struct api_request){ .method = "DELETE",
				     .path = m->validators.pods.v[m->validators.pods.n - 1] });
	else
		m->validators.step = MIG_VALIDATORS_DONE;
}

static void save_mig_validators(struct mig *m, const json_t *items)
{
	strv_clear(&m->validators.pods);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *pod = json_array_get(items, i);
		const char *name = json_string_value(
			json_object_get(json_object_get(pod, "metadata"), "name"));
		CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

		if (!name || !mig_validator(pod))
			continue;
		buf_puts(&path, "/api/v1/namespaces/");
		api_escape(&path, m->c.options.operator_namespace);
		buf_puts(&path, "/pods/");
		api_escape(&path, name);
		if (!buf_ok(&path) || strv_add(&m->validators.pods, buf_str(&path), NULL) < 0)
			return; /* the other validators do not run again: no harm */
	}
}

static void validators_done(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct mig *m = t->owner;
	bool gone = reply->status == 404 && m->validators.step == MIG_VALIDATORS_DELETE;

	if (err && !gone) {
		task_complain(t);
		return;
	}
	if (m->validators.step == MIG_VALIDATORS_LIST) {
		save_mig_validators(m, json_object_get(reply->body, "items"));
		m->validators.step = MIG_VALIDATORS_DELETE;
	} else if (m->validators.pods.n > 0) {
		log_info("validator runs again",
			LOG_STR("pod", m->validators.pods.v[m->validators.pods.n - 1]));
		free(m->validators.pods.v[--m->validators.pods.n]);
		m->validators.pods.v[m->validators.pods.n] = NULL;
	}
	task_reached(t);
	task_wait(t, 0);
}

void mig_node_rerun_validators(struct mig *m)
{
	if (!*m->c.options.operator_namespace)
		return;
	m->validators.rerun = true;
	task_poke(&m->validators.task);
}

/* --- life --- */

void mig_node_init(struct mig *m)
{
	task_init(&m->node.task, m->c.loop, "MIG state not written yet", sync_mig_node_labels,
		on_mig_node_labels_reply);
	task_init(&m->validators.task, m->c.loop, "validators do not run again yet",
		sync_mig_validators, validators_done);
	m->node.task.owner = m->validators.task.owner = m;
}

void mig_node_open(struct mig *m)
{
	m->node.task.api = m->validators.task.api = m->c.link->api;
	task_poke(&m->node.task);
	task_poke(&m->validators.task);
}

void mig_node_close(struct mig *m)
{
	task_close(&m->node.task);
	task_close(&m->validators.task);
}
