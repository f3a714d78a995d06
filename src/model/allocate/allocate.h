/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The environment, mounts and device nodes of a container, for the devices that the kubelet chose
 * (Allocate). Health has no influence, as in NVIDIA's plugin.
 * Thread: any (pure: the caller passes in which control nodes exist).
 */
#include "model/offer/offer.h"

struct alloc_env {
	char *name, *value;
};

struct alloc_mount {
	char *container_path, *host_path;
	bool read_only;
};

struct alloc_device {
	char *container_path, *host_path;
	char permissions[4];
};

struct allocation {
	struct alloc_env *envs;
	size_t n_envs;
	struct alloc_mount *mounts;
	size_t n_mounts;
	struct alloc_device *devices;
	size_t n_devices;
	struct alloc_env *annotations; /* of the container, for runtimes that read CDI there */
	size_t n_annotations;
	struct strv cdi_devices; /* fully qualified names */
};

#define CDI_VENDOR       "k8s.device-plugin.nvidia.com" /* NVIDIA's, for its pods */
#define CDI_RESPONSE_MAX 37                             /* a random UUID as text */

/* The CDI specifications that exist. A CDI name may be returned only if the runtime can resolve it. */
struct alloc_cdi {
	bool gpu;
	const char *why; /* why .gpu is false; borrowed */
	bool imex_channel, gdrcopy, gds, mofed;
	char response_id[CDI_RESPONSE_MAX]; /* makes the annotation's key unique */
};

/* Facts about the machine on which the response depends. */
struct alloc_host {
	/* The existing ones of /dev/nvidiactl, -uvm, -uvm-tools and -modeset, in that order. */
	struct strv control_nodes;
	bool imex_channel0;   /* configured and present */
	struct alloc_cdi cdi; /* used by the cdi-* strategies only */
};

/*
 * The response for one container. Errors have the exact texts of NVIDIA's plugin. The kubelet receives them
 * with gRPC status Unknown.
 *
 * Minor numbers. With device specs or CDI, a GPU without a known minor number is an error: the container
 * would start and not find the GPU. The same holds for a MIG device without its two capability minors. A
 * MIG device brings the device node of its GPU. That node gives no access without a capability.
 *
 * CDI. The names are in the order of NVIDIA's plugin. While the specification of the GPUs does not exist,
 * the names are left out if another strategy serves the container. With CDI as the only strategy that is
 * ERR_UNAVAILABLE. With CDI as the only strategy, the response has no device list, mounts or nodes.
 *
 * Order of the variables: NVIDIA_GDRCOPY, _GDS, _MOFED, _VISIBLE_DEVICES, _IMEX_CHANNELS, where present.
 * `deviceListStrategy: []` gives no device list, but still the device specs. @inv is the inventory from
 * which offer_new() made @r.
 */
int allocation_new(struct allocation **ret, const struct resource *r,
	const struct inventory *inv, const struct config *config, const struct alloc_host *host,
	const char *const *ids, size_t n_ids, struct error *err) MUST_USE;
/* Adds one mount. Copies both paths. */
int allocation_add_mount(struct allocation *a, const char *host_path,
	const char *container_path, bool read_only, struct error *err) MUST_USE;
/* Adds or replaces a variable. Copies both texts. */
int allocation_add_env(struct allocation *a, const char *name, const char *value,
	struct error *err) MUST_USE;

struct allocation *allocation_free(struct allocation *a); /* returns NULL */
DEFINE_CLEANUP(struct allocation *, allocation_free)
