# SPDX-License-Identifier: Apache-2.0
"""Ends at bad moments, and changes under load."""
import random
import time

from node import median, now_ns
from shares import alone_rate, burn, in_span, rounds, stop, together


def kill(node):
    """The holder is killed; how long until the next one's work ends (a kernel is a quarter of a ms)."""
    a, b = node.slice("killed"), node.slice("next")
    gaps, rng = [], random.Random(7)
    tries = 3 if node.sim else 20
    for _ in range(200):
        if len(gaps) >= tries:
            break
        left = burn(node, b, "next", "--window-ms", 1).ready()
        gone = burn(node, a, "killed", "--window-ms", 1).ready()
        time.sleep(0.6 + rng.random() * 0.2)
        at = now_ns()
        gone.kill()
        time.sleep(0.4)
        left.terminate()
        left.wait(30)
        rows = left.windows()
        before = [t1 for (t0, n0), (t1, n1) in zip(rows, rows[1:]) if n1 > n0 and t1 <= at]
        after = [t1 for (t0, n0), (t1, n1) in zip(rows, rows[1:]) if n1 > n0 and t1 > at]
        if before and after and at - before[-1] > 3_000_000:  # it was the other's turn
            gaps.append((after[0] - at) / 1e6)
        node.end_procs()
    node.result("kill", times=len(gaps), next_runs_ms_median=median(gaps), worst_ms=max(gaps))


def arbiter(node):
    """Killed under load; 2 s later there is another."""
    wanted = [25.0, 75.0]
    names = [node.slice("a25", weight=1), node.slice("a75", weight=3)]
    burns = [burn(node, n, n) for n in names]
    t0, t1 = together(node, burns, 2)
    node.kill_arbiter()
    killed = now_ns()
    time.sleep(2)
    node.start_arbiter()
    back = now_ns()
    time.sleep(4)
    end = now_ns() - 200_000_000
    stop(burns)
    rows = [b.windows() for b in burns]

    def part(a, b):
        got = [in_span(r, a, b) for r in rows]
        return "/".join(f"{100 * g / sum(got):.1f}" for g in got), 100 * sum(got) / ((b - a) / 1e9) / alone_rate(node)

    for name, a, b in (("before", t0, t1), ("without", killed, back), ("after", back + 1_500_000_000, end)):
        shares, total = part(a, b)
        node.result("arbiter", when=name, shares=shares, of_alone=total)
    least = min((in_span(rows[0], t, t + 100_000_000) + in_span(rows[1], t, t + 100_000_000)
                 for t in range(killed, back + 1_500_000_000, 50_000_000)))
    node.result("arbiter", least_in_100_ms_of_alone=100 * least / (alone_rate(node) / 10), wanted=str(wanted).replace(" ", ""))


def live(node):
    names = [node.slice("l1"), node.slice("l2")]
    burns = [burn(node, n, n) for n in names]
    together(node, burns, 1)
    marks = []
    for change in ({"weight": 3}, {"weight": 1, "cap": 100_000}, {"weight": 1, "cls": "latency"}, {"weight": 1}):
        node.slice("l1", **change)
        t = now_ns()
        time.sleep(2.5)
        marks.append((str(change).replace(" ", ""), t + 1_000_000_000, now_ns() - 200_000_000))
    stop(burns)
    rows = [b.windows() for b in burns]
    for name, a, b in marks:
        got = [in_span(r, a, b) for r in rows]
        node.result("live", change=name, shares="/".join(f"{100 * g / sum(got):.1f}" for g in got))


def stuck(node):
    """One sends a kernel of 13 s; another works beside it, the arbiter reports it."""
    seconds = 13
    a, b = node.slice("stuck"), node.slice("beside")
    other = burn(node, b, "beside").ready()
    one = node.start(a, "stuck", "cuda-burn", "--work", rounds(node) * (seconds * 4000), "--depth", 1, "--seconds", 1)
    one.ready()
    seen = []
    node.until(lambda: seen.append(node.account(a).get("stuck")) or seen[-1], "it is reported as stuck", 60)
    since = now_ns()
    time.sleep(2)
    at = now_ns() - 100_000_000
    other.terminate()
    other.wait(60)
    rate = in_span(other.windows(), since, at) / ((at - since) / 1e9)
    node.result("stuck", reported=1, beside_of_alone=100 * rate / alone_rate(node))
    one.kill()
