#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check-runtime-tables.py LIBRARY

The dynamic symbol table of a preload library can be corrected in place (src/container/loader/
complete.c): no page of it holds code, and the spare symbols are the last of their bucket."""

import re
import struct
import sys

PAGE = 65536  # the largest that a kernel of ours has, on AArch64
PT_LOAD, PT_DYNAMIC, SHF_EXECINSTR = 1, 2, 4
DT_STRTAB, DT_SYMTAB, DT_GNU_HASH = 5, 6, 0x6FFFFEF5


def main(path):
    data = open(path, "rb").read()
    machine = struct.unpack_from("<H", data, 18)[0]
    page = 4096 if machine == 62 else PAGE
    phoff, phentsize, phnum = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    loads, dynamic = [], None
    for i in range(phnum):
        kind, _, offset, vaddr, _, filesz, memsz, _ = struct.unpack_from(
            "<IIQQQQQQ", data, phoff + i * phentsize
        )
        if kind == PT_LOAD:
            loads.append((vaddr, vaddr + memsz, offset))
        elif kind == PT_DYNAMIC:
            dynamic = (offset, filesz)
    tags = dict(struct.unpack_from("<qQ", data, dynamic[0] + i) for i in range(0, dynamic[1], 16))

    def at(vaddr):
        for start, end, offset in loads:
            if start <= vaddr < end:
                return vaddr - start + offset
        sys.exit(f"{path}: address {vaddr:#x} is in no segment")

    problems = []
    table = at(tags[DT_GNU_HASH])
    buckets, first, bloom, _ = struct.unpack_from("<IIII", data, table)
    bucket_at = table + 16 + bloom * 8
    chain_at = bucket_at + buckets * 4
    strings, symbols = at(tags[DT_STRTAB]), at(tags[DT_SYMTAB])
    longest, seen, last = 0, [], first
    for b in range(buckets):
        i = struct.unpack_from("<I", data, bucket_at + 4 * b)[0]
        chain = []
        while i:
            word = struct.unpack_from("<I", data, chain_at + 4 * (i - first))[0]
            name_at = strings + struct.unpack_from("<I", data, symbols + 24 * i)[0]
            chain.append(data[name_at : data.index(b"\0", name_at)].decode())
            last = max(last, i)
            i = 0 if word & 1 else i + 1
        spare = [re.match("spare[0-9]+_", name) is not None for name in chain]
        if any(spare):
            seen.append(spare)
        else:
            longest = max(longest, len(chain))
    if len(seen) != 1:
        problems.append(f"the spare symbols are in {len(seen)} buckets, not in one")
    for spare in seen:
        if spare != sorted(spare):
            problems.append("a symbol stands behind the spare ones in their bucket: give them another name (gen-forward.py)")
    shoff, shentsize, shnum = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HH", data, 58)
    code = []
    for i in range(shnum):
        _, _, flags, addr, _, size = struct.unpack_from("<IIQQQQ", data, shoff + i * shentsize)
        if flags & SHF_EXECINSTR:
            code.append((addr, addr + size))
    for name, start, size in (
        ("names' hashes", tags[DT_GNU_HASH], chain_at + 4 * (last + 1 - first) - table),
        ("symbols", tags[DT_SYMTAB], 24 * (last + 1)),
    ):
        low, high = start - start % page, start + size + -(start + size) % page
        if any(low < end and begin < high for begin, end in code):
            problems.append(f"the {name} share pages with code")
    for problem in problems:
        print(f"{path}: {problem}")
    print(f"{buckets} buckets, the longest of {longest}")
    return bool(problems)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
