#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what gpusliced serves the kubelet on nodes cut by MIG with what NVIDIA's device plugin does:
# devices.sh BIN_DIR BUILD_DIR [MODEL]...
#
# On each node of the table below both run with the same config, in mount namespaces where the node's
# files stand in /sys, /proc and /dev. One client (plugin/kubelet) asks both for everything; the answers
# must be the same, and what the table says. Needs root.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=test/peers/cut.bash
. "$here/cut.bash"

if [[ ${1-} == --help ]]; then
	sed -n '3,8s/^# \{0,1\}//p' "$0"
	exit 0
fi

usage="usage: devices.sh BIN_DIR BUILD_DIR [MODEL]..."
bin=$(cd "${1:?$usage}" && pwd)
build=$(cd "${2:?$usage}" && pwd)
shift 2
gpuslice=$build/src/tools/cli/gpuslice
export LD_LIBRARY_PATH=$build/src/testbed/sim/nvml
failures=0
compared=0

# model layout strategy sharing flags: resource=DEVICES, or resource=HEALTHY/DEVICES [| what NVIDIA's has]
#
# Where NVIDIA's plugin has something else:
#  refused  it ends on such a node; ours says what is wrong by unhealthy devices, and the others serve
#  else     a defect of it, at least to v0.19.3: its patterns of profiles match any part of a name. It
#           makes nvidia.com/mig-1g.5gb of 1g.5gb+me, while its own labels say nvidia.com/mig-1g.5gb.me,
#           and nvidia.com/mig-3g.20gb of 1c.3g.20gb. What it answers for a device that both have must
#           be the same all the same.
table() {
	cat <<-'EOT'
		p4d.24xlarge all-1g.5gb none - specs gpu=8
		p4d.24xlarge all-1g.5gb none gpu index,specs gpu=16
		p4d.24xlarge all-1g.5gb single - specs gpu=56
		p4d.24xlarge all-1g.5gb single gpu index,specs gpu=112
		p4d.24xlarge all-1g.5gb mixed mig index,specs mig-1g.5gb=168
		p4d.24xlarge all-1g.5gb mixed renamed mounts mig-1g.5gb.shared=112
		p4d.24xlarge all-balanced mixed - mounts,specs mig-1g.5gb=16 mig-2g.10gb=8 mig-3g.20gb=8
		p4d.24xlarge all-balanced mixed one index,mounts mig-1g.5gb=48 mig-2g.10gb=8 mig-3g.20gb=8
		p4d.24xlarge all-balanced mixed - annotations mig-1g.5gb=16 mig-2g.10gb=8 mig-3g.20gb=8
		p4d.24xlarge all-balanced single - specs gpu=16/32 | refused
		p4d.24xlarge one-of-eight mixed gpu specs gpu=14 mig-1g.5gb=7
		p4d.24xlarge one-of-eight single - specs gpu=7/14 | refused
		p4d.24xlarge one-empty mixed - specs mig-3g.20gb=14
		p4d.24xlarge one-empty single - specs gpu=14/15 | refused
		p4d.24xlarge several mixed - index,specs gpu=2 mig-1g.5gb=14 mig-1g.5gb.me=2 mig-1g.10gb=2 mig-2g.10gb=4 mig-7g.40gb=1 | gpu=2 mig-1g.10gb=2 mig-1g.5gb=16 mig-2g.10gb=4 mig-7g.40gb=1
		p4d.24xlarge several mixed patterns index,specs gpu=2 mig-1g.10gb=2 mig-1g.5gb=16 mig-2g.10gb=4 mig-7g.40gb=1
		p4d.24xlarge parts single - specs gpu=48
		p4d.24xlarge parts mixed - specs | mig-3g.20gb=48
		p4d.24xlarge all-enabled mixed - specs
		p4d.24xlarge all-disabled single gpu specs gpu=16
		h100-1 h100-mixture mixed - specs mig-1g.10gb=1 mig-1g.10gb.me=1 mig-1g.20gb=1 mig-3g.40gb=1 | mig-1g.10gb=2 mig-1g.20gb=1 mig-3g.40gb=1
		a30-1 a30-mixture mixed - specs mig-1g.6gb=2 mig-2g.12gb.me=1 | mig-1g.6gb=2 mig-2g.12gb=1
		rtx-pro-6000-1 all-1g.24gb.gfx single - specs gpu=4
		rtx-pro-6000-1 rtx-mixture mixed - specs mig-1g.24gb=1 mig-1g.24gb.gfx=1 mig-1g.24gb.me=1 mig-1g.24gb-me=1 | mig-1g.24gb=4
		rtx-pro-6000-1 rtx-me-all mixed - specs mig-1g.24gb-me=2 mig-2g.48gb.me.all=1 | mig-1g.24gb=2 mig-2g.48gb=1
		g7e.12xlarge rtx-two mixed - cri mig-1g.24gb=2 mig-2g.48gb-me=1 mig-4g.96gb.gfx=1 | mig-1g.24gb=2 mig-2g.48gb=1 mig-4g.96gb=1
	EOT
}

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

