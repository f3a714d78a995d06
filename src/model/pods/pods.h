/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which container has which device, as the kubelet lists it: plain data. Read by
 * io/kubelet/pod-resources.h.
 * Thread: any.
 */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct pod_device {
	char *namespace_, *pod, *container, *resource;
	char *id;     /* as advertised: "GPU-...::3" */
	bool dynamic; /* of a resource claim (DRA): see io/kubelet/messages/messages.h */
};

struct pod_devices {
	struct pod_device *v;
	size_t n;
};

/* Frees @p with its strings; NULL is nothing to do. Returns NULL. */
struct pod_devices *pod_devices_free(struct pod_devices *p);
DEFINE_CLEANUP(struct pod_devices *, pod_devices_free)
