/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The driver's functions as its ABI declares them: those that this library stands in front of (marked
 * in forward/cuda.txt) are defined here, all can be called by REAL(). */
#include "abi/cuda-functions.h"
#include "container/loader/forward.h"

#define DECLARE(name, params) CUresult name params;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE
