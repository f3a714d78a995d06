/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/mig/attempt.h"

#include "lib/base/time.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* Our own change comes back through the watch after a moment: until then the Node looks as before. */
#define ECHO_NS (2 * NS_PER_SEC)

/* --- state, reason, clients --- */

static void marks_now(const struct node_object *n, struct mig_marks_now *ret)
{
	*ret = (struct mig_marks_now){
		.labels = node_object_labels(n),
		.reason = node_object_annotation(n, MIG_REASON),
		.rebooted = node_object_annotation(n, MIG_REBOOTED),
		.old = node_object_annotation(n, MIG_PAUSED_OLD),
	};
}

static bool present(const struct mig *m)
{
	return m->c.link->node && node_object_state(m->c.link->node) == NODE_PRESENT;
}

static void send_marks(struct mig *m, const json_t *patch)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = json_dumps(patch, JSON_COMPACT);

	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, m->c.link->node_name);
	buf_puts(&path, "?fieldManager=gpusliced");
	if (!body || !buf_ok(&path)) {
		task_wait(&m->marks, ECHO_NS);
		return;
	}
	m->marks_sent = m->marks_generation;
	m->marks_at_ns = time_mono_ns();
	task_send(&m->marks, &(struct api_request){ .method = "PATCH",
				     .path = buf_str(&path),
				     .content_type = API_MERGE_PATCH,
				     .body = body });
}

static void look_at_marks(struct task *t)
{
	struct mig *m = t->owner;
	struct mig_marks_now now;
	struct error err = ERROR_INIT;
	uint64_t since = time_mono_ns() - m->marks_at_ns;
	json_t *patch = NULL;

	if (!present(m))
		return;
	if (m->marks_at_ns && m->marks_sent == m->marks_generation && since < ECHO_NS &&
		t->trouble.code == ERR_NONE && !mig_node_shows(m)) {
		task_wait(t, ECHO_NS - since);
		return;
	}
	marks_now(m->c.link->node, &now);
	if (mig_marks_patch(&patch, &m->want, &now, &err) < 0) {
		t->trouble = err;
		task_complain(t);
		task_wait(t, ECHO_NS);
		return;
	}
	if (patch)
		send_marks(m, patch);
	else
		task_reached(t);
	json_decref(patch);
}

static void marks_done(struct task *t, const struct api_reply *reply, const struct error *err)
{
	struct mig *m = t->owner;

	if (err) {
		if (reply->status != 409 || task_fails_often(t))
			task_complain(t);
		return;
	}
	/* The watch will say so; if somebody was faster than we, this look sees it. */
	task_wait(t, m->marks_sent == m->marks_generation ? ECHO_NS : 0);
}

static void changed(struct mig *m)
{
	m->marks_generation++;
	/* Not task_poke(), which waits for the echo of the last. */
	if (m->marks.call)
		m->marks.again = true;
	else if (m->marks.api)
		task_wait(&m->marks, 0);
}

static const char *keep(char *to, size_t cap, const char *text)
{
	if (!text)
		return NULL;
	(void)snprintf(to, cap, "%s", text);
	utf8_make_valid(to); /* else no JSON could have it, and the clients would stay paused */
	return to;
}

void mig_node_say(struct mig *m, const char *state, const char *reason)
{
	m->want.state = keep(m->state, sizeof(m->state), state);
	m->want.reason = keep(m->reason, sizeof(m->reason), reason);
	m->since_wall_ns = time_wall_ns();
	changed(m);
}

void mig_node_clients(struct mig *m, enum mig_clients clients)
{
	m->want.clients = clients;
	m->want.own = m->own;
	changed(m);
}

void mig_node_rebooted(struct mig *m, const char *key)
{
	m->want.rebooted = keep(m->rebooted, sizeof(m->rebooted), key);
	changed(m);
}

bool mig_node_shows(const struct mig *m)
{
	struct mig_marks_now now;
	json_t *patch = NULL;
	bool same;

	if (!m->c.link->possible)
		return true;
	if (!present(m))
		return false;
	marks_now(m->c.link->node, &now);
	same = mig_marks_patch(&patch, &m->want, &now, NULL) == 0 && !patch;
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
		task_send(&m->validators,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) });
}

static void look_at_validators(struct task *t)
{
	struct mig *m = t->owner;

	if (!m->validators_due)
		return;
	if (!m->validators_listed)
		list_validators(m);
	else if (m->pods.n > 0)
		task_send(t, &(struct api_request){ .method = "DELETE",
				     .path = m->pods.v[m->pods.n - 1] });
	else
		m->validators_due = false;
}

static void keep_validators(struct mig *m, const json_t *items)
{
	strv_clear(&m->pods);
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
		if (!buf_ok(&path) || strv_add(&m->pods, buf_str(&path), NULL) < 0)
			return; /* the others then do not run again: no harm */
	}
}

static void validators_done(struct task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct mig *m = t->owner;
	bool gone = reply->status == 404 && m->validators_listed;

	if (err && !gone) {
		task_complain(t);
		return;
	}
	if (!m->validators_listed) {
		keep_validators(m, json_object_get(reply->body, "items"));
		m->validators_listed = true;
	} else if (m->pods.n > 0) {
		log_info("validator runs again", LOG_STR("pod", m->pods.v[m->pods.n - 1]));
		free(m->pods.v[--m->pods.n]);
		m->pods.v[m->pods.n] = NULL;
	}
	task_reached(t);
	task_wait(t, 0);
}

void mig_node_validate_again(struct mig *m)
{
	if (!*m->c.options.operator_namespace)
		return;
	m->validators_due = true;
	m->validators_listed = false;
	task_poke(&m->validators);
}

/* --- life --- */

void mig_node_init(struct mig *m)
{
	task_init(&m->marks, m->c.loop, "MIG state not written yet", look_at_marks, marks_done);
	task_init(&m->validators, m->c.loop, "validators do not run again yet",
		look_at_validators, validators_done);
	m->marks.owner = m->validators.owner = m;
}

void mig_node_open(struct mig *m)
{
	m->marks.api = m->validators.api = m->c.link->api;
	task_poke(&m->marks);
	task_poke(&m->validators);
}

void mig_node_close(struct mig *m)
{
	task_close(&m->marks);
	task_close(&m->validators);
}
