#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command blocks (```sh) of a Markdown page.

    blocks.py list PAGE...   one line for each block: PAGE:LINE, and "run" or why it is not run
    blocks.py script PAGE    the blocks that are run, in printed order, as one shell script

A block is run unless the line before it is <!-- not run: REASON -->, with a reason of REASONS.
"""
import re
import sys

REASONS = ("a cluster", "a GPU", "a container builder", "it builds and tests this tree", "it installs on the host")
FENCE = re.compile(r"^```sh$")
MARK = re.compile(r"^<!-- not run: (.*) -->$")


def blocks(page):
    """Yields (line, reason or None, text)."""
    lines = open(page, encoding="utf-8").read().splitlines()
    at = 0
    while at < len(lines):
        if not FENCE.match(lines[at]):
            at += 1
            continue
        mark = MARK.match(lines[at - 1]) if at else None
        if mark and mark.group(1) not in REASONS:
            sys.exit(f"{page}:{at}: no reason to leave a block out: {mark.group(1)}")
        end = at + 1
        while lines[end] != "```":
            end += 1
        yield at + 1, mark.group(1) if mark else None, "\n".join(lines[at + 1:end])
        at = end + 1


def main(what, *pages):
    for page in pages:
        for line, reason, text in blocks(page):
            if what == "list":
                print(f"{page}:{line} {reason or 'run'}")
            elif not reason:
                print(f"echo '--- {page}:{line}'\n{text}")


if __name__ == "__main__":
    main(*sys.argv[1:])
