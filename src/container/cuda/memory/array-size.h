/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that an array takes, from its descriptor alone. The driver lays textures out in blocks. This layout comes
 * from measurements of 30 shapes (H100, driver 580.159.04; the test has them). Pure. Thread: any.
 */
#include "abi/cuda-api.h"

#include <stdbool.h>

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

/* The same as a minimum, without padding: no driver takes less. */
uint64_t array_texels(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels);
