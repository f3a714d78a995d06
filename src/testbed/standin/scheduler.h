/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The scheduler's word on one pod and one node: the filters that can matter here, in the order in
 * which kube-scheduler runs them, and its message word for word (1.37). It counts what
 * the bound pods request against what the node status says, and knows no device IDs: that is the
 * kubelet's part.
 * Thread: any (pure).
 */
#include "testbed/standin/pod.h"

#define SCHEDULER_MAX_PODS 110 /* the kubelet's default */

/* Between what is short and what preemption could do. */
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

/* What @pods that are bound to the node request of @resource. */
uint64_t scheduler_requested(struct pod *const *pods, size_t n, const char *resource);

/*
 * True if @p fits beside the bound ones of @pods. Else the message in *ret_why (yours; NULL if
 * memory is short), as the pod's condition PodScheduled has it.
 */
bool scheduler_fits(const struct node_view *node, struct pod *const *pods, size_t n,
	const struct pod *p, char **ret_why);
