/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which container has which device, as the kubelet lists them: plain data. io/kubelet/pod-resources.h fills
 * the list.
 * Thread: any.
 */
#include "lib/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct pod_device {
	char *namespace_, *pod, *container, *resource;
	char *id;     /* ID as advertised: "GPU-...::3" */
	bool dynamic; /* from a resource claim (DRA): see io/kubelet/messages/messages.h */
};

struct pod_devices {
	struct pod_device *v;
	size_t n;
};

/* Frees @p and its strings; accepts NULL. Returns NULL. */
struct pod_devices *pod_devices_free(struct pod_devices *p);
DEFINE_CLEANUP(struct pod_devices *, pod_devices_free)
