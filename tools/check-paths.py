#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files that our documents name are there: check-paths.py [FILE.md...].

A path in code quotes that begins with a folder of this repository (`src/lib/base/fd.c`, `test/peers/mig.sh`), with
* for any name and with a word in capitals (`cmd-NAME.c`) for one that the reader chooses. In a row of a table what
follows a path may be a name in its folder: `src/io/price/`: `catalogue.yaml`, `read.c`; and a folder may be named from
src/: `lib/http`. Also the tests (`test-base`, `fuzz-yaml`, `api.bats`) and the functions (`offer_new()`) that ARCHITECTURE.md
and docs/design/ name; and links to other files, with the heading after "#". Without arguments: all documents but
docs/results/, which are of their day, and the files that comments in src/ and test/ name (`journal.h`, `scheduler/settle.c`: the end of a path).
"""
import glob
import os
import re
import sys

ANCHORS = {}
NAME = re.compile(r"[\w*-]+(?:/[\w.*-]+)*(?:\.(?:[ch]|py|yaml|txt|js|css)|/)")


IN_COMMENT = re.compile(r"(?<![\w<./-])(?:[\w-]+/)*[\w-]+\.[ch]\b")
COMMENT = re.compile(r'(/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"', re.S)
THEIRS = {"cuda.h", "dcgm_fields.h", "ctype.h"}  # others' headers
LINK = re.compile(r"\]\(([^)\s]+)\)")
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


def anchors_of(document):
    """As GitHub makes them: of each heading, lower case, words joined by '-', without other signs. And those of HTML."""
    if document not in ANCHORS:
        with open(document, encoding="utf-8") as lines:
            text = re.sub(r"```.*?```", "", lines.read(), flags=re.S)
        headings = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line) for line in re.findall(r"^#+ +(.*)$", text, re.M)]
        ANCHORS[document] = {re.sub(r"[^\w\- ]", "", line.strip().lower()).replace(" ", "-") for line in headings}
        ANCHORS[document] |= set(re.findall(r'<a id="([\w-]+)"', text))
    return ANCHORS[document]


def faults_of_links(file):
    with open(file, encoding="utf-8") as document:
        text = document.read()
    text = re.sub(r"```.*?```|`[^`\n]*`", lambda code: "\n" * code.group().count("\n"), text, flags=re.S)
    for link in LINK.finditer(text):
        path, _, anchor = link.group(1).partition("#")
        line = text.count("\n", 0, link.start()) + 1
        if re.match(r"[a-z]+:", path):
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(file), path)) if path else file
        if not os.path.exists(target):
            yield f"{file}:{line}: the link leads to no {target}"
        elif anchor and target.endswith(".md") and anchor not in anchors_of(target):
            yield f"{file}:{line}: {target} has no heading #{anchor}"


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
    found = [fault for file in documents for check in (faults(file, tops), faults_of_links(file)) for fault in check]
    if not sys.argv[1:]:
        found += faults_of_comments()
    for document in documents:
        if document == "ARCHITECTURE.md" or document.startswith("docs/design/"):
            found += faults_of_names(document)
    print(*found, f"{len(documents)} documents, {len(found)} names of what is not there", sep="\n")
    sys.exit(bool(found))


main()
