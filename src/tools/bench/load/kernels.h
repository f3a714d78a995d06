/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* kernels.ptx, ends with NUL. */
#include <stddef.h>

extern const char load_kernels[];
extern const size_t load_kernels_len;
