#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files of a program do not call each other in large circles: check-circles.py BUILD [FOLDER...].

Two files are in one circle where each can reach the other by calls of external functions, or by external data, as the
symbols of the object files in the build directory BUILD show. A callback that is handed over as a pointer is no call of
who runs it: that is how a circle is cut. FOLDER, below src/, has its parts in it; without FOLDER: those of the table below.
"""
import os
import re
import subprocess
import sys

# The most files that a circle may have.
MOST = {
    "node/agent": 4,
    "node/arbiter": 4,
}


def objects(build, folder):
    for top, _, files in os.walk(os.path.join(build, "src", folder)):
        if re.search(r"lib[^/]*\.a\.p$", top):
            yield from (os.path.join(top, file) for file in files if file.endswith(".o"))


def calls(files):
    """{object file: the others that it needs}"""
    needs, home = {}, {}
    listed = subprocess.check_output(["nm", "-A", "--format=posix", *files], text=True)
    for line in listed.splitlines():
        file, symbol, kind = line.split()[:3]
        file = file.rstrip(":")
        if kind == "U":
            needs.setdefault(file, set()).add(symbol)
        elif kind.isupper():
            home[symbol] = file
    return {file: {home[s] for s in needs.get(file, ()) if s in home} - {file} for file in files}


def circles(graph):
    """Tarjan's strongly connected components, of more than one file."""
    order, low, stack, found = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return sorted(found, key=len, reverse=True)


def name(file, build):
    """build/src/node/agent/mps/libagent-mps.a.p/unit.c.o is node/agent/mps/supervisor.c; _ stands for /."""
    folder, part = os.path.split(os.path.relpath(file, os.path.join(build, "src")))
    return os.path.dirname(folder) + "/" + part[:-2].replace("_", "/")


def main():
    if len(sys.argv) < 2 or sys.argv[1] == "--help":
        print(__doc__.strip())
        sys.exit(len(sys.argv) < 2)
    sys.setrecursionlimit(10000)
    build, bad = sys.argv[1], False
    for folder in sys.argv[2:] or MOST:
        files = sorted(objects(build, folder))
        most = MOST.get(folder, 1)
        if not files:
            sys.exit(f"{build}/src/{folder} has no object files: build it first")
        found = circles(calls(files))
        for circle in found:
            if len(circle) > most:
                bad = True
                print(f"src/{folder}: {len(circle)} files call each other in a circle, at most {most} may: "
                      + ", ".join(name(file, build) for file in circle))
        print(f"src/{folder}: {len(files)} files, the largest circle has {max(map(len, found), default=1)}")
    sys.exit(bad)


main()
