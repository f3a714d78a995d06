#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The user's story with the user's files on a real cluster: so many pods run, so many wait, and why.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

CONFIG=/etc/gpuslice/config.yaml
DEPLOYMENT=deployment/tensorflow-cifar10-deployment

setup_file() {
	cluster_up
	node_add gpu p3.8xlarge
	kubectl create namespace gpu-demo
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

# from_configmap FILE KEY: the entry, as the API server has it, becomes the node's config.
from_configmap() {
	kubectl get -f "$FIXTURES/$1" -o json | jq -r --arg k "$2" '.data[$k]' | put_file "${3-gpu}" "$CONFIG"
}

# gpus_of NODE: "pod uuid" of each container that the node's runtime made with a GPU.
gpus_of() {
	record "$1" '[.env[] | select(.name == "NVIDIA_VISIBLE_DEVICES")][0] as $e
		| select($e) | "\(.pod) \($e.value)"' | sort -u
}

@test "four GPUs run 4 of 5 pods, and the fifth waits for nvidia.com/gpu" {
	printf 'version: v1\n' | put_file gpu $CONFIG
	agent_start gpu --config-file $CONFIG
	eventually 20 offers gpu 4
	kubectl apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 30 pods 4 1
	eventually 10 waits_for nvidia.com/gpu gpu-demo
	# Each of the four has a GPU of its own.
	[[ $(gpus_of gpu | cut -d ' ' -f 2 | sort -u | wc -l) == 4 ]]
	gpus_of gpu >"$BATS_FILE_TMPDIR/first"
}

@test "the ConfigMap makes 40 slices, and all 5 pods run" {
	kubectl apply -f "$FIXTURES/nvidia-device-plugin.yaml"
	from_configmap nvidia-device-plugin.yaml any
	eventually 20 offers gpu 40
	eventually 20 pods 5
}

@test "scaled to 20, 20 pods run, and who ran before runs on with its GPU" {
	kubectl scale -n gpu-demo $DEPLOYMENT --replicas 20
	eventually 60 pods 20
	[[ $(gpus_of gpu | cut -d ' ' -f 1 | sort -u | wc -l) == 20 ]]
	[[ -z $(comm -23 "$BATS_FILE_TMPDIR/first" <(gpus_of gpu)) ]]
	# Spread: each GPU has five.
	[[ $(gpus_of gpu | cut -d ' ' -f 2 | sort | uniq -c | awk '{ print $1 }' | sort -u) == 5 ]]
	kubectl get pods -n gpu-demo -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
}

@test "status names the pods that hold the slices" {
	# Who began before the GPUs were divided holds a whole one, which is no slice.
	eventually 30 agent_status gpu '.resources[0] | .capacity == 40 and .used == 16'
	agent_status gpu '[.earlier[] | .resource == "nvidia.com/gpu" and .holder.namespace == "gpu-demo"] == [true, true, true, true]'
	agent_status gpu '([.earlier[].gpu] | sort) == [0, 1, 2, 3]'
	node_exec gpu gpuslice status | grep -E '^Earlier +4 devices of an earlier config are still held: gpu-demo/'
	[[ $(node_exec gpu gpuslice status --slices | grep -c ' not offered .*gpu-demo/') == 4 ]]
	kubectl rollout restart -n gpu-demo $DEPLOYMENT
	kubectl rollout status -n gpu-demo $DEPLOYMENT --timeout 90s
	eventually 60 pods 20
	eventually 60 agent_status gpu '.resources[0].used == 20 and .earlier == []'
	[[ $(node_exec gpu gpuslice status --slices | grep -c gpu-demo/tensorflow-cifar10-deployment) == 20 ]]
}

@test "a container has its GPU's device node and the driver, as the toolkit gives them" {
	local pod
	pod=$(kubectl get pods -n gpu-demo -o json |
		jq -r '[.items[] | select(.metadata.deletionTimestamp == null)][0].metadata.name')
	[[ $(kubectl exec -n gpu-demo "$pod" -- nvidia-smi | wc -l) == 1 ]]
	kubectl exec -n gpu-demo "$pod" -- test -c /dev/nvidiactl
}

@test "when pods go, their slices are free again; one more than there are waits" {
	kubectl scale -n gpu-demo $DEPLOYMENT --replicas 41
	eventually 90 pods 40 1
	kubectl scale -n gpu-demo $DEPLOYMENT --replicas 1
	eventually 60 pods 1
	eventually 60 agent_status gpu '.resources[0].used == 1' # pods that are ending hold theirs
}

@test "a second node of another type: p3.2xlarge gives 4, p3.8xlarge 32, the test passes on both" {
	kubectl delete -f "$FIXTURES/cifar10-train-deploy.yaml" --wait=false
	kubectl apply -f "$FIXTURES/time-slicing-config.yaml"
	node_add small p3.2xlarge --taint nvidia.com/gpu=present:NoSchedule
	from_configmap time-slicing-config.yaml p3.2xlarge small
	agent_start small --config-file $CONFIG
	from_configmap time-slicing-config.yaml p3.8xlarge
	eventually 20 offers gpu 32
	eventually 20 offers small 4
	kubectl taint node gpu nvidia.com/gpu=present:NoSchedule
	kubectl apply -f "$FIXTURES/time-slicing-verification.yaml"
	kubectl scale deployment/time-slicing-verification --replicas 36
	eventually 90 pods 36 0 app=time-slicing-verification
	[[ $(kubectl get pods --field-selector spec.nodeName=small -o name | wc -l) == 4 ]]
	for pod in $(kubectl get pods -o jsonpath='pod/{.items[0].metadata.name}' --field-selector spec.nodeName=small) \
		$(kubectl get pods -o jsonpath='pod/{.items[0].metadata.name}' --field-selector spec.nodeName=gpu); do
		eventually 20 eval "kubectl logs $pod | grep -x 'Test PASSED'"
	done
	kubectl delete deployment time-slicing-verification --grace-period=0 --force --wait=false
}

@test "the verification fails where a pod has no GPU" {
	kubectl create -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: without}
		spec:
		  tolerations: [{operator: Exists}]
		  containers:
		  - name: main
		    image: nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04
	EOF
	eventually 20 eval 'kubectl logs without | grep "no CUDA-capable device"'
	kubectl delete pod without --grace-period=0 --force
}
