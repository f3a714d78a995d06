#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# MIG devices as resources, on a simulated node of eight A100: what each strategy offers, who gets
# what, and that layouts and health change under a running agent without touching what stays.

bats_require_minimum_version 1.5.0
load lib
load cluster

SMALL=nvidia.com/mig-1g.5gb
MIDDLE=nvidia.com/mig-2g.10gb
LARGE=nvidia.com/mig-3g.20gb

setup_file() {
	stage_programs
}

setup() {
	root_cuts
	node_setup p4d.24xlarge
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	sim create >/dev/null
	LAYOUTS=$NODE_DIR/layouts.yaml
	cat >"$LAYOUTS" <<-EOF
		version: v1
		mig-configs:
		  all-1g.5gb: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
		  all-balanced: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}]
		  half:
		  - {devices: [0, 1, 2, 3], mig-enabled: true, mig-devices: {1g.5gb: 7}}
		  - {devices: [4, 5, 6, 7], mig-enabled: true, mig-devices: {3g.20gb: 2}}
		  broken:
		  - {devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb: 7}}
		  - {devices: [2], mig-enabled: true, mig-devices: {3g.20gb: 2}}
		  - {devices: [3], mig-enabled: true, mig-devices: {}}
		  - {devices: [4, 5, 6, 7], mig-enabled: false, mig-devices: {}}
		  parts: [{devices: all, mig-enabled: true, mig-devices: {1c.3g.20gb: 2, 1g.5gb: 1}}]
		  off: [{devices: all, mig-enabled: false, mig-devices: {}}]
	EOF
}

teardown() {
	node_teardown
}

# layout NAME: the layout of that name, on all GPUs that differ.
layout() {
	"$GPUSLICE" mig apply -f "$LAYOUTS" -c "$1" >"$NODE_DIR/apply" || { cat "$NODE_DIR/apply" && return 1; }
}

# strategy NAME [LINE...]: a config; lines are added to the top level.
strategy() {
	local name=$1 wait=${COOLDOWN}s
	shift
	cat <<-EOF
		version: v1
		health: {cooldown: $wait, resetCooldown: $wait, maxCooldown: $wait, probes: 2, probeInterval: 200ms}
		flags: {migStrategy: $name}
	EOF
	((!$#)) || printf '%s\n' "$@"
}

# mig_up STRATEGY [LINE...]: kubelet and agent on what was cut.
mig_up() {
	CONFIG=$NODE_DIR/config.yaml
	strategy "$@" >"$CONFIG"
	kubelet && agent --config-file "$CONFIG"
}

# resources NAME...: the kubelet knows these and no others.
resources() {
	k get resources -o json | jq -e '[.items[] | select(.capacity > 0) | .name] | sort == ($ARGS.positional | sort)' --args "$@"
}

# deployment NAME RESOURCE REPLICAS: pods that ask for one each.
deployment() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: apps/v1, kind: Deployment, metadata: {name: $1, namespace: gpu-demo}, spec: {replicas: $3,
		selector: {matchLabels: {app: $1}}, template: {metadata: {labels: {app: $1}}, spec: {containers: [
		{name: c, image: x, resources: {limits: {$2: 1}}}]}}}}
	EOF
}

# running NAME N: so many pods of the Deployment run.
runs() {
	k get pods -o json | jq -e --arg name "$1" --argjson n "$2" \
		'[.items[] | select((.metadata.name | startswith($name)) and .status.phase == "Running")] | length == $n'
}

# grants RESOURCE JQ_FILTER: over all grants of it.
grants() {
	k get pods -o json | jq -er --arg r "$1" "[.items[].gpuslice.grants[] | select(.resource == \$r)] | $2"
}

# mig_is INDEX STATE [PATTERN]: the agent's word on a MIG device, "0:1", and the reason.
mig_is() {
	status ".gpus[].migDevices[] | select(.index == \"$1\") | [.health, .reason + .refused] | @tsv" |
		grep -E "^$2	.*${3-}"
}

@test "single: 56 devices of eight GPUs, each a nvidia.com/gpu of its own" {
	layout all-1g.5gb
	mig_up single
	eventually 20 offers 56
	resources $GPU
	deployment demo $GPU 100
	eventually 20 pods 56 44
	nothing_twice
	grants $GPU '[.[].ids[] | startswith("MIG-")] | length == 56 and all'
	status '[.gpus[].migDevices[].profile] == [range(56) | "1g.5gb"]'
	status '[.gpus[].migDevices[].memoryBytes / 1048576] | unique == [4864]'
	eventually 5 status '[.gpus[].migDevices[].holders | length] | unique == [1]'
	status '.resources[0].slices[8] | .mig == "1:1" and .gpu == 1 and .profile == "1g.5gb" and .healthy'
	"$GPUSLICE" status | grep -E '^7:6  1g.5gb   4864 MiB  healthy  .* gpu-demo/demo-'
}

