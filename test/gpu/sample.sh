#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures that the agent samples from the real GPUs of this machine, held against what nvidia-smi says
# right before and right after. Changes nothing on the card. Prints a table; exit 1 if a figure differs.
# Never part of the default tests.
set -euo pipefail

usage() {
	cat <<-'EOF'
	Usage: test/gpu/sample.sh STAGE GPU-SAMPLE

	STAGE is a staged install (build/stage) or a bundle (tools/bundle), whose libraries are used.
	GPU-SAMPLE is the program of that name (build/main/test/support/gpu-sample).
	EOF
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
esac
[[ $# -eq 2 ]] || { usage >&2; exit 2; }
# shellcheck source=test/gpu/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
use_stage "$1"
sampler=$2
trap 'rm -rf "$tmp"' EXIT
worker=$(find "$stage/libexec" -name gpuslice-nvml | head -n 1)

smi() {
	nvidia-smi --format=csv,noheader,nounits --query-gpu=uuid,"$(tr '\n' , <"$tmp/queries" | sed 's/,$//')"
}

# nvidia-smi's name, ours, and how far they may be apart: a number, a percentage, or "=".
cat >"$tmp/table" <<'EOF'
temperature.gpu DCGM_FI_DEV_GPU_TEMP 2
temperature.memory DCGM_FI_DEV_MEMORY_TEMP 2
power.draw DCGM_FI_DEV_POWER_USAGE 15%
power.draw.instant DCGM_FI_DEV_POWER_USAGE_INSTANT 30%
power.limit DCGM_FI_DEV_POWER_MGMT_LIMIT 0.01
enforced.power.limit DCGM_FI_DEV_ENFORCED_POWER_LIMIT 0.01
power.default_limit DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF 0.01
power.min_limit DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN 0.01
power.max_limit DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX 0.01
clocks.sm DCGM_FI_DEV_SM_CLOCK 10%
clocks.mem DCGM_FI_DEV_MEM_CLOCK =
clocks.video DCGM_FI_DEV_VIDEO_CLOCK 10%
clocks.max.sm DCGM_FI_DEV_MAX_SM_CLOCK =
clocks.max.mem DCGM_FI_DEV_MAX_MEM_CLOCK =
clocks.applications.graphics DCGM_FI_DEV_APP_SM_CLOCK =
memory.total DCGM_FI_DEV_FB_TOTAL =
memory.used DCGM_FI_DEV_FB_USED 1
memory.free DCGM_FI_DEV_FB_FREE 1
memory.reserved DCGM_FI_DEV_FB_RESERVED 1
pcie.link.gen.current DCGM_FI_DEV_PCIE_LINK_GEN =
pcie.link.gen.max DCGM_FI_DEV_PCIE_MAX_LINK_GEN =
pcie.link.width.current DCGM_FI_DEV_PCIE_LINK_WIDTH =
pcie.link.width.max DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH =
utilization.gpu DCGM_FI_DEV_GPU_UTIL 5
utilization.memory DCGM_FI_DEV_MEM_COPY_UTIL 5
utilization.encoder DCGM_FI_DEV_ENC_UTIL 5
utilization.decoder DCGM_FI_DEV_DEC_UTIL 5
pstate DCGM_FI_DEV_PSTATE =
fan.speed DCGM_FI_DEV_FAN_SPEED 5
ecc.mode.current DCGM_FI_DEV_ECC_CURRENT =
ecc.mode.pending DCGM_FI_DEV_ECC_PENDING =
ecc.errors.corrected.volatile.total DCGM_FI_DEV_ECC_SBE_VOL_TOTAL =
ecc.errors.uncorrected.volatile.total DCGM_FI_DEV_ECC_DBE_VOL_TOTAL =
ecc.errors.corrected.aggregate.total DCGM_FI_DEV_ECC_SBE_AGG_TOTAL =
ecc.errors.uncorrected.aggregate.total DCGM_FI_DEV_ECC_DBE_AGG_TOTAL =
retired_pages.single_bit_ecc.count DCGM_FI_DEV_RETIRED_SBE =
name DCGM_FI_DEV_NAME =
serial DCGM_FI_DEV_SERIAL =
pci.bus_id DCGM_FI_DEV_PCI_BUSID =
driver_version DCGM_FI_DRIVER_VERSION =
vbios_version DCGM_FI_DEV_VBIOS_VERSION =
persistence_mode DCGM_FI_DEV_PERSISTENCE_MODE =
compute_mode DCGM_FI_DEV_COMPUTE_MODE =
mig.mode.current DCGM_FI_DEV_MIG_MODE =
clocks_event_reasons.active DCGM_FI_DEV_CLOCK_THROTTLE_REASONS =
EOF
# Names that this nvidia-smi does not know are left out, and said.
: >"$tmp/queries"
while read -r name _; do
	if nvidia-smi --query-gpu="$name" --format=csv,noheader >/dev/null 2>&1; then
		echo "$name" >>"$tmp/queries"
	else
		echo "note: this nvidia-smi has no $name"
	fi
done <"$tmp/table"

heading "nvidia-smi, three samples, nvidia-smi"
smi >"$tmp/before"
"$sampler" "$worker" 1000 3 >"$tmp/ours" || failed=1
smi >"$tmp/after"

heading "the same moment"
python3 - "$tmp" <<'PY' || failed=1
import sys
tmp = sys.argv[1]
table = {}
for line in open(tmp + "/table"):
    smi, ours, near = line.split()
    table[smi] = (ours, near)
queries = open(tmp + "/queries").read().split()
ours = {}
for line in open(tmp + "/ours"):
    uuid, name, value = line.rstrip("\n").split("\t")
    ours.setdefault(uuid, {})[name] = value
words = {"Enabled": "1", "Disabled": "0", "Active": "1", "Default": "0", "Exclusive_Process": "3",
         "Prohibited": "2", "Yes": "1", "No": "0"}

def rows(path):
    for line in open(path):
        cells = [c.strip() for c in line.split(",")]
        yield cells[0], dict(zip(queries, cells[1:]))

def close(a, b, near):
    if near == "=":
        return a == b
    try:
        x, y = float(a), float(b)
    except ValueError:
        return a == b
    limit = max(abs(x), abs(y)) * float(near[:-1]) / 100 if near.endswith("%") else float(near)
    return abs(x - y) <= limit

def plain(name, value):
    if name == "pstate":
        return value[1:]
    if value.startswith("0x"):
        return str(int(value, 16))
    return words.get(value, value)

bad = 0
before = dict(rows(tmp + "/before"))
for uuid, after in rows(tmp + "/after"):
    print("%s\n  %-40s %-24s %-16s %s" % (uuid, "field", "ours", "before", "after"))
    for name in queries:
        field, near = table[name]
        a, b = plain(name, before[uuid][name]), plain(name, after[name])
        mine = ours.get(uuid, {}).get(field)
        unknown = {"[N/A]", "N/A", "[Not Supported]"}
        if a in unknown and b in unknown:
            ok = mine is None
        else:
            ok = mine is not None and (close(mine, a, near) or close(mine, b, near))
        bad += not ok
        print("%s %-40s %-24s %-16s %s" % ("  " if ok else "X ", field, mine, a, b))
sys.exit(bad > 0)
PY

heading "all that was sampled"
sed 's/^/  /' "$tmp/ours"
heading "result"
((failed)) && echo "a figure differs" || echo "all figures as nvidia-smi has them"
exit "$failed"
