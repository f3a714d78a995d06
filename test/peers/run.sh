#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs NVIDIA's own programs, unmodified, on simulated nodes: run.sh BUILD_DIR [MODEL]...
#
# go-nvml's binding (conformance/), gpu-feature-discovery and the device plugin (plugin/) load the
# simulated libnvidia-ml.so.1 through LD_LIBRARY_PATH and must see the GPUs of the model. Programs
# are built once from the Go module proxy into .cache/peers. Exit 77: no Go here; the device plugin
# is skipped without root, since its socket's place is compiled in.
#
# Our CDI specifications go through the CDI project's own library (cdi/): loading as a container
# runtime does, version, injection of devices. Generated configs go through the parser of NVIDIA's
# device plugin (plugin/config). Odd gRPC clients talk to our device plugin (plugin/odd).
set -euo pipefail

if [[ ${1-} == --help ]]; then
	sed -n '3,12s/^# \{0,1\}//p' "$0"
	exit 0
fi

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "${1:?usage: run.sh BUILD_DIR [MODEL]...}" && pwd)
shift
bin=$root/.cache/peers
libdir=$build/src/testbed/sim/nvml
gpuslice=$build/src/tools/cli/gpuslice
# The linker flags of NVIDIA's Makefile: NVML's symbols are resolved at run time.
ldflags="-s -w '-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'"
failures=0
plugin_pid=

fail() {
	echo "FAIL $*"
	failures=$((failures + 1))
}

build_programs() {
	PATH=$PATH:/usr/local/go/bin
	command -v go >/dev/null || exit 77
	mkdir -p "$bin"
	(cd "$here/conformance" && CGO_CFLAGS=-Wno-deprecated-declarations GOGC=400 go build -o "$bin/" .)
	[[ -x $bin/gpu-feature-discovery && -x $bin/nvidia-device-plugin ]] ||
		(cd "$here/plugin" && GOGC=400 go build -ldflags "$ldflags" -o "$bin/" \
			github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin \
			github.com/NVIDIA/k8s-device-plugin/cmd/gpu-feature-discovery)
	(cd "$here/cdi" && GOGC=400 go build -o "$bin/cdi" .)
	[[ -x $bin/plugin-client ]] || (cd "$here/plugin" && GOGC=400 go build -o "$bin/plugin-client" ./client)
	(cd "$here/plugin" && GOGC=400 go build -o "$bin/plugin-kubelet" ./kubelet)
	(cd "$here/plugin" && GOGC=400 go build -o "$bin/plugin-config" ./config)
	(cd "$here/plugin" && GOGC=400 go build -o "$bin/plugin-odd" ./odd)
}

# model gpus product memory family mig
models() {
	cat <<-'EOT'
		p3.2xlarge    1 Tesla-V100-SXM2-16GB   16384 volta  false
		p3.8xlarge    4 Tesla-V100-SXM2-16GB   16384 volta  false
		g4dn.12xlarge 4 Tesla-T4               15360 turing false
		p4d.24xlarge  8 NVIDIA-A100-SXM4-40GB  40960 ampere true
		h100-1        1 NVIDIA-H100-80GB-HBM3  81559 hopper true
		p5.48xlarge   8 NVIDIA-H100-80GB-HBM3  81559 hopper true
		a30-1         1 NVIDIA-A30             24576 ampere true
		g7e.2xlarge   1 NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition 97887 blackwell true
	EOT
}

expect_label() {
	grep -qx "nvidia.com/$2" "$1" || fail "$model: label nvidia.com/$2, found: $(grep "${2%%=*}=" "$1" || echo none)"
}

check_labels() {
	local labels=$work/labels

	if ! "$bin/gpu-feature-discovery" --oneshot --use-node-feature-api=false --no-timestamp \
		--device-discovery-strategy=nvml --machine-type-file=/dev/null \
		--output-file="$labels" >"$work/gfd.log" 2>&1; then
		fail "$model: gpu-feature-discovery: $(tail -1 "$work/gfd.log")"
		return
	fi
	expect_label "$labels" "gpu.count=$gpus"
	expect_label "$labels" "gpu.product=$product"
	expect_label "$labels" "gpu.memory=$memory"
	expect_label "$labels" "gpu.family=$family"
	expect_label "$labels" "mig.capable=$mig"
	expect_label "$labels" "cuda.driver-version.full=580.159.04"
	expect_label "$labels" "cuda.runtime-version.full=13.0"
}

# The plugin serves in a directory that is compiled in: in a mount namespace that is ours alone.
check_plugin() {
	local devices=$work/devices lists=1 victim client i

	if [[ $(id -u) != 0 ]] || ! unshare -m true 2>/dev/null; then
		echo "$model: device plugin: skipped, needs root"
		return
	fi
	: >"$devices"
	mkdir -p "$work/kubelet" /var/lib/kubelet/device-plugins
	unshare -m sh -c 'mount --bind "$1" /var/lib/kubelet/device-plugins && exec "$2" --kubelet-socket "" --device-discovery-strategy nvml' \
		sh "$work/kubelet" "$bin/nvidia-device-plugin" >"$work/plugin.log" 2>&1 &
	plugin_pid=$!
	# One client for both lists: the plugin gives a change to any stream, even one whose client
	# has gone away.
	[[ ! -x $gpuslice ]] || lists=2
	"$bin/plugin-client" "$work/kubelet/nvidia-gpu.sock" "$lists" 20 >"$devices" &
	client=$!
	for ((i = 0; i < 200; i++)); do
		grep -q '^$' "$devices" && break
		sleep 0.1
	done
	[[ $(grep -c ' Healthy ' "$devices") == "$gpus" ]] ||
		fail "$model: device plugin shows: $(cat "$devices" "$work/plugin.log")"
	if [[ $lists == 2 ]]; then
		victim=$("$gpuslice" sim show --json | sed -n 's/.*"uuid": "\(.*\)",/\1/p' | head -1)
		"$gpuslice" sim xid 0 79
	fi
	wait "$client" || fail "$model: device plugin: $(tail -3 "$work/plugin.log")"
	[[ $lists == 1 ]] || grep -q "^$victim Unhealthy" "$devices" ||
		fail "$model: XID 79 of $victim did not make it unhealthy: $(cat "$devices")"
	kill "$plugin_pid" && wait "$plugin_pid" || true
	plugin_pid=
}

