/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who held which seat for how long in a round, from what the kubelet lists, its checkpoint, and what
 * was given out (Allocate).
 *
 *	listed before and now        held all of the round
 *	listed now, given within it  held from then on, and whoever had the seat before until then
 *	listed now for the first time, and not given by us (before our start, DRA): counts from the end of the round
 *	not listed any more          held half of the round, or until its seat was given to the next
 *
 * What was given and is not listed yet waits for it. A pod is another one than that of the same name before if its
 * seat was given out anew. The checkpoint may still have the UID of the pod before: one that is the UID of
 * whom the seat was taken from says nothing.
 *
 * Kubelets before 1.34 list pods that have ended beside those that have their devices now: the one that comes
 * later has it.
 * Thread: any (pure).
 */
#include "node/agent/monitoring/checkpoint.h"
#include "node/agent/monitoring/replicas.h"
#include "model/pods/pods.h"

/* A seat that a container holds, as it was listed. */
struct monitoring_allocation {
	char *namespace_, *pod, *container, *resource, *id; /* owned */
	char *uid;                                          /* owned; "" */
	char device_uuid[GPU_UUID_MAX];                     /* UUID */
	enum account_mode mode;
	uint32_t share; /* millionths of the unit */
	uint64_t memory_limit;
	uint32_t replica; /* MONITORING_NONE: it is not offered now */
	uint32_t usage;   /* position in the uses of the round; MONITORING_NONE */
	bool dynamic;     /* of a resource claim, which several may share */
	bool superseded;  /* another pod has the seat now */
	bool fresh;       /* was given out in this round, at: */
	uint64_t since_ns;
};

struct monitoring_allocations {
	struct monitoring_allocation *v; /* by resource, id, namespace, pod, container */
	size_t n;
};

/* Devices that were given out and are not yet listed. */
#define MONITORING_PENDING_MAX        4096
#define MONITORING_PENDING_TIMEOUT_NS (UINT64_C(120) * 1000000000)

struct monitoring_pending_entry {
	char *resource, *id; /* owned */
	uint64_t at_ns;
};

struct monitoring_pending {
	struct monitoring_pending_entry *v;
	size_t n;
};

int monitoring_pending_add(struct monitoring_pending *g, const char *resource, const char *id,
	uint64_t at_ns, struct error *err) MUST_USE;
void monitoring_pending_fini(struct monitoring_pending *g);

/* The round: from the moment of the list before to that of this one. */
struct monitoring_span {
	uint64_t from_ns, to_ns;
};

/* What is held now. @pending loses those that are listed, and those that waited too long. */
int monitoring_allocations_make(struct monitoring_allocations *ret,
	const struct monitoring_allocations *before, const struct pod_devices *list,
	const struct monitoring_checkpoint *checkpoint,
	const struct monitoring_devices *devices, const struct monitoring_replicas *replicas,
	struct monitoring_pending *pending, struct monitoring_span span,
	struct error *err) MUST_USE;
/* Nobody has said what is held now: the same as before, where its seats are now. */
void monitoring_allocations_carry(struct monitoring_allocations *allocations,
	const struct monitoring_replicas *replicas);
void monitoring_allocations_fini(struct monitoring_allocations *h);
/* The one that has the seat; NULL: none. */
const struct monitoring_allocation *monitoring_allocations_find(
	const struct monitoring_allocations *h, const char *resource, const char *id);

/* One container on one unit. */
struct monitoring_usage_entry {
	struct account_use in; /* its texts are those of the holds */
	uint32_t device_index;
	const struct monitoring_allocation *first_allocation; /* its first seat; borrowed */
	uint32_t n_replicas;                                  /* that it holds now, or held */
	bool offered;                                         /* all of them are offered now */
	uint64_t memory_limit;                                /* UINT64_MAX: none */
	bool processes_known;
	uint32_t n_processes;
};

struct monitoring_usage {
	struct monitoring_usage_entry *v; /* by unit */
	uint32_t n;
};

/* @now and @before may be the same. @counted: else time passes for nobody, since it has been too long unknown who holds what. */
int monitoring_usage_make(struct monitoring_usage *ret, struct monitoring_allocations *now,
	struct monitoring_allocations *before, const struct monitoring_devices *devices,
	struct monitoring_span span, bool counted, struct error *err) MUST_USE;
void monitoring_usage_fini(struct monitoring_usage *u);
