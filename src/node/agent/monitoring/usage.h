/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Allocations and usage: which container held which replica for how long in a round. Sources are the kubelet's
 * pod list, the kubelet's checkpoint, and the agent's own allocations (pending).
 *
 *	listed before and now                held for the whole round;
 *	listed now, allocated in the round   held from the allocation on; until then by the previous holder;
 *	listed now for the first time, else  counts from the end of the round (DRA, or before the agent's start);
 *	no longer listed                     held for half of the round, or until the replica went to the next holder.
 *
 * A pending entry waits until the kubelet lists its device.
 *
 * Pods of one name. If the agent allocated the replica again, a pod of the same name is another pod. The
 * checkpoint may still have the UID of the previous pod. A UID that belonged to the previous holder of the
 * replica is ignored.
 *
 * Kubelets before 1.34 list ended pods beside the pods that hold the devices now. The later pod then has the
 * replica.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/checkpoint.h"
#include "node/agent/monitoring/devices.h"
#include "model/pods/pods.h"

/* A replica that a container holds, as the kubelet listed it. */
struct monitoring_allocation {
	char *namespace_, *pod, *container, *resource, *id; /* owned */
	char *uid;                                          /* owned; "" */
	char device_uuid[GPU_UUID_MAX];                     /* of the device */
	enum account_mode mode;
	uint32_t share; /* millionths of the device */
	uint64_t memory_limit;
	uint32_t replica;  /* MONITORING_NONE: not offered now */
	uint32_t usage;    /* position in the usage of the round; MONITORING_NONE */
	bool dynamic;      /* of a resource claim, which several pods may share */
	bool superseded;   /* another pod has the replica now */
	bool fresh;        /* allocated in this round */
	uint64_t since_ns; /* .fresh: time of the allocation, monotonic */
};

struct monitoring_allocations {
	struct monitoring_allocation *v; /* by resource, id, namespace, pod, container */
	size_t n;
};

/* Devices that the agent allocated and the kubelet has not listed yet. */
#define MONITORING_PENDING_MAX        4096
#define MONITORING_PENDING_TIMEOUT_NS (UINT64_C(120) * 1000000000)

struct monitoring_pending_entry {
	char *resource, *id; /* owned */
	uint64_t at_ns;
};

struct monitoring_pending {
	struct monitoring_pending_entry *v;
	size_t n, room;
};

/* The agent has allocated the device @id of @resource at @at_ns, monotonic. A device that is pending already gets
 * the new time. If there are MONITORING_PENDING_MAX, one of them is dropped. */
int monitoring_pending_add(struct monitoring_pending *pending, const char *resource,
	const char *id, uint64_t at_ns, struct error *err) MUST_USE;
void monitoring_pending_fini(struct monitoring_pending *pending);

/* A round: from the moment of the previous list to that of this list. */
struct monitoring_span {
	uint64_t from_ns, to_ns;
};

/* The allocations of now. Removes from @pending the listed entries, and those older than
 * MONITORING_PENDING_TIMEOUT_NS. */
int monitoring_allocations_make(struct monitoring_allocations *ret,
	const struct monitoring_allocations *before, const struct pod_devices *list,
	const struct monitoring_checkpoint *checkpoint,
	const struct monitoring_devices *devices, const struct monitoring_replicas *replicas,
	struct monitoring_pending *pending, struct monitoring_span span,
	struct error *err) MUST_USE;
/* Without a list: keeps the allocations, and finds their replicas in the current offer. */
void monitoring_allocations_carry(struct monitoring_allocations *allocations,
	const struct monitoring_replicas *replicas);
void monitoring_allocations_fini(struct monitoring_allocations *allocations);
/* The allocation that holds the replica; NULL: none. */
const struct monitoring_allocation *monitoring_allocations_find(
	const struct monitoring_allocations *allocations, const char *resource, const char *id);

/* One container on one device. */
struct monitoring_usage_entry {
	struct account_use in; /* texts of the allocations */
	uint32_t device_index;
	const struct monitoring_allocation *first_allocation; /* first replica's; borrowed */
	uint32_t n_replicas;                                  /* held now, or until the end */
	bool offered;                                         /* all replicas are offered now */
	uint64_t memory_limit;                                /* UINT64_MAX: none */
	bool processes_known;
	uint32_t n_processes;
};

struct monitoring_usage {
	struct monitoring_usage_entry *v; /* by device */
	uint32_t n;
};

/* Makes the uses of a round from its allocations and those of the round before. @now and @before may be one object.
 * @counted false: no container is given time, as the allocations have been unknown for too long. */
int monitoring_usage_make(struct monitoring_usage *ret, struct monitoring_allocations *now,
	struct monitoring_allocations *before, const struct monitoring_devices *devices,
	struct monitoring_span span, bool counted, struct error *err) MUST_USE;
void monitoring_usage_fini(struct monitoring_usage *u);
