#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the container runtime is asked for: environment, mounts and devices by deviceListStrategy.

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
	kubectl delete pods --all --force --grace-period=0 >/dev/null 2>&1 || true
	node_stop a agent
}

# asks NAME [AGENT_OPTION...]: a pod with a GPU and a variable of its own; its record goes to $asked.
asks() {
	local name=$1
	shift
	agent_start a "$@" && eventually 20 offers a 4 || return 1
	kubectl apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: $name}
		spec:
		  terminationGracePeriodSeconds: 1
		  containers:
		  - {name: main, image: any, env: [{name: MINE, value: "1"}], resources: {limits: {nvidia.com/gpu: 1}}}
	EOF
	eventually 30 pod_is "$name" Running || return 1
	asked=$BATS_TEST_TMPDIR/asked
	record a "select(.pod == \"$name\")" >"$asked"
	gpu=$(agent_status a ".resources[0].slices[] | select(.holder.pod == \"$name\") | .gpu") ||
		{ eventually 10 agent_status a ".resources[0].slices[] | select(.holder.pod == \"$name\")" &&
			gpu=$(agent_status a ".resources[0].slices[] | select(.holder.pod == \"$name\") | .gpu"); }
	uuid=$(sim a show --json | jq -r ".gpus[$gpu].uuid")
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

@test "a pod that names all GPUs itself gets all of them: the environment isolates nobody" {
	agent_start a
	eventually 20 offers a 4
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: greedy}
		spec:
		  containers:
		  - name: main
		    image: any
		    env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]
		    resources: {limits: {nvidia.com/gpu: 1}}
	EOF
	eventually 30 pod_is greedy Running
	[[ $(kubectl exec greedy -- nvidia-smi | wc -l) == 4 ]]
}
