/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/internal.h"

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

static bool present(const struct agent *a)
{
	return a->cluster.link.node && node_object_state(a->cluster.link.node) == NODE_PRESENT;
}

static void send_marks(struct agent *a, const json_t *patch)
{
	struct agent_mig *m = &a->mig;
	CLEANUP(buf_fini) struct buf path = BUF_INIT(1024);
	CLEANUP(freep) char *body = json_dumps(patch, JSON_COMPACT);

	buf_puts(&path, "/api/v1/nodes/");
	api_escape(&path, a->cluster.link.node_name);
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
	struct agent *a = t->owner;
	struct agent_mig *m = &a->mig;
	struct mig_marks_now now;
	struct error err = ERROR_INIT;
	uint64_t since = time_mono_ns() - m->marks_at_ns;
	json_t *patch = NULL;

	if (!present(a))
		return;
	if (m->marks_at_ns && m->marks_sent == m->marks_generation && since < ECHO_NS &&
		t->trouble.code == ERR_NONE && !mig_node_shows(a)) {
		task_wait(t, ECHO_NS - since);
		return;
	}
	marks_now(a->cluster.link.node, &now);
	if (mig_marks_patch(&patch, &m->want, &now, &err) < 0) {
		t->trouble = err;
		task_complain(t);
		task_wait(t, ECHO_NS);
		return;
	}
	if (patch)
		send_marks(a, patch);
	else
		task_reached(t);
	json_decref(patch);
}

static void marks_done(struct task *t, const struct api_reply *reply, const struct error *err)
{
	struct agent *a = t->owner;

	if (err) {
		if (reply->status != 409 || task_fails_often(t))
			task_complain(t);
		return;
	}
	/* The watch will say so; if somebody was faster than we, this look sees it. */
	task_wait(t, a->mig.marks_sent == a->mig.marks_generation ? ECHO_NS : 0);
}

static void changed(struct agent *a)
{
	a->mig.marks_generation++;
	/* Not task_poke(), which waits for the echo of the last. */
	if (a->mig.marks.call)
		a->mig.marks.again = true;
	else if (a->mig.marks.api)
		task_wait(&a->mig.marks, 0);
}

static const char *keep(char *to, size_t cap, const char *text)
{
	if (!text)
		return NULL;
	(void)snprintf(to, cap, "%s", text);
	utf8_make_valid(to); /* else no JSON could have it, and the clients would stay paused */
	return to;
}

void mig_node_say(struct agent *a, const char *state, const char *reason)
{
	struct agent_mig *m = &a->mig;

	m->want.state = keep(m->state, sizeof(m->state), state);
	m->want.reason = keep(m->reason, sizeof(m->reason), reason);
	m->since_wall_ns = time_wall_ns();
	changed(a);
}

void mig_node_clients(struct agent *a, enum mig_clients clients)
{
	a->mig.want.clients = clients;
	a->mig.want.own = a->mig.own;
	changed(a);
}

void mig_node_rebooted(struct agent *a, const char *key)
{
	a->mig.want.rebooted = keep(a->mig.rebooted, sizeof(a->mig.rebooted), key);
	changed(a);
}

bool mig_node_shows(const struct agent *a)
{
	struct mig_marks_now now;
	json_t *patch = NULL;
	bool same;

	if (!a->cluster.link.possible)
		return true;
	if (!present(a))
		return false;
	marks_now(a->cluster.link.node, &now);
	same = mig_marks_patch(&patch, &a->mig.want, &now, NULL) == 0 && !patch;
	json_decref(patch);
	return same;
}

/* --- the GPU operator's validators --- */

static void list_validators(struct agent *a)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

	buf_puts(&path, "/api/v1/namespaces/");
	api_escape(&path, a->mig.options.operator_namespace);
	buf_puts(&path, "/pods?fieldSelector=spec.nodeName%3D");
	api_escape(&path, a->cluster.link.node_name);
	if (buf_ok(&path))
		task_send(&a->mig.validators,
			&(struct api_request){ .method = "GET", .path = buf_str(&path) });
}

static void look_at_validators(struct task *t)
{
	struct agent *a = t->owner;
	struct agent_mig *m = &a->mig;

	if (!m->validators_due)
		return;
	if (!m->validators_listed)
		list_validators(a);
	else if (m->pods.n > 0)
		task_send(t, &(struct api_request){ .method = "DELETE",
				     .path = m->pods.v[m->pods.n - 1] });
	else
		m->validators_due = false;
}

static void keep_validators(struct agent *a, const json_t *items)
{
	struct agent_mig *m = &a->mig;

	strv_clear(&m->pods);
	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *pod = json_array_get(items, i);
		const char *name = json_string_value(
			json_object_get(json_object_get(pod, "metadata"), "name"));
		CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

		if (!name || !mig_validator(pod))
			continue;
		buf_puts(&path, "/api/v1/namespaces/");
		api_escape(&path, m->options.operator_namespace);
		buf_puts(&path, "/pods/");
		api_escape(&path, name);
		if (!buf_ok(&path) || strv_add(&m->pods, buf_str(&path), NULL) < 0)
			return; /* the others then do not run again: no harm */
	}
}

static void validators_done(struct task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct agent *a = t->owner;
	struct agent_mig *m = &a->mig;
	bool gone = reply->status == 404 && m->validators_listed;

	if (err && !gone) {
		task_complain(t);
		return;
	}
	if (!m->validators_listed) {
		keep_validators(a, json_object_get(reply->body, "items"));
		m->validators_listed = true;
	} else if (m->pods.n > 0) {
		log_info("validator runs again", LOG_STR("pod", m->pods.v[m->pods.n - 1]));
		free(m->pods.v[--m->pods.n]);
		m->pods.v[m->pods.n] = NULL;
	}
	task_reached(t);
	task_wait(t, 0);
}

void mig_node_validate_again(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	if (!*m->options.operator_namespace)
		return;
	m->validators_due = true;
	m->validators_listed = false;
	task_poke(&m->validators);
}

/* --- life --- */

void mig_node_init(struct agent *a)
{
	struct agent_mig *m = &a->mig;

	task_init(&m->marks, a->loop, "MIG state not written yet", look_at_marks, marks_done);
	task_init(&m->validators, a->loop, "validators do not run again yet",
		look_at_validators, validators_done);
	m->marks.owner = m->validators.owner = a;
}

void mig_node_open(struct agent *a)
{
	a->mig.marks.api = a->mig.validators.api = a->cluster.link.api;
	task_poke(&a->mig.marks);
	task_poke(&a->mig.validators);
}

void mig_node_close(struct agent *a)
{
	task_close(&a->mig.marks);
	task_close(&a->mig.validators);
}
