#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What clang-tidy's verdict on each C file depends on, as one line "KEY FILE" for each file of src and test.

usage: tools/tidy-keys.py BUILD_DIR < COMMON

COMMON is what all verdicts depend on (checks, versions). The key of a file changes with COMMON, the commands that compile
it and the contents of all headers that the compiler read for it, as ninja recorded them; it does not change with the place
of the tree. A file that was not compiled yet has the key "-".
"""
import hashlib
import json
import os
import subprocess
import sys


def digest(*parts):
    """One hash of several texts or byte strings."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        h.update(b"%d:" % len(data) + data)
    return h.hexdigest()[:40]


class Contents:
    """Hashes of files, each read once."""

    def __init__(self):
        self.known = {}

    def hash(self, path):
        if path not in self.known:
            try:
                with open(path, "rb") as f:
                    self.known[path] = digest(f.read())
            except OSError:
                self.known[path] = "absent"
        return self.known[path]


def dependencies(build):
    """Object file -> the files that the compiler read, from ninja's record."""
    text = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if line.startswith("    "):
            current.append(os.path.normpath(os.path.join(build, line.strip())))
        elif ": #deps" in line:
            current = found.setdefault(line.split(":")[0], []) if "(VALID)" in line else []
    return found


def main():
    build = os.path.realpath(sys.argv[1])
    root = os.getcwd()
    common = sys.stdin.read()
    deps, contents, parts = dependencies(build), Contents(), {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        units = json.load(f)
    for unit in units:
        path = os.path.relpath(os.path.realpath(os.path.join(unit["directory"], unit["file"])), root)
        if not path.startswith(("src/", "test/")) or path.startswith("test/peers/") or not path.endswith(".c"):
            continue
        rows = parts.setdefault(path, [])
        rows.append(unit["command"].replace(build, "BUILD").replace(root, "ROOT"))
        read = deps.get(unit["output"])
        if not read:
            rows.append(None)
            continue
        for name in sorted(set(read)):
            rows.append(name.replace(build, "BUILD").replace(root, "ROOT") + " " + contents.hash(name))
    for path in sorted(parts):
        rows = parts[path]
        print("-" if None in rows else digest(common, *rows), path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] == "--help":
        print(__doc__.strip())
        sys.exit(0 if "--help" in sys.argv else 2)
    main()
