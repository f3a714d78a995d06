/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What NVML is to say in a slice, made of what the driver and what the arbiter say. Pure.
 */
#include "abi/slice-wire.h"
#include "abi/nvml-api.h"

#include <stdbool.h>
#include <stddef.h>

/* One process of the slice on one GPU. */
struct own_process {
	unsigned int pid;      /* as the container knows it */
	unsigned int host_pid; /* as the driver may know it */
	uint64_t used;         /* bytes charged */
};

struct memory_figures {
	unsigned long long total, free, used;
};

/* "GPU-" or "MIG-" and a UUID as bytes. False: @text is neither. */
bool figures_uuid(const char *text, uint8_t ret[SLICE_UUID_BYTES]);

/*
 * A slice's memory: @usable and @free are the GPU's own, in bytes: no slice is larger than its GPU,
 * nor has it free what the GPU has not. The total and, but for that, the free bytes are what
 * cuMemGetInfo shows. Used may be more than the total, if the limit was lowered under it.
 */
struct memory_figures figures_memory(uint64_t limit, uint64_t used, uint64_t usable,
	uint64_t free);

/*
 * Finds the process that the driver calls @pid. Drivers differ in whose numbers they tell, and a list
 * has them all of one kind: @host says which. NULL: it is none of the slice's.
 */
const struct own_process *figures_own(const struct own_process *own, unsigned int n,
	unsigned int pid, bool host);

/*
 * Whether a list of the driver's, of @n PIDs that lie @stride bytes apart, has the node's PIDs: if any
 * of them is one of ours by that. If none is, they are the container's, or there is none of ours.
 */
bool figures_host_pids(const struct own_process *own, unsigned int own_count, const void *pids,
	unsigned int n, size_t stride);
