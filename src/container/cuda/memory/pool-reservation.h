/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that the driver holds in a lump whose size it tells: an async pool, a device's memory for
 * graphs. What one call takes of it nobody knows; so the lump as a whole is charged with what the
 * driver says that it holds, the physical truth, and a call that may let it grow holds a bound for
 * the growth while it runs.
 *
 * One word has all of it, in granules: charged, of that outstanding (the bounds of calls under way)
 * and a number that changes with every change. Whoever ends a call reads the word, then the driver's
 * size, and lowers charged to size + outstanding by one compare-and-swap on the word as it was: a call
 * that began since makes it fail, one that ended before has shown its growth in the size. So charged
 * is never under what the driver holds, and no growth is charged twice, with any number of threads.
 *
 * A lump can shrink when the program waits for the GPU (default pools give everything back then),
 * and by calls that no hook sees. What shrinks within an operation of ours is given back at once; what
 * has shrunk before it may already be in the arbiter's comparison with NVML and is left to that.
 *
 * Facts of an H100, driver 580.159.04: lumps grow by multiples of 32 MiB, by no more than the request
 * rounded up to that, less what is free in whole pieces of 32 MiB (they are mapped anew where they
 * are needed). A trim frees such pieces, unless a free in them was not yet waited for.
 */
#include "container/charges/charges.h"

#include <stdatomic.h>

#define POOL_RESERVATION_PIECE (UINT64_C(32) << 20) /* what a lump grows by */

enum pool_reservation_kind {
	POOL_RESERVATION_NONE,
	POOL_RESERVATION_POOL,  /* key: CUmemoryPool */
	POOL_RESERVATION_GRAPH, /* key: CUdevice + 1 */
};

struct pool_reservation {
	_Atomic uint64_t key; /* 0: this place is free */
	_Atomic uint64_t word;
	_Atomic int32_t users; /* calls that use the key now; -1: it is being destroyed */
	_Atomic int32_t gpu;
	_Atomic uint32_t kind;
	_Atomic uint32_t counts; /* enum charge_kind */
	_Atomic int32_t device;
	_Atomic uint32_t flags;
	_Atomic uint32_t epoch; /* of graphs: changes when what was resident may no longer be */
	_Atomic uint64_t stream; /* of graphs: all launches since were on this one */
	struct pool_reservation *next;
};

enum {
	POOL_RESERVATION_OURS = 1,  /* a pool that this process created */
	POOL_RESERVATION_DYING = 2, /* destroyed by the program, kept until it holds nothing */
	POOL_RESERVATION_READ =
		4, /* its size could be read once: an error now means that it is gone */
};

struct pool_reservation_op {
	struct pool_reservation *reservation; /* NULL: nothing is counted */
	struct charge charge, around;
};

/*
 * The lump of a key, made if it is not there; NULL: no memory for it, a warning was given. @gpu: the
 * slice's number of @device, or CHARGES_NO_GPU for what costs this process nothing.
 */
struct pool_reservation *pool_reservation_get(enum pool_reservation_kind kind, uint64_t key,
	CUdevice device, int gpu, enum charge_kind counts);
struct pool_reservation *pool_reservation_find(enum pool_reservation_kind kind, uint64_t key);

/*
 * Before and after a call that may let @l grow by @bound. 0, or CUDA_ERROR_OUT_OF_MEMORY with nothing
 * held, after what is cached was given back. NULL is a lump that is not counted.
 */
CUresult pool_reservation_begin(struct pool_reservation_op *op, struct pool_reservation *l,
	uint64_t bound);
void pool_reservation_end(struct pool_reservation_op *op);

/* The program destroys a pool that it created (POOL_RESERVATION_OURS): done at once if it holds nothing, else as
 * soon as it holds nothing, as nobody could read its size after that. */
CUresult pool_reservation_retire(struct pool_reservation *l);

/* It is gone, and its key may come again for something else. What it was charged with is left to the
 * arbiter. */
void pool_reservation_forget(struct pool_reservation *l);

/*
 * Around a call that waits for the GPU, or frees, and so may let lumps shrink. With no lump in use
 * it is a load and a branch. @mask is the caller's to keep between the two.
 */
struct pool_reservation_wait {
	uint32_t gpus;
	struct charge around[16];
};

extern _Atomic uint32_t
	pool_reservation_gpus; /* that have lumps: a bit for each of the slice's GPUs */

void pool_reservation_wait_begin(struct pool_reservation_wait *w);
void pool_reservation_wait_end(struct pool_reservation_wait *w);

/* As charges_on_full: trims every lump of @gpu. */
void pool_reservations_trim(int gpu);

/* What a request of @bytes can let a lump grow by. */
static inline uint64_t pool_reservation_growth(uint64_t bytes)
{
	uint64_t n = bytes / POOL_RESERVATION_PIECE + (bytes % POOL_RESERVATION_PIECE != 0);

	return n > UINT64_MAX / POOL_RESERVATION_PIECE ? UINT64_MAX
						       : n * POOL_RESERVATION_PIECE;
}
