#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A call into the driver that does not come back: what becomes of the other GPUs, and of this one.

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

@test "a GPU that hangs is put aside within the deadline; the others serve, allocate and report" {
	node_up 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	sim hang 2 forever
	eventually 15 offers 16 12
	health_is 2 unhealthy 'did not come back in time'
	scale 12
	eventually 10 pods 12
	k get pods -o json | jq -e --arg hung "$(status '.gpus[2].uuid')" \
		'[.items[].gpuslice.grants[].ids[] | select(startswith($hung))] | length <= 2'
	sim xid 0 48
	eventually 10 offers 16 8
	eventually 10 offers 16 12
	never_below 8
	eventually 5 workers_are 1
	[[ -z ${GPUSLICE_TEST_LONG-} ]] || {
		sim hang 2 off # it is asked again after a minute
		eventually 90 offers 16
	}
}

@test "a GPU that hangs from the start does not keep the others from serving" {
	[[ -n ${GPUSLICE_TEST_LONG-} ]] || skip "eleven seconds: in the suite stress"
	sim create
	sim hang 0 forever
	kubelet
	sharing 4 >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 30 offers 12 # its UUID is not known
	eventually 5 health_is 0 unhealthy 'did not come back in time'
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
}
