/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "container/cuda/driver.h"

#include <stdint.h>

/* The calling thread's context, as rows name it; 0: none. Thread: any. Cost: one call of the driver. */
uint64_t current_context(void);
