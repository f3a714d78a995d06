# SPDX-License-Identifier: Apache-2.0
"""What a program under test/gpu/turns/frameworks.py does around its work."""
import json
import os
import time


def loop(name, steps, seconds):
    """Calls steps() again and again, from the moment that the file $TURNS_GO is there. Each call does the same
    and returns how many steps it made and a digest of what came out. Prints the rate, how long a step took,
    and the digest: several with "/" between them if it was not always the same."""
    steps()
    print("ready", flush=True)
    while not os.path.exists(os.environ["TURNS_GO"]):
        time.sleep(0.001)
    began, done, digests, took = time.monotonic(), 0, set(), []
    while time.monotonic() < began + seconds:
        at = time.monotonic()
        n, digest = steps()
        took.append((time.monotonic() - at) * 1e3 / n)
        done += n
        digests.add(digest)
    rate = done / (time.monotonic() - began)
    took.sort()
    print(json.dumps({"name": name, "per_s": rate, "digest": "/".join(sorted(digests)),
                      "p50_ms": took[len(took) // 2], "p99_ms": took[int(len(took) * 0.99)]}), flush=True)
