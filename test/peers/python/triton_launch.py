# SPDX-License-Identifier: Apache-2.0
"""Triton: its compiler and its launcher. What it takes of PyTorch (device, stream), which needs the CUDA runtime, is cuda.core's here."""
import sys
import types
import warnings

from cuda.core import Device

warnings.simplefilter("ignore")
dev = Device()
dev.set_current()
stream = dev.create_stream()


class Tensor:
    dtype = "fp32"

    def __init__(self, bytes):
        self.buffer = dev.allocate(bytes, stream=stream)

    def data_ptr(self):
        return int(self.buffer.handle)


torch = types.ModuleType("torch")
torch.Tensor = Tensor
torch.version = types.SimpleNamespace(hip=None)
torch.cuda = types.SimpleNamespace(
    get_device_capability=lambda d=0: tuple(dev.compute_capability),
    current_stream=lambda d=0: types.SimpleNamespace(cuda_stream=int(stream.handle)),
    current_device=lambda: 0,
    set_device=lambda d: None,
    is_available=lambda: True,
)
sys.modules["torch"] = torch

import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.nvidia.driver import CudaDriver  # noqa: E402
from triton.runtime import driver  # noqa: E402

driver.set_active(CudaDriver())


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask) + tl.load(y + i, mask=mask), mask=mask)


for block in (128, 256):
    add[(4,)](Tensor(4096), Tensor(4096), Tensor(4096), 1024, BLOCK=block)
stream.sync()
print(f"ok name={dev.name!r}")
