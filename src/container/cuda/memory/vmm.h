/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda-api.h"

#include <stdbool.h>

/* Bits of .other of a ALLOC_HANDLE. */
enum {
	HANDLE_LENT =
		1, /* may be held by what is not counted here: only NVML tells when it goes */
	HANDLE_UNSEEN = 2, /* NVML does not count it */
};

/* The memory that is mapped from @dptr on may be held by others from now on. False: none is mapped there. */
bool mapping_lend(CUdeviceptr dptr, size_t bytes);
