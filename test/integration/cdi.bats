#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# CDI: the specification of a node, its upkeep, and what a container is given by name.
load lib
load cluster

SPEC=k8s.device-plugin.nvidia.com-gpu.json
DRIVER=580.159.04

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_CDI_DIR=$NODE_DIR/cdi
	CDI=$GPUSLICE_CDI_DIR/$SPEC
	"$GPUSLICE" sim create >/dev/null
}

teardown() {
	node_teardown
}

# cdi_config STRATEGIES [LINE...]: flags that make the simulated node's files the driver root.
cdi_config() {
	local strategies=$1
	shift
	sharing 2
	cat <<-EOF
		flags:
		  nvidiaDriverRoot: $GPUSLICE_SIM_DIR
		  plugin:
		    deviceListStrategy: $strategies
		    containerDriverRoot: $GPUSLICE_SIM_DIR
	EOF
	((!$#)) || printf '    %s\n' "$@"
}

# cdi_up STRATEGIES [LINE...]: kubelet and agent, in touch.
cdi_up() {
	CONFIG=$NODE_DIR/config.yaml
	cdi_config "$@" >"$CONFIG"
	kubelet && agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys" || return 1
	eventually 20 offers 8
}

# pod NAME: one that asks for a slice.
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}
	EOF
}

# grant JQ_FILTER: of the first pod.
grant() {
	k get pods -o json | jq -er ".items[0].gpuslice.grants[0] | $1"
}

spec() {
	jq -er "$1" "$CDI"
}

# readyz: the answer, and its status as the last line.
readyz() {
	curl -s -w '%{http_code}\n' --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://localhost/readyz
}

ready() {
	readyz | grep -x 200
}

not_ready() {
	readyz | grep -E "$1"
}

file_id() {
	stat -c '%i %Y' "$CDI"
}

devices() {
	[[ $(jq '.devices | length' "$CDI") == "$1" ]]
}

mounts_driver() {
	spec ".containerEdits.mounts | any(.hostPath | endswith(\"/libcuda.so.$1\"))"
}

message() {
	k get pods -o json | jq -er ".items[] | select(.metadata.name == \"$1\") | .status.message" | grep -F "$2"
}

@test "the specification is there before the devices, and a pod gets a name that is in it" {
	cdi_up '[cdi-annotations, cdi-cri]'
	[ "$(stat -c %a "$CDI")" = 644 ]
	[ "$(spec .kind)" = k8s.device-plugin.nvidia.com/gpu ]
	[ "$(spec '.devices | length')" = 4 ]
	pod a
	eventually 20 grant '.cdiDevices[0]'
	name=$(grant '.cdiDevices[0]')
	[ "${name%=*}" = k8s.device-plugin.nvidia.com/gpu ]
	spec ".devices[] | select(.name == \"${name#*=}\")"
	# the same name for older runtimes, under a key of its own
	grant '.annotations | to_entries[0] | .key' |
		grep -Ex 'cdi\.k8s\.io/nvidia-device-plugin_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}'
	[ "$(grant '.annotations | to_entries[0] | .value')" = "$name" ]
	# nothing by environment, mount or node besides
	[ "$(grant '.envs + {} | length')" = 0 ]
	[ "$(grant '[.mounts[], .devices[]] | length')" = 0 ]
	k describe pods | grep "CDI devices: *$name"
}

@test "the specification follows the GPUs, the driver and its libraries, and is written only then" {
	# a node whose driver can be another one
	rm -r "$GPUSLICE_SIM_DIR"
	export GPUSLICE_SIM_NODE=$NODE_DIR/node.yaml
	printf 'model: p3.8xlarge\ndriver: {version: %s}\n' "$DRIVER" >"$GPUSLICE_SIM_NODE"
	sim create >/dev/null
	cdi_up cdi-cri 'deviceIDStrategy: index'
	[ "$(spec '[.devices[].name] | join(" ")')" = "0 1 2 3" ]
	[ "$(spec .cdiVersion)" = 0.5.0 ]
	before=$(file_id)
	cdi_config cdi-cri 'deviceIDStrategy: index' | sed 's/replicas: 2/replicas: 3/' | put "$CONFIG"
	eventually 20 offers 12
	[ "$(file_id)" = "$before" ]
	sim add >/dev/null
	eventually 20 devices 5
	# a new driver, while the agent runs
	mounts_driver "$DRIVER"
	sed -i 's/version: .*}/version: 590.10}/' "$GPUSLICE_SIM_NODE"
	sim create --force >/dev/null
	eventually 20 mounts_driver 590.10
	spec ".containerEdits.mounts | any(.hostPath | contains(\"$DRIVER\")) | not"
	# what somebody deletes comes back
	rm "$CDI"
	eventually 30 test -s "$CDI"
	[ "$(times agent 'CDI specification written')" -ge 4 ]
}

