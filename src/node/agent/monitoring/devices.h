/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the node has to share: its devices, and the replicas that the agent offers of them. Finds the device that
 * an ID of the kubelet means, in all forms that plugins and drivers use:
 *
 *	GPU-…  MIG-…            UUIDs, with "::3" or "::gpu.small::0" behind
 *	MIG-GPU-…/7/0           a MIG device of an old driver
 *	nvidia0  nvidia0/gi1    GKE: minor number, GPU instance, with "/vgpu2" behind
 *	gpu-0  gpu-0-mig-…      NVIDIA's DRA driver: minor number; a MIG device by profile and first memory slice
 *
 * Thread: any (pure).
 */
#include "model/gpu/gpu.h"
#include "model/offer/offer.h"
#include "model/usage/usage.h"

#include <stdbool.h>

/* What can be shared: a GPU that is not in MIG mode or is offered as a whole, or a MIG device. */
struct monitoring_device {
	const struct gpu *gpu;
	const struct gpu_mig *mig; /* NULL: the GPU */
	uint32_t gpu_index;        /* position in the inventory */
	uint32_t mig_index;        /* position in the inventory */
	uint32_t part;             /* millionths of the GPU */
	const char *uuid;
};

struct monitoring_devices {
	struct monitoring_device *v; /* by GPU, then MIG index */
	uint32_t n;
};

#define MONITORING_NONE UINT32_MAX

/* The devices of @inv. @offer says which GPUs are offered as a whole; it was made from @of, which may be another
 * inventory. */
int monitoring_devices_make(struct monitoring_devices *ret, const struct inventory *inv,
	const struct offer *offer, const struct inventory *of, struct error *err) MUST_USE;
void monitoring_devices_fini(struct monitoring_devices *devices);

/* Position of the device @uuid; MONITORING_NONE: none. */
uint32_t monitoring_devices_find_uuid(const struct monitoring_devices *devices,
	const char *uuid);

/* Position of the device that @id means; MONITORING_NONE: none. @dynamic: a DRA driver named it, for a resource
 * claim. */
uint32_t monitoring_devices_find_id(const struct monitoring_devices *devices, const char *id,
	bool dynamic);

/* Compute slices in the drawing of a GPU's MIG layout; 0: no MIG. */
uint32_t monitoring_mig_compute_slices(const struct gpu *g);
/* Memory slices in the drawing of a GPU's MIG layout; 0: no MIG. */
uint32_t monitoring_mig_memory_slices(const struct gpu *g);

/* --- replicas --- */

/*
 * The replicas that the agent offers to the kubelet, by device, with the share of its device that each replica
 * has:
 *
 *	whole device    all of it;
 *	replica         1 / number of replicas;
 *	slice           its weight / sum of the weights.
 *
 * If one resource divides a device as a whole, the shares come to the whole exactly. If two resources offer the
 * same device, each replica counts half.
 */
struct monitoring_replica {
	uint32_t device_index;
	const struct resource *resource; /* borrowed, as .device */
	const struct offer_device *device;
	enum account_mode mode;
	uint32_t share;        /* millionths of the device */
	uint64_t memory_limit; /* UINT64_MAX: none */
};

struct monitoring_replicas {
	struct monitoring_replica *v; /* by device, resource, replica */
	uint32_t n;
	const struct offer *offer;
	uint32_t *first; /* by resource of the offer: its first position in .by_resource */
	uint32_t *by_resource; /* positions in .v; MONITORING_NONE: device not known */
};

/* @offer was made from @of; NULL: nothing is offered. */
int monitoring_replicas_make(struct monitoring_replicas *ret,
	const struct monitoring_devices *devices, const struct offer *offer,
	const struct inventory *of, struct error *err) MUST_USE;
void monitoring_replicas_fini(struct monitoring_replicas *replicas);

/* Position of the replica that the kubelet knows by @resource and @id; MONITORING_NONE: none. */
uint32_t monitoring_replicas_find(const struct monitoring_replicas *replicas,
	const char *resource, const char *id);
