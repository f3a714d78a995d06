/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's device manager as a pure state machine: which devices each resource has, how many
 * count, and which container holds which. The order of the checks and their texts follow
 * pkg/kubelet/cm/devicemanager of 1.37.
 *
 * Choosing takes two steps, because between them the plugin may be asked: device_manager_begin()
 * and device_manager_choose(). Where the real one takes an arbitrary device (Go's map order) we
 * take one in the order of a hash of the ids: the same on every run, and of no help to a plugin
 * that hopes for an order.
 * Thread: owner's (no I/O, no clock, no lock: time comes in).
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* endpointStopGracePeriod: how long the devices of a plugin that is away stay in capacity. */
#define DEVICE_MANAGER_GRACE_NS (UINT64_C(300) * 1000000000)

#define DEVICE_MANAGER_DEVICES_MAX   65536 /* of one resource */
#define DEVICE_MANAGER_RESOURCES_MAX 256

struct device_manager;

struct managed_device {
	char *id;
	bool healthy;
	int32_t numa_node; /* -1: no topology */
};

/* What one container holds of one resource. */
struct device_grant {
	char *pod_uid, *container, *resource;
	struct strv ids;
	int32_t *numa_nodes; /* [ids.n] */
	bool reusable;       /* of an ordinary init container */
	uint8_t *response; /* the plugin's ContainerAllocateResponse as it came; may be NULL */
	size_t response_len;
};

/* @align_numa: the topology manager's policy best-effort; false: none, the kubelet's default. */
int device_manager_new(struct device_manager **ret, bool align_numa,
	struct error *err) MUST_USE;
struct device_manager *device_manager_free(struct device_manager *m); /* returns NULL */
DEFINE_CLEANUP(struct device_manager *, device_manager_free)

/* A plugin has registered. Its devices count from its first list on. */
int device_manager_connect(struct device_manager *m, const char *resource, const char *endpoint,
	bool prefer, bool pre_start, struct error *err) MUST_USE;

/* A list of devices, which replaces the last one. */
int device_manager_update(struct device_manager *m, const char *resource,
	const struct managed_device *devices, size_t n, struct error *err) MUST_USE;

/* The stream of the resource has ended: all its devices are unhealthy at once. */
void device_manager_disconnect(struct device_manager *m, const char *resource, uint64_t now_ns);

/* Drops the resources whose grace is over. True if one was. */
bool device_manager_expire(struct device_manager *m, uint64_t now_ns);
uint64_t device_manager_next_expiry(const struct device_manager *m); /* UINT64_MAX: none */

/* The kubelet restarts: grants are kept (checkpoint), devices and plugins forgotten. */
void device_manager_restart(struct device_manager *m);

/* --- what there is --- */

struct resource_count {
	uint32_t capacity;    /* healthy and unhealthy */
	uint32_t allocatable; /* healthy */
	uint32_t granted;     /* held by pods, whether the device still exists or not */
	bool connected;       /* a plugin is registered and its stream runs */
	bool gone;            /* grace over: shown as 0, not removed */
	const char *endpoint; /* borrowed; "" if none */
	bool prefer, pre_start;
};

/* False: no plugin has ever registered that name. */
bool device_manager_count(const struct device_manager *m, const char *resource,
	struct resource_count *ret);
size_t device_manager_n_resources(const struct device_manager *m);
const char *device_manager_resource(const struct device_manager *m, size_t i); /* sorted */

/* Borrowed until the next call that changes something; in order of id. */
const struct managed_device *device_manager_devices(const struct device_manager *m,
	const char *resource, size_t *ret_n);

/* --- who has what --- */

size_t device_manager_n_grants(const struct device_manager *m);
const struct device_grant *device_manager_grant(const struct device_manager *m, size_t i);
const struct device_grant *device_manager_find(const struct device_manager *m,
	const char *pod_uid, const char *container, const char *resource);

/* The pod is over: its devices are free. */
void device_manager_release(struct device_manager *m, const char *pod_uid);

/* --- choosing --- */

struct device_choice {
	char *pod_uid, *container, *resource;
	uint32_t size;       /* devices that the container gets in all */
	bool reusable;       /* for an ordinary init container */
	struct strv chosen;  /* so far: reused and aligned ones */
	struct strv pool;    /* the rest comes from here, best first */
	struct strv queried; /* what GetPreferredAllocation is told is available */
};

#define DEVICE_CHOICE_QUERY_PLUGIN 1 /* ask the plugin, then device_manager_choose() */

/*
 * First step: 0, the choice is made (with nothing in .chosen if the container has its devices
 * already); DEVICE_CHOICE_QUERY_PLUGIN; < 0 with the text that the kubelet fails the pod with. *ret needs
 * device_choice_fini() in every case but < 0.
 */
int device_manager_begin(struct device_manager *m, const char *pod_uid, const char *container,
	const char *resource, uint32_t size, bool reusable, struct device_choice *ret,
	struct error *err) MUST_USE;

/* Second step: what the plugin prefers (may be NULL) is a wish; the rest is filled up. */
int device_manager_choose(struct device_manager *m, struct device_choice *c,
	const char *const *preferred, size_t n, struct error *err) MUST_USE;

/* The plugin has allocated: the container holds the devices. @response is copied. */
int device_manager_commit(struct device_manager *m, const struct device_choice *c,
	const uint8_t *response, size_t response_len, struct error *err) MUST_USE;

void device_choice_fini(struct device_choice *c);
