#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MPS on a GPU as the agent brings it about: memory, throughput, latency, accounts, faults, ends.

BUNDLE is what "test/gpu/slice.sh pack BUILD BUNDLE" put together. The agent, with a config, and the stand-in
kubelet run from it; clients have what their pod was given. Beside them, in turn, an MPS daemon started by hand,
and the GPU without any. Writes OUT/results.txt, a line of key=value for each figure, and OUT/transcript.txt.
For root. Changes no setting of the GPU; all directories are its own. Exit 1 if a part failed.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "mps"), os.path.join(HERE, "turns")]
import faults  # noqa: E402
import load  # noqa: E402
import memory  # noqa: E402
import script  # noqa: E402
import shares  # noqa: E402
from cluster import Cluster  # noqa: E402

# What it measures; in the order of running.
PARTS = {
    "machine": shares.machine,
    "memory": memory.memory,  # of four pods, of two processes of one, of a storm; and without isolation
    "throughput": load.throughput,  # four of low occupancy
    "latency": load.latency,  # bursts beside three saturating
    "weights": load.weights,  # 10/20/30/40
    "accounting": load.accounting,  # what is charged
    "users": memory.users,  # of several user IDs
    "fault": faults.fault,  # of one, which ends all
    "kill": faults.kill,  # client, server, daemon, agent
    "switch": faults.switch,  # to time-slicing under a client, and back
    "two-models": load.two_models,  # the example
}

LIMITS = {None: 60, "memory": 120, "throughput": 110, "latency": 130, "two-models": 70}  # seconds of each part

if __name__ == "__main__":
    sys.exit(script.run(__doc__, PARTS, Cluster, seconds=4, limit=520, limits=LIMITS))