@test "mixed: a resource for each profile, and each Deployment has the devices of its profile" {
	layout all-balanced
	mig_up mixed
	eventually 20 offers 16 16 $SMALL
	eventually 5 offers 8 8 $MIDDLE
	eventually 5 offers 8 8 $LARGE
	resources $SMALL $MIDDLE $LARGE
	deployment small $SMALL 20
	deployment middle $MIDDLE 20
	deployment large $LARGE 20
	eventually 20 runs small 16
	eventually 5 runs middle 8
	eventually 5 runs large 8
	nothing_twice
	# every pod has a device of its own profile
	eventually 5 status '[.resources[] | .name as $name | .slices[] | select(.holder) | {p: ("nvidia.com/mig-" + .profile), $name}]
		| length == 32 and all(.p == .name)'
}

@test "none: whole GPUs, whatever their layout" {
	layout half
	mig_up none
	eventually 20 offers 8
	resources $GPU
	status '.resources[0].slices | map(has("mig")) | any | not'
	status '[.gpus[].migDevices | length] == [7, 7, 7, 7, 2, 2, 2, 2]'
}

@test "a layout changes under a running agent: remaining devices are unchanged, removed ones are empty first" {
	layout all-1g.5gb
	mig_up mixed
	eventually 20 offers 56 56 $SMALL
	deployment small $SMALL 10
	eventually 20 runs small 10
	held >"$NODE_DIR/held"
	layout half
	eventually 20 offers 28 28 $SMALL
	eventually 5 offers 8 8 $LARGE
	never_below 28 $SMALL
	# who holds what is not there any more is shown, of no GPU
	eventually 5 status '.earlier | length >= 4 and all(.gpu == null and (.id | startswith("MIG-")) and .holder.namespace == "gpu-demo")'
	"$GPUSLICE" status --slices | grep -E "^$SMALL +- +MIG-.* not offered +gpu-demo/small"
	[[ $(times agent 'NVML answers') == 1 && $(times agent 'registered with the kubelet') == 2 ]]
	layout all-1g.5gb
	eventually 20 offers 56 56 $SMALL
	# emptied, and then gone, with its socket
	eventually 10 told 0 $LARGE
	eventually 10 resources $SMALL
	eventually 10 test ! -e "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-mig-3g.20gb.sock"
	never_below 28 $SMALL
	[[ $(times agent 'registered with the kubelet.*mig-1g') == 1 ]]
	# Pods on GPUs that were never partitioned again keep what they had.
	diff <(held) "$NODE_DIR/held"
}

@test "MIG is switched on and off under a running agent" {
	mig_up mixed
	eventually 20 offers 8
	layout broken
	eventually 20 offers 14 14 $SMALL
	eventually 5 offers 2 2 $LARGE
	eventually 5 offers 4
	# an empty GPU has nothing, and that is said
	status '.notes == ["GPU 3 (\(.gpus[3].uuid)): not offered, MIG is on and there are no MIG devices"]'
	never_below 4
	layout off
	eventually 20 offers 8
	eventually 10 resources $GPU
	status '.notes == [] and ([.gpus[].migDevices[]] == [])'
	never_below 4
}

@test "single on a node that it does not fit: the greatest number serves, the rest has a reason" {
	layout broken # 14 small ones, 2 large ones, an empty GPU, 4 whole ones
	mig_up single
	eventually 20 offers 21 14
	resources $GPU
	status '.gpus[0].migDevices[0] | .health == "healthy" and .reason == "" and .refused == ""'
	mig_is 2:1 healthy "its MIG devices '3g.20gb' .* are unhealthy, with strategy single .* most are '1g.5gb'"
	status '[.gpus[].refused != ""] == [false, false, false, true, true, true, true, true]'
	status '.gpus[3].refused | test("there are no MIG devices")'
	status '.gpus[4].refused | test("MIG is off there")'
	deployment demo $GPU 20
	eventually 20 pods 14 6
	[[ $(times agent 'not offered as configured') == 6 ]]
	"$GPUSLICE" status | grep -E '^4    NVIDIA A100-SXM4-40GB +40960 MiB .* unhealthy .*MIG is off there'
	# what stood in the way is taken out of it
	layout all-1g.5gb
	eventually 20 offers 56
	eventually 20 pods 20
}

@test "compute instances smaller than their GPU instance are left out with a note, unless named" {
	layout parts
	mig_up mixed
	eventually 20 offers 8 8 $SMALL
	resources $SMALL
	status '.notes | length == 8 and all(test("its MIG devices .1c.3g.20gb. are not offered"))'
	strategy mixed 'resources: {gpus: [], mig: [{pattern: 1c.*, name: nvidia.com/part}]}' | put "$CONFIG"
	eventually 20 offers 16 16 nvidia.com/part
	resources $SMALL nvidia.com/part
	status '.notes == []'
}

