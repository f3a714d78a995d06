/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the hooks of memory have for each other and for other hooks; of pool reservations: pool-reservation.h.
 * Thread: any. */
#include "abi/cuda-api.h"
#include "container/charges/alloc-table.h"

#include <stdbool.h>
#include <stddef.h>

/* --- array-size.c: what an array takes --- */

/*
 * Memory that an array takes, from its descriptor alone. The driver lays textures out in blocks. This layout comes
 * from measurements of 30 shapes (H100, driver 580.159.04; the test has them). Pure.
 */
enum {
	ARRAY_LAYERED = 0x01, /* Depth is a number of layers */
	ARRAY_CUBEMAP = 0x04, /* Depth is a number of faces */
	ARRAY_SPARSE = 0x40,  /* the program maps its own memory into the array */
	ARRAY_DEFERRED = 0x80,
};

#define ARRAY_SMALL (UINT64_C(1) << 20) /* bytes; arrays up to this share chunks of 2 MiB */

/* Bytes of an array of @levels mipmap levels (1: no mipmaps), before rounding to granules. 0: no memory of
 * its own. UINT64_MAX: the bytes do not fit into the type. */
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);

/* Lower bound of array_bytes(): without padding. No driver takes less. */
uint64_t array_texels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);

/* --- array.c --- */

/* After a row of any kind, chunk or array, went with its context. The caller has an operation in progress
 * (charges/charges.h). */
void array_chunk_gone(enum alloc_kind kind, const struct alloc_row *row);

/* --- vmm.c --- */

/* Bits of .other of an ALLOC_HANDLE row. */
enum {
	HANDLE_LENT = 1,   /* an uncounted holder may have it: only NVML tells when it goes */
	HANDLE_UNSEEN = 2, /* NVML does not count it */
};

/* Marks the memory mapped from @dptr on as lent: other holders may have it from now on. False: no mapping
 * begins there. */
bool vmm_lend_mapping(CUdeviceptr dptr, size_t bytes);

/* --- pool.c --- */

/* Maximum size of a pool on a GPU of the slice: the slice's limit (@limit, bytes) in whole pieces, at least
 * one, and no more than the program wants (0: the driver's default). */
size_t pool_max_bytes(size_t wanted, uint64_t limit);
