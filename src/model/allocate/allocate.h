/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a container is given for the devices that the kubelet chose (Allocate): environment, mounts
 * and device nodes. Health is not consulted, as with NVIDIA.
 * Thread: any (pure: which control nodes exist is an argument).
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

#define CDI_VENDOR       "k8s.device-plugin.nvidia.com" /* NVIDIA's, so that its pods resolve */
#define CDI_RESPONSE_MAX 37                             /* a random UUID as text */

/* Which CDI specifications are in place; a name may be given only if it can be resolved. */
struct alloc_cdi {
	bool gpu;
	const char *why; /* not .gpu: the reason, borrowed */
	bool imex_channel, gdrcopy, gds, mofed;
	char response_id[CDI_RESPONSE_MAX]; /* makes the annotation's key unique */
};

/* Facts about the machine that the response depends on. */
struct alloc_host {
	struct strv control_nodes; /* those of /dev/nvidiactl, -uvm, -uvm-tools, -modeset that
				      exist, in that order */
	bool imex_channel0;        /* configured and present */
	struct alloc_cdi cdi;      /* of use with the cdi-* strategies only */
};

/*
 * One container's answer. Errors have the exact texts of NVIDIA's plugin and go to the kubelet with
 * gRPC status Unknown. With device specs or CDI, a GPU without a known minor number is an error: its
 * container would start and not find it; the same of a MIG device without its two capabilities. A
 * MIG device brings the node of its GPU, which gives no access to anything without a capability.
 *
 * CDI names stand in the order of NVIDIA's plugin. While the specification of the GPUs is not written,
 * they are left out where another strategy serves the container; with CDI alone that is
 * ERR_UNAVAILABLE. With CDI alone there is no device list, mount or node besides.
 *
 * Order of the envs: NVIDIA_GDRCOPY, _GDS, _MOFED, _VISIBLE_DEVICES, _IMEX_CHANNELS, where present.
 * `deviceListStrategy: []` gives no device list; device specs are added all the same. @inv is the
 * inventory that @r was made from.
 */
int allocation_new(struct allocation **ret, const struct resource *r,
	const struct inventory *inv, const struct config *config, const struct alloc_host *host,
	const char *const *ids, size_t n_ids, struct error *err) MUST_USE;
/* Adds one more mount. Both paths are copied. */
int allocation_add_mount(struct allocation *a, const char *host_path,
	const char *container_path, bool read_only, struct error *err) MUST_USE;
/* Adds a variable. Both texts are copied. */
int allocation_add_env(struct allocation *a, const char *name, const char *value,
	struct error *err) MUST_USE;

struct allocation *allocation_free(struct allocation *a); /* returns NULL */
DEFINE_CLEANUP(struct allocation *, allocation_free)
