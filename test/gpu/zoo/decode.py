# SPDX-License-Identifier: Apache-2.0
"""
decode.py [KIND]: generates token after token from a CUDA graph, as servers of language models do: graph, wait, 0.1 to
0.4 ms of CPU, next token. Kinds differ in what is around the graph:

plain     nothing: the graph takes the token of the one before
inputs    three small copies before the graph, each awaited
logits    the logits are copied to the host, which takes the largest, and the token is copied back
sample    a few kernels behind the graph draw the token, and its number is awaited
all       all of these
nodes     the graph has copies between its kernels, which engines of their own may do: two a layer
branches  the graph has two branches in each layer
fat       the graph is 200 products that read 2.3 GB and nothing else

threads   the logits are copied to the host, and all its cores draw the token

Options of a window: "kind=KIND" takes another kind; "wait=block" waits by an event that blocks the thread;
"cores=N" keeps the process on N cores; "lock=PATH" holds the file's lock for each token (so tokens of
several alternate); "trace=PATH" writes there when each layer of each token ran on the GPU, and when the CPU launched
and waited.
"""
import contextlib
import fcntl
import json
import os
import random
import sys

import torch
from llama import CONTEXT, HIDDEN, LAYERS, VOCABULARY, WIDE, Model, capture
from program import digest, now_ns, serve_rounds, spin

KINDS = {"plain": (), "inputs": ("inputs",), "logits": ("logits",), "sample": ("sample",),
         "all": ("inputs", "sample", "logits"), "nodes": (), "branches": (), "fat": (), "threads": ("threads",)}
KIND = sys.argv[1] if len(sys.argv) > 1 else "plain"
TOKENS = 128
torch.manual_seed(7)
torch.set_grad_enabled(False)
torch.backends.cuda.enable_cudnn_sdp(False)  # not deterministic, nor the next one
torch.backends.cuda.enable_mem_efficient_sdp(False)
model = Model()
ids = torch.zeros(1, dtype=torch.long, device="cuda")
pos = torch.zeros(1, dtype=torch.long, device="cuda")
one = torch.ones(1, dtype=torch.long, device="cuda")
mask = torch.zeros(CONTEXT, device="cuda")
host_ids, host_pos = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
host_mask, host_logits = torch.zeros(CONTEXT), torch.zeros(1, VOCABULARY, dtype=torch.bfloat16)
generator = torch.Generator(device="cuda")


def token(between=lambda i: None):
    logits = model(ids, pos, between)
    ids.copy_(logits.argmax(-1))
    pos.add_(one)
    return logits


slots = torch.zeros(2, 4, HIDDEN, device="cuda", dtype=torch.bfloat16)
vector = torch.ones(1, HIDDEN, device="cuda", dtype=torch.bfloat16)


def copy_between(i):
    slots[0, 1].copy_(slots[0, 0])
    slots[1, 1].copy_(slots[1, 0])


def branch_between(i):
    here, side = torch.cuda.current_stream(), branch_between.side
    side.wait_stream(here)
    with torch.cuda.stream(side):
        slots[0].mul_(1)
    slots[1].mul_(1)
    here.wait_stream(side)


branch_between.side = torch.cuda.Stream()


def products():
    x = vector
    for i in range(100):
        w = model.layers[i % LAYERS]
        x = torch.nn.functional.linear(torch.nn.functional.linear(x, w.up[:WIDE]), w.down)
    return x


graph, logits = capture(token)
graphs = {"nodes": lambda: token(copy_between), "branches": lambda: token(branch_between), "fat": products}


def graph_of(kind):
    if callable(graphs.get(kind)):
        graphs[kind] = capture(graphs[kind])[0]
    return graphs.get(kind, graph)


def option(options, name):
    return next((o[len(name) + 1:] for o in options if o.startswith(name + "=")), None)


# --- when each layer runs ---

STAMPS = LAYERS + 1


def traced_graph():
    import stamps
    book = stamps.Book(STAMPS)
    return capture(lambda: token(book.stamp))[0], book


traced = None


def want_trace(options):
    global traced
    path = option(options, "trace")
    if path and not traced:
        traced = traced_graph()
    return path


def set_inputs(i):
    ids.copy_(host_ids)
    host_pos[0] = i
    pos.copy_(host_pos)
    mask.copy_(host_mask)


def sample():
    best, at = (logits.float() / 0.8).topk(50)
    ids.copy_(at.gather(1, torch.multinomial(torch.softmax(best, -1), 1, generator=generator))[0])
    host_ids[0] = ids.item()


def read_logits():
    host_logits.copy_(logits)
    host_ids[0] = int(host_logits.argmax())
    ids.copy_(host_ids)


def read_logits_by_threads():
    torch.set_num_threads(16)
    host = logits.cpu().float().expand(4, -1)
    for _ in range(4):
        host = torch.softmax(host, -1)
    torch.set_num_threads(1)


block = torch.cuda.Event(blocking=True)


def wait_blocking():
    block.record()
    block.synchronize()


def use_cores(n):
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(task), range(n))


def lock_of(options):
    path = option(options, "lock")
    if not path:
        return contextlib.nullcontext
    file = open(path, "ab")

    @contextlib.contextmanager
    def hold():
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
    return hold


def rounds(options):
    path, hold = want_trace(options), lock_of(options)
    kind = option(options, "kind") or KIND
    parts = KINDS[kind]
    wait = wait_blocking if option(options, "wait") == "block" else torch.cuda.synchronize
    use_cores(int(option(options, "cores") or os.cpu_count()))
    replay = (traced[0] if path else graph_of(kind)).replay
    draw = random.Random(7)
    model.forget()
    generator.manual_seed(7)
    host_ids[0] = 1
    ids.fill_(1)
    pos.zero_()
    torch.cuda.synchronize()
    cpu = []
    if path:
        traced[1].reset()
    for i in range(TOKENS):
        with hold():
            began = now_ns()
            if "inputs" in parts:
                set_inputs(i)
            replay()
            launched = now_ns()
            if "sample" in parts:
                sample()
            wait()
            if "logits" in parts:
                read_logits()
            if "threads" in parts:
                read_logits_by_threads()
            cpu.append((began, launched, now_ns()))
        spin(draw.uniform(0.0001, 0.0004))
        yield
    if path:
        with open(path, "a", encoding="ascii") as f:
            f.write(json.dumps({"cpu": cpu, "gpu": traced[1].read(TOKENS), "offset": traced[1].offset}) + "\n")
    return digest(logits)


serve_rounds(rounds)
