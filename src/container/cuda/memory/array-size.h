/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How much memory an array takes, from its description alone; pure. The driver lays textures out in
 * blocks; this is how, as found by measuring 30 shapes (H100, driver 580.159.04; the test has them).
 * Thread: any.
 */
#include "abi/cuda-api.h"

#include <stdbool.h>

enum {
	ARRAY_LAYERED = 0x01, /* Depth is a number of layers */
	ARRAY_CUBEMAP = 0x04, /* Depth is a number of faces */
	ARRAY_SPARSE = 0x40,  /* the program maps memory of its own into it */
	ARRAY_DEFERRED = 0x80,
};

#define ARRAY_SMALL (UINT64_C(1) << 20) /* up to this much, arrays share chunks of 2 MiB */

/* Bytes of an array of @levels mipmaps (1: of none), before rounding to granules. 0: it takes none of
 * its own. UINT64_MAX: too large for a number. */
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);

/* The same at the least, without padding: less than that no driver takes. */
uint64_t array_texels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);
