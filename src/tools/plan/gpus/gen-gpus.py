#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C tables of the planner's GPUs: gen-gpus.py GPUS.yaml MIG.yaml CATALOGUE.yaml GEN_MIG.py OUT.

MIG.yaml and CATALOGUE.yaml are those of the simulator, which say how a product is cut; GEN_MIG.py reads
them. What does not fit together stops the build with the place.
"""
import importlib.util
import re
import sys

import yaml

KEYS = {"product", "cc", "multiprocessors", "mig", "memoryMiB", "bandwidth", "tflops", "power"}


def fail(name, text):
    sys.exit(f"gpus.yaml: {name}: {text}")


def profile(gen, where, key, shape, row, total, reserved):
    name, sms, _, memory, _ = row
    memory = memory if isinstance(memory, int) else gen.share_mib(where, memory, total, reserved)
    g, gb, attributes = re.fullmatch(r"(\d+)g\.(\d+)gb(.*)", name).groups()
    starts = sum(1 << s for s in shape["starts"])
    return (f'\t\t\t{{ .name = {{ {g}, {g}, {gb}, "{attributes}" }}, .number = {shape["number"]}, .id = {shape["id"]},\n'
            f'\t\t\t\t.slices = {shape["slices"]}, .max = {shape["max"]}, .multiprocessors = {sms},\n'
            f'\t\t\t\t.memory_mib = {memory}, .size = {shape["size"]}, .starts = {starts:#x} }},')


def layout(gen, name, mig, catalogue):
    row = mig["products"][name]
    gpu = {**catalogue["defaults"], **catalogue["gpus"][name]}
    total, reserved = gen.mib(gpu["memory_total"]), gen.mib(gpu["memory_reserved"])
    shape = mig["layouts"][row["layout"]]
    keys = sorted(shape["profiles"], key=lambda k: shape["profiles"][k]["number"])
    yield (f'\t{{ .memory_total_mib = {total}, .slots = {shape["slots"]}, .slices = {shape["slices"]}, '
           f'.n = {len(keys)},\n\t\t.profiles = {{')
    for k in keys:
        yield profile(gen, f"products.{name}.{k}", k, shape["profiles"][k], row[k], total, reserved)
    yield "\t\t} },"


# Of a GB200 with 189 GB, which the catalogue lacks and mig-parted's default map has: by the names, 95/93 of the other's.
OTHERS = {"3g.95gb": 93760, "4g.95gb": 93760, "7g.189gb": 191680}


def profiles(gen, mig, catalogue):
    """Each name that a profile of some product has, also of one without a row in gpus.yaml, with its smallest memory."""
    found = dict(OTHERS)
    for product, row in mig["products"].items():
        gpu = {**catalogue["defaults"], **catalogue["gpus"][product]}
        total, reserved = gen.mib(gpu["memory_total"]), gen.mib(gpu["memory_reserved"])
        for key in mig["layouts"][row["layout"]]["profiles"]:
            name, _, _, memory, _ = row[key]
            if not isinstance(memory, int):
                memory = gen.share_mib(f"products.{product}.{key}", memory, total, reserved)
            found[name] = min(memory, found.get(name, memory))
    for name, memory in sorted(found.items()):
        g, gb, attributes = re.fullmatch(r"(\d+)g\.(\d+)gb(.*)", name).groups()
        yield f'\t{{ {{ {g}, {g}, {gb}, "{attributes}" }}, {memory} }},'


def main():
    gpus_path, mig_path, catalogue_path, gen_path, out_path = sys.argv[1:]
    with open(gpus_path, encoding="utf-8") as f:
        gpus = yaml.safe_load(f)
    with open(mig_path, encoding="utf-8") as f:
        mig = yaml.safe_load(f)
    with open(catalogue_path, encoding="utf-8") as f:
        catalogue = yaml.safe_load(f)
    spec = importlib.util.spec_from_file_location("gen_mig", gen_path)
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)
    layouts, rows = [], []
    names = list(profiles(gen, mig, catalogue))
    for name, gpu in gpus.items():
        if set(gpu) - {"mig"} != KEYS - {"mig"}:
            fail(name, f"expected the keys {sorted(KEYS)}, found {sorted(gpu)}")
        if ("mig" in gpu) != (name in mig["products"]):
            fail(name, "mig: expected where, and only where, mig.yaml has the product")
        place = "NULL"
        if "mig" in gpu:
            place = f"&layouts[{sum(r.startswith('	{ .memory') for r in layouts)}]"
            layouts += layout(gen, name, mig, catalogue)
        major, minor = f'{gpu["cc"]:.1f}'.split(".")
        rows.append(f'\t{{ "{name}", "{gpu["product"]}", {gpu["multiprocessors"]}, '
                    f'{gpu.get("mig", gpu["multiprocessors"])}, {gpu["memoryMiB"]}, {gpu["bandwidth"]}, '
                    f'{gpu["tflops"]}, {gpu["power"]}, {major}, {minor}, {place} }},')
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */", "/* Made from gpus.yaml by gen-gpus.py. */",
             '#include "tools/plan/gpus/gpus.h"\n', "static const struct mig_layout layouts[] = {", *layouts, "};\n",
             "const struct plan_gpu plan_gpus[] = {", *rows, "};",
             f"const size_t plan_n_gpus = {len(rows)};\n",
             "const struct plan_mig_profile plan_mig_profiles[] = {", *names, "};",
             f"const size_t plan_n_mig_profiles = {len(names)};"]
    with open(out_path, "w", encoding="utf-8") as out:
        print("\n".join(lines), file=out)


main()
