#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shares of a GPU's time, side by side: alone, the hardware's own time-slicing, MPS, and our turns.

BUNDLE is what "test/gpu/slice.sh pack BUILD BUNDLE" put together. Writes OUT/results.txt, a line of
key=value for each figure, and OUT/transcript.txt. Changes no setting of the GPU; the MPS daemon runs
only during the parts that compare with it, under directories of our own. Exit 1 if a part failed.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "turns"))
import crash  # noqa: E402
import frameworks  # noqa: E402
import script  # noqa: E402
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


if __name__ == "__main__":
    sys.exit(script.run(__doc__, PARTS, Node))
