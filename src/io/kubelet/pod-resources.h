/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who holds which device: the kubelet's PodResources v1 API, as plain data, and its client. One
 * List per look; RESOURCE_EXHAUSTED means "ask later".
 * Thread: loop for the client; any for the data.
 */
#include "io/kubelet/rpc/rpc.h"

#include <stdbool.h>

struct pod_device {
	char *namespace_, *pod, *container, *resource;
	char *id;     /* as advertised: "GPU-...::3" */
	bool dynamic; /* of a resource claim (DRA): see io/kubelet/messages/messages.h */
};

struct pod_devices {
	struct pod_device *v;
	size_t n;
};

/* Decodes a ListPodResourcesResponse. Limits: POD_DEVICES_MAX. */
#define POD_DEVICES_MAX 65536
int pod_devices_decode(struct pod_devices **ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
struct pod_devices *pod_devices_free(struct pod_devices *p); /* returns NULL */
DEFINE_CLEANUP(struct pod_devices *, pod_devices_free)

/* Asks once. @done gets the list (take it with care: yours to free) or an error; runs once. */
int pod_resources_list(struct rpc_client *c, uint64_t timeout_ns,
	void (*done)(void *arg, struct pod_devices *list, const struct error *err), void *arg,
	struct error *err) MUST_USE;
