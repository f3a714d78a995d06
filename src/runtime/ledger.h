/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this process charges to its slice: reserve before the driver's call, keep what it really
 * took, give the rest back.
 *
 *	struct charge c;
 *	CUresult r = charge_begin(&c, ledger_current_gpu(), bound, CHARGE_SEEN);
 *
 *	if (r)
 *		return r;                      // CUDA_ERROR_OUT_OF_MEMORY
 *	r = REAL(cuMemAlloc_v2)(ptr, bytes);
 *	charge_end(&c, r ? 0 : taken);         // the rest of the bound goes back
 *
 * "Bound" must be no less than what the driver can take, in physical granules. Beyond the credit of
 * the page the arbiter is asked; at the limit our own pools are trimmed once (ledger_on_full) and it
 * is tried again; then the answer is CUDA_ERROR_OUT_OF_MEMORY (2), which frameworks know how to
 * handle. In no slice, or on a GPU that the slice does not name, all this costs a load and a branch.
 *
 * A charge is one compare-and-swap on the page's credit: no lock, no system call, and no instruction
 * after which a kill would leave anything held. Thread: any. Bytes everywhere.
 */
#include "abi/cuda-api.h"

#include <stdbool.h>

#define LEDGER_GRANULE (UINT64_C(2) << 20) /* what the driver maps memory in */
#define LEDGER_NONE    (-1) /* no GPU of the slice: nothing is counted */

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

/* 0, or CUDA_ERROR_OUT_OF_MEMORY with nothing held. Each success must be followed by charge_end(). */
CUresult charge_begin(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind);

/* The operation is over and took @bytes; more than the bound is charged all the same, if need be
 * beyond the limit, as it is a fact by then. */
void charge_end(struct charge *c, uint64_t bytes);

/* @bytes of an earlier charge are free in the driver. */
void charge_release(int gpu, uint64_t bytes, enum charge_kind kind);

/* A fact found afterwards: @bytes more (or less, negative) are in use than were charged. */
void charge_adjust(int gpu, int64_t bytes, enum charge_kind kind);

/* The slice's number of a device, of the current context's device; LEDGER_NONE if it has none. */
int ledger_device_gpu(CUdevice device);
int ledger_current_gpu(void);

/* Whether anything is limited at all: the cheap test at the head of a hook. Registers if need be. */
bool ledger_active(void);

/* Limit and use of the slice on a GPU of it. False: not known (LINK_DOWN, LEDGER_NONE). */
bool ledger_view(int gpu, uint64_t *limit, uint64_t *used);

/* What is called, at most once a charge, when a charge does not fit: gives back what it can of
 * cached memory of @gpu. Set at load time, by the pools. */
extern void (*ledger_on_full)(int gpu);

static inline uint64_t granules(uint64_t bytes)
{
	uint64_t n = (bytes + LEDGER_GRANULE - 1) / LEDGER_GRANULE;

	return n > UINT64_MAX / LEDGER_GRANULE ? UINT64_MAX : n * LEDGER_GRANULE;
}
