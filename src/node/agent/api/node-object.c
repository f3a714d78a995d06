/* SPDX-License-Identifier: Apache-2.0 */
#include "node/agent/api/node-object.h"

#include "lib/base/log.h"

#include <string.h>

enum part { LABELS, ANNOTATIONS, TAINTS, N_PARTS };

static const struct {
	const char *in, *key;
} parts[N_PARTS] = {
	[LABELS] = { "metadata", "labels" },
	[ANNOTATIONS] = { "metadata", "annotations" },
	[TAINTS] = { "spec", "taints" },
};

struct node_object {
	const struct node_object_ops *ops;
	void *arg;
	struct api_watch *watch;
	char *name;
	char uid[64];
	enum node_object_state state;
	struct error error;
	bool unavailable;       /* as logged last */
	json_t *parts[N_PARTS]; /* NULL: the object has none */
	const char *condition_type;
	json_t *condition; /* the one of .condition_type; NULL: none */
};

static bool is_same_node_part(const json_t *a, const json_t *b)
{
	return a == b || (a && b && json_equal(a, b));
}

static json_t *find_condition(const struct node_object *n, const json_t *object)
{
	const json_t *list = json_object_get(json_object_get(object, "status"), "conditions");

	for (size_t i = 0; n->condition_type && i < json_array_size(list); i++) {
		json_t *c = json_array_get(list, i);
		const char *type = json_string_value(json_object_get(c, "type"));

		if (type && !strcmp(type, n->condition_type))
			return c;
	}
	return NULL;
}

/* Updates the condition. Its heartbeat is no change. */
static bool update_node_condition(struct node_object *n, const json_t *object)
{
	json_t *found = find_condition(n, object);
	json_t *now = found ? json_copy(found) : NULL;
	bool changed;

	if (now)
		(void)json_object_del(now, "lastHeartbeatTime");
	changed = !is_same_node_part(now, n->condition);
	json_decref(n->condition);
	n->condition = now;
	return changed;
}

/* Keeps the parts of @object that matter; @object may be NULL. True: they changed. */
static bool update_node_object(struct node_object *n, const json_t *object)
{
	const json_t *metadata = json_object_get(object, "metadata");
	const char *uid = json_string_value(json_object_get(metadata, "uid"));
	enum node_object_state state = object ? NODE_PRESENT : NODE_ABSENT;
	bool changed = state != n->state || strcmp(n->uid, uid ? uid : "") != 0;

	n->state = state;
	(void)snprintf(n->uid, sizeof(n->uid), "%s", uid ? uid : "");
	for (size_t i = 0; i < N_PARTS; i++) {
		json_t *now =
			json_object_get(json_object_get(object, parts[i].in), parts[i].key);

		if (is_same_node_part(now, n->parts[i]))
			continue;
		changed = true;
		json_decref(n->parts[i]);
		n->parts[i] = json_incref(now);
	}
	return changed;
}

static void on_node_object(void *arg, json_t *object)
{
	struct node_object *n = arg;
	bool condition = update_node_condition(n, object);

	if (update_node_object(n, object))
		n->ops->changed(n->arg);
	else if (condition)
		n->ops->condition_changed(n->arg);
}

static void on_node_watch_state(void *arg, const struct error *why)
{
	struct node_object *n = arg;

	/* The watch calls this when the reason changes, not at each retry. */
	if (why)
		log_warn("no touch with the API server, trying again",
			LOG_STR("reason", why->msg));
	else if (n->unavailable)
		log_info("in touch with the API server again");
	n->unavailable = why;
	error_clear(&n->error);
	error_copy(&n->error, why);
}

static const struct api_watch_ops watch_ops = { .object = on_node_object,
	.state = on_node_watch_state };

int node_object_start(struct node_object **ret, struct api *api, const char *name,
	const char *condition_type, const struct node_object_ops *ops, void *arg,
	struct error *err)
{
	struct node_object *n = calloc(1, sizeof(*n));

	if (!n)
		return error_nomem(err);
	n->ops = ops;
	n->arg = arg;
	n->condition_type = condition_type;
	(void)error_set(&n->error, ERR_UNAVAILABLE, "%s has not answered yet", api_server(api));
	n->name = strdup(name);
	if (!n->name || api_watch_start(&n->watch, api, "/api/v1/nodes", name, &watch_ops, n,
				err) < 0) {
		if (!n->name)
			(void)error_nomem(err);
		(void)node_object_stop(n);
		return -1;
	}
	*ret = n;
	return 0;
}

struct node_object *node_object_stop(struct node_object *n)
{
	if (!n)
		return NULL;
	if (n->watch)
		n->watch = api_watch_stop(n->watch);
	for (size_t i = 0; i < N_PARTS; i++)
		json_decref(n->parts[i]);
	json_decref(n->condition);
	free(n->name);
	free(n);
	return NULL;
}

enum node_object_state node_object_state(const struct node_object *n)
{
	return n->state;
}

const struct error *node_object_error(const struct node_object *n)
{
	return &n->error;
}

const char *node_object_name(const struct node_object *n)
{
	return n->name;
}

const char *node_object_uid(const struct node_object *n)
{
	return n->uid;
}

const char *node_object_label(const struct node_object *n, const char *key)
{
	return json_string_value(json_object_get(n->parts[LABELS], key));
}

const char *node_object_annotation(const struct node_object *n, const char *key)
{
	return json_string_value(json_object_get(n->parts[ANNOTATIONS], key));
}

const json_t *node_object_labels(const struct node_object *n)
{
	return n->parts[LABELS];
}

const json_t *node_object_taints(const struct node_object *n)
{
	return n->parts[TAINTS];
}

const json_t *node_object_condition(const struct node_object *n)
{
	return n->condition;
}

void node_object_patched(struct node_object *n, const json_t *object)
{
	if (find_condition(n, object))
		(void)update_node_condition(n, object);
}

/* --- the link --- */

const char *api_link_error(const struct api_link *l)
{
	if (!l->node)
		return l->why.code ? l->why.msg : "the API server is not asked yet";
	if (node_object_error(l->node)->code != ERR_NONE)
		return node_object_error(l->node)->msg;
	return node_object_state(l->node) == NODE_ABSENT ? "there is no Node of our name" : "";
}