# spec CLASS [OPTION...]: as the agent writes it, with the node's files as the driver root.
spec() {
	local class=$1
	shift
	GPUSLICE_NVML=$libdir/libnvidia-ml.so.1 "$gpuslice" cdi generate --class "$class" \
		--driver-root "$work/node" --driver-root-ctr-path "$work/node" --sysfs "$work/node/sys" \
		-o "$work/cdi/k8s.device-plugin.nvidia.com-$class.json" "$@"
}

# Our CDI specifications in the hands of the CDI project's own library. Nodes must be real ones to be
# injected, which root can make.
check_cdi() {
	local node uuid kind=k8s.device-plugin.nvidia.com log=$work/cdi.log
	local -a names=()
	[[ -x $gpuslice ]] || return 0
	mkdir -p "$work/cdi"
	touch "$work/node/dev/nvidia-fs0"
	chgrp 44 "$work/node/dev/dri/card1" 2>/dev/null && chmod 660 "$work/node/dev/dri/card1"
	if ((!UID)); then
		for node in $(cd "$work/node" && find dev -type f); do
			mkdir -p "$work/nodes/${node%/*}"
			mknod "$work/nodes/$node" c 1 3 || break
		done
		uuid=$("$gpuslice" sim show --json | sed -n 's/.*"uuid": "\(.*\)",/\1/p' | head -1)
		names=("$kind/gpu=$uuid" "$kind/gds=all")
	fi
	spec gpu --dev-root "$work/nodes" && spec gds --dev-root "$work/nodes" &&
		"$bin/cdi" "$work/cdi" "${names[@]}" >"$log" 2>&1 ||
		fail "$model: CDI: $(cat "$log")"
	grep -q 'cdiVersion=0.[57].0' "$log" || fail "$model: CDI: $(cat "$log")"
	cat "$log"
	# with NVIDIA's hooks, and names that are numbers
	spec gpu --device-id-strategy index --nvidia-cdi-hook-path /usr/bin/nvidia-ctk &&
		"$bin/cdi" "$work/cdi" >"$log" 2>&1 || fail "$model: CDI with hooks: $(cat "$log")"
	grep "^$kind/gpu" "$log"
}

# What the kubelet does not do: odd clients of our device plugin's socket. Ours stands in for the kubelet.
check_odd_clients() {
	local dir=$work/odd i
	mkdir -p "$dir/kubelet/device-plugins"
	(
		export GPUSLICE_SIM_NODE=p3.8xlarge GPUSLICE_SIM_DIR=$dir/node GPUSLICE_NVML=$libdir/libnvidia-ml.so.1
		export GPUSLICE_KUBELET_DIR=$dir/kubelet GPUSLICE_RUN_DIR=$dir/run GPUSLICE_STATE_DIR=$dir/state
		trap 'kill $(jobs -p); wait' EXIT
		"$gpuslice" kubelet --kubelet-dir "$dir/kubelet" >"$dir/kubelet.log" 2>&1 &
		"$build/src/node/agent/gpusliced" --metrics-listen 127.0.0.1:0 >"$dir/agent.log" 2>&1 &
		for ((i = 0; i < 200; i++)); do
			! grep -q 'registered with the kubelet' "$dir/agent.log" || break
			sleep 0.1
		done
		timeout 200 "$bin/plugin-odd" "$dir/kubelet/device-plugins/nvidia-gpu.sock" $!
	) || fail "odd clients: $(tail -n 5 "$dir/agent.log")"
}

build_programs
work=$(mktemp -d)
trap '[[ -z $plugin_pid ]] || kill "$plugin_pid"; rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$libdir NVML_NAMES=$root/src/testbed/sim/nvml/names.txt
while read -r model gpus product memory family mig; do
	[[ $# == 0 || " $* " == *" $model "* ]] || continue
	rm -rf "${work:?}"/*
	export GPUSLICE_SIM_NODE=$model GPUSLICE_SIM_DIR=$work/node
	cuts=()
	[[ $mig == false ]] || cuts=(mig)
	"$bin/conformance" "$gpus" "$product" "${cuts[@]}" >"$work/conformance.log" 2>&1 ||
		fail "$model: conformance: $(grep -m3 FAIL "$work/conformance.log")"
	check_labels
	check_plugin
	check_cdi
	echo "$model: done"
done < <(models)
if [[ -x $gpuslice ]]; then
	check_odd_clients
	"$here/python.sh" "$build" || (($? == 77)) || fail "Python programs"
	# The same configs each time: a change is judged by what it changed.
	"$bin/plugin-config" "$gpuslice" "$root/docs/migrate.md" 300 1 || fail "configs are not read as NVIDIA's parser does"
	# All models there are, unless some are named.
	"$here/labels.sh" "$bin/gpu-feature-discovery" "$build" "$@" || fail "labels are not NVIDIA's"
	"$here/devices.sh" "$bin" "$build" "$@" || fail "MIG devices are not NVIDIA's"
	if ((!UID)); then
		"$here/mig.sh" "$build" || fail "MIG is not as with nvidia-mig-parted"
	fi
fi
exit $((failures > 0))
