/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The page that one process of a slice shares with the arbiter: what it may allocate on each GPU.
 *
 * The arbiter sets memory aside for the process ("granted"). What of it is not in use lies in the
 * word "credit": the process takes from it before a driver call and puts back after a free, each by
 * one compare-and-swap, with no system call. When it is too little the process asks the arbiter
 * (abi/slice-wire.h). The arbiter takes unused credit back the same way, from a process that need
 * not take part. So
 *
 *	used    = granted - credit                     at every instant
 *	overhead = used - seen - unseen                what no hook charged: contexts, code, stacks
 *	sum of granted over a slice's processes <= the slice's limit, always
 *
 * and nothing is ever owned by a lock: a process that is killed at any instruction has used exactly
 * "granted" at most, which comes back when the kernel says that it is gone.
 *
 * The page is a memfd of SLICE_PAGE_BYTES, sealed against any change of size. Each process has its
 * own; one that writes nonsense harms its own slice's figures and no other slice. The arbiter keeps
 * "granted" for itself as well and never reads it back from here while it runs.
 *
 * Little-endian, fixed widths, no pointers; layout pinned by slice-layout.h. All counters are bytes.
 */
#include "abi/slice-limits.h"

#include <stdatomic.h>
#include <stdint.h>

#define SLICE_PAGE_MAGIC   UINT32_C(0x47504C53) /* "SLPG" */
#define SLICE_PAGE_VERSION 1
#define SLICE_PAGE_BYTES   4096
#define SLICE_UUID_BYTES   16

/* What .turns of the page says. A library that knows of no MPS takes that for turns, whose gates never close. */
#define SLICE_TURNS_NONE 0
#define SLICE_TURNS_ON   1
#define SLICE_TURNS_MPS  2

/* What a process says of a GPU: whether the driver runs it there under MPS. */
#define SLICE_MPS_NOT_SAID 0 /* it has no context there yet, or its library does not look */
#define SLICE_MPS_OUTSIDE  1
#define SLICE_MPS_INSIDE   2

struct slice_gpu_page {
	/* The arbiter writes these; the process reads. */
	_Alignas(64) uint8_t uuid[SLICE_UUID_BYTES]; /* as in "GPU-..." or "MIG-...", binary */
	_Atomic uint64_t limit; /* of the slice on this GPU: what CUDA and NVML show as total */
	_Atomic uint64_t granted; /* to this process, what it uses included */
	_Atomic uint32_t seq;     /* odd while .granted and .credit change together */
	_Atomic uint32_t
		alone; /* 1: no other process of the slice has anything granted here, so
				     free = limit - (granted - credit) */
	_Atomic uint32_t counted; /* of .refused: so many are in the slice's account */
	/* Both write this, by compare-and-swap alone. */
	_Alignas(64) _Atomic uint64_t credit;
	/* The process writes these; the arbiter reads. */
	_Alignas(
		64) _Atomic uint64_t seen; /* hooks' charges that NVML shows for this process */
	_Atomic uint64_t unseen;           /* hooks' charges that it does not: managed memory */
	_Atomic uint64_t peak;             /* the most that was used */
	_Atomic uint64_t begun,
		done; /* operations that change the above; equal: none is under way,
					       so what NVML shows can be compared */
	/* Of .seen: charges for what shares granules in places that only the driver knows. It has as
	 * many granules for it as .packed bytes need, or more, up to .packed_in. */
	_Atomic uint64_t packed, packed_in;
	_Atomic uint32_t mps; /* SLICE_MPS_...; as of its last context there */
	/* Calls that failed because of the limit, each once however often it was tried. Modulo 2^32. */
	_Atomic uint32_t refused;
};

struct slice_page {
	uint32_t magic, version;
	uint32_t bytes; /* SLICE_PAGE_BYTES */
	uint32_t gpu_count;
	uint64_t serial; /* of this registration; never 0, never used again by this arbiter */
	_Atomic uint32_t turns; /* SLICE_TURNS_...; may change. Other than 0: abi/turn-page.h */
	_Alignas(64) struct slice_gpu_page gpus[SLICE_GPUS_MAX];
};

_Static_assert(sizeof(struct slice_gpu_page) == 192, "layout");
_Static_assert(sizeof(struct slice_page) <= SLICE_PAGE_BYTES, "layout");
