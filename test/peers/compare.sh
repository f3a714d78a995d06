#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh DUMP_PROGRAM LIBRARY ANSWERS: the simulated h100-1 gives the answers that a real H100
# gave (ANSWERS: nvml-dump's output there, without UUID and serial number), but for what moves by
# nature and for what is not simulated yet.
set -eu

dump=$1
library=$2
answers=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

steady() {
	grep -vE \
		-e '^nvmlDeviceGet(UUID|Serial|PowerUsage|TotalEnergyConsumption|PcieThroughput)\(' \
		-e '^nvmlDeviceGetViolationStatus\((4|10|11)\)' \
		-e '^field (78|80|81|83|169|175|176|177|185|186|191|197|198) scope' \
		-e '^gpm 10 ' \
		-e '^(profile|profileV|placements)\([0-9]+\)' "$1"
	# Power and temperature move; that they are there, and their types, does not.
	sed -nE 's/^(field (83|185|186|191) scope [0-9]+ = [0-9]+ [0-9]+ type [0-9]+).*/\1/p' "$1"
}

# GPU instance profiles (profile, profileV, placements): with MIG.
GPUSLICE_SIM_NODE=h100-1 GPUSLICE_SIM_DIR=$work/node "$dump" "$library" >"$work/all"
steady "$work/all" >"$work/ours"
steady "$answers" >"$work/theirs"
diff "$work/theirs" "$work/ours"
