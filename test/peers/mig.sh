#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's nvidia-mig-parted v0.13.1, unmodified, and gpuslice mig on the same simulated nodes:
# mig.sh BUILD_DIR [MODEL]..., or mig.sh --bench BUILD_DIR
#
# What either makes of a config, the other has to call applied, and both have to export and to save
# with the same bytes. Of each layout in its default map, also those for other cards, both make the same. That
# release has no generate-config; newer ones are not offered there. --bench: time and NVML calls of both for eight GPUs
# from seven small instances to the balanced layout. Programs are built from the Go module proxy into .cache/peers. Exit 77: no
# Go here, or not root.
set -euo pipefail

if [[ ${1-} == --help || $# == 0 ]]; then
	sed -n '3,12s/^# \{0,1\}//p' "$0"
	exit 0
fi
bench=
[[ $1 != --bench ]] || { bench=1 && shift; }

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
shift
bin=$root/.cache/peers
map=$root/src/io/config/mig-default.yaml
gpuslice=$build/src/tools/cli/gpuslice
failures=0
# shellcheck source=test/peers/mig.bash
. "$here/mig.bash"
((!UID)) && unshare -m true 2>/dev/null || exit 77
mkdir -p "$bin"
mig_parted_build "$root" "$bin"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GPUSLICE_SIM_DIR=$work/node GPUSLICE_RUN_DIR=$work/run LD_LIBRARY_PATH=$build/src/testbed/sim/nvml
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

# every_layout MODEL: all of mig-parted's default map, also what is for other cards. Both make the same of a layout. The
# exception is a layout of profiles that the GPU does not have: mig-parted turns MIG on, makes nothing, and calls that applied.
every_layout() {
	local name why a b layouts=0 made=0
	node "$1"
	for name in $(sed -n 's/^  \([a-z0-9][a-z0-9.+-]*\):$/\1/p' "$default_map"); do
		same assert -a -f "$default_map" -c "$name"
		ours apply -f "$default_map" -c all-disabled >/dev/null
		a=$(ours apply -f "$default_map" -c "$name" >/dev/null && ours export) || a=refused
		why=$(tail -n 1 "$work/ours.log")
		ours apply -f "$default_map" -c all-disabled >/dev/null
		b=$(theirs apply -f "$default_map" -c "$name" >/dev/null && theirs export) || b=refused
		layouts=$((layouts + 1))
		if [[ $a == refused && $b == *"mig-devices: {}"* ]] && [[ $why == *"MIG profile "*" not found on this GPU"* ]]; then
			! theirs assert -f "$default_map" -c "$name" >/dev/null || fail "$1: $name: mig-parted has made nothing, and asserts it"
			continue
		fi
		[[ $a == "$b" && $a != refused ]] ||
			fail "$1: $name of the default map:"$'\n'"ours: $a $why"$'\n'"theirs: $b $(tail -1 "$work/theirs.log")"
		made=$((made + 1))
	done
	# A map without layouts, or a card that can have none, would prove nothing.
	((made > 5)) || fail "$1: $made layouts of $default_map could be made"
	echo "$1: $layouts layouts of the default map, $made made alike"
	echo "exception: $1: $((layouts - made)) have profiles of other cards; nvidia-mig-parted turns MIG on, makes nothing and succeeds"
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
default_map=$(cd "$here/mig" && PATH=$PATH:/usr/local/go/bin go list -m -f '{{.Dir}}' github.com/NVIDIA/mig-parted)/deployments/systemd/config-default.yaml
for model in a100-40-1 h100-1; do
	[[ $# == 0 || " $* " == *" $model "* ]] || continue
	every_layout "$model"
done
exit $((failures > 0))
