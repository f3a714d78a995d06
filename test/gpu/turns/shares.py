# SPDX-License-Identifier: Apache-2.0
"""Who gets how much of the GPU, and what all get together. An iteration is a kernel of fixed work, so
that iterations measure GPU time whatever anybody's accounts say."""
import bisect
import os
import shutil
import subprocess
import time

from node import median, now_ns, percentile

KERNEL_US = 250
DEPTH = 16
SETTLE_NS = 500_000_000  # after all have begun
SECOND_NS = 1_000_000_000
WINDOW_MS = 2  # of a turn of 25: between two lines a straight one is drawn


def machine(node):
    node.result("machine", look=node.look.replace(" ", ","), cores=os.cpu_count(), kernel=os.uname().release)
    if not node.sim:
        text = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,compute_mode,mig.mode.current,"
                               "clocks.sm,temperature.gpu", "--format=csv,noheader"],
                              capture_output=True, text=True, check=True).stdout
        node.result("machine", smi=text.strip().replace(" ", ""))


def rounds(node):
    """The work of one kernel, measured once."""
    if node.rounds is None:
        made = node.start(None, "calibrate", "cuda-burn", "--kernel-us", KERNEL_US, "--calibrate-only").wait(60)
        node.rounds, node.sms = made["rounds"], made["sms"]
        node.result("calibrate", rounds=node.rounds, kernel_ns=made["kernel_ns"])
    return node.rounds


def burn(node, place, name, *args):
    seconds = 0  # until it is told
    return node.start(place, name, "cuda-burn", "--work", rounds(node), "--depth", DEPTH, "--seconds", seconds,
                      "--window-ms", WINDOW_MS, *args)


def done_at(rows, t):
    """Iterations until t, between two lines by the line between them."""
    i = bisect.bisect_right(rows, (t, float("inf")))
    if not 0 < i < len(rows):
        raise RuntimeError("a program ended too early")
    (t0, n0), (t1, n1) = rows[i - 1], rows[i]
    return n0 + (n1 - n0) * (t - t0) / max(1, t1 - t0)


def in_span(rows, t0, t1):
    return done_at(rows, t1) - done_at(rows, t0)


def together(node, burns, seconds):
    """Runs what has been started; the span in which all were at work."""
    for b in burns:
        b.ready()
    t0 = now_ns() + SETTLE_NS
    t1 = t0 + int(seconds * 1e9)
    time.sleep((t1 - now_ns()) / 1e9 + 0.1)
    return t0, t1


def stop(burns):
    """What each says at its end."""
    for b in burns:
        b.terminate()
    return [b.wait(60) for b in burns]


def measure(node, programs, seconds):
    """Runs (place, arguments of cuda-burn) side by side: iterations a second of each, and their lines
    with the span."""
    burns = [burn(node, place, f"burn{i}", *args) for i, (place, args) in enumerate(programs)]
    t0, t1 = together(node, burns, seconds)
    stop(burns)
    rows = [b.windows() for b in burns]
    return [in_span(r, t0, t1) / seconds for r in rows], rows, (t0, t1)


def measure_plain(node, places, seconds):
    return measure(node, [(place, []) for place in places], seconds)


def alone_rate(node):
    """Iterations a second of one that is bare and alone, measured once."""
    if node.alone_rate is None:
        node.alone_rate = measure_plain(node, [None], node.seconds / 2)[0][0]
    return node.alone_rate


def any_second(t0, t1):
    """Where a second begins that is within the span."""
    return range(t0, t1 - SECOND_NS + 1, 50_000_000)


def worst_second(rows, t0, t1, wanted):
    """The largest difference from its share, in points, of any process in any second."""
    worst = 0.0
    for t in any_second(t0, t1):
        part = [in_span(r, t, t + SECOND_NS) for r in rows]
        total = sum(part) or 1
        worst = max([worst] + [abs(100 * p / total - w) for p, w in zip(part, wanted)])
    return worst


def say(node, name, rates, rows, span, wanted):
    """Writes down who had how much of what was wanted; returns the shares."""
    total = sum(rates)
    part = [100 * r / total for r in rates]
    node.result(name, total_per_s=total, of_alone=100 * total / alone_rate(node),
                shares="/".join(f"{p:.2f}" for p in part),
                off_points=max(abs(p - w) for p, w in zip(part, wanted)),
                off_in_any_second=worst_second(rows, *span, wanted))
    return part


def launch(node):
    rows = {}
    node.slice("launch")
    for _ in range(1 if node.sim else 5):
        for place in (None, "launch"):
            p = node.start(place, "launch", "cuda-launch", "--rounds", 5)
            p.popen.wait(120)
            for line in p.text().splitlines():
                words = dict(w.split("=", 1) for w in line.split() if "=" in w)
                if "what" in words:
                    key = (words["what"], words["bytes"])
                    rows.setdefault(key, {}).setdefault(place, []).append(float(words["median_ns"]))
    for (what, size), by in rows.items():
        bare, ours = median(by[None]), median(by["launch"])
        node.result("launch", what=what, bytes=size, bare_ns=bare, ours_ns=ours, added_ns=ours - bare,
                    ratio=ours / bare)


