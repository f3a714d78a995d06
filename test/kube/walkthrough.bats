#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The user's walk-throughs as a user does them: the chart by helm, the agent in its pods, and the
# user's manifests and ConfigMaps by kubectl, as they stand.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

DEMO=app=tensorflow-cifar10
VERIFY=app=time-slicing-verification

setup_file() {
	cluster_up
	node_add gpu p3.8xlarge --label nvidia.com/gpu.present=true
	# The intervals are Kubernetes' defaults. No pod but the agent's may go there.
	KUBELET_SYNC=1m KUBELET_STATUS=10s node_add usual p3.2xlarge \
		--label nvidia.com/gpu.present=true --taint example.com/reserved=:NoSchedule
	gpus_watch gpu
	gpus_watch usual
	kubectl create namespace gpu-demo
	kubectl create namespace gpuslice
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	NS=kube-system show_agents
	show_logs
}

# replicas N: the user's ConfigMap with another number.
replicas() {
	sed "s/replicas: 10/replicas: $1/" "$FIXTURES/nvidia-device-plugin.yaml" | kubectl apply -f -
}

# stamp NAME: now; since NAME: what it was.
stamp() {
	echo "$EPOCHREALTIME" >"$BATS_FILE_TMPDIR/$1"
}

since() {
	cat "$BATS_FILE_TMPDIR/$1"
}

# entry_of FILE: the config that the nodes of this Karpenter manifest are to have.
entry_of() {
	sed -nE "s|^ +$CONFIG_LABEL: *\"?([^\" ]*).*|\\1|p" "$FIXTURES/$1"
}

# shared NODE REPLICAS COUNT: the labels that say so.
shared() {
	has_label "$1" nvidia.com/gpu.product Tesla-V100-SXM2-16GB-SHARED && has_label "$1" nvidia.com/gpu.replicas "$2" &&
		has_label "$1" nvidia.com/gpu.count "$3" && has_label "$1" nvidia.com/gpu.sharing-strategy time-slicing
}

# --- One ConfigMap for all nodes, in kube-system.

@test "the chart, before its ConfigMap is there: whole GPUs, 4 of 5 pods run" {
	NS=kube-system chart install gpuslice --set config.name=nvidia-device-plugin --set 'config.fallbackStrategies={named,single,empty}'
	NS=kube-system eventually 60 agents 2
	eventually 20 offers gpu 4
	eventually 20 has_label gpu nvidia.com/gpu.product Tesla-V100-SXM2-16GB
	kubectl apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 30 pods 4 1 $DEMO
	eventually 10 waits_for nvidia.com/gpu gpu-demo
}

@test "kubectl apply of the ConfigMap, nothing else: 40 slices, 5 pods run" {
	stamp volume
	kubectl apply -f "$FIXTURES/nvidia-device-plugin.yaml"
	eventually 60 offers gpu 40
	eventually 20 pods 5 0 $DEMO
	eventually 20 shared gpu 10 4
}

@test "scaled to 20, 20 pods run, and none was restarted" {
	kubectl scale -n gpu-demo deployment/tensorflow-cifar10-deployment --replicas 20
	eventually 60 pods 20 0 $DEMO
	kubectl get pods -n gpu-demo -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
	eventually 30 agent_status gpu '[.resources[0] | .capacity, .used] == [40, 16]' # 4 hold whole GPUs
}

@test "a kubelet as Kubernetes sets it has the ConfigMap in two minutes" {
	GPUSLICE_PATIENCE=1 eventually 120 offers usual 10
	figure "mounted ConfigMap, 'kubectl apply' to allocatable: $(gpus_after usual "$(since volume)" 10) s" \
		"with the kubelet's defaults (sync 1m, status 10s), $(gpus_after gpu "$(since volume)" 40) s with the test's (10s, 1s)"
	NS=kube-system agents 2
	kubectl get pods -n kube-system -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
}

