/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda-api.h"

#include <stdbool.h>

/* Maximum size of a pool on a GPU of the slice: the slice's limit (@limit, bytes) in whole pieces, at least
 * one, and no more than the program wants (0: the driver's default). */
size_t pool_max(size_t wanted, uint64_t limit);
