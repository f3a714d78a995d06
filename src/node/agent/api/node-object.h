/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Our own Node as the API server has it: one watch, of which the last state is kept. Who needs a
 * label or a taint reads it here; who wants to change one patches it and is told by the watch.
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
	/* Labels, annotations, taints, uid or the state are other ones. Heartbeats do not count. */
	void (*changed)(void *arg);
	/* The condition is another one, and nothing else: what is known of the rest may be older than the
	 * last patch of it. */
	void (*condition_changed)(void *arg);
};

/* @condition_type: which of the Node's conditions is kept; borrowed; NULL: none. */
int node_object_start(struct node_object **ret, struct api *api, const char *name,
	const char *condition_type, const struct node_object_ops *ops, void *arg,
	struct error *err) MUST_USE;
struct node_object *node_object_stop(struct node_object *n); /* returns NULL */

enum node_object_state node_object_state(const struct node_object *n);

/* Why the server is not in touch now; ERR_NONE if it is. What is known stays as it was. */
const struct error *node_object_error(const struct node_object *n);

const char *node_object_name(const struct node_object *n);
const char *node_object_uid(const struct node_object *n); /* "" unless present */

/* Borrowed until the next callback; NULL: none. */
const char *node_object_label(const struct node_object *n, const char *key);
const char *node_object_annotation(const struct node_object *n, const char *key);
const json_t *node_object_labels(const struct node_object *n);
const json_t *node_object_taints(const struct node_object *n);    /* array */
const json_t *node_object_condition(const struct node_object *n); /* without its heartbeat */

/* @object is the Node as the answer to a patch has it: the watch says the same a moment later. May be NULL. */
void node_object_patched(struct node_object *n, const json_t *object);
