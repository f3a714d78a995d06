#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files that our documents name are there: check-paths.py [FILE.md...].

A path in code quotes that begins with a folder of this repository (`src/lib/base/fd.c`, `test/peers/mig.sh`), with
* for any name and with a word in capitals (`cmd-NAME.c`) for one that the reader chooses. In a row of a table what
follows a path may be a name in its folder: `src/io/price/`: `catalogue.yaml`, `read.c`; and a folder may be named from
src/: `lib/http`. Also the tests (`test-base`, `fuzz-yaml`, `api.bats`) and the functions (`offer_new()`) that ARCHITECTURE.md
and docs/design/ name; `-open` is the end of the name of a test. Without arguments: all documents but
docs/results/, which are of their day, and the files that comments in src/ and test/ name (`journal.h`, `scheduler/settle.c`: the end of a path).
"""
import glob
import os
import re
import sys

NAME = re.compile(r"[\w*-]+(?:/[\w.*-]+)*(?:\.(?:[ch]|py|yaml|txt|js|css)|/)")


IN_COMMENT = re.compile(r"(?<![\w<./-])(?:[\w-]+/)*[\w-]+\.[ch]\b")
COMMENT = re.compile(r'(/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"', re.S)
THEIRS = {"cuda.h", "dcgm_fields.h", "ctype.h"}  # others' headers
SUFFIX = re.compile(r"-[a-z][a-z-]+")  # of a test before it in the row
TEST = re.compile(r"(?:test|fuzz)-[\w-]+|[\w-]+\.(?:bats|mjs)")


def exists(path):
    return bool(glob.glob(re.sub(r"\b[A-Z]{2,}\b(?=[-.])", "*", path)))


def faults(file, tops):
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            folders = ["src"]
            for quoted in re.findall(r"`([^`\s]+)`", line):
                path = re.sub(r"\(\)$", "", quoted)
                if path.split("/")[0] in tops and "/" in path and not exists("src/" + path):
                    if not exists(path):
                        yield f"{file}:{number}: there is no {path}"
                    folders.append(path if os.path.isdir(path) else os.path.dirname(path))
                elif os.path.isdir("src/" + path):
                    folders.append("src/" + path)
                elif line.startswith("|") and len(folders) > 1 and NAME.fullmatch(path):
                    if not any(exists(os.path.join(folder, path)) for folder in folders):
                        yield f"{file}:{number}: there is no {path} in {' or '.join(folders[1:])}"


def words_of_sources():
    words = set()
    for path in glob.glob("src/**/*.[ch]", recursive=True):
        with open(path, encoding="utf-8") as source:
            words.update(re.findall(r"\w+", source.read()))
    return words


def faults_of_names(file):
    tests = {os.path.splitext(os.path.basename(path))[0] for path in glob.glob("test/**/*.*", recursive=True)}
    words = words_of_sources()
    with open(file, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            for name in re.findall(r"`([^`\s]+)`", line):
                if TEST.fullmatch(name) and os.path.splitext(name)[0] not in tests | words:
                    yield f"{file}:{number}: there is no test {name}"
                if SUFFIX.fullmatch(name) and not any(test.endswith(name) for test in tests):
                    yield f"{file}:{number}: there is no test that ends in {name}"
                if re.fullmatch(r"\w+\(\)", name) and name[:-2] not in words:
                    yield f"{file}:{number}: there is no function {name}"


def faults_of_comments():
    paths = [path for top in ("src", "test") for path in glob.glob(top + "/**/*.[ch]", recursive=True)]
    ends = {"/".join(path.split("/")[at:]) for path in paths for at in range(path.count("/") + 1)} | THEIRS
    for path in sorted(paths):
        with open(path, encoding="utf-8") as source:
            text = source.read()
        for comment in COMMENT.finditer(text):
            for name in IN_COMMENT.finditer(comment.group(1) or ""):
                if name.group() not in ends:
                    line = text.count("\n", 0, comment.start() + name.start()) + 1
                    yield f"{path}:{line}: there is no {name.group()}"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    tops = [path[:-1] for path in glob.glob("*/") if path != "build/"]
    documents = sys.argv[1:] or sorted(path for top in ["."] + tops for path in
                                       glob.glob("*.md" if top == "." else top + "/**/*.md", recursive=True)
                                       if not path.startswith("docs/results/") and "/node_modules/" not in path)
    found = [fault for file in documents for fault in faults(file, tops)]
    if not sys.argv[1:]:
        found += faults_of_comments()
    for document in documents:
        if document == "ARCHITECTURE.md" or document.startswith("docs/design/"):
            found += faults_of_names(document)
    print(*found, f"{len(documents)} documents, {len(found)} names of what is not there", sep="\n")
    sys.exit(bool(found))


main()
