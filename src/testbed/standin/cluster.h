/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The API server, the Deployment controller and the scheduler for one node: clients apply objects, deployments
 * keep their number of pods, pods wait or are bound. A pure state machine: each cluster_step() is one pass over
 * what is due. Names and UIDs are deterministic and look like real ones.
 *
 * Differences from the real ones. A template change goes through the same 25 % surge and unavailability, but
 * without ReplicaSet objects. Namespaces need not exist. The controller replaces failed pods of a deployment after
 * a pause that doubles (1 s to 16 s), and keeps only the last few.
 *
 * Thread: the owner's (the caller passes the time).
 */
#include "testbed/standin/manifest/manifest.h"
#include "testbed/standin/scheduler.h"

#define CLUSTER_PODS_MAX    5000
#define CLUSTER_FAILED_KEPT 5 /* failed pods of one deployment that stay visible */

struct deployment {
	char *name, *namespace_;
	struct str_map labels, selector;
	struct pod_spec *template_;
	char *hash;
	uint32_t replicas;
	uint64_t created_ns;
	uint64_t serial;        /* of its next pod's name */
	uint64_t failed_serial; /* the newest failed pod for which a pause was set */
	uint64_t not_before_ns; /* no new pod until then */
};

struct config_map {
	char *name, *namespace_;
	struct str_map data;
	uint64_t created_ns, version; /* version grows with each change */
};

struct simulated_cluster {
	struct pod **pods; /* in order of creation */
	size_t n_pods, room_pods;
	struct deployment *deployments;
	size_t n_deployments;
	struct config_map *config_maps;
	size_t n_config_maps;
	uint64_t serial;
};

/* Frees all objects; @c stays, empty. */
void cluster_free_objects(struct simulated_cluster *c);

enum cluster_verb { CLUSTER_CREATED, CLUSTER_CONFIGURED, CLUSTER_UNCHANGED };
const char *cluster_verb_name(enum cluster_verb v); /* "created" */

/*
 * Creates or changes one object, as kubectl apply does. *ret: what it did. The next cluster_step() acts on it.
 * ERR_INVALID: a change that the API server forbids. ERR_LIMIT: CLUSTER_PODS_MAX. ERR_NOMEM.
 */
int cluster_apply(struct simulated_cluster *c, const struct object *o, uint64_t now_ns,
	enum cluster_verb *ret, struct error *err) MUST_USE;

/* The pod is deleted; @p is valid only during the call. */
typedef void (*cluster_gone_fn)(void *arg, const struct pod *p);
/*
 * Deletes an object; a deployment with its pods. Passes each deleted pod to @gone (may be NULL) before it frees the
 * pod. ERR_NOT_FOUND with the API server's text.
 */
int cluster_delete(struct simulated_cluster *c, enum object_kind kind, const char *namespace_,
	const char *name, cluster_gone_fn gone, void *arg, struct error *err) MUST_USE;

/* Sets the number of replicas of a deployment. ERR_NOT_FOUND; ERR_LIMIT: MANIFEST_REPLICAS_MAX. */
int cluster_scale(struct simulated_cluster *c, const char *namespace_, const char *name,
	uint32_t replicas, struct error *err) MUST_USE;

/*
 * One pass of the controller and the scheduler. Returns true if anything changed; the caller then calls again.
 * *ret_next_ns: when to call again without another event (UINT64_MAX: no need).
 */
bool cluster_step(struct simulated_cluster *c, const struct node_view *node, uint64_t now_ns,
	cluster_gone_fn gone, void *arg, uint64_t *ret_next_ns);

/* @namespace_ NULL: any. Borrowed until the next step, apply or delete. */
struct pod *cluster_pod_by_uid(const struct simulated_cluster *c, const char *uid);
const struct config_map *cluster_config_map(const struct simulated_cluster *c,
	const char *namespace_, const char *name);

/* The oldest pod that waits for admission, or NULL. */
struct pod *cluster_next_bound(const struct simulated_cluster *c);

struct pod_counts {
	uint32_t total, pending, starting, running, failed;
};

/* Pods of the deployment, or of all if @d is NULL. */
struct pod_counts cluster_count_pods(const struct simulated_cluster *c,
	const struct deployment *d);
