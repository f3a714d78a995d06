/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which pod has which device, from the kubelet's PodResources socket, requested on demand. Others use the socket
 * too, and the kubelet limits its rate. So one answer serves all requests within a second.
 * Thread: loop.
 */
#include "io/kubelet/pod-resources.h"

#include <stdbool.h>

struct pod_resources_cache;

/* @path: .../pod-resources/kubelet.sock, which need not exist yet. */
int pod_resources_cache_new(struct pod_resources_cache **ret, struct rpc *rpc, const char *path,
	struct error *err) MUST_USE;
/* Answers all waiting callers with ERR_CANCELLED. NULL: nothing. Returns NULL. */
struct pod_resources_cache *pod_resources_cache_free(struct pod_resources_cache *cache);

/*
 * Calls @done once, possibly before it returns. @list is borrowed for the call. On an error, @err is the reason,
 * and @list is the last known list or NULL. Otherwise @err is NULL.
 */
void pod_resources_cache_request(struct pod_resources_cache *cache,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

/* pod_resources_cache_request(), never with a cached answer. */
void pod_resources_cache_refresh(struct pod_resources_cache *cache,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

enum kubelet_pids { KUBELET_PIDS_UNKNOWN, KUBELET_PIDS_NODE, KUBELET_PIDS_OWN };
/*
 * Whether the kubelet's process is in the agent's PID namespace (NODE), once the kubelet has answered. If not, the
 * agent's pod has a PID namespace of its own (OWN). Neither /proc nor NVML then shows the agent the processes of
 * other pods.
 */
enum kubelet_pids pod_resources_cache_pids(const struct pod_resources_cache *cache);

/* The socket does not exist: no kubelet runs here, and so no pod. */
bool pod_resources_cache_is_absent(const struct pod_resources_cache *cache);
