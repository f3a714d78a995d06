# SPDX-License-Identifier: Apache-2.0
"""What each program of the zoo does around its work: it sets up once, then works in windows when it is told.

It prints "ready", then reads lines "run ID T0 T1 [OPTION...]" (ns of CLOCK_MONOTONIC). It works from the line on
until T1, and a little longer, so that the others' windows are under load to their end. Then it prints one line of
JSON: the rate within the window, how long steps took, and a digest of what it computed.

Work is done in rounds: each begins with the same state and has the same number of steps, so each must give the
same digest, whoever runs beside it.
"""
import hashlib
import json
import os
import sys
import time

AFTER_NS = 150_000_000
now_ns = time.monotonic_ns


def digest(*tensors):
    """Of tensors of PyTorch, bit for bit."""
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().float().cpu().numpy().tobytes())
    return h.hexdigest()[:16]


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))] if values else None


def rate(ends, t0, t1):
    """Steps a second between the first and the last end within the window."""
    inside = [t for t in ends if t0 <= t <= t1]
    return (len(inside) - 1) * 1e9 / (inside[-1] - inside[0]) if len(inside) > 2 else len(inside) * 1e9 / (t1 - t0)


def summary(ends, digests, t0, t1, begins=None):
    """What a program says of its window. BEGINS: when each step began; default: when the one before ended."""
    begins = begins or [None] + ends[:-1]
    took = [(e - b) / 1e6 for b, e in zip(begins, ends) if b is not None and t0 <= e <= t1]
    return {"per_s": rate(ends, t0, t1), "steps": len(took), "p50_ms": percentile(took, 50),
            "p99_ms": percentile(took, 99), "digest": "/".join(sorted(digests))}


def work_in_window(rounds, t0, t1, options):
    """ROUNDS(options) is a generator of one round: it yields after each step, and returns a digest."""
    ends, digests = [], set()
    while now_ns() < t1 + AFTER_NS:
        steps = rounds(options)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                if done.value:
                    digests.add(done.value)
                break
            ends.append(now_ns())
            if ends[-1] > t1 + AFTER_NS:
                break
    return summary(ends, digests, t0, t1)


def serve(run):
    """RUN(t0, t1, options) returns what is to be said."""
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words and words[0] == "run":
            said = run(int(words[2]), int(words[3]), set(words[4:]))
            print(json.dumps({"id": words[1], **said}), flush=True)
    # Teardown of a framework is not measured.
    sys.stdout.flush()
    os._exit(0)


def serve_rounds(rounds):
    for _ in rounds(set()):  # warm
        pass
    serve(lambda t0, t1, options: work_in_window(rounds, t0, t1, options))


def spin(seconds):
    """Work of the CPU."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
