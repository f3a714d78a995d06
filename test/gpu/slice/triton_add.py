# SPDX-License-Identifier: Apache-2.0
"""Triton compiles and runs a kernel."""
import torch
import triton
import triton.language as tl
from common import say


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


n = 1 << 24
x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
z = torch.empty_like(x)
add[(triton.cdiv(n, 1024),)](x, y, z, n, BLOCK=1024)
say("triton", torch.equal(z, x + y), n=n, version=triton.__version__)
