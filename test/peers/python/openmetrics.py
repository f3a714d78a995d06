#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads standard input with prometheus_client's parsers: openmetrics.py openmetrics|text. Prints families and samples.

The parser of OpenMetrics is strict: names, types, units, order, counters' suffixes, and the end of the text.
"""
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as text

parse = {"openmetrics": openmetrics, "text": text}[sys.argv[1]].text_string_to_metric_families
families = list(parse(sys.stdin.read()))
names = [family.name for family in families]
if len(set(names)) != len(names):
    sys.exit(f"FAIL families that come twice: {sorted(n for n in names if names.count(n) > 1)}")
print(f"families={len(families)} samples={sum(len(family.samples) for family in families)}")
for family in families:
    for sample in family.samples:
        if sample.value != sample.value or sample.value in (float("inf"), float("-inf")):
            sys.exit(f"FAIL {sample.name}: {sample.value}")
