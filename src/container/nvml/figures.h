/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The figures that NVML returns in a slice, computed from those of the driver and of the arbiter. Thread: any
 * (pure).
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
