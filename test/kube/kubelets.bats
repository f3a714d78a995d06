#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Older kubelets on a newer control plane, as in a cluster that is being upgraded.
# needs: 1.36

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

# works VERSION: registers, allocates, restarts, allocates again.
works() {
	local node=k${1/./-} before
	node_add "$node" g4dn.12xlarge --kubelet "$1"
	kubectl get node "$node" -o json | jq -e --arg v "v$1." '.status.nodeInfo.kubeletVersion | startswith($v)'
	agent_start "$node" --pass-device-specs
	eventually 20 offers "$node" 4
	run_gpu_pod "first-$node" "$node"
	before=$(registrations "$node")
	kubelet_stop "$node" KILL && kubelet_start "$node"
	eventually 30 registered_since "$node" "$before"
	eventually 30 offers "$node" 4
	run_gpu_pod "second-$node" "$node"
	[[ $(kubectl get pod "first-$node" -o json | jq '.status.containerStatuses[0].restartCount') == 0 ]]
	eventually 10 agent_status "$node" '.resources[0].used == 2'
	# Two different GPUs, each with its device node.
	[[ $(record "$node" '.devices[] | select(.host_path | test("nvidia[0-9]")) | .host_path' | sort -u | wc -l) == 2 ]]
}

run_gpu_pod() {
	kubectl apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: $1}
		spec:
		  nodeName: $2
		  containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]
	EOF
	eventually 30 pod_is "$1" Running
}

@test "kubelet 1.37" {
	works 1.37
}

@test "kubelet 1.36" {
	works 1.36
}
