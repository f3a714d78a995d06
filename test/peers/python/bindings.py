# SPDX-License-Identifier: Apache-2.0
"""cuda.bindings: the driver's interface as Python has it. Prints what it went through; ends with an error at the first surprise."""
import numpy as np
from cuda.bindings import driver as d

PTX = b"""
.version 8.0
.target sm_70
.address_size 64
.visible .global .align 4 .b8 table[64];
.visible .entry scale(.param .u64 p, .param .f32 by) { ret; }
\0"""


def ok(result):
    assert result[0] == d.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) == 2 else result[1:]


def device():
    ok(d.cuInit(0))
    assert ok(d.cuDeviceGetCount()) >= 1
    dev = ok(d.cuDeviceGet(0))
    name = ok(d.cuDeviceGetName(64, dev)).split(b"\0")[0].decode()
    total = ok(d.cuDeviceTotalMem(dev))
    ok(d.cuCtxSetCurrent(ok(d.cuDevicePrimaryCtxRetain(dev))))
    free, all_of_it = ok(d.cuMemGetInfo())
    assert 0 < free <= all_of_it <= total, (free, all_of_it, total)
    return name, all_of_it


def memory():
    want = np.arange(1 << 18, dtype=np.float32)
    got = np.zeros_like(want)
    p, q = (ok(d.cuMemAlloc(want.nbytes)) for _ in range(2))
    ok(d.cuMemcpyHtoD(p, want.ctypes.data, want.nbytes))
    ok(d.cuMemcpyDtoD(q, p, want.nbytes))
    ok(d.cuMemcpyDtoH(got.ctypes.data, q, want.nbytes))
    assert (want == got).all()
    ok(d.cuMemsetD32(q, 7, 1 << 18))
    ok(d.cuMemcpyDtoH(got.ctypes.data, q, want.nbytes))
    assert (got.view(np.uint32) == 7).all()
    ok(d.cuMemFree(p))
    ok(d.cuMemFree(q))


def pools(dev=0):
    stream = ok(d.cuStreamCreate(0))
    p = ok(d.cuMemAllocAsync(1 << 20, stream))
    ok(d.cuMemFreeAsync(p, stream))
    ok(d.cuStreamSynchronize(stream))
    ok(d.cuStreamDestroy(stream))


def kernels():
    module = ok(d.cuModuleLoadData(PTX))
    f = ok(d.cuModuleGetFunction(module, b"scale"))
    at, size = ok(d.cuModuleGetGlobal(module, b"table"))
    assert size == 64
    stream, begin, end = ok(d.cuStreamCreate(0)), ok(d.cuEventCreate(0)), ok(d.cuEventCreate(0))
    p = ok(d.cuMemAlloc(4096))
    args = (np.array([int(p)], dtype=np.uint64), np.array([2], dtype=np.float32))
    pointers = np.array([a.ctypes.data for a in args], dtype=np.uint64)
    ok(d.cuEventRecord(begin, stream))
    for _ in range(10):
        ok(d.cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, stream, pointers.ctypes.data, 0))
    ok(d.cuEventRecord(end, stream))
    ok(d.cuEventSynchronize(end))
    assert ok(d.cuEventElapsedTime(begin, end)) >= 0
    ok(d.cuMemFree(p))
    ok(d.cuModuleUnload(module))


def graphs():
    stream = ok(d.cuStreamCreate(d.CUstream_flags.CU_STREAM_NON_BLOCKING))
    p = ok(d.cuMemAlloc(4096))
    ok(d.cuStreamBeginCapture(stream, d.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    ok(d.cuMemsetD8Async(p, 1, 4096, stream))
    graph = ok(d.cuStreamEndCapture(stream))
    run = ok(d.cuGraphInstantiate(graph, 0))
    for _ in range(3):
        ok(d.cuGraphLaunch(run, stream))
    ok(d.cuStreamSynchronize(stream))
    got = np.zeros(4096, dtype=np.uint8)
    ok(d.cuMemcpyDtoH(got.ctypes.data, p, 4096))
    assert (got == 1).all()


def errors():
    assert d.cuMemAlloc(1 << 60)[0] == d.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert d.cuModuleLoadData(b"no module\0")[0] == d.CUresult.CUDA_ERROR_INVALID_IMAGE


name, total = device()
memory()
pools()
kernels()
graphs()
errors()
print(f"ok name={name!r} mib={total >> 20}")
