#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a text into a C array that ends with NUL: embed-text.py IN OUT HEADER NAME.

HEADER declares NAME and NAME_len.
"""
import sys


def char(byte):
    # Whether char has a sign is the machine's.
    return str(byte) if byte < 128 else f"'\\x{byte:02x}'"


def main():
    source, target, header, name = sys.argv[1:]
    data = open(source, "rb").read()
    if b"\0" in data:
        sys.exit(f"{source}: expected text, found a NUL character in it")
    rows = [", ".join(map(char, data[i:i + 20])) for i in range(0, len(data), 20)]
    with open(target, "w", encoding="ascii") as out:
        out.write(f'/* Made of {source.split("/")[-1]}. */\n#include "{header}"\n\n')
        out.write(f"const char {name}[] = {{\n\t" + ",\n\t".join(rows + ["0"]) + "\n};\n")
        out.write(f"const size_t {name}_len = {len(data)};\n")


main()