# config STRATEGY SHARING FLAGS
config() {
	local strategy=$1 sharing=$2 flags=$3 lists=envvar ids=uuid specs=false
	[[ ,$flags, != *,mounts,* ]] || lists=volume-mounts
	[[ ,$flags, != *,annotations,* ]] || lists=cdi-annotations
	[[ ,$flags, != *,cri,* ]] || lists=cdi-cri
	[[ ,$flags, != *,index,* ]] || ids=index
	[[ ,$flags, != *,specs,* ]] || specs=true
	cat <<-EOT
		version: v1
		flags: {migStrategy: $strategy, plugin: {deviceListStrategy: [$lists], deviceIDStrategy: $ids, passDeviceSpecs: $specs}}
	EOT
	case $sharing in
	gpu) echo 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}' ;;
	mig) echo 'sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}' ;;
	renamed) echo 'sharing: {timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}' ;;
	patterns) echo 'resources: {mig: [{pattern: "1g.5gb*", name: mig-1g.5gb}]}' ;; # which NVIDIA's drops
	one) echo 'sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}' ;;
	esac
}

# run WHO PROGRAM...: it, on the node, with a kubelet's directory of its own; in place of this shell.
run() {
	local dir=$work/$1
	shift
	# shellcheck disable=SC2016 # for the other shell
	ON_NODE='exec' on_node sh -c 'dir=$1; shift
		mount -t tmpfs none /var/lib && mount -t tmpfs none /run && mkdir -p /var/lib/kubelet/device-plugins /run/cdi &&
		mount --bind "$dir/plugins" /var/lib/kubelet/device-plugins && mount --bind "$dir/cdi" /run/cdi &&
		exec "$@"' sh "$dir" "$@" >"$dir/log" 2>&1
}

# serve WHO RESOURCES PROGRAM...: asks what PROGRAM serves; 1: it does not come up, or not with so many
# resources.
serve() {
	local who=$1 dir=$work/$1 want=$2 program client status=0
	shift 2
	"$bin/plugin-kubelet" "$dir/plugins" "$want" 20 >"$dir/answers" 2>"$dir/client.log" &
	client=$!
	for ((i = 0; i < 100; i++)); do
		[[ ! -S $dir/plugins/kubelet.sock ]] || break
		sleep 0.05
	done
	run "$who" "$@" &
	program=$!
	wait "$client" || status=1
	kill "$program" 2>/dev/null || true
	wait "$program" 2>/dev/null || true
	return $status
}

# refuse WHO PROGRAM...: 1: it does not end with a failure.
refuse() {
	local status=0
	(run "$1" timeout 20 "${@:2}") || status=$?
	echo "status $status" >"$work/$1/client.log"
	((status == 1))
}

# served FILE: resource=DEVICES of each resource, as in the table.
served() {
	awk '
	function flush() {
		if (name != "")
			printf "%s=%s\n", name, healthy == all ? all : healthy "/" all
	}
	/^nvidia/ { flush(); name = substr($1, 12); healthy = all = 0 }
	/^  device/ { all++; healthy += $3 == "Healthy" }
	END { flush() }' "$1"
}

# by_device FILE: each device with its answer as a line, without its resource.
by_device() {
	awk '
	/^  device/ { print }
	/^[^ ]|^  [^ ]/ { if (line != "") print line; line = "" }
	/^  allocate \[\[[^ \]]+\]\]/ && !/MIG-none/ { line = $0; next }
	line != "" { line = line ";" $0 }
	END { if (line != "") print line }' "$1" | LC_ALL=C sort
}

# is_served FILE RESOURCES: these, as in the table.
is_served() {
	diff <(xargs -n 1 <<<"$2" | grep . | LC_ALL=C sort) <(served "$1" | LC_ALL=C sort) >"$work/diff" ||
		fail "$name (< expected, > found): $(cat "$work/diff")"
}

