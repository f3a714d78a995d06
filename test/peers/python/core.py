# SPDX-License-Identifier: Apache-2.0
"""cuda.core: compiles with NVRTC to PTX and to machine code, loads and launches both."""
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
__device__ float table[100];
extern "C" __global__ void add(const float *a, const float *b, float *c, unsigned long n)
{
	unsigned long i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		c[i] = a[i] + b[i] + table[i % 100];
}
template <typename T> __global__ void zero(T *p) { p[threadIdx.x] = 0; }
"""

dev = Device()
dev.set_current()
stream = dev.create_stream()
arch = "sm_%d%d" % (dev.compute_capability.major, dev.compute_capability.minor)
for target in ("ptx", "cubin"):
    program = Program(CODE, code_type="c++", options=ProgramOptions(std="c++17", arch=arch))
    module = program.compile(target, name_expressions=("zero<double>",))
    add, zero = module.get_kernel("add"), module.get_kernel("zero<double>")
    buffers = [dev.allocate(4096, stream=stream) for _ in range(3)]
    begin = stream.record()
    launch(stream, LaunchConfig(grid=4, block=256), add, *[b.handle for b in buffers], np.uint64(1024))
    launch(stream, LaunchConfig(grid=1, block=512), zero, buffers[0].handle)
    stream.record().sync()
    for b in buffers:
        b.close(stream)
stream.sync()
print(f"ok name={dev.name!r}")
