#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From the list of exports and lookups.txt: gen-stubs.py NAMES LOOKUPS STUBS.c LOOKUPS.c EXPORTS.map

Each name gets a weak stub, which a function of the simulator takes the place of. A stub takes no
parameters, whatever the caller passes: in the ABIs of our platforms the caller cleans up.
"""
import re
import sys

# Variables that libcuda.so.1 exports for debuggers: name, bytes.
DATA = {
    "cudbgApiClientPid": 4, "cudbgApiClientRevision": 4,
    "cudbgAttachHandlerAvailable": 4, "cudbgDebuggerCapabilities": 4, "cudbgDebuggerInitialized": 4,
    "cudbgDetachSuspendedDevicesMask": 4, "cudbgEnableIntegratedMemcheck": 4,
    "cudbgEnableLaunchBlocking": 4, "cudbgEnablePreemptionDebugging": 4, "cudbgInjectionPath": 4096,
    "cudbgIpcFlag": 4, "cudbgReportDriverApiErrorFlags": 4, "cudbgReportedDriverApiErrorCode": 8,
    "cudbgReportedDriverApiErrorFuncNameAddr": 8, "cudbgReportedDriverApiErrorFuncNameSize": 8,
    "cudbgReportedDriverApiErrorNameAddr": 8, "cudbgReportedDriverApiErrorNameSize": 8,
    "cudbgReportedDriverApiErrorSource": 4, "cudbgReportedDriverApiErrorStringAddr": 8,
    "cudbgReportedDriverApiErrorStringSize": 8, "cudbgReportedDriverInternalErrorCode": 8,
    "cudbgResumeForAttachDetach": 4, "cudbgRpcEnabled": 4, "cudbgSessionId": 4,
    "cudbgUseExternalDebugger": 4,
}


def rows(path):
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            words = line.split("#")[0].split()
            if words:
                yield f"{path}:{number}", words


names = []
for place, words in rows(sys.argv[1]):
    if not re.fullmatch(r"cu\w+", words[0]):  # the marks after it are not ours
        sys.exit(f"{place}: expected NAME [MARK...], found {' '.join(words)!r}")
    names.append(words[0])
if len(set(names)) != len(names):
    sys.exit(f"{sys.argv[1]}: a name is there twice")

lookups = []
for place, words in rows(sys.argv[2]):
    if len(words) not in (3, 5) or words[2] not in names or (len(words) == 5 and words[3] not in names):
        sys.exit(f"{place}: expected NAME VERSION FUNCTION [FUNCTION VERSION] with functions of the "
                 f"list of exports, found {' '.join(words)!r}")
    lookups.append(words)

head = "/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by gen-stubs.py. */"
with open(sys.argv[3], "w", encoding="utf-8") as f:
    print(head, '#include "testbed/sim/cuda/stub.h"\n', sep="\n", file=f)
    for name in names:
        print(f"WEAK unsigned int {name}(void);\nWEAK unsigned int {name}(void)\n"
              "{\n\treturn cuda_lib_stub();\n}", file=f)
    for name, size in sorted(DATA.items()):
        if size and name not in names:
            print(f"EXPORT extern char {name}[{size}];\nEXPORT _Alignas(8) char {name}[{size}];", file=f)

with open(sys.argv[4], "w", encoding="utf-8") as f:
    print(head, '#include <stddef.h>\n\n#include "testbed/sim/cuda/stub.h"\n',
          sep="\n", file=f)
    for name in sorted({n for w in lookups for n in w[2:4]}):
        print(f"unsigned int {name}(void);", file=f)
    print("\nconst struct sim_cuda_lookup lookups[] = {", file=f)
    for words in sorted(lookups, key=lambda w: (w[0], int(w[1]))):
        each = f", {words[3]}, {words[4]}" if len(words) == 5 else ", NULL, 0"
        print(f'\t{{ "{words[0]}", {words[1]}, {words[2]}{each} }},', file=f)
    print("};\nconst size_t lookup_count = sizeof(lookups) / sizeof(lookups[0]);", file=f)

with open(sys.argv[5], "w", encoding="utf-8") as f:
    print("{\n\tglobal:", file=f)
    for name in names + sorted(n for n, size in DATA.items() if size and n not in names):
        print(f"\t\t{name};", file=f)
    print("\tlocal:\n\t\t*;\n};", file=f)
