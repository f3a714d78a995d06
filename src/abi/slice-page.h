/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The page that one process of a slice shares with the arbiter: what the process may allocate on each GPU.
 *
 *	1. The arbiter sets memory aside for the process (.granted). The unused part of it is .credit.
 *	2. Before a driver call, a thread of the process takes bytes from .credit by one compare-and-swap,
 *	   without a system call. After a free it puts bytes back the same way.
 *	3. If .credit is too small, the process asks the arbiter (abi/slice-wire.h).
 *	4. The arbiter takes unused credit back by compare-and-swap too; the process need not take part.
 *
 * Invariants:
 *
 *	used    = granted - credit                     at every instant
 *	overhead = used - seen - unseen                what no hook charged (contexts, code, stacks).
 *	sum of granted over a slice's processes <= the slice's limit.
 *
 * The sum exceeds the limit only where the operator lowered the limit below what is in use, or where the driver
 * took memory that no hook could know in advance. Then the arbiter grants nothing more.
 *
 * Crash safety. No lock owns any of this. A process that is killed at any instruction has used at most .granted.
 * The arbiter gets that back when the kernel reports that the process is gone.
 *
 * Layout. The page is a memfd of SLICE_PAGE_BYTES, sealed against any change of size. Each process has its own.
 * A process that writes false values harms the figures of its own slice only. The arbiter also keeps .granted in
 * its own memory, and does not read it from here while it runs. Little-endian, fixed widths, no pointers;
 * slice-layout.h pins the layout. All counters are bytes.
 */
#include "abi/slice-limits.h"

#include <stdatomic.h>
#include <stdint.h>

#define SLICE_PAGE_MAGIC   UINT32_C(0x47504C53) /* "SLPG" */
#define SLICE_PAGE_VERSION 1
#define SLICE_PAGE_BYTES   4096
#define SLICE_UUID_BYTES   16

/* Values of .turns of the page. A library without support for MPS treats SLICE_TURNS_MPS as quanta whose
 * gates never close. */
#define SLICE_TURNS_NONE 0
#define SLICE_TURNS_ON   1
#define SLICE_TURNS_MPS  2

/* Values of .mps: whether the driver runs the process under MPS on a GPU. */
#define SLICE_MPS_UNKNOWN 0 /* no context there yet, or the library does not check */
#define SLICE_MPS_OUTSIDE 1
#define SLICE_MPS_INSIDE  2

struct slice_gpu_page {
	/* The arbiter writes these; the process reads them. */
	_Alignas(64) uint8_t uuid[SLICE_UUID_BYTES]; /* as in "GPU-..." or "MIG-...", binary */
	_Atomic uint64_t limit;   /* of the slice here: the total in CUDA and NVML */
	_Atomic uint64_t granted; /* to this process, used bytes included */
	_Atomic uint32_t seq;     /* odd while .granted and .credit change together */
	/* 1: no other registration of the slice has a grant here, and no unhooked process uses memory here. So
	 * free = limit - (granted - credit). */
	_Atomic uint32_t alone;
	_Atomic uint32_t counted; /* number of .refused that the slice's account includes */
	/* Both write this, only by compare-and-swap. */
	_Alignas(64) _Atomic uint64_t credit;
	/* The process writes these; the arbiter reads them. */
	_Alignas(64) _Atomic uint64_t seen; /* charges of hooks that NVML shows */
	_Atomic uint64_t unseen; /* charges of hooks that NVML does not show: managed memory */
	_Atomic uint64_t peak;   /* highest used */
	/* Operations of the process that change .credit, .seen or .unseen. Equal: none is under way, so NVML's
	 * figures are comparable. */
	_Atomic uint64_t begun, done;
	/* Of .seen: charges for allocations that share granules. Only the driver knows which granules. The
	 * process has at least the granules that .packed bytes need, and at most .packed_in bytes. */
	_Atomic uint64_t packed, packed_in;
	_Atomic uint32_t mps; /* SLICE_MPS_...; as of its last context there */
	/* Calls that failed because of the limit, each once regardless of its attempts. Modulo 2^32. */
	_Atomic uint32_t refused;
};

struct slice_page {
	uint32_t magic, version;
	uint32_t bytes; /* SLICE_PAGE_BYTES */
	uint32_t gpu_count;
	uint64_t serial; /* of this registration; never 0, and this arbiter never reuses it */
	/* SLICE_TURNS_...; may change. Not 0: abi/turn-page.h applies. */
	_Atomic uint32_t turns;
	_Alignas(64) struct slice_gpu_page gpus[SLICE_GPUS_MAX];
};

_Static_assert(sizeof(struct slice_gpu_page) == 192, "layout");
_Static_assert(sizeof(struct slice_page) <= SLICE_PAGE_BYTES, "layout");
