/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Charges of this process to its slice. A hook reserves a bound before the driver call, keeps the bytes that the
 * driver took, and gives the rest back.
 *
 *	struct charge c;
 *	CUresult r = charge_begin(&c, device_current_gpu(), bound, CHARGE_SEEN);
 *
 *	if (r)
 *		return r;                      // CUDA_ERROR_OUT_OF_MEMORY
 *	r = REAL(cuMemAlloc_v2)(ptr, bytes);
 *	charge_end(&c, r ? 0 : taken);         // the rest of the bound goes back
 *
 * The bound must be no less than what the driver can take, in physical granules. All figures are bytes.
 * charge_begin() tries these steps in order:
 *
 *	1. Take the bound from the credit in the page.
 *	2. Request the bound from the arbiter, which decides in node/arbiter/grants/credit.c.
 *	3. Trim the pools of this process once (charges_on_full) and try again.
 *	4. Try again for up to 20 ms, while bounds of other threads may come back and suffice.
 *	5. Return CUDA_ERROR_OUT_OF_MEMORY (2), which frameworks can handle.
 *
 * Outside a slice, or on a GPU that the slice does not name, a charge costs a load and a branch. Step 1 is one
 * compare-and-swap on the credit: no lock, no system call.
 *
 * Crash safety. A kill at any instruction leaves nothing held. Thread: any.
 */
#include "abi/cuda-api.h"
#include "abi/slice-page.h"

#include <stdbool.h>

#define CHARGES_GRANULE     SLICE_GRANULE
#define CHARGES_NO_GPU      (-1) /* not a GPU of the slice: nothing is counted */
#define CHARGES_GPU_UNKNOWN (-2) /* the arbiter does not answer: nothing can be charged */

enum charge_kind {
	CHARGE_SEEN,   /* NVML counts it for this process */
	CHARGE_UNSEEN, /* NVML does not count it for this process: managed memory */
	CHARGE_HIDDEN, /* no hook sees it freed: a context, a module. The bytes stay used until the arbiter compares
			  with NVML; charge_end() requests the comparison */
};

struct charge {
	int gpu;
	enum charge_kind kind;
	uint64_t bytes; /* reserved */
};

/* Returns 0, or CUDA_ERROR_OUT_OF_MEMORY with nothing reserved. The caller ends each success with
 * charge_end(). If the limit of the slice refuses the bound, the page counts that in .refused, once for each
 * call. */
CUresult charge_begin(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind);
/* charge_begin() without a count in .refused: for a caller that tries again. */
CUresult charge_try(struct charge *c, int gpu, uint64_t bound, enum charge_kind kind);

/*
 * The operation is over and took @bytes. Bytes beyond the bound are charged too, because the driver has already
 * taken them: from the credit, else by a request, else as a debt. While there is a debt, no charge succeeds.
 * Releases, and bytes that the arbiter has free again, pay the debt.
 */
void charge_end(struct charge *c, uint64_t bytes);

/*
 * Around a driver call that frees memory of @kind. Never fails. The arbiter compares with NVML only
 * while no operation is in progress. Without this pair, the arbiter could compare between the driver's free and
 * the release. It would then take the bytes for vanished overhead, and the bytes would come back twice.
 *
 *	charge_free_begin(&c, row.gpu, CHARGE_SEEN);
 *	r = REAL(cuMemFree_v2)(ptr);
 *	charge_free_end(&c, r ? 0 : row.bytes);
 */
void charge_free_begin(struct charge *c, int gpu, enum charge_kind kind);
/* @bytes: those of earlier charges that came free; 0: none. */
void charge_free_end(struct charge *c, uint64_t bytes);

/* @bytes of an earlier charge are free in the driver. The caller has an operation in progress (charge_begin(),
 * charge_free_begin()), or it found the free bytes later. */
void charge_release(int gpu, uint64_t bytes, enum charge_kind kind);

/* Corrects an earlier charge: @bytes more are in use than were charged (negative: fewer). */
void charge_adjust(int gpu, int64_t bytes, enum charge_kind kind);

/*
 * @bytes more (negative: fewer) share granules in places that only the driver knows. @in: how many more of the
 * bytes charged as SEEN are granules for such bytes. The caller has an operation in progress.
 */
void charge_packed(int gpu, int64_t bytes, int64_t in);

/* @bytes charged as SEEN may still be in use by another process that got a handle. From now on only NVML
 * tells. The bytes stay used until the arbiter has compared. */
void charge_disown(int gpu, uint64_t bytes);
/* charge_disown() without a request for a comparison: the caller requests one for many calls. */
void charge_disown_quietly(int gpu, uint64_t bytes);

/* Whether this process is in a slice: the cheap test at the start of a hook. Registers the process if
 * needed. */
bool charges_active(void);

/*
 * Limit and used bytes of the slice on GPU @gpu. While the arbiter is unavailable, *used is the limit less this
 * process's credit. False: not known (never registered, CHARGES_NO_GPU). Costs at least one system call (a request
 * to the arbiter), unless the process is alone in its slice.
 */
bool charges_read_usage(int gpu, uint64_t *limit, uint64_t *used);

/* Requests a comparison with NVML soon: bytes that no hook counts have changed. Best effort; may wait up to
 * 1000 ms for the arbiter's acknowledgement. */
void charges_request_compare(int gpu);

/* The limit alone, from the page. False: not known. */
bool charges_read_limit(int gpu, uint64_t *limit);

/* Bytes that this process uses and that no hook charged: contexts, code, stacks. 0: not known. */
uint64_t charges_read_overhead(int gpu);

/* Called at most once for each charge, when the charge does not fit. Gives back cached memory of @gpu.
 * charges.c defines the pointer weakly as NULL; pool-reservation.c defines it with its function. */
extern void (*charges_on_full)(int gpu);

static inline uint64_t round_up_to_granule(uint64_t bytes)
{
	uint64_t n = bytes / CHARGES_GRANULE + (bytes % CHARGES_GRANULE != 0);

	return n > UINT64_MAX / CHARGES_GRANULE ? UINT64_MAX : n * CHARGES_GRANULE;
}
