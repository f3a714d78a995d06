/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who holds which slice, asked of the kubelet's PodResources socket when somebody wants to know.
 * The socket is shared and rate-limited, so an answer serves everyone who asks within a second.
 * Thread: loop.
 */
#include "io/kubelet/pod-resources.h"

#include <stdbool.h>

struct pod_resources_cache;

/* @path: .../pod-resources/kubelet.sock; need not exist yet. */
int pod_resources_cache_new(struct pod_resources_cache **ret, struct rpc *rpc, const char *path,
	struct error *err) MUST_USE;
struct pod_resources_cache *pod_resources_cache_free(struct pod_resources_cache *h);

/*
 * Calls @done once, perhaps before it returns: with the list (borrowed for the call), or with
 * NULL and the reason; in that case @done may still be given the last list that is known.
 */
void pod_resources_cache_request(struct pod_resources_cache *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

/* The same, never with an answer from before. */
void pod_resources_cache_refresh(struct pod_resources_cache *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

/*
 * Whether the kubelet's process is in the agent's PID namespace, as far as it has answered. If it is not, the agent's
 * pod has a PID namespace of its own: neither /proc nor NVML shows it the processes of other pods.
 */
enum kubelet_pids { KUBELET_PIDS_UNKNOWN, KUBELET_PIDS_NODE, KUBELET_PIDS_OWN };
enum kubelet_pids pod_resources_cache_pids(const struct pod_resources_cache *h);

/* There is no such socket: no kubelet runs here, and so no pod. */
bool pod_resources_cache_is_absent(const struct pod_resources_cache *h);