@test "MIG devices are time-sliced, all of a profile or some by index" {
	layout half
	COOLDOWN=5 # for all that is to be seen before the device is well again
	mig_up mixed 'sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 3}]}}'
	eventually 20 offers 84 84 $SMALL
	eventually 5 offers 8 8 $LARGE
	deployment small $SMALL 90
	eventually 20 runs small 84
	# a MIG device goes with all of its replicas, and no other
	sim xid "$(status '.gpus[1].migDevices[3].uuid')" 48
	eventually 10 offers 84 81 $SMALL
	mig_is 1:3 '(unhealthy|probation)' 'XID 48'
	mig_is 1:2 healthy
	logged agent 'MIG device is unhealthy gpu=1 mig=3'
	health_is 1 healthy
	eventually 20 offers 84 84 $SMALL
	logged agent 'MIG device is healthy again gpu=1 mig=3'
	offers 8 8 $LARGE
	[[ $(message_counts $SMALL | sort -u | tr '\n' ' ') == '81 84 ' ]] # together, not one by one
	strategy mixed 'sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-3g.20gb, replicas: 2, rename: nvidia.com/half, devices: ["4:1", "5:0"]}]}}' |
		put "$CONFIG"
	eventually 20 offers 4 4 nvidia.com/half
	eventually 5 offers 6 6 $LARGE
	eventually 5 offers 28 28 $SMALL
}

@test "a fault of a GPU takes all of its MIG devices and no others" {
	layout all-1g.5gb
	COOLDOWN=5
	mig_up single
	eventually 20 offers 56
	sim xid 2 48
	eventually 10 offers 56 49
	mig_is 2:6 '(unhealthy|probation)' 'XID 48'
	mig_is 3:0 healthy
	eventually 20 offers 56
	sim lose 5
	eventually 10 offers 56 49
	mig_is 5:0 unhealthy
	[[ $(times agent 'MIG device is unhealthy') == 0 ]] # it is said of the GPU
	sim return 5
	eventually 20 offers 56
}

@test "packed gathers MIG devices on a GPU, distributed spreads them" {
	layout all-1g.5gb
	mig_up mixed
	eventually 20 offers 56 56 $SMALL
	deployment spread $SMALL 8
	eventually 20 runs spread 8
	eventually 5 status '[.resources[0].slices[] | select(.holder) | .gpu] | sort == [range(8)]'
	k delete deployment/spread -n gpu-demo
	eventually 20 offers 56 56 $SMALL
	strategy mixed | sed 's/migStrategy: mixed/&, plugin: {sharedDevicesAllocationPolicy: packed}/' | put "$CONFIG"
	eventually 10 status '.config.generation == 2'
	deployment dense $SMALL 7
	eventually 20 runs dense 7
	eventually 5 status '[.resources[0].slices[] | select(.holder) | .gpu] | length == 7 and (unique | length == 1)'
}

@test "a pod gets the nodes of its instances, and never of another" {
	local gpu gi ci minors
	layout all-balanced
	mig_up mixed
	strategy mixed | sed 's/migStrategy: mixed/&, plugin: {passDeviceSpecs: true, deviceIDStrategy: index}/' | put "$CONFIG"
	eventually 10 status '.config.generation == 2'
	eventually 20 offers 8 8 $LARGE
	deployment large $LARGE 1
	eventually 20 runs large 1
	# what the driver's own list says of the instance that the pod was given
	read -r gpu gi ci < <(status '.gpus[] | .index as $g | .migDevices[] | select(.uuid == "'"$(grants $LARGE '.[0].ids[0]')"'")
		| "\($g) \(.gi) \(.ci)"')
	minors=$GPUSLICE_PROCFS/driver/nvidia-caps/mig-minors
	grants $LARGE '.[0].devices[] | select(.permissions == "rw" and .hostPath == .containerPath) | .hostPath' >"$NODE_DIR/nodes"
	diff "$NODE_DIR/nodes" - <<-EOF
		/dev/nvidia$gpu
		/dev/nvidia-caps/nvidia-cap$(sed -n "s|^gpu$gpu/gi$gi/access ||p" "$minors")
		/dev/nvidia-caps/nvidia-cap$(sed -n "s|^gpu$gpu/gi$gi/ci$ci/access ||p" "$minors")
	EOF
	grants $LARGE '.[0].envs.NVIDIA_VISIBLE_DEVICES' | grep -x "$gpu:[0-3]"
	# a driver that lists no capabilities: nothing is given, rather than the whole GPU
	mv "$minors" "$minors.away"
	eventually 10 offers 8 0 $LARGE
	status '.gpus[0].migDevices[0].reason | length > 0'
	mv "$minors.away" "$minors"
	eventually 20 offers 8 8 $LARGE
}

@test "MIG devices without a UUID are told apart, and each is reported once" {
	export FAKE_NVML=$NODE_DIR/nvml GPUSLICE_NVML=$GPUSLICE_BUILD/test/support/libfake-nvml.so
	printf '%s\n' 'gpus 1' 'memory 40960' 'migmode 0 1' 'mig 0 0 7 0 19 1' 'mig 0 1 8 0 19 1' \
		'error nvmlDeviceGetUUID 100 3' 'error nvmlDeviceGetUUID 101 999' >"$FAKE_NVML"
	mig_up mixed
	eventually 20 status '[.gpus[].migDevices[].health] == ["unhealthy", "unhealthy"]'
	for generation in 2 3; do # each is another decision
		strategy mixed | sed "s/probes: 2/probes: 1$generation/" | put "$CONFIG"
		eventually 10 status ".config.generation == $generation"
	done
	[[ $(times agent 'MIG device is unhealthy') == 2 ]]
}
