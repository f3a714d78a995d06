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

@test "looks at the GPUs that take longer than their interval do not stop the agent" {
	local i
	node_up 2
	sim hang 1 150
	for ((i = 0; i < 30; i++)); do # more than an interval
		timeout 5 "$GPUSLICE" status --json >/dev/null
		sleep 0.05
	done
	sharing 3 >"$CONFIG"
	eventually 10 offers 12
	sim xid 2 48
	eventually 10 offers 12 9
	sim hang 1 off
	eventually 10 offers 12
}
