#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh DUMP_PROGRAM LIBRARY ANSWERS...: a simulated node gives the answers that a real one gave,
# but for what moves by nature. ANSWERS is nvml-dump's output on the real machine, named MODEL.txt after
# the node model, without UUIDs, serial numbers and "short name"; MODEL.mig.txt: of nvml-dump --mig.
set -eu

if [ "${1-}" = --help ]; then
	sed -n '3,5s/^# \{0,1\}//p' "$0"
	exit 0
fi

dump=$1
library=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

steady() {
	grep -vE \
		-e '^nvmlDeviceGet(UUID|Serial|PowerUsage|TotalEnergyConsumption|PcieThroughput)\(' \
		-e '^nvmlDeviceGet(Temperature\(0|TemperatureV|MarginTemperature|ClockInfo\([013]\))' \
		-e '^nvmlDeviceGetClock\((0|10|30)\)' \
		-e '^nvmlDeviceGet(ModuleId|PlatformInfo|CpuAffinity)' \
		-e '^short name' \
		-e '^nvmlDeviceGetViolationStatus\((4|10|11)\)' \
		-e '^field (78|80|81|82|83|140|141|169|175|176|177|185|186|191|197|198) scope' \
		-e '^gpm 10 ' \
		-e '^profileV3 name' "$1"
	# Power and temperature move; that they are there, and their types, does not.
	sed -nE 's/^(field (83|185|186|191) scope [0-9]+ = [0-9]+ [0-9]+ type [0-9]+).*/\1/p' "$1"
}

status=0
for answers; do
	name=$(basename "$answers" .txt)
	model=${name%.mig}
	echo "== $name"
	set -- "$library"
	if [ "$model" != "$name" ]; then
		set -- --mig "$library"
	fi
	GPUSLICE_SIM_NODE=$model GPUSLICE_SIM_DIR=$work/$model "$dump" "$@" >"$work/all"
	steady "$work/all" >"$work/ours"
	steady "$answers" >"$work/theirs"
	diff "$work/theirs" "$work/ours" || status=1
done
exit $status
