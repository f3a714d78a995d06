#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns catalogue.yaml into C tables: gen-catalogue.py IN OUT.

Everything is checked here, so that a mistake stops the build with the place in the catalogue, and
the C side needs no parser. Member names are checked by the C compiler.
"""
import re
import sys

import yaml

SUFFIX = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
TEXT = {"name", "vbios", "part_number", "inforom"}
NOT_KEYS = {"evidence", "cc", "unsupported"}
EVIDENCE = {"measured", "listed", "plausible"}


def fail(where, text):
    sys.exit(f"catalogue.yaml: {where}: {text}")


def number(where, value):
    if isinstance(value, int):
        return value
    m = re.fullmatch(r"(\d+)(Ki|Mi|Gi|Ti)", str(value))
    if not m:
        fail(where, f"expected a number, found {value!r}")
    return int(m[1]) * SUFFIX[m[2]]


def members(where, table):
    for key, value in table.items():
        if key in NOT_KEYS:
            continue
        if key in TEXT:
            yield f'.{key} = "{value}"'
        else:
            n = number(f"{where}.{key}", value)
            yield f".{key} = {n}{'ULL' if n > 0xffffffff else 'U' if n >= 0 else ''}"


def groups(where, names):
    for name in names:
        if not re.fullmatch(r"[a-z0-9-]+", name):
            fail(where, f"expected a group name, found {name!r}")
        yield f"[SIM_GROUP_{name.upper().replace('-', '_')}] = 3"


def product(key, row, defaults):
    where = f"gpus.{key}"
    row = {**defaults, **row}
    if row.get("evidence") not in EVIDENCE:
        fail(where, f"evidence: expected one of {sorted(EVIDENCE)}")
    major, minor = row["cc"].split(".")
    row.setdefault("power_default_mw", row["power_limit_mw"])
    row.setdefault("power_max_mw", row["power_limit_mw"])
    row.setdefault("clock_mem_idle_mhz", row["clock_mem_max_mhz"])
    row.setdefault("pcie_gen_max", row["pcie_gen"])
    row.setdefault("pcie_width_max", row["pcie_width"])
    row.setdefault("ecc_pending", row["ecc"])
    if number(where, row["memory_reserved"]) >= number(where, row["memory_total"]):
        fail(where, "memory_reserved is not below memory_total")
    fields = [f'.product = "{key}"', f".cc_major = {major}U", f".cc_minor = {minor}U"]
    fields += list(members(where, row))
    yield f'\t{{ .evidence = "{row["evidence"]}",'
    yield "\t\t.keys = { " + ",\n\t\t\t".join(fields) + " },"
    yield "\t\t.fail = { " + ", ".join(groups(where, row.get("unsupported", []))) + " } },"


def repeat(values, n):
    return (list(values) + [values[-1]] * n)[:n]


def layout(name, row):
    ids = row["ids"]
    n = len(ids)
    numa, switches = repeat(row.get("numa", [-1]), n), repeat(row.get("switches", [0]), n)
    yield f'\t{{ .name = "{name}", .count = {n}, .level_switch = {row.get("same_switch", 10)},'
    yield f'\t\t.level_numa = {row.get("same_numa", 40)}, .level_far = {row.get("far", 50)},'
    yield "\t\t.addresses = {"
    for i, text in enumerate(ids):
        m = re.fullmatch(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.0", text)
        if not m:
            fail(f"layouts.{name}", f"expected a PCI address, found {text!r}")
        dom, bus, dev = (int(g, 16) for g in m.groups())
        yield f"\t\t\t{{ {dom}, {bus}, {dev}, {switches[i]}, {numa[i]} }},"
    yield "\t\t} },"


def index_of(where, names, name):
    if name not in names:
        fail(where, f"expected one of {', '.join(names)}; found {name!r}")
    return names.index(name)


def node(name, row, cat):
    where = f"nodes.{name}"
    for key in row:
        if key not in ("gpu", "layout", "nvlink", "set", "unsupported"):
            fail(where, f"unknown key {key!r}")
    gpu = index_of(where, list(cat["gpus"]), row["gpu"])
    lay = index_of(where, list(cat["layouts"]), row["layout"])
    link = index_of(where, list(cat["nvlinks"]), row.get("nvlink", "none"))
    yield f'\t{{ .name = "{name}", .product = {gpu}, .layout = {lay}, .nvlinks = {link},'
    yield "\t\t.fail = { " + ", ".join(groups(where, row.get("unsupported", []))) + " },"
    sets = [f'{{ "{k}", "{v}" }}' for k, v in row.get("set", {}).items()]
    yield "\t\t.set = { " + ", ".join(sets) + " } },"


def table(out, decl, rows):
    print(f"{decl} = {{", file=out)
    for row in rows:
        for line in row:
            print(line, file=out)
    print("};\n", file=out)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        cat = yaml.safe_load(f)
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        print("/* SPDX-License-Identifier: Apache-2.0 */", file=out)
        print("/* Made from catalogue.yaml by gen-catalogue.py. */", file=out)
        print('#include "testbed/sim/catalogue/catalogue.h"\n', file=out)
        drv = cat["driver"]
        print(f'const char sim_default_driver[] = "{drv["version"]}";', file=out)
        print(f'const uint32_t sim_default_nvml_major = {drv["nvml_major"]};', file=out)
        print(f'const uint32_t sim_default_cuda = {drv["cuda"]};\n', file=out)
        table(out, "const struct sim_product sim_products[]",
              (product(k, v, cat["defaults"]) for k, v in cat["gpus"].items()))
        table(out, "const struct sim_layout sim_layouts[]",
              (layout(k, v) for k, v in cat["layouts"].items()))
        table(out, "const struct sim_nvlinks sim_nvlinks[]", (
            [f'\t{{ .name = "{k}", .switch_links = {v.get("switch", 0)}, '
             f'.hidden = {v.get("hidden", 0)}, .pair_count = '
             f'{len(v.get("pairs", []))}, .pairs = {{ '
             + ", ".join("{ %d, %d, %d }" % tuple(p) for p in v.get("pairs", [])) + " } },"]
            for k, v in cat["nvlinks"].items()))
        table(out, "const struct sim_node_model sim_node_models[]",
              (node(k, v, cat) for k, v in cat["nodes"].items()))
        for what, key in (("products", "gpus"), ("node_models", "nodes")):
            print(f"const size_t sim_{what[:-1]}_count = {len(cat[key])};", file=out)


main()
