/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's device manager as a pure state machine: the devices of each resource, how many are allocatable,
 * and which container holds which device. The order of the checks and their texts follow
 * pkg/kubelet/cm/devicemanager of 1.37.
 *
 * A choice takes two steps, because the kubelet may ask the plugin between them: device_manager_begin() and
 * device_manager_choose(). The real kubelet takes arbitrary devices (Go's map order). The stand-in takes them in
 * the order of a hash of the ids: the same on every run, and no order on which a plugin could rely.
 *
 * Thread: the owner's. No I/O, no clock, no lock: the caller passes the time.
 */
#include "lib/base/error.h"
#include "lib/base/strv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* endpointStopGracePeriod: how long the devices of a plugin that is down stay in capacity. */
#define DEVICE_MANAGER_GRACE_NS (UINT64_C(300) * 1000000000)

#define DEVICE_MANAGER_DEVICES_MAX   65536 /* of one resource */
#define DEVICE_MANAGER_RESOURCES_MAX 256

struct device_manager;

struct managed_device {
	char *id;
	bool healthy;
	int32_t numa_node; /* -1: no topology */
};

/* The devices of one resource that one container holds. */
struct device_grant {
	char *pod_uid, *container, *resource;
	struct strv ids;
	int32_t *numa_nodes; /* [ids.n] */
	bool reusable;       /* of an ordinary init container */
	uint8_t *response; /* the plugin's ContainerAllocateResponse, unchanged; may be NULL */
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

/* A list of devices, which replaces the previous one. */
int device_manager_update(struct device_manager *m, const char *resource,
	const struct managed_device *devices, size_t n, struct error *err) MUST_USE;

/* The stream of the resource has ended: all its devices become unhealthy at once. */
void device_manager_disconnect(struct device_manager *m, const char *resource, uint64_t now_ns);

/* Drops the devices of resources after their grace period, and marks them .gone. True if there was one. */
bool device_manager_expire(struct device_manager *m, uint64_t now_ns);
uint64_t device_manager_next_expiry(const struct device_manager *m); /* UINT64_MAX: none */

/* The kubelet restarts: it keeps the grants (checkpoint) and forgets devices and plugins. */
void device_manager_restart(struct device_manager *m);

/* --- resources --- */

struct resource_count {
	uint32_t capacity;    /* healthy and unhealthy */
	uint32_t allocatable; /* healthy */
	uint32_t granted;     /* held by pods, whether the device still exists or not */
	bool connected;       /* a plugin is registered and its stream runs */
	bool gone;            /* grace period over: shown as 0, not removed */
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

/* --- grants --- */

/* The grants, the oldest first; @i is below the number. Borrowed until the next call that changes something. */
size_t device_manager_n_grants(const struct device_manager *m);
const struct device_grant *device_manager_grant(const struct device_manager *m, size_t i);
/* The devices of @resource that the container holds; NULL: none. Borrowed until the next such call. */
const struct device_grant *device_manager_find(const struct device_manager *m,
	const char *pod_uid, const char *container, const char *resource);
/* The grant that has the device @id of @resource; NULL: the device is free or unknown. Borrowed. */
const struct device_grant *device_manager_find_id(const struct device_manager *m,
	const char *resource, const char *id);

/* Frees the devices of a pod that has ended. */
void device_manager_release(struct device_manager *m, const char *pod_uid);

/* --- choosing --- */

struct device_choice {
	char *pod_uid, *container, *resource;
	uint32_t size;       /* devices that the container gets in all */
	bool reusable;       /* for an ordinary init container */
	struct strv chosen;  /* so far: reused and aligned ones */
	struct strv pool;    /* the rest comes from here, best first */
	struct strv queried; /* available devices in the GetPreferredAllocation call */
};

#define DEVICE_CHOICE_QUERY_PLUGIN 1 /* ask the plugin, then device_manager_choose() */

/*
 * First step. Returns 0: the choice is made (.chosen is empty if the container already has its devices).
 * DEVICE_CHOICE_QUERY_PLUGIN: ask the plugin. < 0: @err has the text with which the kubelet fails the pod. Unless
 * < 0, *ret needs device_choice_fini().
 */
int device_manager_begin(struct device_manager *m, const char *pod_uid, const char *container,
	const char *resource, uint32_t size, bool reusable, struct device_choice *ret,
	struct error *err) MUST_USE;

/* Second step. The plugin's @preferred devices (may be NULL) are a hint; the pool supplies the rest. */
int device_manager_choose(struct device_manager *m, struct device_choice *c,
	const char *const *preferred, size_t n, struct error *err) MUST_USE;

/* The plugin has allocated: the container now holds the devices. Copies @response. */
int device_manager_commit(struct device_manager *m, const struct device_choice *c,
	const uint8_t *response, size_t response_len, struct error *err) MUST_USE;

/* Frees what @c owns. A zeroed @c is valid. */
void device_choice_fini(struct device_choice *c);
