# SPDX-License-Identifier: Apache-2.0
"""Real programs side by side: nothing breaks, results are those of one alone, shares hold."""
import os
import sys
import tempfile

from shares import rare

HERE = os.path.dirname(os.path.abspath(__file__))


def python(node, go, place, name, program, *args):
    env = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
           "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0", "TURNS_GO": go}
    full = [f"{k}={v}" for k, v in env.items()]
    return node.start(place, name, "/usr/bin/env", *full, sys.executable, os.path.join(HERE, program), *args)


def at_once(node, places, programs, seconds):
    """All begin at the same moment."""
    go = os.path.join(tempfile.mkdtemp(dir=node.work), "go")
    procs = [python(node, go, p, n, *a, seconds).ready() for p, (n, *a) in zip(places, programs)]
    with open(go, "w", encoding="ascii"):
        pass
    return [p.wait(seconds + 300) for p in procs]


def pair(node, name, one, two, seconds):
    """Each alone and bare, and held to what THROTTLED lets through; then both stock, then both in slices of weight 1
    and 1, then 1 and 3, then with the second one of class latency."""
    def show(kind, rows):
        node.result(name, place=kind, **{f"{r['name']}_per_s": r["per_s"] for r in rows},
                    **{f"{r['name']}_p99_ms": r["p99_ms"] for r in rows})

    def run(places, programs=(one, two)):
        return at_once(node, places, programs, seconds)

    def compare(rows):
        for mine, bare in zip(rows, alone):
            if mine["digest"] != bare["digest"]:
                raise RuntimeError(f"{mine['name']} computes {mine['digest']}, {bare['digest']} alone")
        return rows

    alone = [run([None], [program])[0] for program in (one, two)]
    show("alone", alone)
    other = rare(node)
    show("metered", [run([node.slice(name + "1")], [program])[0] for program in (one, two)])
    other.kill()
    show("stock", compare(run([None, None])))
    for kind, second in (("equal", {}), ("1:3", {"weight": 3}), ("batch+latency", {"cls": "latency"})):
        show(kind, compare(run([node.slice(name + "1"), node.slice(name + "2", **second)])))
    node.result(name, digests="same")


def torch(node):
    pair(node, "torch", ["train", "work.py", "train"], ["infer", "work.py", "infer"], int(node.seconds))


def decode(node):
    pair(node, "decode", ["train", "work.py", "train"], ["decode", "work.py", "decode"], int(node.seconds))


def inferers(node):
    """Several that infer, each launched kernel by kernel, so that none keeps the GPU busy: of what one has alone."""
    seconds, program = int(node.seconds), ["infer", "work.py", "infer"]
    alone = at_once(node, [None], [program], seconds)[0]
    for n in (2, 4):
        slices = [node.slice(f"infer{i}") for i in range(n)]
        of = {}
        for kind, places in (("stock", [None] * n), ("ours", slices)):
            rows = at_once(node, places, [program] * n, seconds)
            of[kind] = "/".join(f"{100 * r['per_s'] / alone['per_s']:.1f}" for r in rows)
            if any(r["digest"] != alone["digest"] for r in rows):
                raise RuntimeError(f"one of {n} computes otherwise than alone, {kind}")
        node.result("inferers", processes=n, alone_per_s=alone["per_s"], digests="same", **of)


def jax(node):
    pair(node, "jax", ["train", "work.py", "train"], ["jax", "jax_work.py"], int(node.seconds))
