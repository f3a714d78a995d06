/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "abi/cuda-api.h"

#include <stdbool.h>

/* How large a pool of a slice's GPU may be: the limit, in what pools grow by, and no more than the
 * program wants (0: what the driver thinks best). @limit: bytes of the slice. */
size_t pool_max(size_t wanted, uint64_t limit);
