#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the node labels of `gpuslice labels` with those of NVIDIA's gpu-feature-discovery, key by
# key: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...
#
# Each MODEL with each config below; without models, all that the simulator has, each plain and with
# another config in turn. Of the timestamp only the form counts. What is meant to differ from
# NVIDIA's is not in these configs: docs/labels.md lists it.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	sed -n '3,8s/^# \{0,1\}//p' "$0"
	exit 0
fi

gfd=${1:?usage: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...}
build=$(cd "${2:?usage: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...}" && pwd)
shift 2
gpuslice=$build/src/cli/gpuslice
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/src/sim/nvml
failures=0
compared=0

# config NAME: the sharing config of that name.
config() {
	case $1 in
	plain) echo 'version: v1' ;;
	time-slicing)
		echo 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}'
		;;
	renamed)
		echo 'sharing: {timeSlicing: {renameByDefault: true, resources: [{name: gpu, replicas: 10}]}}'
		;;
	several)
		cat <<-'EOT'
			sharing:
			  timeSlicing:
			    failRequestsGreaterThanOne: true
			    resources:
			    - {name: nvidia.com/mig-1g.5gb, replicas: 3}
			    - {name: nvidia.com/gpu, replicas: 2}
		EOT
		;;
	another)
		echo 'sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}'
		;;
	single) echo 'flags: {migStrategy: single}' ;;
	mixed)
		echo 'flags: {migStrategy: mixed}'
		echo 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}'
		;;
	no-timestamp) echo 'flags: {gfd: {noTimestamp: true}}' ;;
	esac
}

configs=(plain time-slicing renamed several another single mixed no-timestamp)

# labels PROGRAM NAME FILE: the labels that it writes, sorted.
labels() {
	"${@:3}" --oneshot --use-node-feature-api=false --config-file="$work/$2" \
		--machine-type-file="$work/machine" --output-file="$work/$1" >"$work/$1.log" 2>&1 ||
		{ echo "$1: $(tail -1 "$work/$1.log")" && return 1; }
	LC_ALL=C sort -o "$work/$1" "$work/$1"
}

steady() {
	sed -E 's/^(nvidia\.com\/gfd\.timestamp)=[0-9]{10}$/\1=TIME/' "$1"
}

compare() {
	local model=$1 name=$2

	config "$name" >"$work/$name"
	if ! labels theirs "$name" "$gfd" --device-discovery-strategy=nvml ||
		! labels ours "$name" "$gpuslice" labels; then
		failures=$((failures + 1))
		return
	fi
	if ! diff <(steady "$work/theirs") <(steady "$work/ours") >"$work/diff"; then
		echo "FAIL $model, $name (< NVIDIA's, > ours):"
		cat "$work/diff"
		failures=$((failures + 1))
	fi
	compared=$((compared + $(wc -l <"$work/ours")))
	rm -f "$work"/{theirs,ours}
}

printf ' p3.8xlarge (test) \n' >"$work/machine"
models=("$@")
if [[ $# == 0 ]]; then
	mapfile -t models < <("$gpuslice" sim list-models |
		awk '/^[^ ]/ {on = $1 == "Nodes"; next} on && NF {print $1}')
fi
for i in "${!models[@]}"; do
	export GPUSLICE_SIM_NODE=${models[i]} GPUSLICE_SIM_DIR=$work/node-$i
	chosen=("${configs[@]}")
	[[ $# != 0 ]] || chosen=(plain "${configs[1 + i % (${#configs[@]} - 1)]}")
	for name in "${chosen[@]}"; do
		compare "${models[i]}" "$name"
	done
done
echo "${#models[@]} models, $compared labels compared, $failures failures"
((compared > 0 && failures == 0))
