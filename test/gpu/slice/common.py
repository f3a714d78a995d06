# SPDX-License-Identifier: Apache-2.0
"""What the programs of a framework share: one line of key=value at the end, exit 0 or 1."""
import sys


def say(name, ok, **values):
    words = ["%s=%s" % (k, str(v).replace(" ", "_")) for k, v in values.items()]
    print(name, "result=" + ("ok" if ok else "failed"), *words, flush=True)
    sys.exit(0 if ok else 1)
