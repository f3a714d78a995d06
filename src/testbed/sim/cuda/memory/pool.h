/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory pools, and the memory of graphs. With the lock. */
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

#define POOL_GROWTH (32 * MIB) /* pools and graphs take memory in multiples of it (measured) */

/* cuMemFree() of memory of a pool or graph, when nothing runs any more. */
CUresult pool_free_now(struct range *r);

/* Gives back what pools of the device keep without need; true: something was. */
bool pools_release(struct sim_cuda_device *d);

struct sim_cuda_pool *pool_current(struct sim_cuda_device *d); /* NULL: no memory */

/* Memory of graphs: kept for the next one that needs as much, until it is trimmed. */
CUresult graph_memory_acquire(struct sim_cuda_device *d, uint64_t bytes, struct phys **ret);
void graph_memory_release(struct sim_cuda_device *d, struct phys *p);
bool graph_memory_trim(struct sim_cuda_device *d); /* true: something was given back */
void graph_memory_used(struct sim_cuda_device *d, int64_t change);

/* The pool that a range is of; NULL: none. */
void *pool_handle_of(const struct range *r);

/* Frees what a graph allocated, from outside of it (testbed/sim/cuda/graph/memory.c). */
CUresult graph_free(struct range *r);

/*
 * What blocks were whose memory the same queue uses again: work in front of that still uses it as it was
 * (pool-ghost.c).
 */
struct ghost;
/* Until @seq of @queue is done. False: no memory. */
bool ghost_add(struct ghost **list, CUdeviceptr start, CUdeviceptr end,
	struct sim_cuda_queue *queue, uint64_t seq);
void ghosts_expire(struct ghost **list); /* those that are over */
/* The end of one that has something of @from to @to, or 0. */
CUdeviceptr ghost_end(const struct ghost *list, CUdeviceptr from, CUdeviceptr to);
