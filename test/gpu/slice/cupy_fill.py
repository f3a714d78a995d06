# SPDX-License-Identifier: Apache-2.0
"""CuPy fills its slice, by its pool and by the driver's. Argument: the limit."""
import sys

import cupy
from common import say

limit = int(sys.argv[1])
free, total = cupy.cuda.runtime.memGetInfo()


def fill():
    held = []
    try:
        while True:
            held.append(cupy.ones(256 << 20, dtype=cupy.uint8))
    except (cupy.cuda.memory.OutOfMemoryError, cupy.cuda.runtime.CUDARuntimeError) as e:
        return len(held), type(e).__name__
    finally:
        held.clear()
        cupy.get_default_memory_pool().free_all_blocks()


own, first = fill()
cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
driver, second = fill()
say("cupy", total == limit and 0 < own * (256 << 20) < limit and 0 < driver * (256 << 20) < limit,
    total=total, own_pool=own, own_error=first, async_pool=driver, async_error=second)
