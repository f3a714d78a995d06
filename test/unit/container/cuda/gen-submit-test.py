#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: gen-submit-test.py FUNCTIONS.H OUT.C [NAME...]

For test-submit.c: of each function NAME a driver's one that writes down what it is given, byte by byte,
a caller that gives each parameter other bytes, and what the gate is to be told, which is found from
the name and the types alone: the marks of cuda.txt are what is tested. Without NAME: of every function
of FUNCTIONS.H that, by its name, sends work, or makes a stream wait for others, and does nothing else.
"""

import re
import sys

WORK = r"cu(Memcpy|Memset|MemPrefetch|MemDiscard|MemBatchDecompress|StreamWriteValue|StreamAddCallback|SignalExternal|LaunchHostFunc|Graphics(Map|Unmap)Resources|Launch|StreamWaitValue|WaitExternal)"
BY_HAND = ("cuLaunchKernelEx", "cuLaunchCooperativeKernelMultiDevice")
PASSES = ("StreamWriteValue", "StreamAddCallback", "SignalExternal", "LaunchHostFunc", "Graphics")
WAITS = ("cuStreamWaitValue", "cuWaitExternal")
FUNCTIONS = ("cuStreamAddCallback", "cuLaunchHostFunc")


def plain(name):
    return re.sub(r"(_v[0-9])?(_ptsz|_ptds)?$", "", name)


def bytes_of(name, params):
    """What a copy counts, in C, of parameters a0, a1, ...; of structures, which are zero here, nothing."""
    base = plain(name)
    rest = [(t, f"(uint64_t)a{i}") for i, t in enumerate(params) if t != "CUstream"]
    if "Batch" in base or base == "cuMemcpy3DPeer" or any("CUDA_MEMCPY" in t for t in params):
        return "0"
    if base.startswith("cuMemcpy"):
        return rest[-1][1]
    if base.startswith("cuMemset"):
        size = int(re.search(r"D(8|16|32)(Async)?$", base)[1]) // 8
        return " * ".join([r[1] for r in rest[-2:]] if "D2D" in base else [rest[-1][1]]) + f" * {size}"
    if base == "cuMemPrefetchAsync":
        return "(uint64_t)a1"
    if base.startswith("cuStreamWriteValue"):
        return str(int(base[-2:]) // 8)
    return "0"


def main(functions, out, names):
    with open(functions, encoding="ascii") as f:
        found = re.findall(r"X\((\w+), \((.*)\)\)", f.read())
    rows, lines = [], ['#include "unit/container/cuda/submit-test.h"', ""]
    for name, text in found:
        if names and name not in names:
            continue
        if not names and (not re.match(WORK, name) or plain(name) in BY_HAND):
            continue
        params = re.split(r",\s*", text)
        base = plain(name)
        decl = [f"{t}{'' if t.endswith('*') else ' '}a{i}" for i, t in enumerate(params)]
        lines += [f"static CUresult real_{name}({', '.join(decl)})", "{"]
        lines += [f"\tsubmit_got({i}, &a{i}, sizeof(a{i}));" for i in range(len(params))]
        lines += ["\treturn submit_called();", "}", "", f"static CUresult call_{name}(struct submit_row *row)", "{"]
        lines += [f"\t{d};" for d in decl] + ["\tCUresult r;", ""]
        for i, t in enumerate(params):
            kind = "SUBMIT_BITS"
            if "*" in t:
                kind = "SUBMIT_POINTER"
            elif t == "size_t" and "Batch" in base:
                kind = "SUBMIT_COUNT"
            lines += [f"\tsubmit_canary({i}, &a{i}, sizeof(a{i}), {kind});"]
        streams = [i for i, t in enumerate(params) if t == "CUstream"]
        if streams:
            lines += [f"\trow->stream = a{streams[0]};"]
        lines += [f"\trow->bytes = {bytes_of(name, params)};"]
        lines += [f"\tr = {name}({', '.join(f'a{i}' for i in range(len(params)))});", "\treturn r;", "}", ""]
        kind = "SUBMIT_COPY"
        if base.startswith("cuLaunch") and base != "cuLaunchHostFunc":
            kind = "SUBMIT_LAUNCH"
        elif base.startswith(WAITS):
            kind = "SUBMIT_NONE"
        elif any(p in base for p in PASSES):
            kind = "SUBMIT_PASS"
        elif not streams:
            kind = "SUBMIT_SYNC"
        parks = "true" if base.startswith(WAITS + FUNCTIONS) else "false"
        own = "true" if re.search(r"_pt(sz|ds)$", name) else "false"
        rows += [
            f'\t{{ .name = "{name}", .slot = SLOT_{name}, .kind = {kind},',
            f"\t\t.own = {own}, .parks = {parks},",
            f"\t\t.params = {len(params)}, .real = (void (*)(void))real_{name}, .call = call_{name} }},",
        ]
    lines += ["struct submit_row submit_rows[] = {", *rows, "};"]
    lines += ["const size_t submit_row_count = sizeof(submit_rows) / sizeof(*submit_rows);", ""]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines))


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
