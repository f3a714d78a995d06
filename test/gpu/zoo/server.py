# SPDX-License-Identifier: Apache-2.0
"""
server.py TRACE [FACTOR]: an open-loop server. Requests come when TRACE says, FACTOR times as fast, whether the last one is
done or not, and each is a few decode steps by its number of tokens. A step here is a request; its time counts
from when it came.

TRACE is a file of lines "MILLISECONDS TOKENS".
"""
import sys
import time

import torch
from llama import Model, capture
from program import digest, now_ns, serve, summary

factor = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
with open(sys.argv[1], encoding="ascii") as f:
    requests = [(int(float(at) * 1e6 / factor), max(1, int(n) // 16)) for at, n in map(str.split, f)]

torch.manual_seed(7)
torch.set_grad_enabled(False)
model = Model()
ids = torch.ones(1, dtype=torch.long, device="cuda")
pos = torch.zeros(1, dtype=torch.long, device="cuda")
graph, logits = capture(lambda: model(ids, pos))


def answer(steps):
    for _ in range(steps):
        graph.replay()
        torch.cuda.synchronize()


def run(t0, t1, _):
    begins, ends, digests = [], [], set()
    start = now_ns()
    for at, steps in requests:
        due = start + at
        if due > t1:
            break
        time.sleep(max(0, due - now_ns()) / 1e9)
        answer(steps)
        begins.append(due)
        ends.append(now_ns())
        if len(ends) % 16 == 1:
            digests.add(digest(logits))
    return summary(ends, digests, t0, t1, begins)


answer(1)
serve(run)
