#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the node labels of `gpuslice labels` with those of NVIDIA's gpu-feature-discovery, key by
# key: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...
#
# Each MODEL with each config below; without models, all that the simulator has, each plain and with
# another config in turn. Then nodes cut by MIG (layouts.yaml), with each strategy. Of the timestamp
# only the form counts. What is meant to differ from NVIDIA's is not in these configs: docs/labels.md
# lists it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/peers/cut.bash
. "$here/cut.bash"

if [[ ${1-} == --help ]]; then
	sed -n '3,9s/^# \{0,1\}//p' "$0"
	exit 0
fi

gfd=${1:?usage: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...}
build=$(cd "${2:?usage: labels.sh GPU_FEATURE_DISCOVERY BUILD_DIR [MODEL]...}" && pwd)
shift 2
gpuslice=$build/src/tools/cli/gpuslice
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build/src/testbed/sim/nvml
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
	none-* | single-* | mixed-*)
		echo "flags: {migStrategy: ${1%%-*}}"
		config "${1#*-}"
		;;
	esac
}

configs=(plain time-slicing renamed several another single mixed no-timestamp)

# labels PROGRAM NAME FILE: the labels that it writes, sorted.
labels() {
	on_node "${@:3}" --oneshot --use-node-feature-api=false --config-file="$work/$2" \
		--machine-type-file="$work/machine" --output-file="$work/$1" >"$work/$1.log" 2>&1 ||
		{ echo "$1: $(tail -1 "$work/$1.log")" && return 1; }
	LC_ALL=C sort -o "$work/$1" "$work/$1"
}

steady() {
	sed -E 's/^(nvidia\.com\/gfd\.timestamp)=[0-9]{10}$/\1=TIME/' "$1"
}

# long_values MODEL: NVIDIA's labels, with ours in place of those that the API server would refuse since
# they are longer than 63 characters, and says so. Ours must be theirs with something cut out of the
# middle: docs/labels.md.
long_values() {
	local line ours value i
	while IFS= read -r line; do
		value=${line#*=}
		if ((${#value} > 63)) && ours=$(grep -F "${line%%=*}=" "$work/ours") && ours=${ours#*=}; then
			for ((i = 1; i < ${#ours} && ${#ours} <= 63; i++)); do
				[[ $value == "${ours:0:i}"*"${ours:i}" ]] || continue
				echo "exception: $1: ${line%%=*}: ${#value} characters, ours is cut to $ours" >&2
				line=${line%%=*}=$ours
				break
			done
		fi
		printf '%s\n' "$line"
	done <"$work/theirs"
}

compare() {
	local model=$1 name=$2 status=0 other

	config "$name" >"$work/$name"
	labels theirs "$name" "$gfd" --device-discovery-strategy=nvml &
	other=$!
	labels ours "$name" "$gpuslice" labels || status=1
	wait "$other" || status=1
	if ((status)); then
		echo "FAIL $model, $name"
		failures=$((failures + 1))
		return
	fi
	long_values "$model, $name" >"$work/mended"
	if ! diff <(steady "$work/mended") <(steady "$work/ours") >"$work/diff"; then
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
	node_files "$gpuslice"
	chosen=("${configs[@]}")
	[[ $# != 0 ]] || chosen=(plain "${configs[1 + i % (${#configs[@]} - 1)]}")
	for name in "${chosen[@]}"; do
		compare "${models[i]}" "$name"
	done
done

# MODEL LAYOUT SHARING...: with each strategy and each of these configs. Every layout that a strategy
# refuses is here, and each kind of profile.
cuts() {
	cat <<-'EOT'
		p4d.24xlarge   all-1g.5gb        plain several
		p4d.24xlarge   all-balanced      plain renamed
		p4d.24xlarge   all-enabled       plain time-slicing
		p4d.24xlarge   one-of-eight      plain several
		p4d.24xlarge   one-empty         plain time-slicing
		p4d.24xlarge   several           plain several
		p4d.24xlarge   parts             plain time-slicing
		p4d.24xlarge   parts-beside-whole plain another
		p4d.24xlarge   me                plain time-slicing
		p4d.24xlarge   all-disabled      plain several
		h100-1         all-3g.40gb       plain time-slicing
		h100-1         h100-mixture      plain
		a30-1          all-2g.12gb.me    plain
		a30-1          a30-mixture       plain
		h200-1         all-balanced      plain
		gb200-1        all-1g.47gb       plain
		rtx-pro-6000-1 all-1g.24gb.gfx   plain time-slicing
		rtx-pro-6000-1 all-2g.48gb-me    plain
		rtx-pro-6000-1 rtx-mixture       plain several
		rtx-pro-6000-1 rtx-me-all        plain
		g7e.12xlarge   rtx-two           plain
	EOT
}

if has_mounts; then
	while read -r model layout sharing; do
		[[ $# == 0 || " $* " == *" $model "* ]] || continue
		export GPUSLICE_SIM_NODE=$model GPUSLICE_SIM_DIR=$work/cut-$model
		node_files "$gpuslice"
		cut_node "$gpuslice" "$here/layouts.yaml" "$layout" || failures=$((failures + 1))
		for name in $sharing; do
			for strategy in none single mixed; do
				compare "$model, $layout" "$strategy-$name"
			done
		done
	done < <(cuts)
fi
echo "${#models[@]} models, $compared labels compared, $failures failures"
((compared > 0 && failures == 0))
