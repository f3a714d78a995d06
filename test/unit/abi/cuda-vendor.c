/* SPDX-License-Identifier: Apache-2.0 */

/* The numbers of cuda-layout.h as the vendor's header has them. Built only where it is installed. */
#include <cuda.h>
#include <stddef.h>

#include "abi/cuda-layout.h"
#include "cuda-rows.h"

#define S(type, size)           { #type, sizeof(type) },
#define O(type, member, offset) { #type "." #member, offsetof(type, member) },
#define C(constant, value)      { #constant, (unsigned long long)(constant) },

const struct cuda_row cuda_vendor[] = { CUDA_LAYOUT_SIZES(S) CUDA_LAYOUT_OFFSETS(O)
		CUDA_LAYOUT_CONSTANTS(C) };
const size_t cuda_vendor_count = sizeof(cuda_vendor) / sizeof(cuda_vendor[0]);
