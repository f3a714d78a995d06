#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shares of a GPU's time, side by side: alone, the hardware's own time-slicing, MPS, and our turns.

BUNDLE is what "test/gpu/slice.sh pack BUILD BUNDLE" put together. Writes OUT/results.txt, a line of
key=value for each figure, and OUT/transcript.txt. Changes no setting of the GPU; the MPS daemon runs
only during the parts that compare with it, under directories of our own. Exit 1 if a part failed.
"""
import argparse
import os
import sys
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns"))
import crash  # noqa: E402
import frameworks  # noqa: E402
import shares  # noqa: E402
from node import Node  # noqa: E402

# What it measures; in the order of running.
PARTS = {
    "machine": shares.machine,
    "launch": shares.launch,  # what a submission costs
    "alone": shares.alone,  # one saturating process, bare and in a slice
    "equal": shares.equal,  # four saturating
    "weights": shares.weights,  # 10/20/30/40
    "capped": shares.capped,  # 25/50/75 % of a GPU that nobody else wants
    "latency": shares.latency,  # short bursts beside three saturating
    "metered": shares.metered,  # what it costs to be held to a little work in flight
    "forms": shares.forms,  # tiny kernels, graphs, copies, launch-sync loops beside a saturating one
    "paced": shares.paced,  # several that leave the GPU idle
    "mix": shares.mix,  # every form of submission, results compared with those alone
    "kill": crash.kill,  # the one whose turn it is
    "arbiter": crash.arbiter,  # killed and started again under load
    "live": crash.live,  # weights changed under load
    "stuck": crash.stuck,  # a kernel of 13 s
    "torch": frameworks.torch,  # training beside inference
    "decode": frameworks.decode,  # a loop of graph replays beside training
    "inferers": frameworks.inferers,  # several that leave the GPU idle
    "jax": frameworks.jax,
}


def main():
    p = argparse.ArgumentParser(description=__doc__, epilog="parts: " + " ".join(PARTS),
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bundle")
    p.add_argument("out")
    p.add_argument("parts", nargs="*", metavar="part", help="all by default; with --sim, those without a framework")
    p.add_argument("--sim", action="store_true",
                   help="on the simulated GPU of the bundle; figures mean little there, all must run")
    p.add_argument("--seconds", type=float, help="of each measurement (10; with --sim 2)")
    a = p.parse_intermixed_args()
    for name in a.parts:
        if name not in PARTS:
            p.error(f"no part '{name}'; there are: {' '.join(PARTS)}")
    names = a.parts or [n for n in PARTS if not (a.sim and PARTS[n].__module__ == "frameworks")]
    failed = []
    with Node(a.bundle, a.out, a.sim, a.seconds or (2 if a.sim else 10)) as node:
        for name in names:
            try:
                with node.part(name):
                    PARTS[name](node)
            except Exception:  # pylint: disable=broad-except
                node.note(traceback.format_exc())
                node.result(name, result="failed", why=str(sys.exc_info()[1]).replace(" ", "_")[:200])
                failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
