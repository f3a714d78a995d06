#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what stands in for a driver library, from the list of its names.

usage: gen-forward.py slots SLOTS.H LIST...            the numbers of the words, one enum a list
       gen-forward.py library LIST SONAME OUT.C OUT.MAP  entry points, names, hooks, spare symbols
       gen-forward.py no-hooks ...                       the same as if no line had "hook"
       gen-forward.py submit LIST FUNCTIONS.H OUT.C      the hooks that are nothing but the gate

A line of a list is "NAME [hook] [MARK...]"; the marks are explained in cuda.txt. '#' begins a comment.
FUNCTIONS.H is src/abi/cuda-functions.h.

The spare symbols are places in the dynamic symbol table for names that only a newer driver has
(complete.c). They must lie side by side, which the linkers do with names of one GNU hash: hash =
hash * 33 + c, so that "bA" and "ab" are worth the same and n such pairs give 2^n names.
"""

import itertools
import os
import re
import sys

SPARES = 512
KINDS = ("launch", "copy", "sync", "pass")
REASONS = ("wait", "event", "query", "setting", "capture", "memory", "graphics", "other")


class Row:
    """A line of a list. .hooked: some function of ours has the name; .made: one of submit()."""

    def __init__(self, place, words):
        self.place, self.name = place, words[0]
        self.kind = self.bytes = self.why = None
        by_hand = self.parks = False
        for word in words[1:]:
            if word == "hook" and not by_hand:
                by_hand = True
            elif word in KINDS and not self.kind:
                self.kind = word
            elif word == "parks" and not self.parks:
                self.parks = True
            elif word.startswith("bytes=") and self.kind in KINDS[1:] and not self.bytes:
                self.bytes = word[len("bytes=") :]
            elif word.startswith("not=") and word[len("not=") :] in REASONS and not self.why:
                self.why = word[len("not=") :]
            else:
                self.fail(f"'{word}' is not understood there")
        if self.kind and self.why:
            self.fail("it cannot be work and not be work")
        self.made = (bool(self.kind) or self.parks) and not by_hand
        self.hooked = by_hand or self.made

    def fail(self, why):
        sys.exit(f"{self.place}: {self.name}: {why}")


def rows_of(path):
    rows = []
    with open(path, encoding="ascii") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if words:
                rows.append(Row(f"{path}:{number}", words))
    rows.sort(key=lambda row: row.name)
    for a, b in zip(rows, rows[1:]):
        if a.name == b.name:
            b.fail("it is there twice")
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
        lines += [f"\tSLOT_{row.name}," for row in rows_of(path)]
        lines += [f"\tSLOTS_{what.upper()}", "};", ""]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines))


def library(path, soname, out, out_map, with_hooks=True):
    what = os.path.basename(path).split(".")[0]
    rows = [(row.name, row.hooked and with_hooks) for row in rows_of(path)]
    offsets, at = [], 0
    for name, _ in rows:
        offsets.append(at)
        at += len(name) + 1
    hooks = [(i, name) for i, (name, hook) in enumerate(rows) if hook]
    public = [name for name, _ in rows] + ["dlopen", "dlmopen"]
    spares = spare_names(public)
    lines = [
        "/* Made by gen-forward.py. */",
        '#include "container/loader/entry.h"',
        '#include "container/loader/internal.h"',
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


def prototypes(path):
    """The types of each function's parameters."""
    with open(path, encoding="ascii") as f:
        found = re.findall(r"X\((\w+), \((.*)\)\)", f.read())
    return {name: [] if text == "void" else re.split(r",\s*", text) for name, text in found}


def factor(row, text, params):
    """One factor of "bytes=" in C."""
    if re.fullmatch(r"[0-9]+|\$[0-9]+|\w+\((\$[0-9]+,?)+\)", text) is None:
        row.fail(f"bytes: '{text}' is no factor")
    for number in re.findall(r"\$([0-9]+)", text):
        if int(number) >= len(params):
            row.fail(f"bytes: it has no parameter {number}")
    if text.startswith("$"):
        return f"(uint64_t)a{text[1:]}"
    return text.replace("$", "a").replace(",", ", ")