def alone(node):
    """In turn, several times: the differences are small."""
    node.slice("alone")
    rates = {None: [], "alone": []}
    for _ in range(1 if node.sim else 3):
        for place, all_of in rates.items():
            got, _, _ = measure_plain(node, [place], node.seconds / 2)
            all_of.append(got[0])
    node.result("alone", bare_per_s=median(rates[None]), ours_per_s=median(rates["alone"]),
                of_bare=100 * median(rates["alone"]) / median(rates[None]))


def equal(node):
    names = [node.slice(f"equal{i}") for i in range(4)]
    wanted = [25.0] * 4
    for _ in range(1 if node.sim else 2):
        say(node, "equal-alone", *measure_plain(node, [None], node.seconds / 2), [100.0])
        say(node, "equal-stock", *measure_plain(node, [None] * 4, node.seconds / 2), wanted)
        say(node, "equal-ours", *measure_plain(node, names, node.seconds), wanted)
    if node.start_mps():
        say(node, "equal-mps", *measure_plain(node, ["mps"] * 4, node.seconds / 2), wanted)


def weights(node):
    wanted = [10.0, 20.0, 30.0, 40.0]
    names = [node.slice(f"w{int(w)}", weight=int(w)) for w in wanted]
    say(node, "weights-stock", *measure_plain(node, [None] * 4, node.seconds / 2), wanted)
    before = {n: node.account(n).get("charged_ns", 0) for n in names}
    part = say(node, "weights-ours", *measure_plain(node, names, max(node.seconds, 2) + 1), wanted)
    charged = [node.account(n)["charged_ns"] - before[n] for n in names]
    whole = sum(charged) or 1
    node.result("weights-accounts", shares="/".join(f"{100 * c / whole:.2f}" for c in charged),
                off_points=max(abs(100 * c / whole - p) for c, p in zip(charged, part)))


def capped(node):
    for percent in (25, 50, 75):
        name = node.slice(f"cap{percent}", cap=percent * 10_000)
        rates, rows, span = measure_plain(node, [name], node.seconds)
        got = 100 * rates[0] / alone_rate(node)
        worst = max((abs(100 * in_span(rows[0], t, t + SECOND_NS) / alone_rate(node) - percent)
                     for t in any_second(*span)), default=0.0)
        node.result("capped", percent=percent, got=got, off_points=got - percent, off_in_any_second=worst)
    names = [node.slice(f"both{p}", cap=p * 10_000) for p in (25, 75)]
    rates, _, _ = measure_plain(node, names, node.seconds)
    node.result("capped-both", wanted="25/75", got="/".join(f"{100 * r / alone_rate(node):.2f}" for r in rates))


def bursts(node, place, batch, seconds):
    """Latencies of bursts in ms beside the batch; what the batch had of one alone, percent, where an iteration counts
    as much as it has multiprocessors."""
    burns = [burn(node, p, f"batch{i}") for i, p in enumerate(batch)]
    for b in burns:
        b.ready()
    path = os.path.join(node.work, "bursts")
    bursting = node.start(place, "latency", "cuda-latency", "--seconds", int(seconds + 2), "--work",
                          node.burst_rounds, "--file", path).ready()
    t0 = now_ns() + SETTLE_NS
    t1 = t0 + int(seconds * 1e9)
    bursting.wait(seconds + 60)
    ends = stop(burns)
    with open(path, encoding="ascii") as f:
        samples = [tuple(map(int, line.split())) for line in f]
    if node.keeps_samples:
        shutil.copy(path, os.path.join(node.out, f"bursts-{place or 'stock'}-{len(batch)}"))
    took = [(ns + late) / 1e6 for began, ns, late in samples if t0 <= began <= t1]
    rate = sum(in_span(b.windows(), t0, t1) * e["sms"] / node.sms for b, e in zip(burns, ends)) / seconds
    return took, 100 * rate / alone_rate(node)


def say_bursts(node, name, place, batch, seconds, **more):
    took, kept = bursts(node, place, batch, seconds)
    node.result(name, bursts=len(took), p50_ms=median(took), p95_ms=percentile(took, 95),
                p99_ms=percentile(took, 99), max_ms=max(took), batch_of_alone=kept, **more)
    return took


def calibrate_bursts(node):
    if node.burst_rounds is None:
        node.burst_rounds = node.start(None, "calibrate", "cuda-latency", "--seconds", 1).wait(60)["rounds"]


