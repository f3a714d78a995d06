/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/label-writer.h"

#include "node/agent/api/patch.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <string.h>

/*
 * The NodeFeature object of NVIDIA's feature discovery, under the same name, so that one program takes over from
 * the other. The agent reads the object before it writes. It writes only a difference, and keeps everything that
 * other writers put into the object.
 *
 *	OWNERS (once, with a pod name) --> READ --> WRITE --> rest, then READ
 */

#define GROUP      "nfd.k8s-sigs.io/v1alpha1"
#define NODE_LABEL "nfd.node.kubernetes.io/node-name"
#define RECHECK_NS (600 * NS_PER_SEC) /* someone may have deleted the object */
/* An API server without the definition, or without rights for the agent, stays so for a while. */
#define SLOW_NS (300 * NS_PER_SEC)

static bool features_path(const struct label_writer *w, bool object, struct buf *b)
{
	buf_puts(b, "/apis/" GROUP "/namespaces/");
	api_escape(b, w->namespace_);
	buf_puts(b, "/nodefeatures");
	if (object) {
		buf_puts(b, "/nvidia-features-for-");
		api_escape(b, w->node_name);
	}
	return buf_ok(b);
}

static void send_for(struct label_writer *w, const char *method, const struct buf *path,
	const char *body)
{
	if (!buf_ok(path)) {
		(void)error_nomem(&w->task.last_error);
		task_wait(&w->task, SLOW_NS);
		return;
	}
	task_send(&w->task, &(struct api_request){ .method = method,
				    .path = buf_str(path),
				    .content_type = body ? API_JSON : NULL,
				    .body = body });
}

static void request_node_feature(struct label_writer *w)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);

	if (!w->namespace_ || !*w->namespace_) {
		(void)error_set(&w->task.last_error, ERR_INVALID,
			"no namespace for the NodeFeature object: give --namespace");
		task_complain(&w->task);
		return;
	}
	w->owners_known |= !*w->pod_name;
	w->step = w->owners_known ? NFD_READ : NFD_OWNERS;
	if (w->step == NFD_READ) {
		(void)features_path(w, /* object= */ true, &path);
	} else {
		buf_puts(&path, "/api/v1/namespaces/");
		api_escape(&path, w->namespace_);
		buf_puts(&path, "/pods/");
		api_escape(&path, w->pod_name);
	}
	send_for(w, "GET", &path, NULL);
}

/* --- the owners: the agent's DaemonSet and pod --- */

static json_t *daemon_set_of(const json_t *metadata)
{
	const json_t *owners = json_object_get(metadata, "ownerReferences");

	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *o = json_array_get(owners, i);
		const char *kind = json_string_value(json_object_get(o, "kind"));

		if (kind && !strcmp(kind, "DaemonSet"))
			return json_pack("{s:O?, s:s, s:O?, s:O?, s:b}", "apiVersion",
				json_object_get(o, "apiVersion"), "kind", kind, "name",
				json_object_get(o, "name"), "uid", json_object_get(o, "uid"),
				"controller", 1);
	}
	return NULL;
}

