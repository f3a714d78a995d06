# SPDX-License-Identifier: Apache-2.0
"""
server.py TRACE [FACTOR]: an open-loop server. Requests come when TRACE says, FACTOR times as fast, whether the last one
is done or not. Each has a decode step for each 16 generated tokens. A step of this program is a request; its time counts
from when the request came.

TRACE is a file in Azure's format: "TIMESTAMP,ContextTokens,GeneratedTokens".
"""
import csv
import datetime
import sys
import time

import torch
from llama import Model, capture
from program import digest, now_ns, serve, summary

factor = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0


def read_trace(path):
    """(ns since the first request, decode steps) of each request."""
    with open(path, encoding="ascii") as f:
        rows = [(datetime.datetime.fromisoformat(row["TIMESTAMP"][:26]), int(row["GeneratedTokens"])) for row in csv.DictReader(f)]
    return [(int((at - rows[0][0]).total_seconds() * 1e9 / factor), max(1, tokens // 16)) for at, tokens in rows]


requests = read_trace(sys.argv[1])
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
