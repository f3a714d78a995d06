#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A device that every Allocate would refuse is advertised as unhealthy, with the reason in status, metrics and log, and is
# healthy again when the reason has gone. No Deployment makes failed pods without end.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_METRICS_INTERVAL=1s
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 >"$CONFIG"
	kubelet
}

teardown() {
	end_agent
	node_teardown
}

# reason_is REGEX: of all devices that are not healthy, of which there are some.
reason_is() {
	"$GPUSLICE" status --json | jq -e --arg r "$1" \
		'[.resources[].slices[] | select(.healthy | not) | .reason] | length > 0 and all(test($r))'
}

# no_pod_fails: a Deployment waits for a device.
no_pod_fails() {
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 0 5
}

@test "CDI alone, and its directory cannot be written" {
	"$GPUSLICE" sim create >/dev/null
	: >"$NODE_DIR/cdi"
	agent --config-file "$CONFIG" --device-list-strategy cdi-cri --cdi-dir "$NODE_DIR/cdi" \
		--nvidia-driver-root "$GPUSLICE_SIM_DIR" --driver-root-ctr-path "$GPUSLICE_SIM_DIR" \
		--sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 8 0
	reason_is 'cdi|CDI'
	logged agent 'error devices cannot be allocated'
	[[ $("$GPUSLICE" status) == *unhealthy* ]]
	no_pod_fails
	rm "$NODE_DIR/cdi"
	eventually 30 offers 8 8
	logged agent 'devices can be allocated again'
	eventually 10 pods 5
}

@test "device specs, and a GPU whose minor number is not known" {
	sim fail 1 minor NOT_SUPPORTED
	agent --config-file "$CONFIG" --pass-device-specs
	eventually 20 offers 8 6
	reason_is "device node of 'GPU-a1b29a2d-.*' is not known"
}

@test "an IMEX channel that is required and missing" {
	agent --config-file "$CONFIG" --imex-channel-ids 0 --imex-required
	eventually 20 offers 8 0
	reason_is 'IMEX channel'
}

@test "slices whose libraries cannot be installed" {
	put "$CONFIG" <<-EOF
		version: v1
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, isolation: {memory: equal}}]}}
	EOF
	agent --config-file "$CONFIG" --runtime-dir "$NODE_DIR/nowhere"
	eventually 20 offers 8 0
	reason_is 'libraries'
	no_pod_fails
}

# no_room: the disk of the slices is full, also where directories lay ready, of which the agent makes more meanwhile.
no_room() {
	rm -rf "$SLICES"/.new-*
	head -c 5m /dev/zero >>"$SLICES/.filler" 2>/dev/null || true
	offers 8 0
}

@test "slices that cannot be made, as the disk is read-only or full" {
	SLICES=$GPUSLICE_STATE_DIR/slices
	tiny "$SLICES" size=4m
	put "$CONFIG" <<-EOF
		version: v1
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2, isolation: {memory: equal}}]}}
	EOF
	agent --config-file "$CONFIG"
	eventually 20 offers 8
	mount -o remount,ro "$SLICES"
	eventually 30 offers 8 0
	reason_is 'no slice can be made: .*Read-only file system'
	logged agent 'error devices cannot be allocated'
	no_pod_fails
	mount -o remount,rw "$SLICES"
	eventually 30 offers 8 8
	eventually 10 pods 5
	eventually 60 no_room
	reason_is 'no slice can be made: .*No space left on device'
	rm "$SLICES/.filler"
	eventually 30 offers 8 8
}
