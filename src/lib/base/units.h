/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sizes in bytes. An amount in double divided by one of them stays a double, exactly: each is a power of two. A
 * signed amount needs a signed size: (int64_t)MIB.
 */
#include <stdint.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
