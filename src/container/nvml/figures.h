/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The figures that NVML returns in a slice, computed from those of the driver and of the arbiter. Pure.
 */
#include "abi/slice-wire.h"
#include "abi/nvml-api.h"

#include <stdbool.h>
#include <stddef.h>

/* One process of the slice on one GPU. */
struct own_process {
	unsigned int pid;      /* in the container's PID namespace */
	unsigned int host_pid; /* in the node's, which the driver may use */
	uint64_t used;         /* bytes charged */
};

struct memory_figures {
	unsigned long long total, free, used;
};

/* Parses "GPU-" or "MIG-" and a UUID into bytes. False: @text is neither. */
bool figures_uuid(const char *text, uint8_t ret[SLICE_UUID_BYTES]);

/*
 * A slice's memory. @usable and @free are the GPU's own, in bytes. The total is at most @usable, the free bytes
 * are at most @free. Apart from that bound, both are what cuMemGetInfo shows. Used may exceed the total, if the
 * operator lowered the limit below it.
 */
struct memory_figures figures_memory(uint64_t limit, uint64_t used, uint64_t usable,
	uint64_t free);

/*
 * Finds the process that the driver calls @pid. Drivers differ in the PID namespace that they use, and a list
 * has only PIDs of one namespace. @host: it is the node's; else the container's. NULL: no process of the slice.
 */
const struct own_process *figures_own(const struct own_process *own, unsigned int n,
	unsigned int pid, bool host);

/*
 * Whether a list of the driver's has the node's PIDs. The list has @n PIDs that are @stride bytes apart. True:
 * one of them is the node's PID of a process of the slice. False: the list has the container's PIDs, or no
 * process of the slice.
 */
bool figures_host_pids(const struct own_process *own, unsigned int own_count, const void *pids,
	unsigned int n, size_t stride);
