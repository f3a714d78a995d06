/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The hooks of what a program submits to a GPU or captures, and of graphs. Thread: any. */
#include "container/gate/gate.h"

/* --- submissions --- */

/*
 * The hooks of all functions that send work to a GPU.
 *
 * Origin. gen-forward.py makes the hooks that only pass the gate, from the marks in container/loader/cuda.txt.
 * That file also states for every other function with a stream why it sends no work. gen-forward.py also makes the
 * hooks that only note that a stream may wait for others (gate_stream_wait_begin()). The hooks of submit.c and
 * graph.c (launches of graphs) are written by hand.
 *
 * Limit. Work of video engines and of optical flow is not seen here. It goes through tables that the driver gives
 * to its own libraries (cuGetExportTable), without names. Copies to and from these engines are seen.
 */

/* A function behind an entry point of loader/entry.h. */
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

/* Kinds for the cost model (gate/cost-model.h). submit_kernel_kind(): a kernel and its number of blocks.
 * submit_bytes_kind(): function @slot and its bytes, to a factor of two. */
static inline uintptr_t submit_kernel_kind(CUfunction function, uint64_t blocks)
{
	return (uintptr_t)function ^ (uintptr_t)(blocks * UINT64_C(0xff51afd7ed558ccd));
}

static inline uintptr_t submit_bytes_kind(unsigned int slot, uint64_t bytes)
{
	return (uintptr_t)slot << 8 | (bytes ? 64U - (unsigned int)__builtin_clzll(bytes) : 0U);
}

/* For a launch with attributes: GATE_PROGRAMMATIC, or 0. @config may be NULL. Pure. */
unsigned int submit_programmatic(const CUlaunchConfig *config);

/* Bytes that a copy moves. 0: NULL. UINT64_MAX: the bytes do not fit into the type. All are pure except
 * submit_bytes_3d_batch(), which asks the driver for the elements of arrays. */
uint64_t submit_bytes_2d(const CUDA_MEMCPY2D *copy);
uint64_t submit_bytes_2d_v1(const CUDA_MEMCPY2D_v1 *copy);
uint64_t submit_bytes_3d(const CUDA_MEMCPY3D *copy);
uint64_t submit_bytes_3d_v1(const CUDA_MEMCPY3D_v1 *copy);
uint64_t submit_bytes_3d_peer(const CUDA_MEMCPY3D_PEER *copy);
uint64_t submit_bytes_batch(const size_t *sizes, size_t count);
uint64_t submit_bytes_3d_batch(const CUDA_MEMCPY3D_BATCH_OP *ops, size_t count);
uint64_t submit_bytes_decompress(const CUmemDecompressParams *params, size_t count);

/* --- captures --- */

/*
 * Streams that capture. While one captures, no thread may record an event of a whole context (gate/gate-thread.h).
 * A capture counts from before the call that begins it, until one of these:
 *
 *	cuStreamEndCapture() ends it, with any result; the call also ends an invalidated capture. If the call
 *	fails and the stream still captures (another thread began the capture), the capture goes on.
 *	Its stream is destroyed, or its context is destroyed or reset.
 *
 * A capture that the program never ends counts as long as its stream exists, as it does for the driver. Until then
 * each submission has an event of its own, which is exact and costs more. If a thread ends during a capture of its
 * own stream, the capture counts until its context goes.
 */

struct alloc_row;
/* Ends the captures of a row that a context's end removed (alloc-table.h, ALLOC_CAPTURE). */
void submit_capture_row_gone(const struct alloc_row *row);

/* Functions of newer drivers: recapture of CUDA 13.3, and capture to command lists of graphics. Command
 * lists are work only when the program executes them. */
CUresult cuStreamBeginRecaptureToGraph(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginRecaptureToGraph_ptsz(CUstream stream, unsigned int mode, CUgraph graph,
	void *callback, void *arg);
CUresult cuStreamBeginCaptureToCig(CUstream stream, void *params);
CUresult cuStreamBeginCaptureToCig_ptsz(CUstream stream, void *params);
CUresult cuStreamEndCaptureToCig(CUstream stream);
CUresult cuStreamEndCaptureToCig_ptsz(CUstream stream);

/* --- graphs --- */

/* From now on graphs of this process may have memory nodes: instantiations and launches check for them. */
void graph_expect_memory(void);

/*
 * Upper bound of what the allocations of one graph take at once. A node of POOL_RESERVATION_PIECE or more has
 * pieces of its own. Smaller nodes share pieces: the driver places them one after the other where they fit, so
 * they fill more than half of their pieces. (Measured: two nodes of 40 MiB took 128 MiB, ten of 1 MiB took 32
 * MiB.)
 */
struct graph_need {
	uint64_t large, small;
};

/* Adds a node of @bytes. @n begins zeroed. */
void graph_need_add(struct graph_need *n, uint64_t bytes);
/* The bound for all nodes that were added, in bytes; UINT64_MAX if it does not fit. */
uint64_t graph_need_bound(const struct graph_need *n);

/* Bytes that @nodes nodes of an instantiated graph take for themselves (measured: 20 MiB for 10,000
 * kernels). */
uint64_t graph_code_bound(uint64_t nodes);
