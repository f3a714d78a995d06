#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds external functions in src/ that nothing needs: check-unused.py BUILD [--list].

As the symbols of the object files in the build directory BUILD show: functions that no other file uses (make them
static, or remove them), and functions that only tests use. A function that its own file uses, and a test too, is a seam,
and stays. Names that libraries export to others' programs, and generated files, do not count; nor do those of KEPT.
"""
import collections
import glob
import os
import re
import subprocess
import sys

COMMENT = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
# What the libraries export as NVIDIA's do, entry points in assembly, and the C library's names.
EXPORTED = re.compile(r"(cu|nvml)[A-Z]|cudbg|spare\d|gated_|nvml_|cuda_|main$|dl[a-z]+$|__|_")
# Function: why it stays although nothing but tests, or its own file, uses it.
KEPT = {
    "forward_load": "assembly calls it (loader/entry.h)",
    "lib_is_gpu_visible": "its caller stands before it, with what it needs behind it",
    # Invariants that tests and fuzz targets check at every step; the product relies on them and need not ask.
    "sched_gpu_busy_ns": "the sum of all charges of a GPU, against which the model and the fuzz target add up",
    "view_check": "the sums that view.h promises, in each view that a test makes",
    # What tests see of a module whose state is private.
    "engine_stream_completed": "how much work got through: the measure of the simulated GPU's sharing",
    "metrics_family_at": "docs/metrics.md must have a row for each family of the table",
    "serve_port": "the port that the kernel chose, for a test that asks for any",
    # The way in for texts that are not files, and the way out for what the product never ends.
    "price_catalogue_parse": "the fuzz target, and plans of tests with prices of their own",
    "probe_caps_fini": "the worker process ends with its buffer; a test makes many",
}
GENERATED = re.compile(r"meson-generated|libkubelet-proto")


def symbols(build):
    """({function: object that defines it}, {function: objects that use it})"""
    files = glob.glob(os.path.join(build, "**/*.o"), recursive=True)
    listed = subprocess.check_output(["nm", "-A", "--format=posix", *files], text=True)
    home, uses = {}, collections.defaultdict(set)
    for line in listed.splitlines():
        file, symbol, kind = line.split()[:3]
        file = os.path.relpath(file.rstrip(":"), build)
        if kind == "U":
            uses[symbol].add(file)
        elif kind == "T" and file.startswith("src/") and not GENERATED.search(file):
            home[symbol] = file
    return home, uses


def definitions():
    """{function: (path, uses in that file)} of the C files in src/"""
    found = {}
    for path in sorted(glob.glob("src/**/*.c", recursive=True)):
        with open(path, encoding="utf-8") as source:
            text = COMMENT.sub("", source.read())
        words = collections.Counter(re.findall(r"\b[A-Za-z_]\w*\b", text))
        for name in re.findall(r"^(?![#/ \t}*])[A-Za-z_][\w \t*(),]*?[\s*]([A-Za-z_]\w*)\([^;{}]*?\)\s*\n\{", text, re.M):
            found[name] = (path, words[name] - 1)
    return found


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    home, uses = symbols(build)
    if not home or not any(file.startswith("test/") for files in uses.values() for file in files):
        sys.exit(f"{build} has not all object files, those of tests too: build it first")
    places = definitions()
    found = collections.defaultdict(list)
    for name in sorted(home):
        if EXPORTED.match(name) or name in KEPT or name not in places:
            continue
        path, own = places[name]
        others = {file for file in uses[name] if file.startswith("src/")}
        if others:
            continue
        if not uses[name]:
            found["is used in its own file only: make it static" if own else "is not used: remove it"].append((path, name))
        elif not own:
            found["is used by tests only: remove it"].append((path, name))
    for what, names in found.items():
        for path, name in sorted(names):
            print(f"{path}: {name}() {what}")
    for name in sorted(KEPT.keys() - home.keys()):
        found["is kept here and not there"].append(("tools/check-unused.py", name))
        print(f"tools/check-unused.py: there is no {name}() any more")
    n = sum(map(len, found.values()))
    print(f"{len(home)} external functions, {n} that nothing needs")
    sys.exit(n > 0)


main()
