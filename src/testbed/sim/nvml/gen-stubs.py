#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From names.txt: gen-stubs.py NAMES STUBS.c EXPORTS.map

A stub takes no parameters, whatever the caller passes: in the ABIs of our platforms the caller
cleans up, and the stub looks at nothing.
"""
import re
import sys

names = {}
with open(sys.argv[1], encoding="utf-8") as f:
    for number, line in enumerate(f, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if not re.fullmatch(r"nvml\w+", words[0]) or words[1:] not in ([], ["sim"]):
            sys.exit(f"names.txt:{number}: expected NAME or NAME sim, found {line!r}")
        if words[0] in names:
            sys.exit(f"names.txt:{number}: {words[0]} is there twice")
        names[words[0]] = len(words) == 2

with open(sys.argv[2], "w", encoding="utf-8") as f:
    print('/* SPDX-License-Identifier: Apache-2.0 */\n/* Made from names.txt by gen-stubs.py. */', file=f)
    print('#include "testbed/sim/nvml/stub.h"\n', file=f)
    for name, simulated in names.items():
        if not simulated:
            print(f"EXPORT int {name}(void);\nEXPORT int {name}(void)\n"
                  "{\n\treturn nvml_lib_stub();\n}", file=f)

with open(sys.argv[3], "w", encoding="utf-8") as f:
    print("{\n\tglobal:", file=f)
    for name in names:
        print(f"\t\t{name};", file=f)
    print("\tlocal:\n\t\t*;\n};", file=f)
