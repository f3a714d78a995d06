#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh DUMP_PROGRAM LIBRARY ANSWERS...: a simulated node gives the answers that a real one gave,
# but for what moves by nature. ANSWERS is nvml-dump's output on the real machine, named MODEL.txt after
# the node model, without UUIDs, serial numbers and "short name"; MODEL.mig.txt: of nvml-dump --mig.
#
# One answer of the real driver is mended before it is compared, and the script says so: names of MIG
# profiles in the third form of the structure (defect_v3_names).
set -eu

if [ "${1-}" = --help ]; then
	sed -n '3,8s/^# \{0,1\}//p' "$0"
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
		-e '^gpm 10 ' "$1"
	# Power and temperature move; that they are there, and their types, does not.
	sed -nE 's/^(field (83|185|186|191) scope [0-9]+ = [0-9]+ [0-9]+ type [0-9]+).*/\1/p' "$1"
}

# Driver 580.159.04 writes the name of a profile where the second form of the structure has it, 8 bytes
# too late, and wrong: "MIG 7g.0gb" for 1g.10gb, made of the number of instances. The simulator has the
# same name as in the second form. Exactly that defect is mended, from the second form's name.
defect_v3_names() {
	awk '
	/^profileV\([0-9]+\) = 0 / {
		split($0, part, "\047")
		name = part[2]
	}
	/^profileV3\([0-9]+\) = 0 / {
		for (i = 1; i < NF; i++)
			if ($i == "max")
				max = $(i + 1)
	}
	/^profileV3 name\([0-9]+\) \047\047 at / {
		split($0, part, "\047")
		if (part[4] ~ "^MIG " max "g\\.0gb") {
			printf "exception: %s: the driver has \"%s\" at +8 for \"%s\"\n",
				$2, part[4], name >"/dev/stderr"
			$0 = part[1] "\047" name "\047 at +8 \047" substr(name, 9) "\047" part[5]
		}
	}
	{ print }'
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
	steady "$answers" | defect_v3_names 2>"$work/exceptions" >"$work/theirs"
	cat "$work/exceptions"
	diff "$work/theirs" "$work/ours" || status=1
done
exit $status
