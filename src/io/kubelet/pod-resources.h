/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which container has which device: a client of the kubelet's PodResources v1 API. Each call makes one List
 * request. RESOURCE_EXHAUSTED means "retry later".
 * Thread: loop for the client; any for the data.
 */
#include "io/kubelet/rpc/rpc.h"
#include "model/pods/pods.h"

/* Decodes a ListPodResourcesResponse of at most POD_DEVICES_MAX devices. */
#define POD_DEVICES_MAX 65536
int pod_devices_decode(struct pod_devices **ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;

/* Asks once. @done runs once, with the list (owned by the callback) or an error. */
int pod_resources_list(struct rpc_client *c, uint64_t timeout_ns,
	void (*done)(void *arg, struct pod_devices *list, const struct error *err), void *arg,
	struct error *err) MUST_USE;
