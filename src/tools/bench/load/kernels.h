/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Text of kernels.ptx, with a final NUL. */
#include <stddef.h>

extern const char load_kernels[];
extern const size_t load_kernels_len;
