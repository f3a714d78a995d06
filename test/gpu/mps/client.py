# SPDX-License-Identifier: Apache-2.0
"""
A process that uses a GPU, for mps.py to look at; and to break.

    client.py PTX look                      what the driver shows it
    client.py PTX fill [--bytes N]          takes memory until there is none or it has so much, keeps it until SIGTERM
    client.py PTX loop [--linger S]         a short kernel each 2 ms until SIGTERM, or until it has an error
    client.py PTX long SECONDS              one kernel
    client.py PTX fault KERNEL              half a second after "ready", a kernel that fails

Prints "ready", and at the end one object as JSON: times are those of the monotonic clock, in ns. An error of CUDA is an
answer, so the exit status is 0 nevertheless. After an error: whether it can still allocate, and have a new context.
"""
import argparse
import ctypes as C
import json
import os
import signal
import time

SMS, MPS = 16, 133  # attributes of a device
OUT_OF_MEMORY = 2
SPIN_NS = 200_000
MIB = 1 << 20


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Gpu:
    """@found: what is known, by name. Of the driver's functions only what this needs."""

    def __init__(self, ptx):
        self.found = {"pid": os.getpid(), "uid": os.getuid()}
        self.cu = C.CDLL("libcuda.so.1")
        self.device, self.context, self.module = C.c_int(), C.c_void_p(), C.c_void_p()
        began = now_ns()
        with open(ptx, "rb") as f:
            text = f.read()
        steps = (("init", lambda: self.cu.cuInit(0)),
                 ("device", lambda: self.cu.cuDeviceGet(C.byref(self.device), 0)),
                 ("context", self.retain),
                 ("module", lambda: self.cu.cuModuleLoadData(C.byref(self.module), text)))
        self.code = 0
        for self.step, call in steps:
            self.code = call()
            if self.code:
                break
        self.found.update(code=self.code, step=self.step, took_ms=(now_ns() - began) / 1e6)

    def retain(self):
        return (self.cu.cuDevicePrimaryCtxRetain(C.byref(self.context), self.device) or
                self.cu.cuCtxSetCurrent(self.context))

    def attribute(self, which):
        v = C.c_int()
        return v.value if self.cu.cuDeviceGetAttribute(C.byref(v), which, self.device) == 0 else None

    def look(self):
        free, total, device = C.c_size_t(), C.c_size_t(), C.c_size_t()
        info = self.cu.cuMemGetInfo_v2(C.byref(free), C.byref(total))
        self.cu.cuDeviceTotalMem_v2(C.byref(device), self.device)
        self.found.update(sms=self.attribute(SMS), mps=self.attribute(MPS), info=info, free=free.value,
                          total=total.value, device_total=device.value)

    def alloc(self, size):
        return self.cu.cuMemAlloc_v2(C.byref(C.c_uint64()), C.c_size_t(size))

    def launch(self, name, ns=None):
        function, value = C.c_void_p(), C.c_uint64(ns or 0)
        params = None if ns is None else (C.c_void_p * 1)(C.addressof(value))
        return (self.cu.cuModuleGetFunction(C.byref(function), self.module, name.encode()) or
                self.cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, params, None))

    def sync(self):
        return self.cu.cuCtxSynchronize()

    def failed(self, code):
        """What is left to a process after an error."""
        self.found.update(code=code, error_ns=now_ns(), alloc=self.alloc(2 * MIB))
        self.cu.cuDevicePrimaryCtxReset_v2(self.device)
        self.found["new_context"] = self.retain()


def ready():
    print("ready", flush=True)


def fill(gpu, a):
    """Down to pieces of 2 MiB, which is what the driver gives out."""
    held, code = 0, 0
    for piece in (512 * MIB, 64 * MIB, 2 * MIB):
        while held + piece <= a.bytes:
            code = gpu.alloc(piece)
            if code:
                break
            held += piece
    gpu.found.update(held=held, code=code)
    print(json.dumps(gpu.found), flush=True)
    ready()
    while not a.over:
        time.sleep(0.01)


def loop(gpu, a):
    loops, gap, last = 0, 0, now_ns()
    ready()
    while not a.over:
        code = gpu.launch("spin", SPIN_NS) or gpu.sync()
        if code:
            gpu.failed(code)
            break
        at = now_ns()
        loops, gap, last = loops + 1, max(gap, at - last), at
        time.sleep(0.002)
    gpu.found.update(loops=loops, longest_gap_ms=gap / 1e6)
    end = time.monotonic() + (a.linger if "error_ns" in gpu.found else 0)
    while time.monotonic() < end:
        time.sleep(0.01)


def long(gpu, a):
    ready()
    gpu.found["code"] = gpu.launch("spin", int(float(a.what) * 1e9)) or gpu.sync()


def fault(gpu, a):
    ready()
    time.sleep(0.5)
    gpu.found["launch_ns"] = now_ns()
    gpu.failed(gpu.launch(a.what) or gpu.sync())
    time.sleep(a.linger)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ptx")
    p.add_argument("mode", choices=("look", "fill", "loop", "long", "fault"))
    p.add_argument("what", nargs="?")
    p.add_argument("--bytes", type=int, default=1 << 60)
    p.add_argument("--linger", type=float, default=0)
    p.add_argument("--uid", type=int)
    a = p.parse_args()
    if a.uid is not None:
        os.setgroups([])
        os.setgid(a.uid)
        os.setuid(a.uid)
    a.over = False

    def over(*_):
        a.over = True

    signal.signal(signal.SIGTERM, over)
    gpu = Gpu(a.ptx)
    if gpu.code == 0:
        gpu.look()
        {"look": lambda *_: None, "fill": fill, "loop": loop, "long": long, "fault": fault}[a.mode](gpu, a)
    gpu.found["end_ns"] = now_ns()
    print(json.dumps(gpu.found), flush=True)


main()
