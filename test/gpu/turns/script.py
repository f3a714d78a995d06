# SPDX-License-Identifier: Apache-2.0
"""What the scripts that measure on a GPU share: their arguments, and parts of which one that fails stops no other."""
import argparse
import contextlib
import signal
import sys
import time
import traceback

from node import PATIENCE


@contextlib.contextmanager
def within(seconds):
    """TimeoutError after so many; None: never."""
    def over(*_):
        raise TimeoutError(f"not done in {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, over)
    if seconds is not None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def arguments(doc, parts, seconds, limit):
    p = argparse.ArgumentParser(description=doc, epilog="parts: " + " ".join(parts),
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bundle")
    p.add_argument("out")
    p.add_argument("parts", nargs="*", metavar="part", help="all by default; with --sim, those without a framework")
    p.add_argument("--sim", action="store_true",
                   help="on the simulated GPU of the bundle; figures mean little there, all must run")
    p.add_argument("--seconds", type=float, help=f"of each measurement ({seconds}; with --sim 2)")
    p.add_argument("--limit", type=float, default=limit, help="seconds that all parts may take; 0: any" +
                   (f" ({limit}; with --sim any)" if limit else ""))
    a = p.parse_intermixed_args()
    for name in a.parts:
        if name not in parts:
            p.error(f"no part '{name}'; there are: {' '.join(parts)}")
    a.seconds = a.seconds or (2 if a.sim else seconds)
    a.limit = None if a.sim or not a.limit else a.limit
    return a


def run(doc, parts, make_node, seconds=10, limit=0, limits=None):
    """PARTS: functions of a node by their names. LIMITS: seconds of each. Exit status."""
    a = arguments(doc, parts, seconds, limit)
    names = a.parts or [n for n in parts if not (a.sim and getattr(parts[n], "needs_framework", parts[n].__module__ == "frameworks"))]
    end = time.monotonic() + a.limit if a.limit else None
    failed = []
    with make_node(a.bundle, a.out, a.sim, a.seconds) as node:
        for name in names:
            most = limits.get(name, limits[None]) * (3 * PATIENCE if a.sim else 1) if limits else None
            if end:
                most = min(most or a.limit, end - time.monotonic())
            try:
                if most is not None and most < 1:
                    raise TimeoutError("no time is left")
                with node.part(name), within(most):
                    parts[name](node)
            except Exception:  # pylint: disable=broad-except
                node.note(traceback.format_exc())
                node.result(name, result="failed", why=str(sys.exc_info()[1]).replace(" ", "_")[:200])
                failed.append(name)
    return 1 if failed else 0
