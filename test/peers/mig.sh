#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's nvidia-mig-parted v0.13.1, unmodified, and gpuslice mig on the same simulated nodes:
# mig.sh BUILD_DIR [MODEL]..., or mig.sh --bench BUILD_DIR
#
# What either makes of a config, the other has to call applied, and both have to export and to save
# with the same bytes. That release has no generate-config; newer ones are not offered there. --bench: time and NVML calls of both for eight GPUs from seven small instances
# to the balanced layout. Programs are built from the Go module proxy into .cache/peers. Exit 77: no
# Go here, or not root.
set -euo pipefail

if [[ ${1-} == --help || $# == 0 ]]; then
	sed -n '3,11s/^# \{0,1\}//p' "$0"
	exit 0
fi
bench=
[[ $1 != --bench ]] || { bench=1 && shift; }

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
shift
bin=$root/.cache/peers
map=$root/src/config/mig-default.yaml
gpuslice=$build/src/cli/gpuslice
failures=0
# shellcheck source=test/peers/mig.bash
. "$here/mig.bash"
((!UID)) && unshare -m true 2>/dev/null || exit 77
mkdir -p "$bin"
mig_parted_build "$root" "$bin"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GPUSLICE_SIM_DIR=$work/node GPUSLICE_RUN_DIR=$work/run LD_LIBRARY_PATH=$build/src/sim/nvml
export GPUSLICE_NVML=$LD_LIBRARY_PATH/libnvidia-ml.so.1

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

ours() {
	"$gpuslice" mig "$@" 2>"$work/ours.log"
}

theirs() {
	mig_parted "$bin" "$work/files" "$@" 2>"$work/theirs.log"
}

# node MODEL
node() {
	export GPUSLICE_SIM_NODE=$1
	rm -rf "$GPUSLICE_SIM_DIR"
	"$gpuslice" sim create >/dev/null
	mig_parted_node "$work/files"
}

# The same question to both: the same exit status and the same words.
same() {
	local a b
	a=$(ours "$@" && echo ok) || true
	b=$(theirs "$@" && echo ok) || true
	[[ $a == "$b" ]] || fail "$GPUSLICE_SIM_NODE: $*:"$'\n'"ours: $a $(tail -1 "$work/ours.log")"$'\n'"theirs: $b $(tail -1 "$work/theirs.log")"
}

same_state() {
	same export
	same export -o json
	ours checkpoint -f "$work/saved.ours" >/dev/null && theirs checkpoint -f "$work/saved.theirs" >/dev/null &&
		cmp "$work/saved.ours" "$work/saved.theirs" || fail "$GPUSLICE_SIM_NODE: $1: checkpoints differ"
}

compare() {
	local name
	node "$1"
	shift
	same export
	for name in "$@"; do
		same assert -f "$map" -c "$name"
		ours apply -f "$map" -c "$name" >/dev/null || fail "$GPUSLICE_SIM_NODE: $name: ours: $(tail -1 "$work/ours.log")"
		same assert -f "$map" -c "$name"
		same assert -m -f "$map" -c "$name"
		same_state "$name by ours"
		ours apply -f "$map" -c all-disabled >/dev/null
		theirs apply -f "$map" -c "$name" >/dev/null || fail "$GPUSLICE_SIM_NODE: $name: theirs: $(tail -1 "$work/theirs.log")"
		same assert -f "$map" -c "$name"
		same_state "$name by theirs"
		# what the one saved the other restores
		ours apply -f "$map" -c all-disabled >/dev/null
		ours restore -f "$work/saved.theirs" >/dev/null || fail "$GPUSLICE_SIM_NODE: $name: restore: $(tail -1 "$work/ours.log")"
		same assert -f "$map" -c "$name"
		same_state "$name restored"
	done
	echo "$GPUSLICE_SIM_NODE: done"
}

models() {
	cat <<-'EOT'
		a100-40-1 all-1g.5gb all-1g.5gb.me all-balanced all-disabled
		a30-1 all-2g.12gb all-balanced
		h100-1 all-1g.10gb all-1g.20gb all-balanced all-7g.80gb
		h200-2 all-3g.71gb all-balanced all-enabled
		b200-1 all-1g.23gb all-balanced
		p3.2xlarge all-disabled all-1g.5gb
	EOT
}

# calls COMMAND...: prints its time and the NVML calls that the node saw.
measure() {
	local before start
	"$gpuslice" mig apply -f "$map" -c all-1g.5gb >/dev/null
	before=$("$gpuslice" sim calls)
	start=$(date +%s%N)
	"$@" >/dev/null
	printf '%6d ms' $((($(date +%s%N) - start) / 1000000))
	paste <("$gpuslice" sim calls) - <<<"$before" | awk '{ printf "%7d %s", $2 - $4, $1 }'
	echo
}

if [[ $bench ]]; then
	node p4d.24xlarge
	for _ in 1 2 3; do
		echo "gpuslice mig       $(measure ours apply -f "$map" -c all-balanced)"
		echo "nvidia-mig-parted  $(measure theirs apply -f "$map" -c all-balanced)"
	done
	exit 0
fi
while read -r model names; do
	[[ $# == 0 || " $* " == *" $model "* ]] || continue
	# shellcheck disable=SC2086 # words
	compare "$model" $names
done < <(models)
exit $((failures > 0))
