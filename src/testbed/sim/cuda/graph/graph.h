/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Graphs: nodes are work with dependencies. A launch puts the nodes into a stream, one after another. Callers
 * hold the lock. Thread: any that holds it.
 */
#include "testbed/sim/cuda/memory/memory.h"
#include "testbed/sim/cuda/stream/stream.h"

/* Memory that a launch of a graph takes. References: the exec, and each allocation in it. */
struct graph_block {
	unsigned refs;
	struct sim_cuda_device *device;
	struct physical_memory *phys;
};

/* One allocation of a graph. Its address is fixed when its node is made. */
struct graph_alloc {
	unsigned refs; /* nodes and execs */
	struct sim_cuda_device *device;
	struct address_range *range;
	struct graph_block *block; /* a reference; a free by the graph keeps it */
	bool live;
};

struct graph_node {
	struct sim_cuda_object obj;
	struct graph *graph;
	struct graph_node *next; /* of the graph, in order of creation */
	struct graph_node **deps;
	size_t dep_count;
	struct cuda_work work;
	struct graph_alloc *alloc;   /* of WORK_ALLOC */
	struct graph_node *original; /* of a clone */
	void **params;               /* pointers to the kernel's arguments, for the program */
	unsigned mark;               /* for sorting */
};

struct graph {
	struct sim_cuda_object obj;
	struct graph_node *nodes, **nodes_end;
	size_t count;
	bool is_child, has_memory;
	unsigned execs; /* of a graph with memory */
};

struct entry_of_exec {
	struct graph_node *node;
	struct cuda_work work;
	struct graph_alloc *alloc;
	bool enabled;
};

struct exec {
	struct sim_cuda_object obj;
	struct graph *graph; /* of an exec with memory nodes, while the graph exists */
	uint32_t graph_serial;
	struct entry_of_exec *entries;
	size_t count, room;
	uint64_t flags;
	struct graph_block *block;
	struct sim_cuda_queue *queue; /* of the last launch */
	uint64_t seq;
};

/* An empty graph. */
CUresult graph_new(struct graph **ret);
/* Frees the graph with its nodes and child graphs. */
void graph_drop(struct graph *g);
/* A deep copy. CUDA_ERROR_NOT_SUPPORTED: the graph has memory nodes. */
CUresult graph_clone(const struct graph *g, struct graph **ret);

/* Moves @w into a new node; clears it on failure. */
CUresult node_add(struct graph *g, struct graph_node *const *deps, size_t n,
	struct cuda_work *w, struct graph_node **ret);
/* Adds a node that allocates memory. Reserves its address at once and returns it in p->dptr. */
CUresult node_alloc(struct graph *g, struct graph_node *const *deps, size_t n,
	CUDA_MEM_ALLOC_NODE_PARAMS *p, struct graph_node **ret);
void node_set(struct graph_node *n, struct cuda_work *w); /* takes *w */

/* The nodes, each behind its dependencies; a list to free(). NULL: no memory, or a cycle. */
struct graph_node **graph_sort(struct graph *g);

/*
 * Memory (graph/memory.c). An allocation begins with an address and without memory. Both kinds of objects begin with
 * one reference; _drop() releases one and accepts NULL.
 */
CUresult graph_alloc_new(struct sim_cuda_device *d, uint64_t bytes, struct graph_alloc **ret);
void graph_alloc_drop(struct graph_alloc *a);
CUresult graph_block_new(struct sim_cuda_device *d, uint64_t bytes, struct graph_block **ret);
void graph_block_drop(struct graph_block *b);
/*
 * A launch makes the allocation live, with the memory of @b from @offset on. Takes its own reference to @b.
 * CUDA_ERROR_INVALID_VALUE: the allocation is live already.
 */
CUresult graph_alloc_begin(struct graph_alloc *a, struct graph_block *b, uint64_t offset);
/* The program or the graph has freed the allocation. Nothing if it is not live. */
void graph_alloc_end(struct graph_alloc *a);
