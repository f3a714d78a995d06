# SPDX-License-Identifier: Apache-2.0
"""PyTorch fills its slice until its own out-of-memory error, and works on. Argument: the limit."""
import sys

import torch
from common import say

limit = int(sys.argv[1])
free, total = torch.cuda.mem_get_info()
shown = torch.cuda.get_device_properties(0).total_memory
held, message = [], ""
try:
    while True:
        held.append(torch.ones(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as e:
    message = str(e).split("\n")[0]
most = len(held) * (256 << 20)
del held
torch.cuda.empty_cache()
a = torch.randn(2048, 2048, device="cuda")
right = torch.allclose(a @ torch.eye(2048, device="cuda"), a, atol=1e-2)
say("pytorch", total == limit and shown == limit and bool(message) and right and most < limit,
    total=total, properties_total=shown, limit=limit, held=most, right=right,
    conf=torch.cuda.memory.get_allocator_backend(), message=message)
