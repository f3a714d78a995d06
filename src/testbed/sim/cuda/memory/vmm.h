/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory without an address: cuMemCreate() and imports make it. Callers hold the lock. */
#include "testbed/sim/cuda/memory/memory.h"

struct vmm_memory {
	struct obj obj;
	struct phys *phys;
	CUmemAllocationProp prop;
	unsigned handles, mapped; /* references; freed when both are 0 */
};

struct sim_cuda_device *device_of_slot(uint32_t slot); /* NULL: not visible to the process */

/* The memory of a descriptor of the daemon, and a descriptor of memory. */
CUresult import_fd(int fd, struct phys **ret);
CUresult export_fd(const struct phys *p, int *ret);
