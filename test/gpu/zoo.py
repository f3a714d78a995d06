#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The zoo: programs of frameworks, as people run them, side by side on a GPU in each way of sharing it.

BUNDLE is what "test/gpu/slice.sh pack BUILD BUNDLE" put together. Each program runs in a process of its own for each way:
bare (the hardware's time-slicing), in a slice, under MPS. It sets up once; then windows of all ways take turns, so
that a machine that changes favours none. Writes OUT/results.txt, a line of key=value for each figure, and
OUT/transcript.txt. Changes no setting of the GPU. Exit 1 if a part failed.

ZOO_WAYS and ZOO_KINDS in the environment: only these ways of each pair ("stock ours-1:1 ours-latency mps"), and only these
kinds of the part "kinds" ("plain all,wait=block,cores=2").
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "turns"), os.path.join(HERE, "zoo")]
import script  # noqa: E402
import shares  # noqa: E402
import windows  # noqa: E402
from node import Node  # noqa: E402

PARTS = {"machine": shares.machine, **windows.PARTS}


if __name__ == "__main__":
    sys.exit(script.run(__doc__, PARTS, Node, seconds=3))
