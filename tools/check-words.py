#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words of comments in src/ and test/, and of the names of functions in test/: check-words.py [FILE...].

Comments have the words of the field, and name who acts: no private words for what has a common one (CONTRIBUTING.md
has the list), no "who" without a noun before it, and no sentence that says only that something "is said" or "is told".
A comment does not begin with a pronoun or a conjunction (It, They, But): it names the actor, or begins with the verb.
The name of a test is a sentence too: gate_thread__reports_idle_once_no_work_is_left.
"""
import glob
import os
import re
import sys

# Word of earlier days: the word.
WORDS = {
    r"seats?": "client, replica",
    r"anew": "again, recreated",
    r"beforehand": "before",
    r"whoever": "a noun",
    r"urge[ds]?": "boost",
    r"keeper": "gate thread",
    r"tall(?:y|ies)": "usage accounts",
    r"ledgers?": "charges, usage records",
    r"lumps?": "pool reservation",
    r"wish(?:es)?": "desired",
    r"garbage|rubbish": "malformed",
    r"strangers?": "remote client",
    r"metered": "throttled",
    r"(?:is|are|was|were) told": "the actor reports, logs, answers",
    r"is said|are said": "the actor reports, states",
    r"(?:is|are) looked|looked at": "the actor reads, polls, samples",
    r"somebody|anybody|nobody": "a noun",
}
# Only in the names of functions in test/, where no other words explain them.
NAME_WORDS = {
    r"says?|said|told|hears?|heard": "reports, logs, returns, accepts",
    r"tells? (?!\w+(?: \w+)* (?:apart|from)\b)": "reports, logs",
    r"whom?": "a noun",
    r"everybody": "a noun",
    r"looks? (?!up\b)": "probes, polls, reads",
    r"turns?": "quantum",
    r"parks?|parked": "blocks",
    r"in vain|away": "failed; unavailable",
}
# Not in the name of a program, an option or a value: make-ledger, --strangers, UID=nobody.
BANNED = [(re.compile(rf"(?<![-=])\b(?:{word})\b", re.I), better) for word, better in WORDS.items()]
BANNED_NAMES = BANNED + [(re.compile(rf"\b(?:{word})\b", re.I), better) for word, better in NAME_WORDS.items()]
BARE = re.compile(r"(?:^|[.:;,(] |\b(?:of|to|from|by|for|and|as|than|if|where) )(?P<who>who|whom|whose)\b", re.M)
# Begin a comment without a noun. "Which devices the plugin serves" has one.
FIRST = r"It|They|That|And|But|However|Neither|Which(?= (?:any|are|can|has|have|is|may|was|were)\b)"
FRAGMENT = re.compile(rf"\s*(?P<word>{FIRST}) ")
FRAGMENT_TEST = re.compile(rf"\s*(?P<word>{FIRST}|Nor|Not|So|Of|Its|Their) ")
FUNCTION = re.compile(r"^[a-z][\w \t*]*?\b(?P<name>[a-z]\w+)\((?=[^;{}]*\)\s*\{)", re.M)
COMMENT = re.compile(r'(?P<comment>/\*.*?\*/)|"(?:[^"\\\n]|\\.)*"', re.S)


def faults(path):
    with open(path, encoding="utf-8") as source:
        text = source.read()
    for m in COMMENT.finditer(text):
        comment = re.sub(r"(?m)^[ \t]*\* ?", "", m.group("comment") or "")
        comment = re.sub(r"^/\*", "", comment)
        line = text.count("\n", 0, m.start()) + 1
        for pattern, better in BANNED:
            for hit in pattern.finditer(comment):
                # A name of code keeps its letters: TURN_METERED, seat_count().
                if not hit.group().isupper():
                    yield f"{path}:{line + comment.count(chr(10), 0, hit.start())}: '{hit.group()}': write {better}"
        if hit := (FRAGMENT_TEST if path.startswith("test/") else FRAGMENT).match(comment):
            yield f"{path}:{line}: '{hit.group('word')}' begins a comment: name the actor first"
        for hit in BARE.finditer(comment):
            yield (f"{path}:{line + comment.count(chr(10), 0, hit.start())}: '{hit.group('who')}' without a noun: "
                   "write 'a thread that', 'the process whose'")
    if not path.startswith("test/"):
        return
    for m in FUNCTION.finditer(text):
        words = m.group("name").replace("_", " ")
        for pattern, better in BANNED_NAMES:
            for hit in pattern.finditer(words):
                yield f"{path}:{text.count(chr(10), 0, m.start()) + 1}: '{hit.group()}' in {m.group('name')}(): write {better}"


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    paths = sys.argv[1:] or sorted(p for top in ("src", "test") for p in glob.glob(f"{top}/**/*.[ch]", recursive=True))
    found = [fault for path in paths for fault in faults(path)]
    print(*found, f"{len(paths)} files, {len(found)} words to change in their comments and names", sep="\n")
    sys.exit(bool(found))


main()
