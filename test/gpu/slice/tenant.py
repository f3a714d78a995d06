# SPDX-License-Identifier: Apache-2.0
"""
Two tenants. "work SECONDS": trains a small model, prints its rate and a digest of its weights, which
depends on nothing but the number of steps. "greedy SECONDS": allocates without bound. "quiet SECONDS":
holds a context and does nothing.
"""
import hashlib
import sys
import time

import torch
from common import say

mode, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds
if mode == "quiet":
    torch.ones(1, device="cuda")
    time.sleep(seconds)
    say("tenant-quiet", True)
if mode == "greedy":
    errors, most = 0, 0
    held = []
    while time.monotonic() < end:
        try:
            held.append(torch.empty(512 << 20, dtype=torch.uint8, device="cuda"))
            most = max(most, len(held))
        except torch.OutOfMemoryError:
            errors += 1
            if errors % 50 == 0:
                held.clear()
                torch.cuda.empty_cache()
            time.sleep(0.002)
    say("tenant-greedy", errors > 0, errors=errors, most=most * (512 << 20))

torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
width = 4096
w = torch.randn(width, width, device="cuda") / width ** 0.5
x = torch.randn(width, width, device="cuda")
held = torch.zeros(int(20e9), dtype=torch.uint8, device="cuda")
digests, rates, steps = set(), [], 0
while time.monotonic() < end:
    y, t = x, time.perf_counter()
    for _ in range(40):
        y = torch.tanh(y @ w)
    torch.cuda.synchronize()
    rates.append(40 / (time.perf_counter() - t))
    digests.add(hashlib.sha256(y.cpu().numpy().tobytes()).hexdigest()[:16])
    steps += 40
rates.sort()
say("tenant-work", len(digests) == 1 and int(held.max()) == 0, digest=sorted(digests)[0],
    digests=len(digests), steps=steps, per_s="%.2f" % rates[len(rates) // 2],
    worst_per_s="%.2f" % rates[0])