def latency(node):
    seconds = node.seconds
    calibrate_bursts(node)
    lat = node.slice("lat", cls="latency")
    batch = [node.slice(f"batch{i}") for i in range(3)]
    say_bursts(node, "latency-alone-bare", None, [], seconds)
    p50 = median(say_bursts(node, "latency-alone-ours", lat, [], seconds))
    # What a burst takes of the GPU is not there for the batch.
    node.result("latency", rest_for_batch=100 - 100 * p50 / 10)
    say_bursts(node, "latency-stock", None, [None] * 3, seconds)
    for _ in range(1 if node.sim else 3):
        say_bursts(node, "latency-ours", lat, batch, seconds)
    if node.start_mps():
        say_bursts(node, "latency-mps", "mps", ["mps"] * 3, seconds)


# The work that LONG and SHORT stand for is known after a measurement: 80 kernels in one, and a tenth of one.
LONG, SHORT = object(), object()
# Launches kernel by kernel, as a framework does: its processor hardly keeps the GPU busy.
PACED = ["--work", SHORT, "--depth", 128, "--pace-us", 50, "--sync-every", 70, "--think-us", 1000]
FORMS = {
    "tiny": ["--work", 0, "--depth", 512],
    "graph": ["--graph", 20],
    "copy": ["--copy", 4 << 20],
    "streams": ["--streams", 64, "--depth", 64],
    "threads": ["--threads", 4],
    "sync-loop": ["--sync-every", 1, "--depth", 1],
    "think": ["--sync-every", 1, "--depth", 1, "--think-us", 500],
    "rests": ["--work", 6000, "--graph", 16, "--sync-every", 32, "--depth", 1, "--think-us", 300],
    "uneven": ["--short", 40],
    "long": ["--work", LONG, "--depth", 2],
    "paced": PACED,
}


def form_args(node, args):
    work = {LONG: rounds(node) * 80, SHORT: rounds(node) // 10}
    return [work.get(arg, arg) for arg in args]


def forms(node):
    """What each form of work gets beside a saturating one of the same weight: of what it has alone, and
    what the saturating one keeps."""
    a, b = node.slice("form"), node.slice("beside")
    for name, args in FORMS.items():
        args = form_args(node, args)
        seconds = node.seconds / 2
        bare, _, _ = measure(node, [(None, args)], seconds)
        stock, _, _ = measure(node, [(None, args), (None, [])], seconds)
        ours, _, _ = measure(node, [(a, args), (b, [])], seconds)
        node.result("forms", form=name, alone_per_s=bare[0],
                    stock=f"{100 * stock[0] / bare[0]:.1f}/{100 * stock[1] / alone_rate(node):.1f}",
                    ours=f"{100 * ours[0] / bare[0]:.1f}/{100 * ours[1] / alone_rate(node):.1f}")


def paced(node):
    """Several that leave the GPU idle: of what each has alone. A second passes before they go together."""
    args = form_args(node, PACED)
    alone, _, _ = measure(node, [(None, args)], node.seconds / 2)
    for n in (2,) if node.sim else (2, 3, 4, 8):
        slices = [node.slice(f"paced{i}") for i in range(n)]
        stock, _, _ = measure(node, [(None, args)] * n, node.seconds / 2)
        ours, _, _ = measure(node, [(s, args) for s in slices], node.seconds)
        mps = ""
        if node.start_mps():
            mps, _, _ = measure(node, [("mps", args)] * n, node.seconds / 2)
            mps = "/".join(f"{100 * r / alone[0]:.1f}" for r in mps)
            node.stop_mps()
        node.result("paced", processes=n, alone_per_s=alone[0],
                    stock="/".join(f"{100 * r / alone[0]:.1f}" for r in stock),
                    ours="/".join(f"{100 * r / alone[0]:.1f}" for r in ours), mps=mps)


def rare(node):
    """One that wants the GPU so seldom that it takes nothing of it, and so often that others are metered."""
    return burn(node, node.slice("rare"), "rare", "--work", rounds(node) // 40, "--depth", 1, "--sync-every", 1,
                "--think-us", 300_000).ready()


def metered(node):
    """What each form of work loses where it is metered, though it has the GPU alone."""
    a = node.slice("metered")
    for name, args in {"plain": [], **FORMS}.items():
        args = form_args(node, args)
        bare, _, _ = measure(node, [(None, args)], node.seconds / 2)
        other = rare(node)
        ours, _, _ = measure(node, [(a, args)], node.seconds / 2)
        other.kill()
        node.result("metered", form=name, alone_per_s=bare[0], of_alone=100 * ours[0] / bare[0])


def hash_of(proc, seconds):
    proc.wait(seconds)
    return proc.text().split("hash=")[1].split()[0]


def mix(node):
    hashes = {}
    for seed in range(2 if node.sim else 8):
        want = hash_of(node.start(None, "mix", "cuda-mix", "--seed", seed), 120)
        burns = [burn(node, node.slice(f"beside{i}"), f"beside{i}").ready() for i in range(2)]
        got = hash_of(node.start(node.slice("mix"), "mix", "cuda-mix", "--seed", seed), 300)
        stop(burns)
        hashes[seed] = want == got
    node.result("mix", seeds=len(hashes), same=sum(hashes.values()))
    if not all(hashes.values()):
        raise RuntimeError("results differ from those alone")
