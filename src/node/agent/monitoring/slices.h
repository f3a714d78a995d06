/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The slices of a round: which slice, and which status of the arbiter, belongs to a usage entry.
 *
 * Thread: owner's.
 */
#include "node/agent/monitoring/usage.h"
#include "node/agent/slices/slices.h"

/* One slice on one device, for the round. */
struct monitoring_slice {
	const struct stored_slice *slice; /* borrowed */
	uint32_t plan_gpu;                /* position in the gpus of its plan */
	uint32_t usage;
	/* The arbiter's status of the slice, and of the slice on this device; NULL: none. */
	const json_t *status;
	const json_t *gpu_status;
};

struct monitoring_slices {
	struct monitoring_slice *v; /* by usage entry */
	uint32_t n;
	json_t *by_id; /* owned */
};

/* The slices of the current usage entries. @allocations have their .usage set. */
int monitoring_slices_make(struct monitoring_slices *ret, const struct slices *s,
	const struct monitoring_allocations *allocations, struct error *err) MUST_USE;
void monitoring_slices_fini(struct monitoring_slices *s);
/* The last slice of a usage entry; NULL: none. Borrowed. */
const struct monitoring_slice *monitoring_slices_find(const struct monitoring_slices *s,
	uint32_t use);

/* The usage entry in whose slices the arbiter knows @pid; MONITORING_NONE: none on that device. */
uint32_t monitoring_slices_find_process(const struct monitoring_slices *s,
	const struct monitoring_usage *usage, uint32_t device, uint32_t pid);

/* What the arbiter's status of a slice has for GPU @uuid; NULL: nothing. Borrowed. */
const json_t *monitoring_find_gpu_status(const json_t *slice_status, const char *uuid);

/* A number >= 0 of the arbiter's status; false: absent or malformed. */
bool monitoring_read_number(const json_t *o, const char *key, uint64_t *ret);
