/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda-api.h"

#include <stdbool.h>

/* Bits of .other of an ALLOC_HANDLE row. */
enum {
	HANDLE_LENT = 1,   /* an uncounted holder may have it: only NVML tells when it goes */
	HANDLE_UNSEEN = 2, /* NVML does not count it */
};

/* Marks the memory mapped from @dptr on as lent: other holders may have it from now on. False: no mapping
 * begins there. */
bool mapping_lend(CUdeviceptr dptr, size_t bytes);