def kind_of(row, params, slot, count):
    """What submissions that take alike have in common, in C: see container/gate/cost-model.h."""
    if params[:1] == ["CUfunction"]:
        grid = params[1:4] == ["unsigned int"] * 3
        return f"submit_kernel_kind(a0, {'(uint64_t)a1 * a2 * a3' if grid else '0'})"
    return f"submit_bytes_kind({slot}, {count})"


def hook(row, params, slot):
    """What one function's entry point jumps to in a slice: see container/gate/gate.h."""
    args = [f"a{i}" for i in range(len(params))]
    declared = ", ".join(f"{t}{'' if t.endswith('*') else ' '}{a}" for a, t in zip(args, params))
    head = [
        f"SUBMIT_GATED CUresult gated_{row.name}({declared});",
        f"CUresult gated_{row.name}({declared})",
        "{",
    ]
    call = f"REAL({row.name})({', '.join(args)})"
    streams = [a for a, t in zip(args, params) if t == "CUstream"]
    count = " * ".join(factor(row, f, params) for f in (row.bytes or "0").split("*"))
    flags = ["GATE_OWN"] if row.name.endswith(("_ptsz", "_ptds")) else []
    note, noted = [], []
    if row.parks:
        if len(streams) != 1:
            row.fail(f"'parks' does not go with {len(streams)} streams")
        note = [f"\tstruct gate_stream_wait wait = gate_stream_wait_begin({streams[0]}, {' | '.join(flags) or '0'});"]
        noted = ["\tgate_stream_wait_end(&wait, r);"]
    if not row.kind:
        return head + note + [f"\tCUresult r = {call};", "", *noted, "\treturn r;", "}", ""]
    # "launch" of old goes into stream 0.
    if len(streams) != (row.kind != "sync") and (row.kind != "launch" or streams):
        row.fail(f"'{row.kind}' does not go with {len(streams)} streams")
    if row.kind == "pass":
        flags.append("GATE_PASS")
    if row.kind == "sync":
        flags += ["GATE_NO_STREAM", "submit_sync(bytes)"]
    lines = [
        *head,
        *([f"\tuint64_t bytes = {count};"] if row.kind != "launch" else []),
        f"\tstruct turn_gpu_page *p = gate_begin_kind({streams[0] if streams else 'NULL'}, {' | '.join(flags) or '0'},",
        f"\t\t{kind_of(row, params, slot, 'bytes')});",
        *note,
        f"\tCUresult r = {call};",
        "",
        *noted,
    ]
    if row.kind == "launch":
        lines += ["\tgate_end(p);"]
    else:
        lines += ["\tgate_end_copy(p, bytes);"]
    return lines + ["\treturn r;", "}", ""]


def submit(path, functions, out):
    types = prototypes(functions)
    rows, lines = rows_of(path), []
    for slot, row in enumerate(rows):
        params = types.get(row.name)
        if (params is None or "CUstream" in params) and not row.kind and not row.why:
            row.fail("it takes a stream, or nobody knows what: is it work, or why not? (not=...)")
        if params is None and row.kind:
            row.fail(f"{functions} does not have it")
        if row.made:
            lines += hook(row, params, slot)
    head = [
        "/* Made by gen-forward.py. */",
        '#include "container/cuda/work/work.h"',
        '#include "container/loader/entry.h"',
        "",
        "__asm__(FORWARD_GATED_BEGIN",
        *[f'\t"forward_gated {row.name}, {i}\\n"' for i, row in enumerate(rows) if row.made],
        "\tFORWARD_GATED_END);",
        "",
    ]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(head + lines))


def main(args):
    if len(args) >= 3 and args[0] == "slots":
        slots(args[1], args[2:])
    elif len(args) == 4 and args[0] == "submit":
        submit(*args[1:])
    elif len(args) == 5 and args[0] in ("library", "no-hooks"):
        library(*args[1:], with_hooks=args[0] == "library")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
