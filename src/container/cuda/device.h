/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "container/cuda/driver.h"

#include <stdint.h>

/* The calling thread's current context, as rows name it; 0: none. Thread: any. Cost: one driver call. */
uint64_t current_context(void);
