#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the names of functions and types in src/: check-names.py [--list].

Few functions may have a name without an object (no underscore: `apply`), and few a name that another one has too, so
that a line of a backtrace or a hit of grep says where one is. A struct, an enum, a union or a typedef has one
definition. Names that NVIDIA gave do not count. --list shows the functions that are left. A function whose name asks
a question (`is_ready`, `has_room`) answers it: it returns bool.
"""
import collections
import glob
import os
import re
import sys

NO_OBJECT_MAX = 5.0  # percent of all functions
SHARED_MAX = 8.0

COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?![#/ \t}*])[A-Za-z_][\w \t*(),]*?[\s*](?P<name>[A-Za-z_]\w*)\([^;{}]*?\)\s*\n\{", re.M)
TYPE = re.compile(r"\b(?:struct|enum|union)\s+(?P<tag>[A-Za-z_]\w*)\s*\{|"
                  r"^typedef\s(?:[^;{()]*\(\s*\*\s*(?P<pointer>\w+)\)|[^;{()]*?\b(?P<function>\w+)\(|"
                  r"[^;{(]*?\b(?P<plain>\w+)\s*;)", re.M)
QUESTION = re.compile(r"(?:is|are|has|was|were|can|may|needs|lacks|does)_")
KEYWORDS = {"if", "for", "while", "switch", "defined"}
THEIRS = re.compile(r"(cu|nvml)[A-Z]|main$")
THEIR_TYPES = re.compile(r"CU(DA_|[a-z])|nvml[A-Z]")


def sources():
    """(path, text) of each file, comments blanked."""
    for path in sorted(glob.glob("src/**/*.[ch]", recursive=True)):
        with open(path, encoding="utf-8") as source:
            yield path, COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source.read())


def functions(text):
    """(line, name) of each function that the text defines."""
    for m in FUNCTION.finditer(text):
        name = m.group("name")
        if name not in KEYWORDS and not name.isupper() and not THEIRS.match(name):
            yield text.count("\n", 0, m.start()) + 1, name


def questions(text):
    """(line, name) of each function that the text defines whose name asks a question and that does not return bool."""
    for m in FUNCTION.finditer(text):
        name = m.group("name")
        if QUESTION.match(name) and not re.search(r"\bbool\s*$", m.group()[:m.start("name") - m.start()]):
            yield text.count("\n", 0, m.start()) + 1, name


def types(text):
    """(line, name) of each type that the text defines."""
    for m in TYPE.finditer(text):
        name = next(filter(None, m.groups()))
        if not THEIR_TYPES.match(name):
            yield text.count("\n", 0, m.start()) + 1, name


def report(what, found, of, most):
    """Prints how many there are; returns whether these are too many."""
    percent = 100 * len(found) / max(of, 1)
    if percent > most or "--list" in sys.argv:
        print(*(f"{path}:{line}: {name}" for path, line, name in found), sep="\n")
    print(f"{percent:.1f} % of {of} {what}, at most {most:.0f} % may")
    return percent > most


def shared(found):
    times = collections.Counter(name for _, _, name in found)
    return [f for f in found if times[f[2]] > 1]


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    texts = list(sources())
    all_functions = [(path, line, name) for path, text in texts for line, name in functions(text)]
    all_types = [(path, line, name) for path, text in texts for line, name in types(text)]
    bad = [
        report("functions have no object in their name", [f for f in all_functions if "_" not in f[2]],
               len(all_functions), NO_OBJECT_MAX),
        report("functions have another one's name", shared(all_functions), len(all_functions), SHARED_MAX),
        report("functions ask a question and return no bool",
               [(path, line, name) for path, text in texts for line, name in questions(text)], len(all_functions), 0),
        report("types have another one's name", shared(all_types), len(all_types), 0),
    ]
    sys.exit(any(bad))


main()
