/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A node of a cluster in one object, for machines without Kubernetes: cluster (API server, controller, scheduler),
 * kubelet, and mounted ConfigMaps. Everything is in memory and ends with the object.
 *
 * A change takes effect from the loop:
 *
 *	1. the stand-in writes changed ConfigMaps to their mounts;
 *	2. the cluster steps;
 *	3. the kubelet admits pods;
 *	4. the stand-in calls ops.changed().
 *
 * Thread: loop.
 */
#include "lib/base/buf.h"
#include "testbed/standin/kubelet/kubelet.h"

#define STANDIN_SOCKET  "stand-in.sock" /* the control API, in the kubelet's directory */
#define STANDIN_VERSION "v1.37.2+gpuslice-stand-in"

struct standin;

struct standin_mount {
	const char *namespace_, *name; /* of the ConfigMap */
	const char *dir;
};

struct standin_options {
	const char *dir;       /* the kubelet's directory */
	const char *node_name; /* NULL: "node-1" */
	const struct str_map *labels;
	const struct taint *taints;
	size_t n_taints;
	const struct standin_mount *mounts; /* copied */
	size_t n_mounts;
	uint32_t max_pods; /* 0: the kubelet's default */
	bool align_numa;
};

struct standin_ops {
	void (*changed)(void *arg); /* may be NULL */
};

/* Starts with the kubelet running. ERR_EXISTS: another kubelet answers in that directory. */
int standin_start(struct standin **ret, uv_loop_t *loop, const struct standin_options *options,
	const struct standin_ops *ops, void *arg, struct error *err) MUST_USE;

/* Stops everything; runs the loop until gRPC has finished. Returns NULL. */
struct standin *standin_stop(struct standin *s);

/* The parts of the stand-in; borrowed. */
struct simulated_cluster *standin_cluster(struct standin *s);
struct kubelet *standin_kubelet(struct standin *s);

/* Borrowed until the next change; capacity and allocatable as the node status has them. */
const struct node_view *standin_node(struct standin *s);

/*
 * Adds one line for each object ("deployment.apps/x created") to @lines (may be NULL). Objects before an invalid
 * one stay applied, as with kubectl.
 */
int standin_apply(struct standin *s, const struct manifest *m, struct strv *lines,
	struct error *err) MUST_USE;
/* As cluster_delete(). */
int standin_delete(struct standin *s, enum object_kind kind, const char *namespace_,
	const char *name, struct error *err) MUST_USE;
/* Deletes each object of @m, also those after one that does not exist, and adds its line to @lines (may be NULL). */
int standin_delete_all(struct standin *s, const struct manifest *m, struct strv *lines,
	struct error *err) MUST_USE;
/* As cluster_scale(). */
int standin_scale(struct standin *s, const char *namespace_, const char *name,
	uint32_t replicas, struct error *err) MUST_USE;

/* @value NULL removes the label. */
int standin_label(struct standin *s, const char *key, const char *value,
	struct error *err) MUST_USE;

/* Stops the kubelet and starts it again after @down_ns. @killed: the socket files stay meanwhile. */
int standin_restart(struct standin *s, uint64_t down_ns, bool killed,
	struct error *err) MUST_USE;
/* Stops the kubelet, without a start. */
void standin_kill(struct standin *s, bool killed);
/* Starts the kubelet now. Errors as in kubelet_start(). */
int standin_revive(struct standin *s, struct error *err) MUST_USE;

/* Injects a fault by name, as in `gpuslice kubelet fault`; *ret: a line about the effect. */
int standin_fault(struct standin *s, const char *name, const char *const *args, size_t n_args,
	struct buf *ret, struct error *err) MUST_USE;

/* The table of faults, for help texts. */
struct standin_fault_row {
	const char *name, *args, *help;
};
extern const struct standin_fault_row standin_faults[]; /* standin_n_faults rows */
extern const size_t standin_n_faults;
