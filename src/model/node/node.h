/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All GPUs that this node is known to have, with their health: the memory of the reconcile loop
 * between two looks at NVML. A GPU that disappears stays listed as unhealthy ("gone") until it is
 * forgotten, one that comes back keeps its history, and a sick one never touches the others. One that was forgotten
 * is missing until it, or another one in its slot, is seen.
 *
 * A MIG device has a health of its own, for XIDs that name its instance and for what cannot be read
 * of it; and it is never better than its GPU. It is one and the same as long as it has the same
 * UUID and attributes: a UUID is made of places, and comes again when another instance is cut there.
 * Of devices that are not there any more nothing is kept.
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

/* A GPU that was gone for so long that it was forgotten: the node needs a repair until it is back. */
struct node_missing {
	char uuid[GPU_UUID_MAX];
	char bus_id[GPU_BUS_ID_MAX]; /* "" if unknown */
	uint32_t index;              /* its last one */
	uint32_t xid; /* of the reset or hardware class, that it had before; 0: none */
};

/* What an earlier run had of a GPU or MIG device: health_restore() says what of .health. */
struct node_persisted {
	char uuid[GPU_UUID_MAX];
	char profile[GPU_PROFILE_MAX]; /* of a MIG device; "" of a GPU */
	char bus_id[GPU_BUS_ID_MAX];
	uint32_t index;
	struct gpu raised; /* the health signals that were raised, nothing else */
	struct health health;
};

struct node {
	struct inventory *inv; /* the known GPUs, in the order of .gpus; links as last seen */
	struct node_gpu *gpus; /* [inv->n], sorted by index, then UUID */
	struct health *migs;   /* [inv->n_mig] of each MIG device by itself */
	struct node_missing missing[GPU_NODE_MAX];
	uint32_t n_missing;
	struct node_persisted *persisted; /* the owner's, for the first look, which frees it */
	uint32_t n_persisted;
	uint64_t observed_ns; /* last call of node_observe() */
	bool driver_mismatch; /* the owner's: NVML cannot be used since its library does not
				  fit the loaded kernel module */
};

void node_init(struct node *n);
void node_fini(struct node *n);

/*
 * Takes in one look at NVML. @seen may be NULL: NVML cannot be used at all; then every known GPU
 * gets @why as its fault (stuck for ERR_TIMEOUT, else unreadable), and the signal of .driver_mismatch; none is
 * forgotten.
 *
 * GPUs are recognised by UUID. One whose UUID could not be read is taken for the known GPU at the
 * same bus address, else with the same index, that is not in the look otherwise. A GPU with a
 * fault keeps name, minor number and everything else that was known of it, its MIG devices and its
 * links, so that it stays in its resource. A health signal that was raised and cannot be read now stays
 * raised, one that was clear becomes unknown; after a reset only a call that fails keeps it raised. A MIG device with a .reason keeps what was known of it;
 * one without a UUID is the one that was known at its place in NVML's list.
 *
 * Returns > 0 if anything that is offered or its health changed, 0 if not; < 0 for lack of memory
 * or more GPUs than GPU_NODE_MAX, and then nothing changed.
 */
int node_observe(struct node *n, const struct health_policy *p, const struct inventory *seen,
	const struct error *why, uint64_t now_ns, struct error *err) MUST_USE;

#define NODE_XID_ALL UINT32_MAX /* NVML's word for: not about one instance */

/*
 * An XID event of the GPU @uuid; an unknown UUID changes nothing. @gi and @ci: which instances it is
 * about, each NODE_XID_ALL if it does not say. One that says neither strikes the GPU; else it
 * strikes the MIG devices in these instances, which may be none of those that are known, and is
 * counted for the GPU. True if health changed.
 */
bool node_xid(struct node *n, const struct health_policy *p, const char *uuid, uint32_t gi,
	uint32_t ci, uint32_t xid, uint64_t now_ns);

/* What is missed of @g once it is forgotten. */
void node_missing_of(struct node_missing *m, const struct node_gpu *g);

/* Position of a MIG device in .inv, or UINT32_MAX. */
uint32_t node_mig(const struct node *n, const char *uuid);

/*
 * Whether the GPU at position @gpu, or its MIG device @mig (a UUID; NULL: the whole GPU), can be had.
 * A GPU as a whole is as good as the worst of its MIG devices. *ret_why, unless NULL: the reason, ""
 * if it can; valid until the node changes.
 */
bool node_device_ok(const struct node *n, uint32_t gpu, const char *mig, const char **ret_why);

/* The passing of time: cool-downs end, gone GPUs are forgotten. True if anything changed. */
bool node_tick(struct node *n, const struct health_policy *p, uint64_t now_ns);

/* When to look again (node_observe) or to call node_tick(), at the latest. */
uint64_t node_due(const struct node *n, const struct health_policy *p);
