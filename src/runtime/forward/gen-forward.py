#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what stands in for a driver library, from the list of its names.

usage: gen-forward.py slots SLOTS.H LIST...            the numbers of the words, one enum a list
       gen-forward.py library LIST SONAME OUT.C OUT.MAP  entry points, names, hooks, spare symbols
       gen-forward.py no-hooks ...                       the same as if no line had "hook"

A line of a list is "NAME" or "NAME hook"; '#' begins a comment.

The spare symbols are places in the dynamic symbol table for names that only a newer driver has
(complete.c). They must lie side by side, which the linkers do with names of one GNU hash: hash =
hash * 33 + c, so that "bA" and "ab" are worth the same and n such pairs give 2^n names.
"""

import itertools
import os
import sys

SPARES = 512


def names_of(path):
    rows = []
    with open(path, encoding="ascii") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) > 2 or words[1:] not in ([], ["hook"]):
                sys.exit(f"{path}:{number}: expected NAME [hook], found '{line.strip()}'")
            rows.append((words[0], len(words) == 2))
    rows.sort()
    for (a, _), (b, _) in zip(rows, rows[1:]):
        if a == b:
            sys.exit(f"{path}: {a} is there twice")
    return rows


def gnu_hash(name):
    h = 5381
    for c in name.encode("ascii"):
        h = (h * 33 + c) & 0xFFFFFFFF
    return h


def spare_names(others):
    """Names whose bucket holds none of the others, whatever number of buckets the linker takes:
    GNU ld one of a row of primes, lld a quarter of the symbols."""
    sizes = [263, 521, 1031, 2053, (len(others) + SPARES) // 4]
    taken = [{gnu_hash(name) % n for name in others} for n in sizes]
    for i in itertools.count():
        first = f"spare{i}_"
        h = gnu_hash(first + "ab" * 9)
        if all(h % n not in t for n, t in zip(sizes, taken)):
            break
    names = [first + "".join(pairs) for pairs in itertools.product(["bA", "ab"], repeat=9)]
    assert len(names) == SPARES and {gnu_hash(name) for name in names} == {h}
    return names


def slots(out, lists):
    lines = ["/* Made by gen-forward.py. */", "#pragma once", ""]
    for path in lists:
        what = os.path.basename(path).split(".")[0]
        lines += [f"enum forward_{what}_slot {{"]
        lines += [f"\tSLOT_{name}," for name, _ in names_of(path)]
        lines += [f"\tSLOTS_{what.upper()}", "};", ""]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines))


def library(path, soname, out, out_map, with_hooks=True):
    what = os.path.basename(path).split(".")[0]
    rows = [(name, hook and with_hooks) for name, hook in names_of(path)]
    offsets, at = [], 0
    for name, _ in rows:
        offsets.append(at)
        at += len(name) + 1
    hooks = [(i, name) for i, (name, hook) in enumerate(rows) if hook]
    public = [name for name, _ in rows] + ["dlopen", "dlmopen"]
    spares = spare_names(public)
    lines = [
        "/* Made by gen-forward.py. */",
        '#include "runtime/forward/entry.h"',
        '#include "runtime/forward/internal.h"',
        "",
        f"void *forward_slots[SLOTS_{what.upper()}];",
        f'const char forward_soname[] = "{soname}";',
        f'const char forward_absent_name[] = "real {soname}";',
        f"const uint32_t forward_count = {len(rows)};",
        f"const uint32_t forward_hook_count = {len(hooks)};",
        f"const uint32_t forward_spare_hash = {gnu_hash(spares[0])}U;",
        "",
        "const char forward_names[] =",
        *[f'\t"{name}\\0"' for name, _ in rows],
        "\t;",
        "const uint32_t forward_name_at[] = {",
        *["\t" + ", ".join(map(str, offsets[i : i + 12])) + "," for i in range(0, len(offsets), 12)],
        "};",
        "",
        "__asm__(FORWARD_BEGIN",
        *[f'\t"forward {name}, {i}\\n"' for i, (name, hook) in enumerate(rows) if not hook],
        *[f'\t"forward_spare {name}\\n"' for name in spares],
        "\tFORWARD_HOOKS",
        *[f'\t"forward_hook {name}, {i}\\n"' for i, name in hooks],
        "\tFORWARD_END);",
        "",
    ]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines))
    with open(out_map, "w", encoding="ascii") as f:
        f.write("{\nglobal:\n" + "".join(f"\t{name};\n" for name in public + spares) + "local:\n\t*;\n};\n")


def main(args):
    if len(args) >= 3 and args[0] == "slots":
        slots(args[1], args[2:])
    elif len(args) == 5 and args[0] in ("library", "no-hooks"):
        library(*args[1:], with_hooks=args[0] == "library")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
