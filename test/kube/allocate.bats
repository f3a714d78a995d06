#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the container runtime is asked for: environment, mounts and devices by deviceListStrategy.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
	node_add a p3.8xlarge
	node_add plain p3.8xlarge --runtime runc
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
	kubectl delete pods --all --force --grace-period=0 >/dev/null 2>&1 || true
	node_stop a agent
	node_stop plain agent
}

# asks NAME [AGENT_OPTION...]: a pod on $node with a GPU and a variable of its own; what the runtime
# was asked for goes to $asked.
node=a

asks() {
	local name=$1 held=".resources[0].slices[] | select(.holder.pod == \"$1\") | .gpu"
	shift
	agent_start "$node" "$@" && eventually 20 registered && eventually 20 offers "$node" 4 || return 1
	kubectl apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: $name}
		spec:
		  nodeName: $node
		  terminationGracePeriodSeconds: 1
		  containers:
		  - {name: main, image: any, env: [{name: MINE, value: "1"}], resources: {limits: {nvidia.com/gpu: 1}}}
	EOF
	eventually 30 pod_is "$name" Running || return 1
	asked=$BATS_TEST_TMPDIR/asked
	record "$node" "select(.pod == \"$name\")" >"$asked"
	eventually 10 agent_status "$node" "$held"
	gpu=$(agent_status "$node" "$held")
	uuid=$(sim "$node" show --json | jq -r ".gpus[$gpu].uuid")
}

# registered: the agent of now; what the Node says may still be about the one before.
registered() {
	agent_status "$node" '.resources[0].state == "registered"'
}

@test "envvar: the GPU's UUID comes before the pod's own variables, and nothing else does" {
	asks envvar
	jq -e --arg u "$uuid" '.env[0] == {name: "NVIDIA_VISIBLE_DEVICES", value: $u}' "$asked"
	jq -e '[.env[].name] | index("MINE") > 0' "$asked"
	jq -e '.devices == [] or .devices == null' "$asked"
	jq -e '.cdi == []' "$asked"
	jq -e '[.mounts[].host_path] | all(test("/dev/") | not)' "$asked"
}

@test "device specs: the GPU's node and the control nodes, by their names on the host" {
	asks specs --pass-device-specs
	diff <(jq -r '.devices[] | "\(.host_path) \(.container_path) \(.permissions)"' "$asked" | LC_ALL=C sort) - <<-EOF
		/dev/nvidia-modeset /dev/nvidia-modeset rw
		/dev/nvidia-uvm /dev/nvidia-uvm rw
		/dev/nvidia-uvm-tools /dev/nvidia-uvm-tools rw
		/dev/nvidia$gpu /dev/nvidia$gpu rw
		/dev/nvidiactl /dev/nvidiactl rw
	EOF
	kubectl exec specs -- test -c "/dev/nvidia$gpu"
}

@test "volume-mounts: a mount whose name is the GPU" {
	asks volumes --device-list-strategy volume-mounts
	jq -e --arg u "$uuid" 'any(.mounts[]; .host_path == "/dev/null" and
		.container_path == "/var/run/nvidia-container-devices/" + $u)' "$asked"
	[[ $(kubectl exec volumes -- nvidia-smi) == "/dev/nvidia$gpu" ]]
}

@test "device ids by index" {
	asks index --device-id-strategy index
	jq -e --arg g "$gpu" '.env[0] == {name: "NVIDIA_VISIBLE_DEVICES", value: $g}' "$asked"
	[[ $(kubectl exec index -- nvidia-smi) == "/dev/nvidia$gpu" ]]
}

# On a node whose runtime is not NVIDIA's: what is in the container, CDI has put there.
@test "cdi-cri: the runtime applies the agent's specification, and a container has its GPU alone" {
	node=plain
	asks cdi-cri --device-list-strategy cdi-cri
	jq -e '.cdi | length > 0' "$asked"
	jq -e '[.env[].name] | index("NVIDIA_VISIBLE_DEVICES") == null' "$asked"
	[[ $(kubectl exec cdi-cri -- sh -c 'ls /dev/nvidia[0-9]*') == "/dev/nvidia$gpu" ]]
	kubectl exec cdi-cri -- test -c /dev/nvidiactl
}

@test "cdi-annotations: the same by annotations of the container" {
	node=plain
	asks cdi-annotations --device-list-strategy cdi-annotations
	jq -e '[.annotations | keys[] | select(startswith("cdi.k8s.io/"))] | length > 0' "$asked"
	jq -e '.cdi == []' "$asked"
	[[ $(kubectl exec cdi-annotations -- sh -c 'ls /dev/nvidia[0-9]*') == "/dev/nvidia$gpu" ]]
}

@test "a pod that names all GPUs itself gets all of them: the environment isolates nobody" {
	agent_start a
	eventually 20 registered
	eventually 20 offers a 4
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: greedy}
		spec:
		  nodeName: a
		  containers:
		  - name: main
		    image: any
		    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
		    resources: {limits: {nvidia.com/gpu: 1}}
	EOF
	eventually 30 pod_is greedy Running
	[[ $(kubectl exec greedy -- nvidia-smi | wc -l) == 4 ]]
}
