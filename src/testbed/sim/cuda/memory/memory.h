/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory: what is at which address. Callers hold the lock. Thread: any that holds it.
 *
 * Device addresses come from one reserved range of the process's address space. So no two objects share an
 * address, the CPU cannot read one by mistake, and an address identifies its owner. `struct physical_memory` is
 * memory of the device: the daemon knows it, and the process has it mapped at an address that programs do not see.
 * `struct address_range` is what an address belongs to. This header also declares memory without an address
 * (`struct vmm_memory`) and pools.
 */
#include "testbed/sim/cuda/lib.h"
#include "testbed/sim/cuda/stream/stream.h"

struct physical_memory {
	struct sim_cuda_device *device; /* NULL: host memory of this process */
	uint64_t id;                    /* the daemon's */
	uint64_t bytes;
	uint64_t cookie; /* to open it by name; 0: unknown */
	unsigned refs;
	unsigned char *cpu; /* NULL: could not be mapped */
};

/*
 * Memory of the device (@flags: SIM_DEVICE_MEM_*), memory of the host, and memory @id that the daemon has already made
 * for this process, with its descriptor @fd (-1: none), which phys_adopt() takes. All start with one reference. After an
 * error phys_adopt() has released @id.
 */
CUresult phys_new(struct sim_cuda_device *d, uint64_t bytes, unsigned flags,
	struct physical_memory **ret);
CUresult phys_new_host(uint64_t bytes, struct physical_memory **ret);
CUresult phys_adopt(struct sim_cuda_device *d, uint64_t id, uint64_t bytes, int fd,
	struct physical_memory **ret);
struct physical_memory *phys_ref(struct physical_memory *p); /* returns @p */
void phys_drop(
	struct physical_memory *p); /* may be NULL; the last reference frees the memory */
unsigned char *phys_cpu(struct physical_memory *p); /* NULL: could not be mapped */

enum range_kind {
	RANGE_PLAIN,
	RANGE_MANAGED,
	RANGE_HOST,       /* cuMemHostAlloc() */
	RANGE_REGISTERED, /* the program's own */
	RANGE_MAPPED,     /* cuMemMap() */
	RANGE_POOL,
	RANGE_GRAPH,
	RANGE_IPC,
	RANGE_EXTERNAL,
	RANGE_MODULE,
	RANGE_ARRAY,
};

struct address_range {
	CUdeviceptr start;
	uint64_t bytes, span; /* as requested; taken of the addresses */
	enum range_kind kind;
	struct sim_cuda_ctx *ctx;
	struct sim_cuda_device *device;
	struct physical_memory *phys; /* a reference; NULL: `cpu`, or no memory now */
	uint64_t offset;              /* in phys */
	unsigned char *cpu;
	void *owner; /* chunk, pool block, handle or graph */
	unsigned flags, access;
	uint64_t buffer_id;
	bool sync_memops, freeing;
};

struct address_range *range_add(struct address_range r); /* adds a copy; NULL: no memory */
struct address_range *range_at(CUdeviceptr p);           /* the range with @p, or NULL */
struct address_range *range_after(CUdeviceptr p);    /* with @p, or the next one; NULL: none */
struct address_range *range_nth(size_t n);           /* by address; NULL: no more */
void range_remove(struct address_range *r);          /* with its phys reference */
bool range_clear(CUdeviceptr start, uint64_t bytes); /* true: no range there */

/* Addresses. */
/* Reserves addresses, at @hint if that is free. @bytes and @align are rounded up to granules. 0: none left. */
CUdeviceptr space_reserve(uint64_t bytes, uint64_t align, CUdeviceptr hint);
void space_release(CUdeviceptr start);                /* nothing if @start is not reserved */
uint64_t space_size(CUdeviceptr start);               /* 0: not what space_reserve() returned */
bool space_covers(CUdeviceptr start, uint64_t bytes); /* within one reservation */
bool space_contains(CUdeviceptr p);                   /* a device address, reserved or not */

struct memory_piece {
	unsigned char *cpu;
	uint64_t bytes;
	struct physical_memory *pin; /* a reference, for phys_drop(); NULL: none needed */
};
/*
 * The contiguous bytes from @p on, at most @bytes. An address that the library does not know is the program's own
 * memory. CUDA_ERROR_INVALID_VALUE: nothing is there, or no access is allowed.
 */
CUresult piece_at(CUdeviceptr p, uint64_t bytes, struct memory_piece *ret);

/* The pool memory (pool.c) behind one address of a pool's range. */
struct physical_memory *pool_slot(const struct address_range *r, CUdeviceptr at,
	uint64_t *offset);
/*
 * Pool memory behind the address of a freed block that submitted work still uses. *bytes: from @at to the end of the
 * block. False: no such block.
 */
bool pool_ghost_at(CUdeviceptr at, uint64_t *bytes, struct physical_memory **slot,
	uint64_t *offset);

/* Plain memory of a context, rounded as the driver does. */
CUresult plain_new(struct sim_cuda_ctx *c, uint64_t bytes, enum range_kind kind,
	struct address_range **ret);
void plain_drop(struct address_range *r); /* frees the memory, the range and its addresses */

/*
 * Copies between any two places, and fills, in rows. The _run() functions do the work: call them without the lock. The
 * _check() functions check arguments and memory before that: call them with the lock.
 */
CUresult copy_run(const CUDA_MEMCPY3D *c);
CUresult copy_check(const CUDA_MEMCPY3D *c);
CUresult set_run(const CUDA_MEMSET_NODE_PARAMS *s);
CUresult set_check(const CUDA_MEMSET_NODE_PARAMS *s);
/*
 * Reads or writes @bytes at @p, 4 or 8 bytes atomically. mem_peek() needs the lock. mem_write() takes the lock, and
 * writes nothing if fewer bytes are contiguous.
 */
CUresult mem_peek(CUdeviceptr p, void *to, uint64_t bytes);
CUresult mem_write(CUdeviceptr p, const void *from, uint64_t bytes);

struct sim_cuda_array {
	struct sim_cuda_object obj;
	struct sim_cuda_array *next; /* of the context */
	CUDA_ARRAY3D_DESCRIPTOR desc;
	struct sim_cuda_ctx *ctx;
	struct address_range *range;
	uint64_t row, slice; /* bytes */
	CUdeviceptr at;
	bool of_mipmap;
};

/* --- memory without an address --- */

/* cuMemCreate() and imports make it. */

struct vmm_memory {
	struct sim_cuda_object obj;
	struct physical_memory *phys;
	CUmemAllocationProp prop;
	unsigned handles, mapped; /* references; freed when both are 0 */
};

struct sim_cuda_device *device_of_slot(uint32_t slot); /* NULL: not visible to the process */

/* The memory of a descriptor of the daemon. */
CUresult import_fd(int fd, struct physical_memory **ret);

/* --- pools, and the memory of graphs --- */

#define POOL_GROWTH (32 * MIB) /* pools and graphs take memory in multiples of it (measured) */

/* cuMemFree() of memory of a pool or graph, when no work runs any more. */
CUresult pool_free_now(struct address_range *r);

/* Frees unused memory that pools of the device keep. True: some memory was freed. */
bool pools_release(struct sim_cuda_device *d);

/* The pool of a range; NULL: none. */
void *pool_handle_of(const struct address_range *r);

/* Frees what a graph allocated, from outside the graph (testbed/sim/cuda/graph/memory.c). */
CUresult graph_free(struct address_range *r);

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
