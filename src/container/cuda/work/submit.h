/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hooks of all functions that send work to a GPU.
 *
 * Origin. gen-forward.py makes the hooks that only pass the gate, from the marks in container/loader/cuda.txt.
 * That file also states for every other function with a stream why it sends no work. gen-forward.py also makes the
 * hooks that only note that a stream may wait for others (gate_block()). The hooks of submit.c and graph.c
 * (launches of graphs) are written by hand.
 *
 * Limit. Work of video engines and of optical flow is not seen here. It goes through tables that the driver gives
 * to its own libraries (cuGetExportTable), without names. Copies to and from these engines are seen. Thread: any.
 */
#include "container/gate/gate.h"

/* A function behind an entry point of loader/gated.h. */
#define SUBMIT_GATED __attribute__((visibility("hidden"), used))

/* For hooks that do more than the gate. */
static inline bool submit_off(void)
{
	return __builtin_expect(atomic_load_explicit(&link_off, memory_order_relaxed), 1);
}

/* Gate flags of a synchronous copy of @bytes. A small copy does not wait at the gate. */
static inline unsigned int submit_sync(uint64_t bytes)
{
	return bytes > GATE_SYNC_BYTES ? 0 : GATE_PASS;
}

/* Kinds for the cost model (gate/cost-model.h). submit_kernel(): a kernel and its number of blocks.
 * submit_bytes(): function @slot and its bytes, to a factor of two. */
static inline uintptr_t submit_kernel(CUfunction function, uint64_t blocks)
{
	return (uintptr_t)function ^ (uintptr_t)(blocks * UINT64_C(0xff51afd7ed558ccd));
}

static inline uintptr_t submit_bytes(unsigned int slot, uint64_t bytes)
{
	return (uintptr_t)slot << 8 | (bytes ? 64U - (unsigned int)__builtin_clzll(bytes) : 0U);
}

/* For a launch with attributes: GATE_PROGRAMMATIC, or 0. @config may be NULL. Pure. */
unsigned int submit_programmatic(const CUlaunchConfig *config);

/* Bytes that a copy moves. 0: NULL. UINT64_MAX: the bytes do not fit into the type. All are pure except
 * bytes_3d_batch(), which asks the driver for the elements of arrays. */
uint64_t bytes_2d(const CUDA_MEMCPY2D *copy);
uint64_t bytes_2d_v1(const CUDA_MEMCPY2D_v1 *copy);
uint64_t bytes_3d(const CUDA_MEMCPY3D *copy);
uint64_t bytes_3d_v1(const CUDA_MEMCPY3D_v1 *copy);
uint64_t bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy);
uint64_t bytes_batch(const size_t *sizes, size_t count);
uint64_t bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count);
uint64_t bytes_decompress(const CUmemDecompressParams *params, size_t count);