@test "a specification that cannot be written is reported, not offered for CDI alone, and retried" {
	: >"$GPUSLICE_CDI_DIR"
	cdi_config cdi-annotations >"${CONFIG:=$NODE_DIR/config.yaml}"
	kubelet
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 8 0
	eventually 10 not_ready "^cdi: .*$GPUSLICE_CDI_DIR"
	[ "$(readyz | tail -1)" = 503 ]
	pod a
	"$GPUSLICE" status --json | jq -e 'all(.resources[].slices[];
		.reason | contains("no CDI specification is in place for the container runtime: "))'
	pods 0 1
	logged agent 'error CDI specification not written, trying again'
	# with another strategy besides, that one serves
	cdi_config '[envvar, cdi-annotations]' | put "$CONFIG"
	eventually 20 pods 1
	k get pods -o json | jq -e '.items[] | select(.metadata.name == "a") | .gpuslice.grants[0]
		| .envs.NVIDIA_VISIBLE_DEVICES != null and .annotations == {}'
	# a place to write to
	rm "$GPUSLICE_CDI_DIR"
	eventually 30 ready
	logged agent 'CDI specifications are in place again'
	pod b
	eventually 20 pods 2
	k get pods -o json | jq -e '.items[] | select(.metadata.name == "b") | .gpuslice.grants[0]
		| .envs.NVIDIA_VISIBLE_DEVICES != null and (.annotations | length) == 1'
}

@test "missing driver files are reported; the file of the last run is left alone, and stays at the end" {
	cdi_up cdi-cri
	[ -s "$CDI" ]
	stop agent
	[ -s "$CDI" ]
	before=$(file_id)
	find "$GPUSLICE_SIM_DIR/usr" -name 'libcuda.so*' -delete
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 not_ready "^cdi: no libcuda\.so\.$DRIVER for this machine below"
	[ "$(file_id)" = "$before" ]
	sim create --force p3.8xlarge >/dev/null
	eventually 30 ready
}

@test "a deleted file is detected while the GPUs are probed once a minute" {
	CONFIG=$NODE_DIR/config.yaml
	cdi_config cdi-cri | sed 's/probeInterval: 200ms/probeInterval: 60s/' >"$CONFIG"
	kubelet && agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 8
	rm "$CDI"
	eventually 15 test -s "$CDI"
}

@test "a specification of another class that cannot be written is reported, and does not affect the node" {
	mkdir -p "$GPUSLICE_SIM_DIR/dev/infiniband" "$GPUSLICE_CDI_DIR/${SPEC/gpu/mofed}/x"
	: >"$GPUSLICE_SIM_DIR/dev/infiniband/rdma_cm"
	MOFED_ENABLED=true cdi_up cdi-cri
	eventually 10 logged agent 'error CDI specification not written, trying again .*mofed'
	eventually 10 ready
	rm -r "${GPUSLICE_CDI_DIR:?}/${SPEC/gpu/mofed}"
	eventually 20 test -s "$GPUSLICE_CDI_DIR/${SPEC/gpu/mofed}"
	logged agent 'CDI specifications of other devices are in place again'
}

# mig_device PROFILE: CDI's name and nodes of the only one, from what NVML and the kernel driver say.
mig_device() {
	sim show --json | jq -er --arg p "$1" --rawfile minors "$GPUSLICE_SIM_DIR/proc/driver/nvidia-caps/mig-minors" '
		def minor($key): $minors | capture("(^|\n)" + $key + "/access (?<n>[0-9]+)\n").n;
		[.gpus[] as $g | $g.mig.gpu_instances[]? as $gi | $gi.compute_instances[]? | select(.name == $p)
			| [.uuid, "/dev/nvidia\($g.minor)"]
			+ ["gpu\($g.minor)/gi\($gi.gi)", "gpu\($g.minor)/gi\($gi.gi)/ci\(.ci)"
				| "/dev/nvidia-caps/nvidia-cap" + minor(.)]]
		| if length == 1 then .[0] | join(" ") else error("not one") end'
}