# cdi_nodes WHO: what the CDI specification puts into a container: the environment and device nodes for
# all devices, and the nodes of each. Nodes have the same order in both only by chance.
cdi_nodes() {
	jq -r '(.containerEdits.env[] | "all " + .), (.containerEdits.deviceNodes[] | "all " + .path),
		(.devices[] | .name + " " + ([.containerEdits.deviceNodes[].path] | sort | join(" ")))' \
		"$work/$1/cdi/k8s.device-plugin.nvidia.com-gpu.json" | LC_ALL=C sort
}

# Without their CDI specifications the answers of cdi-* strategies say little.
check_cdi() {
	cdi_nodes theirs >"$work/theirs/nodes" || fail "$name: NVIDIA's has no CDI specification"
	cdi_nodes ours >"$work/ours/nodes" || fail "$name: ours has no CDI specification"
	grep -q '^MIG-.*/nvidia-caps/' "$work/theirs/nodes" || fail "$name: NVIDIA's CDI specification has no MIG device"
	diff "$work/theirs/nodes" "$work/ours/nodes" >"$work/diff" ||
		fail "$name: CDI (< NVIDIA's, > ours): $(head -20 "$work/diff")"
	compared=$((compared + $(wc -l <"$work/ours/nodes")))
}

check() {
	is_served "$work/ours/answers" "$ours"
	if [[ $theirs == refused ]]; then
		return
	elif [[ $theirs != "$ours" ]]; then
		is_served "$work/theirs/answers" "$theirs"
		echo "exception: $name: NVIDIA's has $theirs for ${ours:-nothing}"
		LC_ALL=C comm -13 <(by_device "$work/theirs/answers") <(by_device "$work/ours/answers") >"$work/diff"
		[[ -s $work/diff ]] || return 0
	else
		diff "$work/theirs/answers" "$work/ours/answers" >"$work/diff" && return
	fi
	fail "$name (< NVIDIA's, > ours):"
	head -40 "$work/diff"
}

row() {
	local layout=$1 strategy=$2 sharing=$3 flags=$4 ours=$5 theirs=$6 agent plugin
	local name="$GPUSLICE_SIM_NODE, $layout, $strategy, sharing $sharing, $flags"
	local -a command=("$bin/nvidia-device-plugin" --config-file "$work/config.yaml"
		--device-discovery-strategy nvml --driver-root-ctr-path "$GPUSLICE_SIM_DIR")
	cut_node "$gpuslice" "$here/layouts.yaml" "$layout" || { fail "$name" && return; }
	device_nodes
	config "$strategy" "$sharing" "$flags" >"$work/config.yaml"
	rm -rf "$work/ours" "$work/theirs"
	mkdir -p "$work"/{ours,theirs}/{plugins,cdi,run}
	serve ours "$(wc -w <<<"$ours")" "$build/src/node/agent/gpusliced" --config-file "$work/config.yaml" \
		--run-dir "$work/ours/run" --state-dir "$work/ours/state" --driver-root-ctr-path "$GPUSLICE_SIM_DIR" &
	agent=$!
	if [[ $theirs == refused ]]; then
		refuse theirs "${command[@]}" &
	else
		serve theirs "$(wc -w <<<"$theirs")" "${command[@]}" &
	fi
	plugin=$!
	wait "$plugin" || fail "$name: NVIDIA's: $(cat "$work/theirs/client.log"; tail -3 "$work/theirs/log")"
	wait "$agent" || fail "$name: ours: $(cat "$work/ours/client.log"; tail -3 "$work/ours/log")"
	check
	case $flags in
	annotations | cri) check_cdi ;;
	esac
	compared=$((compared + $(wc -l <"$work/ours/answers")))
}

has_mounts || { echo "devices: skipped, needs root" && exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while read -r model layout strategy sharing flags resources; do
	[[ $# == 0 || " $* " == *" $model "* ]] || continue
	export GPUSLICE_SIM_NODE=$model GPUSLICE_SIM_DIR=$work/$model
	node_files "$gpuslice"
	# both load NVML from the driver root
	cp "$LD_LIBRARY_PATH/libnvidia-ml.so.1" "$GPUSLICE_SIM_DIR"/usr/lib/*/libnvidia-ml.so.[1-9][0-9]*
	ours=${resources%|*}
	theirs=${resources#*|}
	row "$layout" "$strategy" "$sharing" "$flags" "${ours% }" "${theirs# }"
done < <(table)
echo "$compared lines compared, $failures failures"
((failures == 0))
