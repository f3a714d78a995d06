/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which GPU a stream is on, in a slice of several GPUs. The driver needs up to three calls to answer, so the process
 * remembers the answers.
 *
 * An answer holds for a context and a stream until a stream or a context is destroyed: only then another one can get
 * the handle. Each entry has a version, which is odd while a thread writes the entry. A thread that reads an odd version,
 * or two different ones around the entry, asks the driver. So no thread waits, and threads that only read share the
 * entries.
 *
 * Zeroed memory knows nothing. Thread: any.
 */
#include "container/cuda/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define STREAMS_KNOWN 32 /* a power of two */

struct streams {
	_Atomic uint64_t handles; /* grows when a handle may come again */
	struct known_stream {
		_Atomic uint32_t version;
		_Atomic int gpu;
		_Atomic(CUcontext) context;
		_Atomic(CUstream) stream;
		_Atomic uint64_t
			handles; /* streams.handles + 1 at the time of the answer; 0: none */
	} known[STREAMS_KNOWN];
};

/*
 * Returns the slice's number of the GPU that @stream is on, or CHARGES_NO_GPU, CHARGES_GPU_UNKNOWN
 * (container/charges/charges.h), or -1: the driver does not say. @stream 0 is on the GPU of the calling thread's
 * context. @own: stream 0 is the calling thread's own (_ptsz). Cost where the answer is known: one driver call.
 */
int streams_find_gpu(struct streams *streams, CUstream stream, bool own);

/* A stream or a context is about to be destroyed. */
void streams_handle_leaves(struct streams *streams);
