#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# GPUs get sick and well again under a running agent. The good ones stay allocatable all the time.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
}

teardown() {
	node_teardown
}

# Each GPU's devices are all healthy or all not.
in_step() {
	k get resources -o json | jq -e '[.items[].devices[] | {gpu: (.id | split("::")[0]), healthy}]
		| group_by(.gpu) | map([.[].healthy] | unique | length == 1) | all'
}

@test "probes of the GPUs that take longer than their interval do not stop the agent" {
	local i
	node_up 2
	sim hang 1 150
	for ((i = 0; i < 30; i++)); do # more than an interval
		timeout 5 "$GPUSLICE" status --json >/dev/null
		sleep 0.05
	done
	sharing 3 | rewrite "$CONFIG"
	eventually 10 offers 12
	sim xid 2 48
	eventually 10 offers 12 9
	sim hang 1 off
	eventually 10 offers 12
}

@test "an XID takes all slices of its GPU and no other's, and they come back" {
	local lists
	COOLDOWN=8 # for all that is to be seen before the GPU is well again
	node_up 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	sim xid 1 48
	eventually 5 offers 16 12
	in_step
	health_is 1 unhealthy 48
	health_is 0 healthy
	pods 5 # nobody is thrown out
	scale 13
	eventually 5 pods 12 1 # a slice of the sick GPU was held, so one stays short
	eventually 20 offers 16
	eventually 10 pods 13
	nothing_twice
	lists=$(message_counts)
	[[ $lists == 16$'\n'12$'\n'16 ]] # together, not one by one
}

@test "application errors are ignored, and counted" {
	node_up 2
	sim xid 0 13
	sim xid 0 31
	sim xid 3 45
	eventually 5 status '.gpus[0].xids == 2 and .gpus[3].xids == 1'
	health_is 0 healthy
	[[ $(times agent 'XID reported.*action=ignored') == 3 ]]
	never_below 8
}

@test "NVIDIA's variables switch checks off and on" {
	local row disable enable acts xid
	for row in 'all||0 0' 'xids||0 0' 'all|48|1 0' '48||0 1' '|13|1 1' 'all|all|1 1' '48|48|1 1' 'x,48||0 1'; do
		IFS='|' read -r disable enable acts <<<"$row"
		export DP_DISABLE_HEALTHCHECKS=$disable DP_ENABLE_HEALTHCHECKS=$enable
		node_up 2
		for xid in 48 74; do
			sim xid 0 $xid
			eventually 5 status ".gpus[0].lastXid == $xid" || return 1
			if [[ ${acts% *} == 1 ]]; then
				logged agent "XID reported.*xid=$xid .*action=\"GPU unhealthy\""
				eventually 5 health_is 0 unhealthy || health_is 0 probation
			else
				logged agent "XID reported.*xid=$xid .*action=ignored"
			fi || {
				echo "disable='$disable' enable='$enable' xid=$xid"
				return 1
			}
			acts=${acts#* }
		done
		stop agent && stop kubelet
	done
}

@test "a lost GPU affects no other, and recovers" {
	node_up 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	sim lose 2
	eventually 10 offers 16 12
	in_step
	health_is 2 unhealthy
	scale 9
	eventually 10 pods 9
	k get pods -o json | jq -e --arg lost "$(status '.gpus[2].uuid')" \
		'[.items[].gpuslice.grants[].ids[] | select(startswith($lost))] | length <= 2'
	sim return 2
	eventually 15 offers 16
	never_below 12
}

@test "a GPU that cannot be read is shown with the reason, the others serve" {
	sim create
	sim fail 3 name UNKNOWN
	sim fail 1 uuid UNKNOWN
	kubelet
	sharing 4 >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 10 offers 12 8 # without a UUID there is nothing to offer it by
	health_is 3 unhealthy 'nvmlDeviceGetName: Unknown Error'
	health_is 1 unhealthy 'nvmlDeviceGetUUID: Unknown Error'
	status '.notes[0] | contains("GPU 1: not offered, its UUID is unknown")'
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	sim fail 1 uuid SUCCESS
	eventually 10 offers 16 12
	sim fail 0 handle UNKNOWN
	eventually 10 offers 16 8
	sim fail 0 handle SUCCESS
	sim fail 3 name SUCCESS
	eventually 10 offers 16
	pods 5
}

@test "plugged in and pulled out while it runs" {
	node_up 4
	sim add
	eventually 15 offers 20
	sim remove 4
	eventually 15 offers 20 16
	never_below 16
	status '.gpus[4] | .health == "unhealthy" and (.reason | length > 0)'
}

# NVML numbers the remaining GPUs again: the removed one has no index, and no two rows are the same.
@test "one that is pulled out leaves its index to another" {
	node_up 4
	sim remove 2
	eventually 15 offers 16 12
	status '[.gpus[] | select(.index != null) | .index] | sort == [0, 1, 2]'
	status '[.resources[].slices[] | select(.gpu == null)] | length == 4'
	run -0 --separate-stderr "$GPUSLICE" status
	[[ $(awk '/^GPU /{ on = 1; next } /^$/{ on = 0 } on { print $1 }' <<<"$output" | sort | tr '\n' ' ') == "- 0 1 2 " ]]
	top_has_each_once() {
		COLUMNS=120 "$GPUSLICE" top --once | tee "$NODE_DIR/top" | sed -nE 's/^\| +([0-9-]+)  Tesla.*/\1/p' | sort | tr '\n' ' ' |
			grep -Fx -- "- 0 1 2 "
	}
	eventually 15 top_has_each_once || { cat "$NODE_DIR/top" && false; }
}

@test "the driver is unloaded and loaded again: all unhealthy with the reason, then all back" {
	node_up 4
	sim driver unload
	eventually 15 offers 16 0
	status '.nvml.state == "down" and (.nvml.error.message | length > 0)'
	health_is 0 unhealthy
	sim driver load
	eventually 30 offers 16
	status '.nvml.state == "up"'
}

@test "a driver that comes later is found; one that must be there at start is missed" {
	sim create
	sim driver unload
	kubelet
	sharing 4 >"$NODE_DIR/config.yaml"
	run timeout 20 "$GPUSLICED" --config-file "$NODE_DIR/config.yaml" --fail-on-init-error=true
	((status == 1))
	[[ $output == *'nvml init failed'* ]]
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 10 status '.nvml.state == "down"'
	sim driver load
	eventually 30 offers 16
}

# An XID that nobody listens for is lost, so it is raised until somebody does.
xid_is_heard() {
	sim xid 1 48
	offers 16 12
}

@test "the NVML worker is killed again and again without an effect on clients" {
	local i pid
	node_up 4
	for i in {1..5}; do
		pid=
		while [[ -z $pid ]]; do
			pid=$(workers) || sleep 0.02
		done
		kill -KILL "$pid"
		eventually 10 test ! -e "/proc/$pid"
	done
	eventually 15 status '.nvml.state == "up"'
	eventually 15 offers 16
	never_below 16
	eventually 10 xid_is_heard # the new worker listens
	eventually 10 offers 16
	stop agent
	eventually 5 workers_are 0
}
