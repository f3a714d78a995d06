/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Memory pools, and the memory of graphs. Callers hold the lock. */
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

#define POOL_GROWTH (32 * MIB) /* pools and graphs take memory in multiples of it (measured) */

/* cuMemFree() of memory of a pool or graph, when no work runs any more. */
CUresult pool_free_now(struct range *r);

/* Frees unused memory that pools of the device keep. True: some memory was freed. */
bool pools_release(struct sim_cuda_device *d);

struct sim_cuda_pool *pool_current(struct sim_cuda_device *d); /* NULL: no memory */

/* Memory of graphs: the device keeps it for the next graph that needs the same size, until a trim. */
CUresult graph_memory_acquire(struct sim_cuda_device *d, uint64_t bytes, struct phys **ret);
void graph_memory_release(struct sim_cuda_device *d, struct phys *p);
bool graph_memory_trim(struct sim_cuda_device *d); /* true: some memory was freed */
void graph_memory_used(struct sim_cuda_device *d, int64_t change);

/* The pool of a range; NULL: none. */
void *pool_handle_of(const struct range *r);

/* Frees what a graph allocated, from outside the graph (testbed/sim/cuda/graph/memory.c). */
CUresult graph_free(struct range *r);

/*
 * Ghosts (pool-ghost.c): former extents of blocks whose memory the same queue uses again. Earlier work in the
 * queue still uses the memory at the old addresses.
 */
struct ghost;
/* Lasts until @seq of @queue is done. False: no memory. */
bool ghost_add(struct ghost **list, CUdeviceptr start, CUdeviceptr end,
	struct sim_cuda_queue *queue, uint64_t seq);
void ghosts_expire(struct ghost **list); /* drops those whose work is done */
/* The end of a ghost that overlaps @from to @to, or 0. */
CUdeviceptr ghost_end(const struct ghost *list, CUdeviceptr from, CUdeviceptr to);
