/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kubelet's messages (device plugin v1beta1, PodResources v1) as plain data: bytes in, bytes out, no
 * sockets. Both directions of each message are here, as the stand-in kubelet and the tests are the other side.
 *
 * Encoders append to a buf. They refuse strings that are not UTF-8, since the Go side would refuse the whole
 * message.
 *
 * Decoders take a peer's bytes. Every count has a limit, MESSAGE_MEMORY_MAX bounds the memory whatever the
 * bytes ask for, and strings must be UTF-8. Decoded data borrows from one block of memory, which the matching
 * _fini() frees. After an error there is nothing to free.
 * Thread: any (pure).
 */
#include "lib/base/buf.h"
#include "lib/base/error.h"
#include "model/allocate/allocate.h"
#include "model/prefer/prefer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEVICE_PLUGIN_VERSION "v1beta1"

/* Paths of the methods. */
#define METHOD_REGISTER        "/v1beta1.Registration/Register"
#define METHOD_PLUGIN_OPTIONS  "/v1beta1.DevicePlugin/GetDevicePluginOptions"
#define METHOD_LIST_AND_WATCH  "/v1beta1.DevicePlugin/ListAndWatch"
#define METHOD_PREFER          "/v1beta1.DevicePlugin/GetPreferredAllocation"
#define METHOD_ALLOCATE        "/v1beta1.DevicePlugin/Allocate"
#define METHOD_PRE_START       "/v1beta1.DevicePlugin/PreStartContainer"
#define METHOD_POD_LIST        "/v1.PodResourcesLister/List"
#define METHOD_POD_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"

/* Limits on what a peer may send. */
#define MESSAGE_MEMORY_MAX     (64U << 20) /* for one decoded message */
#define MESSAGE_DEVICES_MAX    65536U      /* devices or ids in one message */
#define MESSAGE_CONTAINERS_MAX 1024U       /* container requests in one message */

/* The kubelet's limit for a message to it: gRPC's default. Use it as the limit of the buf. */
#define MESSAGE_TO_KUBELET_MAX (4U << 20)

struct arena; /* the memory of decoded data */

/* --- registration: plugin to kubelet --- */

struct plugin_options {
	bool pre_start_required;
	bool preferred_allocation;
};

struct register_request {
	const char *version;  /* DEVICE_PLUGIN_VERSION */
	const char *endpoint; /* file name of the plugin's socket */
	const char *resource_name;
	struct plugin_options options;
	struct arena *owner; /* NULL if not decoded */
};

/* RegisterRequest. Texts are borrowed for the call when encoding, and from .owner when decoded. */
int register_request_encode(struct buf *b, const struct register_request *r,
	struct error *err) MUST_USE;
int register_request_decode(struct register_request *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
void register_request_fini(struct register_request *r);

/* DevicePluginOptions. Decoded options have nothing to free. */
int plugin_options_encode(struct buf *b, const struct plugin_options *o,
	struct error *err) MUST_USE;
int plugin_options_decode(struct plugin_options *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;

/* --- devices: ListAndWatchResponse --- */

struct plugin_device {
	const char *id; /* borrowed */
	bool healthy;
	int32_t numa_node; /* -1: no topology. Decoded: the first node */
};

struct plugin_devices {
	struct plugin_device *v;
	size_t n;
	struct arena *owner;
};

/* A decoded health other than "Healthy" is unhealthy. ERR_LIMIT: decoded more than MESSAGE_DEVICES_MAX. */
int plugin_devices_encode(struct buf *b, const struct plugin_device *v, size_t n,
	struct error *err) MUST_USE;
int plugin_devices_decode(struct plugin_devices *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
void plugin_devices_fini(struct plugin_devices *d);

/* --- lists of ids, one for each container --- */

struct id_list {
	const char *const *v;
	size_t n;
};

struct id_lists {
	struct id_list *v;
	size_t n;
	struct arena *owner;
};

/* Frees the lists of any message below. */
void id_lists_fini(struct id_lists *l);

/* AllocateRequest. The kubelet sends exactly one container. */
int allocate_request_encode(struct buf *b, const struct id_list *containers, size_t n,
	struct error *err) MUST_USE;
int allocate_request_decode(struct id_lists *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;

/* PreStartContainerRequest: one list. Its response is empty (zero bytes). */
int pre_start_request_encode(struct buf *b, const struct id_list *ids,
	struct error *err) MUST_USE;

/* PreferredAllocationResponse. */
int prefer_response_encode(struct buf *b, const struct id_list *containers, size_t n,
	struct error *err) MUST_USE;
int prefer_response_decode(struct id_lists *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;

/* --- PreferredAllocationRequest --- */

struct prefer_requests {
	struct prefer_request *v;
	size_t n;
	struct arena *owner;
};

/* Decoding refuses an allocation size below 0 or above MESSAGE_DEVICES_MAX. */
int prefer_request_encode(struct buf *b, const struct prefer_request *v, size_t n,
	struct error *err) MUST_USE;
int prefer_request_decode(struct prefer_requests *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
void prefer_requests_fini(struct prefer_requests *r);

/* --- AllocateResponse --- */

struct allocate_response {
	struct allocation *v; /* borrowed from .owner: not for allocation_free() */
	size_t n;
	struct arena *owner;
};

/* One allocation for each container. ERR_LIMIT: decoded more than MESSAGE_CONTAINERS_MAX, or too much memory. */
int allocate_response_encode(struct buf *b, const struct allocation *const *containers,
	size_t n, struct error *err) MUST_USE;
int allocate_response_decode(struct allocate_response *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
void allocate_response_fini(struct allocate_response *r);

/* --- PodResources --- */

struct pod_entry {
	const char *namespace_, *pod, *container, *resource;
	const char *id;    /* as advertised: "GPU-...::3". NULL: the container has no device */
	int32_t numa_node; /* -1: no topology */
	bool dynamic;      /* of a resource claim (DRA): .resource is the driver */
};

struct pod_entries {
	struct pod_entry *v;
	size_t n;
	struct arena *owner;
};

/*
 * ListPodResourcesResponse, flat: one entry for each device of each container. Entries of one pod, of one
 * container, and of one resource and NUMA node are grouped only if they follow each other. A pod or container
 * without devices is an entry with id NULL (encoded only, never decoded).
 *
 * A device of a claim is an entry with .dynamic. A CDI device of it may be named after a GPU or MIG device
 * ("...=GPU-..."). The id is then the UUID in that name, else the driver's name for the device ("gpu-0").
 */
int pod_list_encode(struct buf *b, const struct pod_entry *v, size_t n,
	struct error *err) MUST_USE;
int pod_list_decode(struct pod_entries *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;

/* AllocatableResourcesResponse: one ContainerDevices for each device, as the kubelet does. Only the
 * resource, id and numa_node of an entry are used. */
int pod_allocatable_encode(struct buf *b, const struct pod_entry *v, size_t n,
	struct error *err) MUST_USE;
int pod_allocatable_decode(struct pod_entries *ret, const uint8_t *data, size_t len,
	struct error *err) MUST_USE;
void pod_entries_fini(struct pod_entries *e);
