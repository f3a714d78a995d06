/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this process charges to its slice: reserve before the driver's call, keep what it really
 * took, give the rest back.
 *
 *	struct charge c;
 *	CUresult r = charge_begin(&c, charges_current_gpu(), bound, CHARGE_SEEN);
 *
 *	if (r)
 *		return r;                      // CUDA_ERROR_OUT_OF_MEMORY
 *	r = REAL(cuMemAlloc_v2)(ptr, bytes);
 *	charge_end(&c, r ? 0 : taken);         // the rest of the bound goes back
 *
 * "Bound" must be no less than what the driver can take, in physical granules. Beyond the credit of
 * the page the arbiter is asked; at the limit our own pools are trimmed once (charges_on_full) and it
 * is tried again, for some milliseconds if bounds of other threads may come back that would do; then
 * the answer is CUDA_ERROR_OUT_OF_MEMORY (2), which frameworks know how to handle. In no slice, or on
 * a GPU that the slice does not name, all this costs a load and a branch.
 *
 * A charge is one compare-and-swap on the page's credit: no lock, no system call, and no instruction
 * after which a kill would leave anything held. Thread: any. Bytes everywhere.
 */
#include "abi/cuda-api.h"
#include "abi/slice-page.h"

#include <stdbool.h>

#define CHARGES_GRANULE     SLICE_GRANULE
#define CHARGES_NO_GPU      (-1) /* no GPU of the slice: nothing is counted */
#define CHARGES_GPU_UNKNOWN (-2) /* in a slice that does not answer: nothing can be charged */

enum charge_kind {
	CHARGE_SEEN,   /* NVML counts it for this process */
	CHARGE_UNSEEN, /* it does not: managed memory */
	CHARGE_HIDDEN, /* no hook frees it: a context, a module. It stays used until the arbiter compares
			  with NVML, which charge_end() asks for */
};

struct charge {
	int gpu;
	enum charge_kind kind;
	uint64_t bytes; /* reserved */
};

/* 0, or CUDA_ERROR_OUT_OF_MEMORY with nothing held. Each success must be followed by charge_end(). Where it is the
 * slice's limit that refuses, the page counts it (.refused), once for each call of this. */
CUresult charge_begin(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind);
/* The same for who tries again, so that nothing was refused yet: not counted. */
CUresult charge_try(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind);

/*
 * The operation is over and took @bytes. More than the bound is charged all the same, as it is a fact
 * by then: from the credit, else asked for, else it is a debt. With a debt no charge succeeds until
 * it is paid, by what is released or what the arbiter has again.
 */
void charge_end(struct charge *c, uint64_t bytes);

/*
 * Around a driver call that frees. The arbiter compares with NVML only while no operation is under
 * way: were it to look between the driver's free and our giving back, it would take the bytes for
 * overhead that has gone, and they would come back twice. Never fails. @bytes of @kind came free.
 *
 *	charge_free_begin(&c, row.gpu, CHARGE_SEEN);
 *	r = REAL(cuMemFree_v2)(ptr);
 *	charge_free_end(&c, r ? 0 : row.bytes);
 */
void charge_free_begin(struct charge *c, int gpu, enum charge_kind kind);
void charge_free_end(struct charge *c, uint64_t bytes);

/* @bytes of an earlier charge are free in the driver: within an operation of the caller's, as above,
 * or else found afterwards. */
void charge_release(int gpu, uint64_t bytes, enum charge_kind kind);

/* A fact found afterwards: @bytes more (or less, negative) are in use than were charged. */
void charge_adjust(int gpu, int64_t bytes, enum charge_kind kind);

/*
 * @bytes more (or less, negative) share granules in places that only the driver knows, and of what is
 * charged as SEEN @in bytes more are for such. Within an operation of the caller's.
 */
void charge_packed(int gpu, int64_t bytes, int64_t in);

/* @bytes charged as SEEN may be in use by others still, as somebody was given a handle of them: from
 * now on only NVML tells. They stay used until the arbiter has compared. */
void charge_disown(int gpu, uint64_t bytes);
/* The same without asking for a comparison: the caller does, once for many. */
void charge_disown_quietly(int gpu, uint64_t bytes);

/* The slice's number of a device, of the current context's device; CHARGES_NO_GPU if it has none,
 * CHARGES_GPU_UNKNOWN if the arbiter never answered. (In container/cuda/device.c.) */
int charges_device_gpu(CUdevice device);
int charges_current_gpu(void);

/* Whether anything is limited at all: the cheap test at the head of a hook. Registers if need be. */
bool charges_active(void);

/*
 * Limit and use of the slice on a GPU of it. While the arbiter is away, "used" is all but what this
 * process can still have. False: not known (never registered, CHARGES_NO_GPU). One system call and more,
 * unless the process is alone in its slice.
 */
bool charges_read_usage(int gpu, uint64_t *limit, uint64_t *used);

/* Asks the arbiter to look at NVML soon: what no hook counted has changed. Best effort. */
void charges_request_compare(int gpu);

/* The limit alone, from the page. */
bool charges_read_limit(int gpu, uint64_t *limit);

/* Of this process alone: used, less what hooks charged. Contexts, code, stacks. 0: not known. */
uint64_t charges_read_overhead(int gpu);

/* What is called, at most once a charge, when a charge does not fit: gives back what it can of
 * cached memory of @gpu. NULL here, weakly: whoever has such memory defines it with its function. */
extern void (*charges_on_full)(int gpu);

static inline uint64_t round_up_to_granule(uint64_t bytes)
{
	uint64_t n = bytes / CHARGES_GRANULE + (bytes % CHARGES_GRANULE != 0);

	return n > UINT64_MAX / CHARGES_GRANULE ? UINT64_MAX : n * CHARGES_GRANULE;
}
