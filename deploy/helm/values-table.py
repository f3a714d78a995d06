#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: values-table.py CHART_DIR [--write]

Prints the table of all values: key, default and what "# --" says above it in values.yaml. Every leaf
must have such a comment, or stand below a key that has one. --write puts the table between the markers
of README.md; tools/check-chart.sh compares the two.
"""
import json
import re
import sys

import yaml

MARKS = ("<!-- values: from values.yaml, by deploy/helm/values-table.py -->", "<!-- end of values -->")


def rows(lines):
    """(path, comment) of every documented key. Knows block mappings only; what is below a list is data."""
    path, comment, out = [], None, []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text.startswith("# -- "):
            comment = text[5:]
        elif text.startswith("# ") and comment is not None:
            comment += " " + text[2:]
        elif match := re.match(r"( *)([A-Za-z]+):", line):
            depth = len(match[1])
            path = [p for p in path if p[0] < depth] + [(depth, match[2])]
            if comment is not None:
                out.append((".".join(name for _, name in path), comment))
            comment = None
        elif text and not text.startswith("#") and comment is not None:
            raise SystemExit(f"values.yaml:{number}: a comment without a key")
    return out


def leaves(value, path=""):
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from leaves(below, f"{path}.{key}".lstrip("."))
    else:
        yield path


def default_text(value):
    if isinstance(value, (dict, list)) and len(json.dumps(value)) > 60:
        return "see values.yaml"
    return f"`{json.dumps(value)}`"


def table(chart):
    text = open(f"{chart}/values.yaml", encoding="utf-8").read()
    values = yaml.safe_load(text)
    documented = rows(text.splitlines())
    names = [path for path, _ in documented]
    for leaf in leaves(values):
        if not any(leaf == name or leaf.startswith(name + ".") for name in names):
            raise SystemExit(f"values.yaml: '{leaf}' has no '# --' comment")
    out = ["| Value | Default | |", "|---|---|---|"]
    for path, comment in documented:
        value = values
        for name in path.split("."):
            value = value[name]
        out.append(f"| `{path}` | {default_text(value)} | {comment.replace('|', chr(92) + '|')} |")
    return "\n".join(out)


def main():
    if "--help" in sys.argv or len(sys.argv) < 2:
        print(__doc__)
        return
    chart = sys.argv[1]
    new = table(chart)
    if sys.argv[2:] != ["--write"]:
        print(new)
        return
    readme = f"{chart}/README.md"
    text = open(readme, encoding="utf-8").read()
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    open(readme, "w", encoding="utf-8").write(f"{before}{MARKS[0]}\n{new}\n{MARKS[1]}{after}")


main()
