/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pool reservations: memory that the driver holds as one block, with a total size that the driver tells. These are
 * async pools, and a device's memory for graphs.
 *
 * Model. How much one call takes of a reservation is not known. So the charge of a reservation is the size that
 * the driver states, which is the physical memory. A call that may let the reservation grow holds a bound for the
 * growth while it runs.
 *
 * The word. One word has all state, in granules: charged; outstanding, the part of charged for bounds of calls in
 * progress; and a number that changes with every change.
 *
 *	1. A thread adds its bound to charged and outstanding, then calls the driver.
 *	2. After the call, the thread takes its bound out of outstanding.
 *	3. The thread reads the word, then asks the driver for the size.
 *	4. The thread lowers charged to size + outstanding: one compare-and-swap on the word that step 3 read.
 *
 * A call that begins after the thread has read the word makes step 4 fail. The thread then repeats step 3. A call
 * that ended before the read shows its growth in the size. So charged is never below what the driver holds, and no
 * growth is charged twice, with any number of threads.
 *
 * Shrinking. A reservation can shrink when the program waits for the GPU (default pools then give everything
 * back), and by calls that no hook sees. Memory that shrinks within an operation is given back at once. Memory
 * that shrank before may already be in the arbiter's comparison with NVML, which corrects it.
 *
 * Facts (H100, driver 580.159.04). Reservations grow by multiples of 32 MiB. They grow by no more than the request
 * rounded up to that, less what is free in whole pieces of 32 MiB (the driver maps these again where needed). A
 * trim frees such pieces, except while a free in them is not yet waited for.
 */
#include "container/charges/charges.h"

#include <stdatomic.h>

#define POOL_RESERVATION_PIECE (UINT64_C(32) << 20) /* unit of a reservation's growth */

enum pool_reservation_kind {
	POOL_RESERVATION_NONE,
	POOL_RESERVATION_POOL,  /* key: CUmemoryPool */
	POOL_RESERVATION_GRAPH, /* key: CUdevice + 1 */
};

struct pool_reservation {
	_Atomic uint64_t key; /* 0: the entry is free */
	_Atomic uint64_t word;
	_Atomic int32_t users; /* calls that use the key now; -1: being destroyed */
	_Atomic int32_t gpu;
	_Atomic uint32_t kind;
	_Atomic uint32_t counts; /* enum charge_kind */
	_Atomic int32_t device;
	_Atomic uint32_t flags;
	_Atomic uint32_t epoch;  /* graphs: changes when memory may no longer be resident */
	_Atomic uint64_t stream; /* graphs: stream of all launches in this epoch */
	struct pool_reservation *next;
};

enum {
	POOL_RESERVATION_OURS = 1,  /* a pool that this process created */
	POOL_RESERVATION_DYING = 2, /* destroyed by the program, kept until it holds nothing */
	POOL_RESERVATION_READ =
		4, /* its size was readable once: an error now means that it is gone */
};

struct pool_reservation_op {
	struct pool_reservation *reservation; /* NULL: nothing is counted */
	struct charge charge, around;
};

/*
 * Finds the reservation of a key, or makes it. NULL: no memory; the function logged a warning. @gpu: the slice's
 * number of @device, or CHARGES_NO_GPU for a pool that costs this process nothing.
 */
struct pool_reservation *pool_reservation_get(enum pool_reservation_kind kind, uint64_t key,
	CUdevice device, int gpu, enum charge_kind counts);
/* NULL: no such reservation, or the program has destroyed its pool. */
struct pool_reservation *pool_reservation_find(enum pool_reservation_kind kind, uint64_t key);

/*
 * Before and after a call that may let @reservation grow by @bound. Returns 0, or CUDA_ERROR_OUT_OF_MEMORY with nothing
 * charged, after cached memory was given back. @reservation == NULL: a reservation that is not counted.
 */
CUresult pool_reservation_begin(struct pool_reservation_op *op,
	struct pool_reservation *reservation, uint64_t bound);
/* After the call, whatever its result: the charge becomes the size that the driver states. Does nothing if
 * pool_reservation_begin() failed, or counted nothing. */
void pool_reservation_end(struct pool_reservation_op *op);

/* The program destroys a pool that it created (POOL_RESERVATION_OURS). The driver destroys the pool when the
 * pool holds nothing, because its size is unreadable afterwards. This happens now, or at a later wait or
 * trim. */
CUresult pool_reservation_retire(struct pool_reservation *reservation);

/* The pool is gone, and its key may come again for another pool. The arbiter corrects its charge. */
void pool_reservation_forget(struct pool_reservation *reservation);

/*
 * Around a call that waits for the GPU, or frees, and so may let reservations shrink. With no reservation on a GPU
 * of the slice, the pair costs a load and a branch. The caller keeps @w between the two calls.
 */
struct pool_reservation_wait {
	uint32_t gpus;
	struct charge around[16];
};

/* GPUs with reservations: one bit for each of the slice's GPUs. */
extern _Atomic uint32_t pool_reservation_gpus;

/* Fills @w. */
void pool_reservation_wait_begin(struct pool_reservation_wait *w);
/* Gives back what the reservations no longer hold. */
void pool_reservation_wait_end(struct pool_reservation_wait *w);

/* The charges_on_full function: trims every reservation of @gpu. */
void pool_reservations_trim(int gpu);

/* Upper bound of a reservation's growth for a request of @bytes. */
static inline uint64_t pool_reservation_growth(uint64_t bytes)
{
	uint64_t n = bytes / POOL_RESERVATION_PIECE + (bytes % POOL_RESERVATION_PIECE != 0);

	return n > UINT64_MAX / POOL_RESERVATION_PIECE ? UINT64_MAX
						       : n * POOL_RESERVATION_PIECE;
}
