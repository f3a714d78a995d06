#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The user's story with the user's files: so many pods run, so many wait, and why.

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

# entry FILE KEY: the text of one data entry of a ConfigMap.
entry() {
	python3 - "$FIXTURES/$1" "$2" <<-'EOF'
		import sys, textwrap
		lines = iter(open(sys.argv[1]).read().splitlines())
		for line in lines:
		    if line.startswith("  " + sys.argv[2] + ": |"):
		        break
		body = []
		for line in lines:
		    if line.strip() and not line.startswith("    "):
		        break
		    body.append(line)
		print(textwrap.dedent("\n".join(body)))
	EOF
}

waits_for_a_gpu() {
	k get pods -o json | jq -e '[.items[] | select(.status.phase == "Pending")
		| .status.conditions[0] | .reason == "Unschedulable" and
		(.message | contains("1 Insufficient nvidia.com/gpu"))] | length > 0 and all'
}

@test "four GPUs run 4 of 5 pods; the ConfigMap makes 40; 20 pods run" {
	local volume=$NODE_DIR/volume before
	kubelet --mount-configmap "kube-system/nvidia-device-plugin=$volume"
	# The ConfigMap does not exist yet: an empty volume, and a config of the image.
	mkdir -p "$volume"
	printf 'version: v1\n' >"$NODE_DIR/plain.yaml"
	agent --config-file "$NODE_DIR/plain.yaml"
	eventually 20 offers 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 4 1
	eventually 10 waits_for_a_gpu
	before=$(held)

	k apply -f "$FIXTURES/nvidia-device-plugin.yaml"
	eventually 10 test -s "$volume/any"
	put "$NODE_DIR/plain.yaml" <"$volume/any"
	eventually 10 offers 40
	eventually 10 pods 5
	scale 20
	eventually 10 pods 20
	nothing_twice
	# Who ran before runs on, with the GPU that it had.
	[[ -z $(comm -23 <(echo "$before") <(held)) ]]
	# Those hold whole GPUs, which are not offered any more.
	eventually 10 status '.resources[0].used == 16 and ([.earlier[].gpu] | sort) == [0, 1, 2, 3]'
	"$GPUSLICE" status | grep -E '^Earlier +4 devices of an earlier config are still held: gpu-demo/'
	[[ $("$GPUSLICE" status --slices | grep -c ' not offered .*gpu-demo/') == 4 ]]
	scale 41
	eventually 10 pods 40 1
	nothing_twice
	never_below 4
}

@test "a ConfigMap volume is followed while the kubelet swaps it" {
	local volume=$NODE_DIR/volume
	kubelet --mount-configmap "kube-system/nvidia-device-plugin=$volume"
	k apply -f "$FIXTURES/nvidia-device-plugin.yaml"
	eventually 10 test -s "$volume/any"
	agent --config-file "$volume/any"
	eventually 20 offers 40
	sed 's/replicas: 10/replicas: 20/' "$FIXTURES/nvidia-device-plugin.yaml" >"$NODE_DIR/more.yaml"
	k apply -f "$NODE_DIR/more.yaml"
	eventually 10 offers 80
	k apply -f "$FIXTURES/nvidia-device-plugin.yaml"
	eventually 10 offers 40
	never_below 40
	[[ $(times agent 'config refused') == 0 ]]
}

@test "p3.2xlarge: the entry makes 4 slices, and 4 of 5 verification pods run" {
	node_setup p3.2xlarge
	kubelet --register-with-taints nvidia.com/gpu=present:NoSchedule
	entry time-slicing-config.yaml p3.2xlarge >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 4
	k apply -f "$FIXTURES/time-slicing-verification.yaml"
	eventually 10 pods 4 1
	eventually 10 waits_for_a_gpu
	k get pods -o json | jq -e '[.items[].gpuslice.grants[]?.envs.NVIDIA_VISIBLE_DEVICES] | unique | length == 1'
}

@test "p3.8xlarge: the entry makes 32 slices, and all verification pods run" {
	kubelet --register-with-taints nvidia.com/gpu=present:NoSchedule
	entry time-slicing-config.yaml p3.8xlarge >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 32
	k apply -f "$FIXTURES/time-slicing-verification.yaml"
	eventually 10 pods 5
	scale 33 time-slicing-verification default
	eventually 10 pods 32 1
	# Without the toleration no pod comes onto this node.
	k apply -f "$FIXTURES/gpu-deployment.yaml"
	eventually 10 pods 32 2
	k get pods -o json | jq -e 'any(.items[].status.conditions[0].message // "";
		contains("had untolerated taint"))'
}

@test "nvidia-device-plugin-config makes 40 slices, and gpu-deployment runs on one" {
	kubelet
	entry nvidia-device-plugin-config.yaml shared_gpu >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 40
	k apply -f "$FIXTURES/gpu-deployment.yaml"
	eventually 10 pods 1
	k get pods -o json | jq -e '.items[0].gpuslice.grants[0] |
		(.ids[0] | test("^GPU-.*::[0-9]$")) and (.ids[0] | split("::")[0]) == .envs.NVIDIA_VISIBLE_DEVICES'
	eventually 10 status '.resources[0] | .used == 1 and .capacity == 40'
}

@test "manifests that Kubernetes refuses are refused with its reason" {
	kubelet
	run k apply -f "$FIXTURES/gpu-app.yaml"
	((status != 0))
	[[ $output == *"gpu-app.yaml:5:1: "*"spec.selector: Required value"* ]]
	run k apply -f "$FIXTURES/dcgmproftester-pod.yaml"
	((status != 0))
	[[ $output == *"dcgmproftester-pod.yaml:1:1: "*"apiVersion not set"* ]]
	pods 0
}

@test "with their mistakes mended, gpu-app waits for its node label and dcgmproftester runs" {
	local app=$NODE_DIR/app.yaml test_pod=$NODE_DIR/test.yaml
	sed 's/^  template:/  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}/' \
		"$FIXTURES/gpu-app.yaml" >"$app"
	{ echo 'apiVersion: v1' && cat "$FIXTURES/dcgmproftester-pod.yaml"; } >"$test_pod"
	node_up 10
	k apply -f "$app" && k apply -f "$test_pod"
	eventually 10 pods 1 1
	k label nvidia.com/device-plugin.config=shared_gpu
	eventually 10 pods 2
}
