/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All known GPUs of this node with their health: the state of the reconcile loop between two NVML probes.
 *
 * GPUs. A GPU that disappears stays listed as unhealthy ("gone") until it is forgotten. A GPU that comes
 * back keeps its history. An unhealthy GPU never affects the others. A forgotten GPU is missing until a
 * probe sees that GPU, or another GPU in its slot.
 *
 * MIG devices. A MIG device has a health of its own, for XIDs that name its instance and for its unreadable
 * data. That health is never better than the GPU's. A device is the same as long as UUID and attributes are
 * the same: a UUID is made of places, and comes back when another instance gets the place. The node keeps
 * no data of devices that no longer exist.
 * Thread: owner's (no I/O, no clock, no lock).
 */
#include "model/gpu/gpu.h"
#include "model/health/health.h"

struct node_gpu {
	struct gpu gpu; /* as last seen */
	struct health health;
	uint64_t last_seen_ns;
	bool present; /* in the last inventory */
};

/* A GPU that was gone so long that the node forgot it. The node needs a repair until the GPU is back. */
struct node_missing {
	char uuid[GPU_UUID_MAX];
	char bus_id[GPU_BUS_ID_MAX]; /* "" if unknown */
	uint32_t index;              /* last index */
	uint32_t xid;                /* last XID of the reset or hardware class; 0: none */
};

/* State of a GPU or MIG device from an earlier run. health_restore() says what it takes from .health. */
struct node_persisted {
	char uuid[GPU_UUID_MAX];
	char profile[GPU_PROFILE_MAX]; /* of a MIG device; "": a GPU */
	char bus_id[GPU_BUS_ID_MAX];
	uint32_t index;
	struct gpu raised; /* only the raised health signals are valid */
	struct health health;
};

struct node {
	struct inventory *inv; /* the known GPUs in the order of .gpus; links as last seen */
	struct node_gpu *gpus; /* [inv->n], sorted by index, then UUID */
	struct health *migs;   /* [inv->n_mig] own health of each MIG device */
	struct node_missing missing[GPU_NODE_MAX];
	uint32_t n_missing;
	/* set by the owner; the first inventory uses and frees it */
	struct node_persisted *persisted;
	uint32_t n_persisted;
	uint64_t observed_ns; /* time of the last node_observe() */
	/* set by the owner: NVML is unavailable because its library does not match the loaded kernel
	 * module */
	bool driver_mismatch;
};

/* node_init(): no GPU is known. node_fini() frees what the members point to, but not @n. */
void node_init(struct node *n);
void node_fini(struct node *n);

/*
 * Updates the node with the result of one NVML probe.
 *
 * @seen NULL: NVML is unavailable. Every known GPU that is not gone gets @why as its fault (stuck for
 * ERR_TIMEOUT, else unreadable). With .driver_mismatch every known GPU gets that signal. No GPU is
 * forgotten.
 *
 * GPUs are matched by UUID. A GPU without a readable UUID matches the known GPU at the same bus address,
 * else with the same index, if no other GPU of @seen matches that one. A GPU with a fault keeps its name,
 * minor number, all other known data, MIG devices and links, so that it stays in its resource.
 *
 * Signals. A raised signal that is unreadable now stays raised. A clear one becomes unknown. After a reset
 * only a failing call keeps a signal raised.
 *
 * A MIG device with a .reason keeps its known data. A MIG device without a UUID matches the known device at
 * its place in NVML's list.
 *
 * Returns > 0 if offered data or a health changed, 0 if not. Returns < 0 for lack of memory or more than
 * GPU_NODE_MAX GPUs. Then the known GPUs are unchanged.
 */
int node_observe(struct node *n, const struct health_policy *p, const struct inventory *seen,
	const struct error *why, uint64_t now_ns, struct error *err) MUST_USE;

#define NODE_XID_ALL UINT32_MAX /* NVML's value for "not about one instance" */

/*
 * Applies an XID event of the GPU @uuid. An unknown UUID changes nothing. @gi and @ci are the instances of
 * the event, or NODE_XID_ALL if the event does not name them. An event without instances affects the GPU.
 * Otherwise the event affects the MIG devices of these instances, which may all be unknown, and the GPU
 * only counts the XID. While MIG is off, every event affects the GPU. True if a health changed.
 */
bool node_xid(struct node *n, const struct health_policy *p, const char *uuid, uint32_t gi,
	uint32_t ci, uint32_t xid, uint64_t now_ns);

/* Fills @m for the GPU @g that the node forgets. */
void node_missing_of(struct node_missing *m, const struct node_gpu *g);

/*
 * Whether the GPU at position @gpu, or its MIG device @mig (a UUID; NULL: the whole GPU), is healthy. A
 * whole GPU is as healthy as the worst of its MIG devices. *ret_why (may be NULL) is the reason, "" if
 * healthy. It is valid until the node changes.
 */
bool node_device_ok(const struct node *n, uint32_t gpu, const char *mig, const char **ret_why);

/* Applies the passing of time: cool-downs end, gone GPUs are forgotten. True if anything changed. */
bool node_tick(struct node *n, const struct health_policy *p, uint64_t now_ns);

/* The latest time for the next probe (node_observe()) or node_tick(). */
uint64_t node_due(const struct node *n, const struct health_policy *p);
