/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels of the pods of this node, for --kubernetes-enable-pod-labels: listed through the API server where somebody holds
 * a device whose pod is not known, at most once an interval, and else once a minute. What is known stays while the server
 * is away; a pod of which nothing is known has no labels.
 * Thread: loop.
 */
#include "node/agent/api/task.h"
#include "node/agent/monitoring/uses.h"
#include "node/metrics/label-filter.h"
#include "node/view/view.h"

#define SEE_PODS_MAX       4096 /* of a node; a list with more is refused */
#define SEE_POD_LABELS_MAX 64   /* of a pod; by name */
#define SEE_POD_LABELS_BYTES \
	4096 /* of their names and values: each stands in each line of the pod's */

struct see_pod {
	char *namespace_, *name;
	char *uid; /* as the kubelet has it: of a static pod, that of its file */
	struct view_label *labels; /* by name, each name once; owned */
	uint32_t n_labels;
};

/* By namespace and name. */
struct see_pod_list {
	struct see_pod *v;
	size_t n;
};

/* The pods of a PodList, with the labels that @filter has. What is no pod is left out. ERR_LIMIT, ERR_NOMEM. */
int see_pod_list_make(struct see_pod_list *ret, const json_t *list,
	const struct metrics_label_filter *filter, struct error *err) MUST_USE;
void see_pod_list_fini(struct see_pod_list *l);
/* NULL: it is not known. @uid "": not known. Borrowed. */
const struct see_pod *see_pod_list_find(const struct see_pod_list *l, const char *namespace_,
	const char *name, const char *uid);

struct see_pods {
	struct metrics_label_filter *filter; /* NULL: labels are not wanted */
	struct task task;
	const char *node; /* borrowed */
	struct see_pod_list list;
	uint64_t interval_ns, not_before_ns, next_ns;
	uint32_t in_vain; /* lists in a row that had not all that was looked for */
};

/* @patterns NULL: labels are not wanted. Logs what it does not understand of them. */
void see_pods_init(struct see_pods *p, uv_loop_t *loop, const struct strv *patterns,
	const char *node, uint64_t interval_ns);
/* Who holds devices now. */
void see_pods_look(struct see_pods *p, const struct see_holds *holds, uint64_t now_ns);
void see_pods_close(struct see_pods *p);
void see_pods_fini(struct see_pods *p);
