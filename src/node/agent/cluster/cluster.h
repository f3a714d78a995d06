/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the API server: our Node, Events on it, labels, the startup taint. All of it
 * may be absent or away: nothing that the node itself needs waits for it.
 * Thread: loop.
 */
#include "node/agent/agent.h"
#include "node/agent/cluster/condition.h"
#include "node/agent/cluster/event.h"
#include "node/agent/cluster/label-writer.h"
#include "node/agent/cluster/node-object.h"
#include "node/agent/cluster/task.h"

/* What the agent hears of the cluster. */
struct cluster_ops {
	void (*node_changed)(void *arg); /* our Node, or what is known of it */
	void (*api_ready)(void *arg,
		struct api *api); /* once: the API server is used from now on */
	void (*api_unavailable)(void *arg,
		const struct error *why); /* once: it will never be used */
	/* Whether all that this node has for pods is registered, so that the startup taint can go. */
	bool (*node_ready)(void *arg);
};

struct agent_cluster {
	const struct cluster_ops *ops;
	void *arg;                            /* of .ops */
	struct agent_cluster_options options; /* no NULL in it */
	struct api_config config;             /* taken by .api once that is open */
	bool possible; /* an API server is known, or will be, and we know our Node's name */
	bool found;    /* .config is there */
	struct backoff look_again; /* for it */
	struct error why;          /* why the API is not used, now or at all; ERR_NONE: it is */
	struct api *api;
	char namespace_[64]; /* of this pod; "": unknown */
	uv_timer_t open;     /* looks for the server, then opens .api */
	struct node_object *node;
	struct event_sender events;
	struct label_writer labels;
	struct condition_writer condition;
	struct task taint;
	uint64_t taint_removed_wall_ns;
};
