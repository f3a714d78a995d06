# SPDX-License-Identifier: Apache-2.0
"""What clients of MPS get done side by side, how long one of them waits, and what is charged."""
import json
import os
import subprocess
import sys
import time

from cluster import by_percent, replicas, slices
from node import median, now_ns, percentile
from shares import alone_rate, burn, calibrate_bursts, in_span, measure, say_bursts, stop, together

# A kernel of low occupancy: 16 blocks of 256 threads, 0.088 ms.
SMALL_BLOCKS, SMALL_US = 16, 88
TENANTS = 4
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "two-models", "two-models.py")
EXAMPLE_S = 60


def times(node, n):
    return 1 if node.sim else n


def small(node):
    """Arguments of cuda-burn."""
    made = node.start(None, "calibrate", "cuda-burn", "--kernel-us", SMALL_US, "--blocks", SMALL_BLOCKS,
                      "--calibrate-only").wait(60)
    node.result("calibrate", rounds=made["rounds"], kernel_ns=made["kernel_ns"], blocks=made["blocks"])
    return ["--work", made["rounds"], "--blocks", SMALL_BLOCKS]


def throughput(node):
    args, totals = small(node), {}

    def run(kind, places, **more):
        rates, _, _ = measure(node, [(p, args) for p in places], node.seconds)
        totals.setdefault(kind, []).append(sum(rates))
        node.result("throughput", what=kind, tenants=len(places), total_per_s=sum(rates),
                    each="/".join(f"{r:.0f}" for r in rates), **more)

    run("alone", [None])
    node.configure(replicas(TENANTS, memory="equal", compute="fair"), TENANTS)
    pods = [node.pod(f"t{i}") for i in range(TENANTS)]
    bare = node.start_bare()
    # In turn, and each as often first, so that a machine that grows slower favours none.
    for i in range(times(node, 4)):
        for kind in ("bare-mps", "gpuslice")[::-1 if i % 2 else 1]:
            run(kind, [bare] * TENANTS if kind == "bare-mps" else pods,
                **({} if kind == "bare-mps" else {"told": pods[0].told()}))
    node.delete_pods()
    node.configure(replicas(TENANTS), TENANTS)
    plain = [node.pod(f"q{i}") for i in range(TENANTS)]
    for _ in range(times(node, 2)):
        run("gpuslice-no-isolation", plain, told=plain[0].told())
    run("time-slicing", [None] * TENANTS)
    base = median(totals["bare-mps"])
    node.result("throughput-ratio", **{f"{k.replace('-', '_')}_of_bare_mps": 100 * median(v) / base for k, v in totals.items()},
                gpuslice_worst=100 * min(totals["gpuslice"]) / max(totals["bare-mps"]),
                by_round="/".join(f"{100 * o / b:.2f}" for o, b in zip(totals["gpuslice"], totals["bare-mps"])))


def profile(name, weight=1, count=1, **more):
    return {"name": f"nvidia.com/{name}", "count": count, "weight": weight, "memory": "10Gi", **more}


def latency_and_batch(node, compute):
    """Pods of both classes on the GPU: (the one, the three)."""
    node.delete_pods()
    node.configure(slices(profile("lat", compute=compute, **{"class": "latency"}),
                          profile("batch", count=3, compute=compute)), 4)
    return node.pod(f"lat-{compute}", "nvidia.com/lat"), [node.pod(f"batch-{compute}{i}", "nvidia.com/batch") for i in range(3)]


def latency(node):
    seconds = node.seconds
    calibrate_bursts(node)
    alone_rate(node)
    p99 = {}

    def run(name, place, batch, **more):
        took = say_bursts(node, name, place, batch, seconds, **more)
        p99.setdefault(name, []).append(percentile(took, 99))

    run("latency-alone", None, [])
    run("latency-time-slicing", None, [None] * 3)
    bare = node.start_bare()
    run("latency-mps-alone", bare, [])
    run("latency-mps", bare, [bare] * 3)
    one, batch = latency_and_batch(node, "capped")
    told = {"told_latency": one.told(), "told_batch": batch[0].told()}
    run("latency-gpuslice-alone", one, [], **told)
    for i in range(times(node, 3)):
        for kind in ("bare", "ours")[::-1 if i % 2 else 1]:
            if kind == "bare":
                run("latency-mps-25", bare, [by_percent(bare, 25)] * 3)
            else:
                run("latency-gpuslice", one, batch)
    one, batch = latency_and_batch(node, "fair")
    run("latency-gpuslice-fair", one, batch, told_latency=one.told(), told_batch=batch[0].told())
    node.result("latency-p99", **{k[8:].replace("-", "_") + "_ms": median(v) for k, v in p99.items()})


def weights(node):
    """What multiprocessors each sees, and what all get done where each wants all of its own."""
    wanted = (10, 20, 30, 40)
    node.configure(slices(*(profile(f"w{w}", weight=w, compute="capped") for w in wanted)), len(wanted))
    pods = [node.pod(f"w{w}", f"nvidia.com/w{w}") for w in wanted]
    whole = node.try_out(None)["sms"]
    seen = [node.try_out(pod) for pod in pods]
    for w, pod, f in zip(wanted, pods, seen):
        node.result("weights", weight=w, told=pod.told(), mps=f.get("mps"), sms=f.get("sms"), of=whole,
                    percent=100 * f.get("sms", 0) / whole)
    burns = [burn(node, pod, f"burn-{pod}") for pod in pods]
    t0, t1 = together(node, burns, node.seconds)
    ends = stop(burns)
    # An iteration counts as much as it has blocks.
    work = [in_span(b.windows(), t0, t1) / node.seconds * e["sms"] / whole for b, e in zip(burns, ends)]
    node.result("weights-work", total_of_alone=100 * sum(work) / alone_rate(node),
                shares="/".join(f"{100 * w / sum(work):.2f}" for w in work),
                sms="/".join(str(e["sms"]) for e in ends))


def accounting(node):
    node.configure(replicas(2, memory="equal", compute="fair"), 2)
    pods = [node.pod(f"a{i}") for i in range(2)]
    for kind, programs in (("one", pods[:1]), ("both", pods), ("both-small", pods)):
        args = small(node) if kind == "both-small" else []
        burns = [burn(node, pod, f"burn-{pod}", *args) for pod in programs]
        for b in burns:
            b.ready()
        time.sleep(0.5)
        before, at = [node.account_of(p) for p in programs], now_ns()
        busy = node.busy_ns()
        time.sleep(node.seconds)
        after, span = [node.account_of(p) for p in programs], now_ns() - at
        busy = node.busy_ns() - busy
        stop(burns)
        charged = [(b["charged_ns"] - a["charged_ns"]) / span for a, b in zip(before, after)]
        node.result("accounting", what=kind, wall_s=span / 1e9, charged_percent="/".join(f"{100 * c:.2f}" for c in charged),
                    sum_percent=100 * sum(charged), busy_percent=100 * busy / span)


def two_models(node):
    """The example, as a person runs it."""
    if not os.path.exists(EXAMPLE) or subprocess.run([sys.executable, "-c", "import torch"], env=node.env, check=False,
                                                     capture_output=True).returncode:
        node.result("two-models", result="skipped")
        return
    done = subprocess.run([sys.executable, EXAMPLE, "--compare", "--seconds", "8"], env=node.env, capture_output=True,
                          text=True, check=False, timeout=EXAMPLE_S)
    node.note(done.stdout + done.stderr)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr)[-300:])
    for line in done.stdout.split("\n\n")[-1].strip().splitlines():
        node.result("two-models", line=json.dumps(" ".join(line.split())))
