#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What breaks around the agent: kubelets, nodes and the API server. Pods run on, and the state
# converges.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
	for node in a b; do
		node_make $node p3.8xlarge
		put_file $node /etc/gpuslice.yaml <<-'EOF'
			version: v1
			sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
		EOF
		kubelet_start $node
		agent_start $node --config-file /etc/gpuslice.yaml
	done
	kubectl create deployment work --image=any --replicas=6 --dry-run=client -o json |
		jq '.spec.template.spec |= (.terminationGracePeriodSeconds = 1
			| .containers[0].resources.limits = {"nvidia.com/gpu": 1})' | kubectl apply -f -
	eventually 60 offers a 8
	eventually 60 offers b 8
	eventually 60 pods 6
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

# containers: "pod container-id" of all that run: a pod that was started anew has another id.
containers() {
	kubectl get pods -A -o json | jq -r '.items[] | select(.metadata.deletionTimestamp == null)
		| "\(.metadata.name) \(.status.containerStatuses[0].containerID)"' | sort
}

same_containers() {
	diff <(containers) "$BATS_TEST_TMPDIR/before"
}

# takes_a_pod NODE: one more pod, on this node, gets a GPU and goes again.
takes_a_pod() {
	kubectl apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: more-$1}
		spec:
		  nodeName: $1
		  terminationGracePeriodSeconds: 1
		  containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]
	EOF
	eventually 30 pod_is "more-$1" Running
	kubectl delete pod "more-$1" --wait
}

@test "a kubelet that restarts finds the agent again, and pods run on" {
	local signal before
	for signal in TERM KILL; do
		containers >"$BATS_TEST_TMPDIR/before"
		before=$(registrations a)
		kubelet_stop a $signal
		kubelet_start a
		eventually 20 registered_since a "$before"
		eventually 30 offers a 8
		eventually 10 same_containers
		takes_a_pod a
	done
}

@test "a kubelet is away for a while: the agent waits, and the other node does not notice" {
	local before here
	containers >"$BATS_TEST_TMPDIR/before"
	before=$(registrations b)
	here=$(registrations a)
	kubelet_stop a KILL
	takes_a_pod b
	node_runs a agent
	kubelet_start a
	eventually 20 registered_since a "$here" # the Node says what the kubelet before said
	eventually 30 offers a 8
	[[ $(registrations b) == "$before" ]]
	eventually 10 same_containers
}

@test "an agent that is killed comes back with the same devices; pods run on" {
	containers >"$BATS_TEST_TMPDIR/before"
	node_stop a agent KILL
	eventually 20 offers a 8 0
	agent_start a --config-file /etc/gpuslice.yaml
	eventually 20 offers a 8
	same_containers
	takes_a_pod a
}

@test "a GPU that is lost takes its slices out of allocatable, on its node only" {
	sim a lose 1
	eventually 20 offers a 8 6
	offers b 8
	sim a return 1
	sim a reset 1
	eventually 60 offers a 8
}

@test "the API server is away: slices are given and taken on, and it comes back to the same" {
	containers >"$BATS_TEST_TMPDIR/before"
	api_stop
	agent_status a '.resources[0].capacity == 8'
	sim b lose 0
	eventually 10 agent_status b '.resources[0].allocatable == 6'
	api_start
	eventually 30 offers b 8 6
	sim b return 0
	sim b reset 0
	eventually 60 offers b 8
	same_containers
}

@test "etcd forgets everything: the nodes register again with what they offer" {
	etcd_wipe
	kubelet_stop a && kubelet_start a
	kubelet_stop b && kubelet_start b
	eventually 40 offers a 8
	eventually 40 offers b 8
	eventually 20 node_ready a
	takes_a_pod a
}

@test "a node object is deleted and comes back, with its capacity" {
	kubectl delete node b
	kubelet_stop b && kubelet_start b
	eventually 40 offers b 8
	eventually 20 node_ready b
	takes_a_pod b
}

@test "power off and on: a new machine of the name gets its slices back" {
	node_off b
	kubectl delete node b
	node_add b p3.2xlarge
	agent_start b
	eventually 20 offers b 1
	takes_a_pod b
}
