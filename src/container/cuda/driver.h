/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The driver's functions, as its ABI declares them. This library defines those marked as hooks in
 * container/loader/cuda.txt. REAL() calls any of them in the driver. */
#include "abi/cuda-functions.h"
#include "container/loader/forward.h"

#define DECLARE(name, params) CUresult name params;
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE
