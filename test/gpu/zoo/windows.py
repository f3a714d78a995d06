# SPDX-License-Identifier: Apache-2.0
"""Windows in which programs of the zoo run side by side, and what each part of zoo.py compares."""
import itertools
import json
import os
import subprocess
import sys
import time

from node import Proc, median, now_ns
from shares import alone_rate, burn, in_span, rare, rounds, stop

HERE = os.path.dirname(os.path.abspath(__file__))
SETTLE_NS = 600_000_000
WITHIN_S = 240  # a program answers

PROGRAMS = {
    "decode": ["decode.py"],
    "inputs": ["decode.py", "inputs"],
    "sample": ["decode.py", "sample"],
    "full": ["decode.py", "all"],
    "prefill": ["prefill.py"],
    "generate": ["hf.py", "generate"],
    "static": ["hf.py", "static"],
    "train": ["hf.py", "train"],
    "loader": ["hf.py", "loader"],
    "compile": ["hf.py", "compile"],
    "conv": ["vision.py", "conv"],
    "unet": ["vision.py", "unet"],
    "server": ["server.py", os.path.join(HERE, "..", "..", "data", "azure-llm", "conv-first-600.csv"), "8"],
    "jax": ["jax_train.py"],
    "cupy": ["cupy_work.py"],
    "ddp": ["ranks.py", "ddp"],
    "fsdp": ["ranks.py", "fsdp"],
}
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTHONDONTWRITEBYTECODE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
               "XLA_FLAGS": "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0", "NCCL_NVLS_ENABLE": "0",
               "HF_HUB_OFFLINE": "1", "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


class Program(Proc):
    """One process of the zoo, which waits for windows."""

    def __init__(self, node, place, name, more=()):
        args = [sys.executable, os.path.join(HERE, PROGRAMS[name][0]), *PROGRAMS[name][1:], *more]
        env = dict(node.env_of(place), **ENVIRONMENT)
        if name in ("train", "loader", "compile", "conv"):
            env["OMP_NUM_THREADS"] = "4"
        super().__init__(node, f"{name}-{place or 'bare'}", args, env, stdin=subprocess.PIPE)
        self.place, self.program, self.windows_told = place, name, 0

    def tell(self, t0, t1, options):
        self.windows_told += 1
        self.popen.stdin.write(f"run {self.windows_told} {t0} {t1} {' '.join(options)}\n".encode())
        self.popen.stdin.flush()

    def answer(self):
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            for line in reversed(self.text().splitlines()):
                if line.startswith("{") and json.loads(line).get("id") == str(self.windows_told):
                    return json.loads(line)
            if self.popen.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} gave no answer: {self.text()[-600:]}")


def window(programs, seconds, options=()):
    """What each says of the same span. OPTIONS: of all, or a function of a program."""
    t0 = now_ns() + SETTLE_NS
    t1 = t0 + int(seconds * 1e9)
    for p in programs:
        p.tell(t0, t1, options(p) if callable(options) else options)
    return [p.answer() for p in programs]


class Group:
    """Programs side by side, in every way of sharing. NAMES: two or more programs; one may be there several times."""

    def __init__(self, node, title, names, ways, mps=True, **slice_more):
        self.node, self.title, self.names, self.digests = node, title, names, {}
        self.slice_more = slice_more
        self.slices = [node.slice(f"{title}{i}", **slice_more) for i in range(len(names))]
        if mps and any(w.startswith("mps") for w in ways):
            mps = node.start_mps()
        self.of = {"bare": [None] * len(names), "ours": self.slices}
        if mps:
            self.of["mps"] = ["mps"] * len(names)
        self.programs = {kind: [Program(node, place, name) for place, name in zip(places, names)]
                         for kind, places in self.of.items() if kind == "bare" or any(w.startswith(kind) for w in ways)}
        for p in itertools.chain(*self.programs.values()):
            p.ready()
        self.rows = {}

    def set(self, shares):
        for name, more in zip(self.slices, shares):
            self.node.slice(name, **{**self.slice_more, **more})

    def measure(self, way, kind, shares=None, options=(), only=None):
        """A window; keeps what came."""
        if kind not in self.programs:
            return None
        if shares:
            self.set(shares)
        programs = [p for i, p in enumerate(self.programs[kind]) if only is None or i == only]
        rows = window(programs, self.node.seconds, options)
        for p, row in zip(programs, rows):
            known = self.digests.setdefault(p.program, row["digest"])
            row["same"] = row["digest"] == known
            if not row["same"]:
                self.node.note(f"{p.name} {way}: digest {row['digest']}, before {known}")
        self.rows.setdefault((way, only), []).append(rows)
        return rows

    def alone(self, i):
        return median([rows[0]["per_s"] for rows in self.rows[("alone", self.names.index(self.names[i]))]])

    def say(self, way, only=None, **more):
        all_rows = self.rows.get((way, only))
        if not all_rows:
            return
        names = self.names if only is None else [self.names[only]]
        base = range(len(self.names)) if only is None else [only]
        rates = [median([rows[i]["per_s"] for rows in all_rows]) for i in range(len(names))]
        fractions = [r / self.alone(b) for r, b in zip(rates, base)]
        same = all(row["same"] for rows in all_rows for row in rows)
        self.node.result(self.title, way=way, n=len(all_rows), programs="+".join(names),
                         per_s="/".join(f"{r:.1f}" for r in rates),
                         of_alone="/".join(f"{100 * f:.1f}" for f in fractions), sum=100 * sum(fractions),
                         p50_ms="/".join(f"{median([rows[i]['p50_ms'] or 0 for rows in all_rows]):.2f}" for i in range(len(names))),
                         p99_ms="/".join(f"{median([rows[i]['p99_ms'] or 0 for rows in all_rows]):.2f}" for i in range(len(names))),
                         digests="same" if same else "DIFFER", **more)


# way: (kind of place, shares)
WAYS = {
    "stock": ("bare", None),
    "ours-1:1": ("ours", [{}, {}]),
    "ours-1:3": ("ours", [{}, {"weight": 3}]),
    "ours-3:1": ("ours", [{"weight": 3}, {}]),
    "ours-latency": ("ours", [{"cls": "latency"}, {}]),
    "mps": ("mps", None),
}


def compare(node, title, names, ways=tuple(WAYS), times=2, metered=True, **more):
    """All ways, in turn, or those of $ZOO_WAYS."""
    ways = [w for w in ways if w in os.environ.get("ZOO_WAYS", w).split()]
    g = Group(node, title, names, ways, **more)
    different = sorted(set(names), key=names.index)
    for t in range(times):
        for name in different:
            i = names.index(name)
            g.measure("alone", "bare", only=i)
            g.measure("slice", "ours", [{}, {}], only=i)
        for way in ways[::-1 if t % 2 else 1]:
            kind, shares = WAYS[way]
            before = {s: node.account(s) for s in g.slices} if kind == "ours" else {}
            g.measure(way, kind, shares)
            for s, was in before.items():
                node.note(f"{title} {way} {s}: {changes(was, node.account(s))}")
    if metered:
        other = rare(node)
        for t in range(times):
            for name in different:
                g.measure("metered", "ours", only=names.index(name))
        other.kill()
    for name in different:
        i = names.index(name)
        for way in ("alone", "slice", "metered"):
            g.say(way, i)
    for way in ways:
        g.say(way)
    return g


def decode(node):
    """Two loops that generate."""
    compare(node, "decode", ["decode", "decode"], ("stock", "ours-1:1", "ours-1:3", "mps"))


def trace(node):
    """Writes down when each layer of two loops ran."""
    g = Group(node, "trace", ["decode", "decode"], ("stock", "ours-1:1"))
    for kind in ("bare", "ours"):
        g.measure(kind, kind, [{}, {}] if kind == "ours" else None,
                  options=lambda p, kind=kind: [f"trace={node.out}/{kind}-{g.programs[kind].index(p)}.jsonl"])


def kinds(node):
    """Two loops that generate, of each kind."""
    g = Group(node, "kinds", ["decode", "decode"], ("stock", "ours-1:1", "mps"))
    for kind in os.environ.get("ZOO_KINDS", "plain inputs logits sample all nodes branches fat").split():
        options = [f"kind={kind.split(',')[0]}", *kind.split(",")[1:]]
        g.digests, g.rows = {}, {}
        g.measure("alone", "bare", only=0, options=options)
        if "ZOO_KINDS" not in os.environ:
            other = rare(node)
            g.measure("metered", "ours", only=0, options=options)
            other.kill()
        g.measure("stock", "bare", options=options)
        before = [node.account(x) for x in g.slices]
        g.measure("ours", "ours", options=options)
        for x, was in zip(g.slices, before):
            node.note(f"kinds {kind} {x}: {changes(was, node.account(x))}")
        g.measure("mps", "mps", options=options)
        if "ZOO_KINDS" not in os.environ:
            g.measure("token-lock", "bare", options=[*options, f"lock={node.work}/lock-{kind}"])
        for way, only in (("alone", 0), ("metered", 0), ("stock", None), ("ours", None), ("mps", None), ("token-lock", None)):
            g.say(way, only, kind=kind)


def changes(was, is_):
    return " ".join(f"{k}={is_[k] - was.get(k, 0)}" for k in sorted(is_)
                    if isinstance(is_[k], int) and not isinstance(is_[k], bool) and is_[k] != was.get(k, 0))


def generate(node):
    compare(node, "generate", ["generate", "train"])


def ranks(node):
    """Training over all GPUs: alone, and two such jobs."""
    for kind in ("ddp", "fsdp"):
        compare(node, kind, [kind, kind], ("stock", "ours-1:1"), times=3, metered=False, mps=False, gpus=range(len(node.uuids)))
        node.end_procs()


def beside(node):
    """Training over all GPUs beside a saturating process on each."""
    gpus = range(len(node.uuids))
    g = Group(node, "beside", ["ddp"], ("stock", "ours"), mps=False, gpus=gpus)
    others = {"bare": [None for _ in gpus], "ours": [node.slice(f"other{i}", gpus=[i]) for i in gpus]}
    had = {}
    alone_rate(node)
    for t in range(2):
        g.measure("alone", "bare", only=0)
        for where, places in list(others.items())[::-1 if t % 2 else 1]:
            burns = [burn(node, place, f"burn{i}", "--device", i) for i, place in zip(gpus, places)]
            for b in burns:
                b.ready()
            t0 = now_ns() + SETTLE_NS
            g.measure(f"{where}-beside", where, only=0)
            stop(burns)
            had.setdefault(where, []).append([in_span(b.windows(), t0, t0 + int(node.seconds * 1e9)) / node.seconds for b in burns])
    for where in others:
        g.say(f"{where}-beside", 0, others="/".join(
            f"{100 * median([rates[i] for rates in had[where]]) / alone_rate(node):.1f}" for i in gpus))


def tenants(node):
    """Many: 16 that saturate, and 48 of which 8 saturate and 40 hardly ever want the GPU."""
    seldom = ["--work", rounds(node) // 40, "--depth", 1, "--sync-every", 1, "--think-us", 200_000]
    base = alone_rate(node)
    for n, busy in ((16, 16), (48, 8)):
        for way in ("stock", "ours"):
            places = [node.slice(f"many{i}", memory=1 << 30) if way == "ours" else None for i in range(n)]
            burns = [burn(node, place, f"many{i}", *([] if i < busy else seldom)) for i, place in enumerate(places)]
            for b in burns:
                b.ready()
            t0 = now_ns() + 2 * SETTLE_NS
            t1 = t0 + int(node.seconds * 1e9)
            time.sleep(max(0, t1 - now_ns()) / 1e9 + 0.1)
            stop(burns)
            rates = [in_span(b.windows(), t0, t1) / node.seconds for b in burns[:busy]]
            total = sum(rates)
            node.result("tenants", way=way, n=n, busy=busy, of_alone=100 * total / base,
                        least_of_share=100 * min(rates) * busy / total, most_of_share=100 * max(rates) * busy / total)


PAIRS = [("prefill", "train"), ("static", "conv"), ("compile", "generate"), ("unet", "decode"), ("jax", "cupy"),
         ("loader", "train"), ("full", "train"), ("server", "train")]


def matrix(node):
    """Pairs of all kinds."""
    for names in PAIRS:
        compare(node, "+".join(names), list(names), ("stock", "ours-1:1", "mps"), times=1)
        node.end_procs()


PARTS = {"decode": decode, "trace": trace, "kinds": kinds, "generate": generate, "ranks": ranks, "beside": beside, "tenants": tenants, "matrix": matrix}
for name, part in PARTS.items():
    part.needs_framework = name != "tenants"
