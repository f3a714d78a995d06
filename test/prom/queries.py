#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: queries.py PROMETHEUS_URL NEEDS_FILE FILE...

Asks a Prometheus server everything that dashboards (FILE.json, of Grafana) or lists of queries (FILE.txt, one
a line) ask, with all variables at "All", and fails if one has no answer. NEEDS_FILE names what cannot have one on
the node of this test: a line "TITLE: what it needs". One that is named there and answers is a mistake in that file.
--list instead of the URL prints the queries.
"""
import json
import math
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

# What Grafana puts in; the server of the test scrapes each second.
TIMES = {"$__rate_interval": "10s", "$__range": "30s", "$__interval": "5s"}


def filled(text):
    for name, value in TIMES.items():
        text = text.replace(name, value)
    return re.sub(r"\$\{?[A-Za-z]\w*\}?", ".*", text)


def of_variable(text):
    """label_values(SERIES, LABEL) as a query that has an answer where the variable has values."""
    match = re.fullmatch(r"label_values\((.*),\s*(\w+)\)", text)
    return f'group by ({match[2]}) ({match[1]}) unless on ({match[2]}) vector(1)' if match else text


def of_dashboard(path):
    with open(path, encoding="utf-8") as f:
        board = json.load(f)
    for v in board["templating"]["list"]:
        if v["type"] == "query":
            yield f"variable {v['name']}", of_variable(v["definition"])
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            many = f" {target['refId']}" if len(panel["targets"]) > 1 else ""
            yield panel["title"] + many, target["expr"]


def of_list(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.strip() and not line.startswith("#"):
                yield line.strip(), of_variable(line.strip())


def queries(paths):
    for path in paths:
        for title, expr in (of_dashboard if path.endswith(".json") else of_list)(path):
            yield title, filled(expr)


def ask(url, query):
    """How many series the answer has that are numbers."""
    where = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    try:
        with urllib.request.urlopen(where, timeout=10) as answer:
            data = json.load(answer)["data"]
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{query}\n{error.read().decode()}") from None
    values = [data["result"]] if data["resultType"] == "scalar" else [one["value"] for one in data["result"]]
    return sum(math.isfinite(float(value)) for _, value in values)


def main():
    if "--help" in sys.argv or len(sys.argv) < 4:
        print(__doc__)
        return 0 if "--help" in sys.argv else 2
    url, needs_file, paths = sys.argv[1], sys.argv[2], sys.argv[3:]
    if url == "--list":
        print("\n".join(f"{title}\t{query}" for title, query in queries(paths)))
        return 0
    with open(needs_file, encoding="utf-8") as f:
        needs = dict(line.strip().rsplit(": ", 1) for line in f if line.strip() and not line.startswith("#"))
    bad = asked = 0
    named = set()
    for title, query in queries(paths):
        asked += 1
        named.add(title)
        found = ask(url, query)
        if bool(found) == (title in needs):
            bad += 1
            why = "is in the list of those that have no answer here, and has one" if found else "has no answer"
            print(f"{title}: {why}\n\t{query}")
    for title in set(needs) - named:
        bad += 1
        print(f"{needs_file}: nothing is called '{title}'")
    print(f"{asked} queries, {len(needs)} without an answer by design, {bad} bad")
    return bad > 0


sys.exit(main())
