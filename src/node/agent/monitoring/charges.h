/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much GPU time the slice runtime has charged to each slice since it was asked last. The arbiter's counters
 * only grow; what they grew while it could not be asked counts when it can again, less what was
 * counted for its container by NVML meanwhile. A slice that is new counts from zero; one that was there before
 * the agent, from what the agent before had counted (node/agent/monitoring/persist/persist.h), else from when it is seen first. The last growth
 * of a slice belongs to its container even if that is not listed any more, unless it ended while no agent
 * was there.
 * Thread: owner's.
 */
#include "node/agent/monitoring/usage.h"
#include "node/agent/slices/slices.h"

struct monitoring_charge {
	char id[SLICE_ID_DIGITS + 1], device_uuid[GPU_UUID_MAX];
	char *usage_key;     /* owned: key of its use */
	uint64_t charged_ns; /* as last told */
	uint64_t at_ns;      /* when; 0: not yet by this agent */
	uint64_t at_wall_ns;
	uint64_t estimated_ns; /* counted otherwise since */
	bool restored;         /* by an agent before */
	uint32_t usage;        /* of the round; MONITORING_NONE */
	bool present;
};

struct monitoring_charges {
	struct monitoring_charge *v;
	size_t n;
};

/* What the round has to know of one slice on one unit. */
struct monitoring_slice {
	const struct stored_slice *slice; /* borrowed */
	uint32_t plan_gpu;                /* in its plan's gpus */
	uint32_t usage;
	const json_t *status;     /* the arbiter's words: of the slice; NULL: none */
	const json_t *gpu_status; /* and of this unit; NULL: none */
};

struct monitoring_slices {
	struct monitoring_slice *v; /* by use */
	uint32_t n;
	json_t *by_id; /* owned */
};

/* The slices of the uses of now. @allocations were given their uses. */
int monitoring_slices_make(struct monitoring_slices *ret, const struct slices *s,
	const struct monitoring_allocations *allocations, struct error *err) MUST_USE;
void monitoring_slices_fini(struct monitoring_slices *s);
/* The last one of a use; NULL: none. Borrowed. */
const struct monitoring_slice *monitoring_slices_find(const struct monitoring_slices *s,
	uint32_t use);

/*
 * Sets busy times and memory of the uses that have slices. @started_wall_ns: of the agent. Times of now.
 */
int monitoring_charges_count(struct monitoring_charges *c,
	const struct monitoring_slices *slices, struct monitoring_usage *uses,
	const struct monitoring_devices *devices, uint64_t started_wall_ns, uint64_t wall_ns,
	uint64_t now_ns, struct error *err) MUST_USE;
/* After the accounts have counted: what was counted for them by other means. */
void monitoring_charges_add_estimate(struct monitoring_charges *c,
	const struct monitoring_usage *uses);
/* What an agent before has counted: .charged_ns, .at_wall_ns and .estimated_ns of @as. */
int monitoring_charges_restore(struct monitoring_charges *c, const char *id, const char *unit,
	const struct monitoring_charge *as, struct error *err) MUST_USE;
void monitoring_charges_fini(struct monitoring_charges *c);

/* Whether the arbiter has @pid among the processes of a use's slices; MONITORING_NONE: of none. */
uint32_t monitoring_slices_find_process(const struct monitoring_slices *s,
	const struct monitoring_usage *uses, uint32_t device, uint32_t pid);

/* An integer >= 0 of the arbiter's; false: it said none. */
bool monitoring_read_number(const json_t *o, const char *key, uint64_t *ret);
