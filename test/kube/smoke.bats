#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The cluster itself: what every other suite relies on.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
	node_add a p3.8xlarge
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

@test "a pod runs" {
	kubectl create deployment x --image=any/thing
	eventually 30 pods 1
}
