/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/cluster/label-writer.h"

#include "node/agent/api/patch.h"
#include "lib/base/fd.h"
#include "lib/base/log.h"
#include "lib/base/time.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- where --- */

static const char *const where_names[] = {
	[LABELS_OFF] = "off",
	[LABELS_NODE] = "node",
	[LABELS_NFD] = "nfd",
	[LABELS_FILE] = "file",
};

bool labels_where_parse(const char *text, enum labels_where *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(where_names); i++) {
		if (!strcmp(text, where_names[i])) {
			*ret = (enum labels_where)i;
			return true;
		}
	}
	return false;
}

const char *labels_where_text(enum labels_where where)
{
	return where_names[where];
}

/* --- what the three kinds share --- */

/* The last request has arrived. False: other labels are desired by now. */
static bool label_writer_wrote(struct label_writer *w)
{
	w->written = w->sent == w->generation;
	w->written_ns = time_mono_ns();
	w->written_wall_ns = time_wall_ns();
	w->writes++;
	log_info("labels written", LOG_STR("to", labels_where_text(w->where)),
		LOG_UINT("labels", w->desired_labels->n));
	return w->written;
}

/* --- the agent's Node --- */

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

static const struct label_writer_kind label_writer_node = { .sync = sync_node_labels,
	.done = on_label_patch_reply };

/* --- the NodeFeature object --- */

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

static const struct label_writer_kind label_writer_nfd = { .sync = request_node_feature,
	.done = on_node_feature_reply };

/* --- the feature file --- */

/*
 * The feature file of node feature discovery: "key=value" lines. Node feature discovery reads every file of the
 * directory that does not begin with a dot. The temporary file of an atomic write begins with one.
 */

#define FILE_MAX (64U << 10) /* what node feature discovery reads; bytes */
#define AGAIN_NS (30 * NS_PER_SEC)

/* The labels in the file now. Lines that are no labels are ignored. NULL: no memory. */
static json_t *read_label_file(const char *path)
{
	CLEANUP(buf_fini) struct buf b = BUF_INIT(FILE_MAX);
	json_t *o = json_object();
	char key[LABEL_KEY_MAX + 1];
	size_t len, eq;

	if (file_read(path, &b, NULL) < 0)
		return o;
	for (const char *line = buf_str(&b); *line; line += len + (line[len] == '\n')) {
		len = strcspn(line, "\n");
		eq = strcspn(line, "=\n");
		if (eq == len || eq >= sizeof(key))
			continue;
		memcpy(key, line, eq);
		key[eq] = '\0';
		(void)json_object_set_new(o, key, json_stringn(line + eq + 1, len - eq - 1));
	}
	return o;
}

static int make_parent(const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	char parent[PATH_MAX];

	if (!slash || slash == path)
		return 0;
	(void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
	return dir_make(parent, 0755, err);
}

static int write_labels(struct label_writer *w, struct error *err)
{
	CLEANUP(buf_fini) struct buf text = BUF_INIT(FILE_MAX);
	json_t *have = read_label_file(w->path);
	bool same = labels_same(w->desired_labels, have);

	json_decref(have);
	w->sent = w->generation;
	if (same) {
		w->written = true;
		if (w->written_wall_ns == 0)
			w->written_wall_ns = time_wall_ns();
		return 0;
	}
	for (size_t i = 0; i < w->desired_labels->n; i++)
		buf_printf(&text, "%s=%s\n", w->desired_labels->v[i].key,
			w->desired_labels->v[i].value);
	if (!buf_ok(&text))
		return error_set(err, ERR_LIMIT, "write '%s': more than %u bytes of labels",
			w->path, FILE_MAX);
	if (make_parent(w->path, err) < 0 ||
		file_write_atomic(w->path, buf_str(&text), text.len, 0644, err) < 0)
		return -1;
	(void)label_writer_wrote(w);
	return 0;
}

static void sync_label_file(struct label_writer *w)
{
	struct error err = ERROR_INIT;

	if (!w->path || !*w->path)
		(void)error_set(&err, ERR_INVALID,
			"no file for the labels: flags.gfd.outputFile is empty");
	else
		(void)write_labels(w, &err);
	if (err.code == ERR_NONE) {
		task_reached(&w->task);
		return;
	}
	w->task.last_error = err;
	task_complain(&w->task);
	task_wait(&w->task, AGAIN_NS);
}

static void on_label_file_reply(struct label_writer *w, const struct api_reply *reply,
	const struct error *err)
{
	(void)w;
	(void)reply;
	(void)err;
}

static const struct label_writer_kind label_writer_file = { .sync = sync_label_file,
	.done = on_label_file_reply };

/* --- the writer --- */

static const struct label_writer_kind *const kinds[] = {
	[LABELS_OFF] = NULL,
	[LABELS_NODE] = &label_writer_node,
	[LABELS_NFD] = &label_writer_nfd,
	[LABELS_FILE] = &label_writer_file,
};

static void sync_written_labels(struct api_task *t)
{
	struct label_writer *w = (struct label_writer *)t;

	if (w->desired_labels)
		w->kind->sync(w);
}

static void on_label_writer_reply(struct api_task *t, const struct api_reply *reply,
	const struct error *err)
{
	struct label_writer *w = (struct label_writer *)t;

	w->kind->done(w, reply, err);
}

void label_writer_init(struct label_writer *w, uv_loop_t *loop, enum labels_where where)
{
	*w = (struct label_writer){ .where = where,
		.kind = kinds[where],
		.excluded_label = "" };
	w->drift = (struct backoff){ .min_ns = NS_PER_SEC, .max_ns = 300 * NS_PER_SEC };
	task_init(&w->task, loop, "labels not written yet", sync_written_labels,
		on_label_writer_reply);
	w->task.local = where == LABELS_FILE;
}

/* Removes only the agent's own file: another program may have written what is there before the agent writes. */
static void remove_label_file(struct label_writer *w)
{
	if (w->path && w->written_wall_ns != 0)
		(void)unlink(w->path);
	w->written_wall_ns = 0;
}

void label_writer_set(struct label_writer *w, struct labels *desired, const char *file)
{
	bool same = w->desired_labels && labels_equal(w->desired_labels, desired) &&
		    (w->where != LABELS_FILE || (w->path && !strcmp(w->path, file)));

	if (!w->kind || same) {
		(void)labels_free(desired);
		return;
	}
	(void)labels_free(w->desired_labels);
	w->desired_labels = desired;
	w->generation++;
	w->written = false;
	if (w->where == LABELS_FILE && (!w->path || strcmp(w->path, file) != 0)) {
		remove_label_file(w);
		free(w->path);
		w->path = strdup(file);
	}
	/* Ends a rest after the last write. A wait after a failure goes on. */
	if (w->task.last_error.code == ERR_NONE && !w->task.call)
		(void)uv_timer_stop(&w->task.timer);
	task_poke(&w->task);
}

void label_writer_close(struct label_writer *w)
{
	remove_label_file(w);
	task_close(&w->task);
}

void label_writer_fini(struct label_writer *w)
{
	w->desired_labels = labels_free(w->desired_labels);
	json_decref(w->owners);
	free(w->path);
}
