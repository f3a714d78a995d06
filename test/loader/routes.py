#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: routes.py LIBRARY NAMES LOOKUPS

Asks LIBRARY, the preload library in front of the simulated driver, for every function of LOOKUPS
(src/testbed/sim/cuda/lookups.txt: what a real driver answers) in every version and with each flag, by both ABIs of
cuGetProcAddress. Where NAMES (src/container/loader/cuda.txt) has a hook for the function of that version
and variant, that hook must come; else the driver's own. LD_LIBRARY_PATH says where the driver is.
"""

import ctypes
import os
import re
import sys

KINDS = {"hook", "launch", "copy", "sync", "pass", "parks"}
NEWEST = 13000


def rows(path):
    with open(path, encoding="ascii") as f:
        for line in f:
            words = line.split("#")[0].split()
            if words:
                yield words


def main(library, names, lookups):
    hooked = {words[0] for words in rows(names) if KINDS & set(words[1:])}
    ours = ctypes.CDLL(library)
    with open("/proc/self/maps", encoding="ascii") as f:
        parts = [re.split("[- ]", line)[:2] for line in f if os.path.basename(library) in line]
    low, high = min(int(a, 16) for a, _ in parts), max(int(b, 16) for _, b in parts)

    def address(name):
        return ctypes.cast(getattr(ours, name), ctypes.c_void_p).value

    def ask(name, version, flags, old):
        found, status = ctypes.c_void_p(), ctypes.c_uint()
        args = [name.encode(), ctypes.byref(found), version, ctypes.c_uint64(flags)]
        if old:
            r = ours.cuGetProcAddress(*args)
        else:
            r = ours.cuGetProcAddress_v2(*args, ctypes.byref(status))
        return (r, found.value)

    table = {}
    for words in rows(lookups):
        plain, own = table.setdefault(words[0], ([], []))
        plain.append((int(words[1]), words[2]))
        own += [(int(words[4]), words[3])] if words[3:] else []
    bad = asked = 0
    for name, (plain, own) in sorted(table.items()):
        for version in sorted({v for v, _ in plain + own} | {NEWEST}):
            for flags in (0, 1, 2):
                # A name that has variants for the per-thread default stream has no others with flag 2.
                expected = [f for v, f in sorted(own if own and flags == 2 else plain) if v <= version]
                for old in (True, False):
                    r, found = ask(name, version, flags, old)
                    asked += 1
                    if not expected:
                        continue
                    want = expected[-1]
                    is_ours = found is not None and low <= found < high
                    right = found == address(want) if want in hooked else not is_ours
                    if r or not right:
                        whose = "of ours" if want in hooked else "of the driver's"
                        print(f"{name} version {version} flags {flags}: not {want} {whose}")
                        bad += 1
    print(f"{asked} questions, {len(hooked)} hooks")
    return 1 if bad or asked < 2000 or len(hooked) < 200 else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