@test "through the API a change is there at once" {
	NS=kube-system chart upgrade gpuslice --set config.name=nvidia-device-plugin --set configViaAPI=true
	NS=kube-system eventually 90 agents 2
	eventually 30 offers gpu 40
	eventually 30 offers usual 10
	stamp api
	replicas 12
	eventually 10 agent_status gpu '.resources[0].capacity == 48'
	local agent
	agent=$(awk "BEGIN { printf \"%.1f\", $EPOCHREALTIME - $(since api) }")
	eventually 20 offers gpu 48
	eventually 30 offers usual 12
	figure "configViaAPI, 'kubectl apply' to the agent: at most $agent s;" \
		"to allocatable: $(gpus_after usual "$(since api)" 12) s with the kubelet's defaults, $(gpus_after gpu "$(since api)" 48) s with the test's"
	pods 20 0 $DEMO
	kubectl delete -f "$FIXTURES/cifar10-train-deploy.yaml" --wait=false
	helm uninstall gpuslice -n kube-system --wait
}

# --- Nodes of two types, each with the entry that its label names.

@test "two types of nodes, labelled as Karpenter would: 4 and 32 slices" {
	kubectl delete node usual
	node_off usual
	kubectl apply -n gpuslice -f "$FIXTURES/time-slicing-config.yaml"
	kubectl label node gpu "$CONFIG_LABEL=$(entry_of karpenter-node-template-p3-8xlarge.yaml)"
	kubectl taint node gpu nvidia.com/gpu=present:NoSchedule
	chart install gpuslice --set config.name=time-slicing-config
	node_add small p3.2xlarge --taint nvidia.com/gpu=present:NoSchedule \
		--label "nvidia.com/gpu.present=true,$CONFIG_LABEL=$(entry_of karpenter-node-template-p3-2xlarge.yaml)"
	eventually 60 agents 2
	eventually 20 offers gpu 32
	eventually 20 offers small 4
	eventually 20 shared gpu 8 4
	eventually 20 shared small 4 1
}

@test "the verification runs on both, and its log says that the test passed" {
	kubectl apply -f "$FIXTURES/time-slicing-verification.yaml"
	eventually 60 pods 5 0 $VERIFY
	kubectl scale deployment/time-slicing-verification --replicas 36
	eventually 120 pods 36 0 $VERIFY
	local node pod
	for node in gpu small; do
		pod=$(kubectl get pods -l $VERIFY --field-selector "spec.nodeName=$node" -o 'jsonpath={.items[0].metadata.name}')
		eventually 20 eval "kubectl logs $pod | grep -x 'Test PASSED'"
	done
	[[ $(kubectl get pods -l $VERIFY --field-selector spec.nodeName=small -o name | wc -l) == 4 ]]
	kubectl delete deployment time-slicing-verification --grace-period=0 --force --wait=false
}

@test "another label is another entry, and no pod of the agent restarts" {
	kubectl label node gpu --overwrite "$CONFIG_LABEL=p3.2xlarge"
	eventually 20 offers gpu 16
	kubectl get pods -n gpuslice -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
}

# --- The label shared_gpu.

@test "gpu-app.yaml runs where its nodeSelector says, once it has the selector that it lacks" {
	kubectl apply -n gpuslice -f "$FIXTURES/nvidia-device-plugin-config.yaml"
	chart upgrade gpuslice --set config.name=nvidia-device-plugin-config --set config.default=shared_gpu
	kubectl taint node small nvidia.com/gpu-
	kubectl taint node gpu nvidia.com/gpu-
	kubectl label node small --overwrite "$CONFIG_LABEL=$(entry_of karpenter-provisioner-gpu-shared.yaml)"
	eventually 60 agents 2
	eventually 20 offers small 10
	run -1 kubectl apply -f "$FIXTURES/gpu-app.yaml"
	[[ $output == *"spec.selector: Required value"* ]]
	kubectl create --dry-run=client --validate=false -o json -f "$FIXTURES/gpu-app.yaml" |
		jq '.spec.selector.matchLabels.app = "a" | .spec.template.metadata.labels.app = "a"' | kubectl apply -f -
	eventually 30 pods 1 0 app=a
	kubectl get pods -l app=a -o json | jq -e '.items[0].spec | .nodeName == "small" and .nodeSelector == {"nvidia.com/device-plugin.config": "shared_gpu"}'
}

@test "a label that the ConfigMap does not have keeps what is there, and says so at the node" {
	# "gpu" still says p3.2xlarge, and its agent is new: what it had last is in force.
	eventually 10 offers gpu 16
	eventually 10 eval "kubectl describe node gpu | grep -E 'Warning +ConfigNotFound .*p3.2xlarge'"
}
