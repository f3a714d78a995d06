/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory without an address: what cuMemCreate() and imports give. With the lock. */
#include "testbed/sim/cuda/memory/memory.h"

struct vmm_memory {
	struct obj obj;
	struct phys *phys;
	CUmemAllocationProp prop;
	unsigned handles, mapped; /* who has it; gone when both are 0 */
};

struct sim_cuda_device *device_of_slot(uint32_t slot); /* NULL: the process does not see it */

/* What a descriptor of the daemon's stands for. */
CUresult import_fd(int fd, struct phys **ret);
CUresult export_fd(const struct phys *p, int *ret);
