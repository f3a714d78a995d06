# SPDX-License-Identifier: Apache-2.0
"""A loop that decodes as a language model does, from a CUDA graph; and the same without one."""
import sys
import time

import torch
from common import say

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
torch.manual_seed(1)
width, layers = 2048, 24
w = [torch.randn(width, width, device="cuda", dtype=torch.float16) / width ** 0.5
     for _ in range(layers)]
x = torch.randn(1, width, device="cuda", dtype=torch.float16)
start = x.clone()


def step(y):
    for m in w:
        y = torch.nn.functional.gelu(y @ m)
    return y / (y.norm() + 1e-3)


with torch.no_grad():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(x)
    x.copy_(start)
    torch.cuda.synchronize()
    t = time.perf_counter()
    for _ in range(steps):
        graph.replay()
        x.copy_(out)
    torch.cuda.synchronize()
    rate = steps / (time.perf_counter() - t)
    y = start.clone()
    for _ in range(steps):
        y = step(y)
    same = torch.equal(x, y) or torch.allclose(x.float(), y.float(), atol=1e-2)
say("decode", same, steps=steps, per_s="%.1f" % rate)
