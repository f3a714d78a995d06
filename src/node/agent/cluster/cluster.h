/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The agent's side of the API server: the agent's Node, Events on it, labels, the startup taint, the condition.
 * All of these may be absent or unavailable: nothing that the node itself needs waits for them.
 * Thread: loop.
 */
#include "node/agent/api/event.h"
#include "node/agent/api/node-object.h"
#include "node/agent/base/facts.h"
#include "node/agent/cluster/condition.h"
#include "node/agent/cluster/label-writer.h"
#include "io/nvml/label-facts.h"

/* Where the API server is and what the agent uses it for. "" for an option that is not given. */
struct cluster_options {
	const char *kubeconfig; /* "": the service account of the agent's pod */
	const char *node_name;  /* without a name, the API is not used */
	const char *namespace_, *pod_name;
	const char *node_label;     /* key of the label that chooses the config */
	const char *startup_taint;  /* key */
	const char *node_condition; /* type */
	enum labels_where labels;
};

/* What the cluster client reports to the agent, and asks it. */
struct cluster_ops {
	void (*node_changed)(void *arg); /* the Node, or what is known of it */
	/* Once: the API server is used from now on. */
	void (*api_ready)(void *arg, struct api *api);
	/* Once: the API server will never be used. */
	void (*api_unavailable)(void *arg, const struct error *why);
	/* Whether everything that this node has for pods is registered, so that the startup taint can go. */
	bool (*node_ready)(void *arg);
};

/* What the cluster client depends on. All borrowed. */
struct cluster_context {
	uv_loop_t *loop;
	const struct facts *facts;
	const struct reporter *reporter;
	struct cluster_options options;      /* after the init: no NULL */
	const char *sysfs_root;              /* NULL: /sys */
	uint64_t started_wall_ns;            /* of the agent: the labels' timestamp */
	const char *config_map, *config_dir; /* named configs, for messages; NULL or "": none */
	const struct cluster_ops *ops;
	void *arg; /* of .ops */
};

#define CLUSTER_LABELS_MS 50

struct cluster_labels {
	uv_timer_t timer;
	struct label_facts_store facts;
	/* .facts were read for this file and this number of GPUs. */
	char *machine_file;
	uint32_t n_gpus;
	struct strv fact_notes, notes; /* oddities that were logged */
	struct error error;            /* why no labels could be made */
};

struct cluster_client {
	struct cluster_context c;
	struct api_link link;
	struct api_config config;   /* .link.api takes it over when it opens */
	struct backoff check_again; /* for .open */
	uv_timer_t open;            /* finds the server, then opens .link.api */
	struct event_sender events;
	struct cluster_labels label_state;
	struct label_writer labels;
	struct condition_writer condition;
	struct api_task taint;
	uint64_t taint_removed_wall_ns;
};

/* If there is no API server, logs what the options request and cannot have without one. */
void cluster_init(struct cluster_client *c, const struct cluster_context *context);
/* Begins to look for the API server. Calls .api_unavailable() if there can be none. */
void cluster_start(struct cluster_client *c);

/* Brings labels, condition and startup taint in sync with the present facts. */
void cluster_sync(struct cluster_client *c);

/*
 * Why the API server is not used although an option requests it. NULL or ERR_NONE: it is used, or not requested.
 * Borrowed.
 */
const struct error *cluster_down(const struct cluster_client *c);
/* Why the startup taint cannot be removed. NULL or ERR_NONE: removed, or not due yet. Borrowed. */
const struct error *cluster_taint_down(const struct cluster_client *c);
/* Why there are no labels, or why they cannot be written to their place. ERR_NONE: no error. Borrowed. */
const struct error *cluster_labels_down(const struct cluster_client *c);

/* Checks the files of the credentials. Their last valid content stays in use. */
void cluster_retry(struct cluster_client *c);

/* The loop must run until all handles are closed. Then call cluster_fini(). */
void cluster_stop(struct cluster_client *c);
void cluster_fini(struct cluster_client *c);