# in_spec NAME: its name and nodes, as mig_device prints them.
in_spec() {
	spec "[.devices[] | select(.name == \"$1\") | .name, .containerEdits.deviceNodes[].path] | join(\" \")"
}

# mig_up: a node with one GPU cut into 1g.5gb and 3g.20gb, kubelet and agent.
mig_up() {
	rm -r "$GPUSLICE_SIM_DIR"
	export GPUSLICE_SIM_NODE=p4d.24xlarge
	sim create >/dev/null
	cut_gpu 0 on && cut_gpu 0 19 9 || return 1
	CONFIG=$NODE_DIR/config.yaml
	cdi_config "$@" | sed 's/^flags:$/&\n  migStrategy: mixed/' >"$CONFIG"
	kubelet && agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys" --procfs "$GPUSLICE_SIM_DIR/proc" || return 1
	eventually 20 offers 14
	eventually 20 offers 1 1 nvidia.com/mig-1g.5gb
	eventually 20 offers 1 1 nvidia.com/mig-3g.20gb
}

@test "MIG devices are in the specification with their GPU and two capabilities, and pods get them" {
	mig_up cdi-cri
	[ "$(spec '.devices | length')" = 9 ]
	want=$(mig_device 1g.5gb)
	[ "$(in_spec "${want%% *}")" = "$want" ]
	want=$(mig_device 3g.20gb)
	[ "$(in_spec "${want%% *}")" = "$want" ]
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/mig-3g.20gb: 1}}}]}}
	EOF
	eventually 20 grant '.cdiDevices[0]'
	[ "$(grant '.cdiDevices[0]')" = "k8s.device-plugin.nvidia.com/gpu=${want%% *}" ]
	# what the agent writes is what the tool prints
	GPUSLICE_SYSFS=$GPUSLICE_SIM_DIR/sys GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc "$GPUSLICE" cdi generate \
		--driver-root "$GPUSLICE_SIM_DIR" --driver-root-ctr-path "$GPUSLICE_SIM_DIR" | diff - "$CDI"
	"$GPUSLICE" cdi list --cdi-dir "$GPUSLICE_CDI_DIR" | grep -F "gpu=${want%% *} "
}

@test "the specification follows a layout that another program changes, before a pod gets the new device" {
	mig_up cdi-cri 'deviceIDStrategy: index'
	[ "$(spec '[.devices[].name] | join(" ")')" = "0:0 0:1 1 2 3 4 5 6 7" ]
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/mig-2g.10gb: 1}}}]}}
	EOF
	cut_gpu 0 none && cut_gpu 0 14 || return 1
	eventually 20 grant '.cdiDevices[0]'
	want=$(mig_device 2g.10gb)
	[ "$(in_spec 0:0)" = "0:0 ${want#* }" ]
	[ "$(grant '.cdiDevices[0]')" = "k8s.device-plugin.nvidia.com/gpu=0:0" ]
	[ "$(spec '[.devices[].name] | join(" ")')" = "0:0 1 2 3 4 5 6 7" ]
}

@test "a MIG device without capabilities is unhealthy for that, and not in the specification" {
	mig_up cdi-cri
	# the list of a driver that has none for 3g.20gb
	sed -i '/^gpu0\/gi[12]\//d' "$GPUSLICE_SIM_DIR/proc/driver/nvidia-caps/mig-minors"
	eventually 20 offers 1 0 nvidia.com/mig-3g.20gb
	offers 1 1 nvidia.com/mig-1g.5gb
	offers 14
	status '.. | strings | select(contains("has no capabilities of GPU instance"))'
}

@test "without the strategies nothing is written" {
	cdi_up envvar
	eventually 10 ready
	[ ! -e "$GPUSLICE_CDI_DIR" ]
}