static void parse_owner_references(struct label_writer *w, const json_t *pod)
{
	const json_t *metadata = json_object_get(pod, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	json_t *set = daemon_set_of(metadata);

	json_decref(w->owners);
	w->owners = NULL;
	if (set && uid)
		w->owners = json_pack("[o, {s:s, s:s, s:s, s:s}]", set, "apiVersion", "v1",
			"kind", "Pod", "name", w->pod_name, "uid", uid);
	else
		json_decref(set);
	w->owners_known = true;
}

static void owners_done(struct label_writer *w, const struct api_reply *reply,
	const struct error *err)
{
	if (err && reply->status != 403 && reply->status != 404) {
		task_complain(&w->task);
		return; /* retried after the wait */
	}
	if (err)
		log_warn("the NodeFeature object will have no owner and stay for ever",
			LOG_STR("reason", err->msg));
	parse_owner_references(w, err ? NULL : reply->body);
	task_wait(&w->task, 0);
}

/* --- read, compare, write --- */

static json_t *spec_of(const struct label_writer *w, const json_t *have)
{
	json_t *labels = labels_json(w->desired_labels,
		json_object_get(json_object_get(have, "spec"), "labels"));

	return labels ? json_pack("{s:o, s:{s:{}, s:{}, s:{}}}", "labels", labels, "features",
				"flags", "attributes", "instances")
		      : NULL;
}

static bool is_so(const struct label_writer *w, const json_t *have, json_t *spec)
{
	const json_t *metadata = json_object_get(have, "metadata");
	const char *node = json_string_value(
		json_object_get(json_object_get(metadata, "labels"), NODE_LABEL));
	json_t *owners = json_object_get(metadata, "ownerReferences");

	return node && !strcmp(node, w->node_name) && spec &&
	       json_equal(spec, json_object_get(have, "spec")) &&
	       (w->owners ? owners && json_equal(w->owners, owners)
			  : json_array_size(owners) == 0);
}

/* @have has metadata or is NULL. Other keys in @have and its metadata stay. NULL: no memory. */
static char *format_node_feature(const struct label_writer *w, const json_t *have, json_t *spec)
{
	json_t *o = have ? json_deep_copy(have)
			 : json_pack("{s:s, s:s, s:{s:s+, s:s}}", "apiVersion", GROUP, "kind",
				   "NodeFeature", "metadata", "name", "nvidia-features-for-",
				   w->node_name, "namespace", w->namespace_);
	json_t *metadata = json_object_get(o, "metadata");
	json_t *labels = json_object_get(metadata, "labels");
	char *text = NULL;
	int r;

	if (!metadata) {
		json_decref(o);
		return NULL;
	}
	if (!json_is_object(labels)) {
		labels = json_object();
		(void)json_object_set_new(metadata, "labels", labels);
	}
	r = json_object_set_new(labels, NODE_LABEL, json_string(w->node_name));
	(void)json_object_del(metadata, "ownerReferences"); /* there may be none */
	if (w->owners)
		r |= json_object_set(metadata, "ownerReferences", w->owners);
	r |= json_object_set(o, "spec", spec);
	if (o && r == 0)
		text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

static void write_object(struct label_writer *w, const json_t *have)
{
	CLEANUP(buf_fini) struct buf path = BUF_INIT(2048);
	json_t *spec = spec_of(w, have);
	CLEANUP(freep) char *body = NULL;

	if (have && is_so(w, have, spec)) {
		json_decref(spec);
		task_reached(&w->task);
		w->written = true;
		task_wait(&w->task, RECHECK_NS);
		return;
	}
	body = spec ? format_node_feature(w, have, spec) : NULL;
	json_decref(spec);
	if (!body) {
		(void)error_nomem(&w->task.last_error);
		task_complain(&w->task);
		task_wait(&w->task, SLOW_NS);
		return;
	}
	w->step = NFD_WRITE;
	w->creates = !have;
	w->sent = w->generation;
	(void)features_path(w, /* object= */ !w->creates, &path);
	send_for(w, w->creates ? "POST" : "PUT", &path, body);
}

static void set_node_feature_error(struct label_writer *w, const struct api_reply *reply)
{
	bool undefined = w->creates && reply->status == 404;

	if (undefined)
		(void)error_prefix(&w->task.last_error,
			"this API server does not know NodeFeature objects (is node feature "
			"discovery installed?)");
	if (undefined || reply->status == 403)
		task_wait(&w->task, SLOW_NS);
	task_complain(&w->task);
}

static bool is_object(const json_t *body)
{
	return json_is_object(json_object_get(body, "metadata"));
}

static void on_node_feature_reply(struct label_writer *w, const struct api_reply *reply,
	const struct error *err)
{
	if (w->step == NFD_OWNERS) {
		owners_done(w, reply, err);
	} else if (w->step == NFD_READ && !err && !is_object(reply->body)) {
		(void)error_set(&w->task.last_error, ERR_INVALID,
			"expected a NodeFeature object from the API server, found other JSON");
		task_complain(&w->task);
		task_wait(&w->task, SLOW_NS);
	} else if (w->step == NFD_READ && (!err || reply->status == 404)) {
		write_object(w, err ? NULL : reply->body);
	} else if (err) {
		/* After a conflict (409), as after any other failure, the agent reads the object again. */
		if (reply->status != 409 || task_fails_often(&w->task))
			set_node_feature_error(w, reply);
	} else if (w->step == NFD_WRITE) {
		task_wait(&w->task, label_writer_wrote(w) ? RECHECK_NS : 0);
	}
}

const struct label_writer_kind label_writer_nfd = { .sync = request_node_feature,
	.done = on_node_feature_reply };
