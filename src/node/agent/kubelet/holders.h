/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who holds which slice, asked of the kubelet's PodResources socket when somebody wants to know.
 * The socket is shared and rate-limited, so an answer serves everyone who asks within a second.
 * Thread: loop.
 */
#include "io/kubelet/pod-resources.h"

#include <stdbool.h>

struct holders;

/* @path: .../pod-resources/kubelet.sock; need not exist yet. */
int holders_new(struct holders **ret, struct rpc *rpc, const char *path,
	struct error *err) MUST_USE;
struct holders *holders_free(struct holders *h);

/*
 * Calls @done once, perhaps before it returns: with the list (borrowed for the call), or with
 * NULL and the reason; in that case @done may still be given the last list that is known.
 */
void holders_ask(struct holders *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

/* The same, never with an answer from before. */
void holders_ask_anew(struct holders *h,
	void (*done)(void *arg, const struct pod_devices *list, const struct error *err),
	void *arg);

/*
 * Whether the kubelet's process is in the agent's PID namespace, as far as it has answered. If it is not, the agent's
 * pod has a PID namespace of its own: neither /proc nor NVML shows it the processes of other pods.
 */
enum holders_pids { HOLDERS_PIDS_UNKNOWN, HOLDERS_PIDS_NODE, HOLDERS_PIDS_OWN };
enum holders_pids holders_pids(const struct holders *h);

/* There is no such socket: no kubelet runs here, and so no pod. */
bool holders_absent(const struct holders *h);
