# SPDX-License-Identifier: Apache-2.0
"""Bursts of prefill: a prompt of 512 tokens every 50 ms, as a server of prompts has them."""
import time

import torch
from llama import CONTEXT, Model
from program import AFTER_NS, digest, now_ns, serve, summary

EVERY_NS = 50_000_000
torch.manual_seed(7)
torch.set_grad_enabled(False)
model = Model()
ids = torch.arange(CONTEXT, device="cuda")


def burst():
    logits = model(ids, None)
    torch.cuda.synchronize()
    return logits


def run(t0, t1, _):
    begins, ends, digests = [], [], set()
    due = now_ns()
    while now_ns() < t1 + AFTER_NS:
        due += EVERY_NS
        time.sleep(max(0, due - now_ns()) / 1e9)
        begins.append(min(due, now_ns()))
        logits = burst()
        ends.append(now_ns())
        if len(ends) % 16 == 1:
            digests.add(digest(logits))
    return summary(ends, digests, t0, t1, begins)


burst()
serve(run)
