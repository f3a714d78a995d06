/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's own Node, as the API server has it: one watch and its last state. A part that needs a label or a
 * taint reads it here. A part that changes one patches the Node, and then the watch reports the change. The link
 * says whether there is an API server at all, and whether the Node is known.
 * Thread: loop.
 */
#include "io/kube-api/api.h"

struct node_object;

enum node_object_state {
	NODE_UNKNOWN, /* the server has not answered yet */
	NODE_ABSENT,  /* there is no such Node (yet, or any more) */
	NODE_PRESENT,
};

struct node_object_ops {
	/* Labels, annotations, taints, uid or the state changed. A heartbeat is no change. */
	void (*changed)(void *arg);
	/* Only the condition changed. The rest may be older than the last patch of it. */
	void (*condition_changed)(void *arg);
};

/* @condition_type: the one condition of the Node to keep; borrowed; NULL: none. */
int node_object_start(struct node_object **ret, struct api *api, const char *name,
	const char *condition_type, const struct node_object_ops *ops, void *arg,
	struct error *err) MUST_USE;
struct node_object *node_object_stop(struct node_object *n); /* returns NULL */

/* The state as of the server's last answer. */
enum node_object_state node_object_state(const struct node_object *n);

/* Why the server is unreachable now; ERR_NONE: it is reachable. Known values stay as they were. */
const struct error *node_object_error(const struct node_object *n);

/* The name that node_object_start() got. */
const char *node_object_name(const struct node_object *n);
const char *node_object_uid(const struct node_object *n); /* "" unless the Node is present */

/* Borrowed until the next callback; NULL: none. */
const char *node_object_label(const struct node_object *n, const char *key);
const char *node_object_annotation(const struct node_object *n, const char *key);
const json_t *node_object_labels(const struct node_object *n);
const json_t *node_object_taints(const struct node_object *n);    /* array */
const json_t *node_object_condition(const struct node_object *n); /* without its heartbeat */

/*
 * Reads the condition from @object, the Node in the answer to a patch. The watch reports that Node a moment later.
 * @object may be NULL.
 */
void node_object_patched(struct node_object *n, const json_t *object);

/* --- the link --- */

/* What the agent knows of the API server and of its Node. Only cluster/ writes this; all other parts read it. */
struct api_link {
	const char *node_name, *pod_name; /* of this node and this pod; "": not known */
	char namespace_[64];              /* of this pod; "": not known */
	bool possible;    /* the Node's name is known, and the API server is known or will be */
	bool found;       /* the server's address and the credentials */
	struct error why; /* why the API is not used, now or at all; ERR_NONE: it is used */
	struct api *api;  /* NULL: not created yet */
	struct node_object *node; /* NULL: not created yet */
};

/* Why the Node is not known; "": the Node is known. Borrowed. */
const char *api_link_error(const struct api_link *l);