@test "an explicit hook path asks for NVIDIA's hooks" {
	"$GPUSLICED" --help | grep -F 'if not set, CDI specifications have no hooks [$NVIDIA_CDI_HOOK_PATH'
	NVIDIA_CDI_HOOK_PATH=/usr/bin/nvidia-cdi-hook CDI_DISABLE_HOOKS=enable-cuda-compat cdi_up cdi-cri
	[ "$(spec '[.containerEdits.hooks[].args[1]] | join(" ")')" = "create-symlinks update-ldcache disable-device-node-modification" ]
	spec '.containerEdits.hooks | all(.path == "/usr/bin/nvidia-cdi-hook" and .args[0] == "nvidia-cdi-hook")'
	[ "$(times agent 'no effect')" = 0 ]
}

@test "cdi generate prints what the agent writes" {
	cdi_up cdi-cri
	GPUSLICE_SYSFS=$GPUSLICE_SIM_DIR/sys "$GPUSLICE" cdi generate --driver-root "$GPUSLICE_SIM_DIR" \
		--driver-root-ctr-path "$GPUSLICE_SIM_DIR" -o "$NODE_DIR/spec.json"
	diff "$NODE_DIR/spec.json" "$CDI"
	run "$GPUSLICE" cdi generate --class gds --driver-root-ctr-path "$GPUSLICE_SIM_DIR"
	[ "$status" -eq 3 ]
	[[ $output == *"this node has no device of class gds"* ]]
	"$GPUSLICE" cdi generate --node p4d.24xlarge | jq -e '.devices | length == 8'
}

@test "cdi generate leaves a FIFO and a link in place, and takes - for standard output" {
	"$GPUSLICE" cdi generate --node p3.2xlarge >"$NODE_DIR/want"
	mkfifo "$NODE_DIR/fifo"
	timeout 20 cat "$NODE_DIR/fifo" >"$NODE_DIR/got" 3>&- &
	timeout 10 "$GPUSLICE" cdi generate --node p3.2xlarge -o "$NODE_DIR/fifo"
	[ -p "$NODE_DIR/fifo" ]
	wait $!
	cmp "$NODE_DIR/got" "$NODE_DIR/want"
	echo old >"$NODE_DIR/file"
	ln -s file "$NODE_DIR/link"
	"$GPUSLICE" cdi generate --node p3.2xlarge -o "$NODE_DIR/link"
	[ -L "$NODE_DIR/link" ]
	cmp "$NODE_DIR/file" "$NODE_DIR/want"
	cd "$NODE_DIR"
	"$GPUSLICE" cdi generate --node p3.2xlarge -o - | cmp - want
	[ ! -e - ]
}

@test "cdi list shows the devices of all vendors and reports invalid files" {
	mkdir "$NODE_DIR/a" "$NODE_DIR/b"
	"$GPUSLICE" cdi generate --node p3.2xlarge --device-id-strategy index -o "$NODE_DIR/b/gpu.json"
	cat >"$NODE_DIR/a/net.yaml" <<-EOF
		cdiVersion: "0.5.0"
		kind: vendor.example/net
		devices:
		- name: eth0
		  containerEdits: {deviceNodes: [{path: /dev/net/tun}]}
	EOF
	cp "$NODE_DIR/a/net.yaml" "$NODE_DIR/b/net.yaml"
	echo x >"$NODE_DIR/a/README"
	run "$GPUSLICE" cdi list --cdi-dir "$NODE_DIR/a" --cdi-dir "$NODE_DIR/b"
	[ "$status" -eq 0 ]
	[[ $output == *"k8s.device-plugin.nvidia.com/gpu=0 "*"/b/gpu.json"* ]]
	[[ $output == *"vendor.example/net=eth0 "*"/b/net.yaml"$'\n'*"/a/net.yaml (hidden by the above)"* ]]
	echo '{"kind": 1}' >"$NODE_DIR/a/bad.json"
	cp "$NODE_DIR/b/net.yaml" "$NODE_DIR/b/same.yaml"
	run "$GPUSLICE" cdi list --cdi-dir "$NODE_DIR/a,$NODE_DIR/b"
	[ "$status" -eq 2 ]
	[[ $output == *"/a/bad.json:1:1: cdiVersion: expected a text"* ]]
	[[ $output == *"/b/net.yaml (in conflict: of no use)"*"/b/same.yaml (in conflict"* ]]
	[[ $output == *"gpu=0 "* ]]
	run "$GPUSLICE" cdi list --cdi-dir "$NODE_DIR/none"
	[ "$status" -eq 0 ]
	[ "$output" = "no CDI devices" ]
}
