/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Labels of the pods of this node, for --kubernetes-enable-pod-labels. The agent lists the pods through the API
 * server:
 *
 *	a pod that is not in the list holds a device    at most once an interval, then ever less often;
 *	else                                            once a minute.
 *
 * While the server is unavailable, the last list stays. A pod that is not in the list has no labels.
 * Thread: loop.
 */
#include "node/agent/api/task.h"
#include "node/agent/monitoring/usage.h"
#include "node/metrics/label-filter.h"
#include "node/view/view.h"

#define MONITORING_PODS_MAX 4096 /* of a node; a longer list is refused */
/* Labels of a pod, the first by name, and bytes of their names and values: every metrics line of the pod repeats
 * them. */
#define MONITORING_POD_LABELS_MAX   64
#define MONITORING_POD_LABELS_BYTES 4096

struct monitoring_pod {
	char *namespace_, *name;
	char *uid;                 /* as the kubelet has it; of a static pod, from its file */
	struct view_label *labels; /* by name, each name once; owned */
	uint32_t n_labels;
};

/* By namespace and name. */
struct monitoring_pod_list {
	struct monitoring_pod *v;
	size_t n;
};

/* The pods of a PodList, with the labels that @filter accepts. Items without a name, namespace or UID are
 * skipped. ERR_LIMIT, ERR_NOMEM. */
int monitoring_pod_list_make(struct monitoring_pod_list *ret, const json_t *list,
	const struct metrics_label_filter *filter, struct error *err) MUST_USE;
void monitoring_pod_list_fini(struct monitoring_pod_list *l);
/* NULL: not in the list. @uid "": any. Borrowed. */
const struct monitoring_pod *monitoring_pod_list_find(const struct monitoring_pod_list *l,
	const char *namespace_, const char *name, const char *uid);

struct monitoring_pods {
	struct metrics_label_filter *filter; /* NULL: labels are not wanted */
	struct api_task task;
	const char *node; /* borrowed */
	struct monitoring_pod_list list;
	uint64_t interval_ns, not_before_ns, next_ns;
	uint32_t incomplete_lists; /* lists in a row that lacked a pod */
};

/* @patterns NULL: labels are not wanted. Logs the patterns that are invalid. */
void monitoring_pods_init(struct monitoring_pods *p, uv_loop_t *loop,
	const struct strv *patterns, const char *node, uint64_t interval_ns);
/* @allocations: the pods that hold devices now. Requests a list if one is due. */
void monitoring_pods_sync(struct monitoring_pods *p,
	const struct monitoring_allocations *allocations, uint64_t now_ns);
/* Cancels the request. The loop must run until the timer is closed. Then call monitoring_pods_fini(). */
void monitoring_pods_close(struct monitoring_pods *p);
void monitoring_pods_fini(struct monitoring_pods *p);
