/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler's decision on one pod and one node. The module has the filters that can matter here, in the order
 * of kube-scheduler, and its exact message (1.37). The module compares the requests of the bound pods with the
 * node status. The scheduler knows no device IDs: the kubelet assigns those. Thread: any (pure).
 */
#include "testbed/standin/pod.h"

#define SCHEDULER_MAX_PODS 110 /* the kubelet's default */

/* Separates the reasons from the result of preemption. */
#define SCHEDULER_PREEMPTION "preemption: "

struct node_resource {
	const char *name; /* borrowed */
	uint32_t capacity, allocatable;
};

struct node_view {
	const char *name;
	const struct str_map *labels;
	const struct taint *taints;
	size_t n_taints;
	bool unschedulable;
	uint32_t max_pods;
	const struct node_resource *resources;
	size_t n_resources;
};

/* The sum of the requests for @resource of those @pods that are bound to the node. */
uint64_t scheduler_requested(struct pod *const *pods, size_t n, const char *resource);

/*
 * True if @p fits beside the bound pods of @pods. Else *ret_why has the message, as in the pod's condition
 * PodScheduled. The caller frees it; NULL: no memory.
 */
bool scheduler_fits(const struct node_view *node, struct pod *const *pods, size_t n,
	const struct pod *p, char **ret_why);
