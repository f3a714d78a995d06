/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hooks in front of all that sends work to a GPU. Those that are nothing but the gate are made by
 * gen-forward.py from the marks in forward/cuda.txt, which also says of every other function that takes
 * a stream why it is none of them; by hand are submit.c and graph.c (launches of graphs). So are made those
 * that only note that a stream may wait for others (gate_block()).
 *
 * The work of video engines and of optical flow goes through tables that the driver hands to libraries of
 * its own (cuGetExportTable), past all names: it is not seen here. Their copies to and from are.
 * Thread: any.
 */
#include "container/gate/gate.h"

/* A function behind an entry point of loader/gated.h. */
#define SUBMIT_GATED __attribute__((visibility("hidden"), used))

/* For hooks that do more than the gate. */
static inline bool submit_off(void)
{
	return __builtin_expect(atomic_load_explicit(&link_off, memory_order_relaxed), 1);
}

/* Of a synchronous copy of @bytes: small ones wait for no turn. */
static inline unsigned int submit_sync(uint64_t bytes)
{
	return bytes > GATE_SYNC_BYTES ? 0 : GATE_PASS;
}

/* Kinds (gate/cost-model.h): of a kernel with so many blocks; of what @slot does with @bytes, to a factor of
 * two. */
static inline uintptr_t submit_kernel(CUfunction function, uint64_t blocks)
{
	return (uintptr_t)function ^ (uintptr_t)(blocks * UINT64_C(0xff51afd7ed558ccd));
}

static inline uintptr_t submit_bytes(unsigned int slot, uint64_t bytes)
{
	return (uintptr_t)slot << 8 | (bytes ? 64U - (unsigned int)__builtin_clzll(bytes) : 0U);
}

/* Of a launch with attributes: GATE_PROGRAMMATIC, or 0. @config may be NULL. Pure. */
unsigned int submit_programmatic(const CUlaunchConfig *config);

/* Bytes that a copy moves; 0 for NULL, UINT64_MAX if they are no number. All but the one for batches in
 * three dimensions, which asks the driver for the elements of arrays, are pure. */
uint64_t bytes_2d(const CUDA_MEMCPY2D *copy);
uint64_t bytes_2d_v1(const CUDA_MEMCPY2D_v1 *copy);
uint64_t bytes_3d(const CUDA_MEMCPY3D *copy);
uint64_t bytes_3d_v1(const CUDA_MEMCPY3D_v1 *copy);
uint64_t bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy);
uint64_t bytes_batch(const size_t *sizes, size_t count);
uint64_t bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count);
uint64_t bytes_decompress(const CUmemDecompressParams *params, size_t count);
