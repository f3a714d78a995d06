# SPDX-License-Identifier: Apache-2.0
"""Numba: arrays, and kernels that it compiles. Copies are done; what a kernel would compute is not."""
import warnings

import numpy as np
from numba import cuda

warnings.simplefilter("ignore")
N = 1024


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def in_shared(a, total):
    part = cuda.shared.array(64, dtype=np.float32)
    part[cuda.threadIdx.x % 64] = a[cuda.grid(1) % a.size]
    cuda.syncthreads()
    cuda.atomic.add(total, 0, part[0])


want = np.arange(N, dtype=np.float32)
a, b, c = cuda.to_device(want), cuda.to_device(np.ones(N, np.float32)), cuda.device_array(N, np.float32)
assert (a.copy_to_host() == want).all()
stream, begin, end = cuda.stream(), cuda.event(), cuda.event()
begin.record(stream)
add[4, 256, stream](a, b, c)
in_shared[4, 256, stream](a, c)
end.record(stream)
end.synchronize()
assert cuda.event_elapsed_time(begin, end) >= 0
with cuda.pinned(want):
    d = cuda.to_device(want, stream=stream)
    stream.synchronize()
assert (d.copy_to_host() == want).all()
managed = cuda.managed_array(N, np.int32)
managed[:] = 7
cuda.synchronize()
assert (managed == 7).all()
print(f"ok name={cuda.get_current_device().name!r}")
