#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns mig.yaml into C tables: gen-mig.py MIG.yaml CATALOGUE.yaml OUT.

The catalogue has each product's memory, from which profile names and inferred figures come. What
does not fit together stops the build with the place in mig.yaml.
"""
import math
import re
import sys

import yaml

SUFFIX = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
EVIDENCE = set("MSDI")
NO_ID = 255
SLOTS_MAX = 12


def fail(where, text):
    sys.exit(f"mig.yaml: {where}: {text}")


def mib(value):
    m = re.fullmatch(r"(\d+)(Ki|Mi|Gi)", str(value))
    return (int(m[1]) * SUFFIX[m[2]] if m else int(value)) >> 20


def share_mib(where, text, total, reserved):
    """1/8, 2/8, 4/8 or 8/8 of the memory, for rows without a real figure."""
    m = re.fullmatch(r"([1248])/8", text)
    if not m:
        fail(where, f"expected MiB or k/8, found {text!r}")
    k = int(m[1])
    free = total - reserved if k == 8 else total * 97 * k // 800
    return free // 64 * 64


def gb(memory, total):
    """The GB of a name, as NVML's users compute it; halves are rounded away from zero."""
    eighths = -(-8 * memory // total)
    return math.floor(eighths / 8 * -(-total // 1024) + 0.5)


def layout(name, row):
    where = f"layouts.{name}"
    slots = row["slots"]
    numbers = [p["number"] for p in row["profiles"].values()]
    if len(set(numbers)) != len(numbers) or len({p["id"] for p in row["profiles"].values()}) != len(numbers):
        fail(where, "expected each number and each id once")
    for key, p in row["profiles"].items():
        if sorted(p["order"]) != p["starts"]:
            fail(f"{where}.{key}", "order and starts differ")
        for start in p["starts"]:
            if start + p["size"] > slots or start not in row["ids"].get(p["size"], {}):
                fail(f"{where}.{key}", f"start {start} is outside, or has no id")
    yield f'\t{{ .slots = {slots}, .slices = {row["slices"]}, .ids = {{'
    for size in range(SLOTS_MAX + 1):
        ids = [row["ids"].get(size, {}).get(s, NO_ID) for s in range(SLOTS_MAX)]
        yield "\t\t{ " + ", ".join(map(str, ids)) + " },"
    yield "\t} },"


def profile(where, key, shape, row, total, reserved):
    name, sms, engines, memory, evidence = row
    suffix = re.sub(r"^\d+g( x2)?", "", key)
    memory = memory if isinstance(memory, int) else share_mib(where, memory, total, reserved)
    want = f'{shape["slices"]}g.{gb(memory, total)}gb{suffix}'
    if name != want:
        fail(where, f"{memory} of {total} MiB is {want}, found {name}")
    if evidence not in EVIDENCE:
        fail(where, f"expected evidence {sorted(EVIDENCE)}, found {evidence!r}")
    counts = [int(n) for n in engines.split("/")]
    if len(counts) != 5:
        fail(where, f"expected five engine counts, found {engines!r}")
    order = ", ".join(map(str, shape["order"]))
    starts = sum(1 << s for s in shape["starts"])
    return (f'\t\t{{ .name = "{name}", .evidence = \'{evidence}\', .number = {shape["number"]}, '
            f'.id = {shape["id"]}, .slices = {shape["slices"]}, .max = {shape["max"]},\n'
            f'\t\t\t.size = {shape["size"]}, .gfx = {shape.get("gfx", 0)}, .starts = {starts:#x}, '
            f'.order_count = {len(shape["order"])}, .order = {{ {order} }},\n'
            f'\t\t\t.sms = {sms}, .memory_mib = {memory}, '
            f'.engines = {{ {", ".join(map(str, counts))} }} }},')


def product(key, row, mig, cat):
    where = f"products.{key}"
    gpu = {**cat["defaults"], **cat["gpus"][key]} if key in cat["gpus"] else fail(where, "not in the catalogue")
    total, reserved = mib(gpu["memory_total"]), mib(gpu["memory_reserved"])
    names = list(mig["layouts"])
    shapes = mig["layouts"][row["layout"]]["profiles"]
    rows = {k: v for k, v in row.items() if k not in ("layout", "idle_mib")}
    if set(rows) != set(shapes):
        fail(where, f"expected the profiles of its layout, found others: {sorted(set(rows) ^ set(shapes))}")
    keys = sorted(rows, key=lambda k: shapes[k]["number"])
    yield f'\t{{ .product = "{key}", .layout = &sim_mig_layouts[{names.index(row["layout"])}],'
    yield f'\t\t.idle_mib = {row["idle_mib"]}, .profile_count = {len(keys)}, .profiles = {{'
    for k in keys:
        yield profile(f"{where}.{k}", k, shapes[k], rows[k], total, reserved)
    yield "\t} },"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        mig = yaml.safe_load(f)
    with open(sys.argv[2], encoding="utf-8") as f:
        cat = yaml.safe_load(f)
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */", "/* Made from mig.yaml by gen-mig.py. */",
             '#include "testbed/sim/mig.h"\n', "static const struct sim_mig_layout sim_mig_layouts[] = {"]
    for k, v in mig["layouts"].items():
        lines += layout(k, v)
    lines += ["};\n", "const struct sim_mig_table sim_mig_tables[] = {"]
    for k, v in mig["products"].items():
        lines += product(k, v, mig, cat)
    lines += ["};\n", f'const size_t sim_mig_table_count = {len(mig["products"])};']
    capable = {k for k, v in cat["gpus"].items() if v.get("mig_capable")}
    if capable != set(mig["products"]):
        fail("products", f"not the MIG products of the catalogue: {sorted(capable ^ set(mig['products']))}")
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        print("\n".join(lines), file=out)


if __name__ == "__main__":
    main()
