#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The user's MIG story on a p4d.24xlarge: the chart by helm, a layout by a label of the node, the
# user's Deployments as they stand; then what may go wrong with each.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

MIG=nvidia.com/mig
LAYOUT=nvidia.com/mig.config
STATE=nvidia.com/mig.config.state

setup_file() {
	cluster_up
	node_add p4d p4d.24xlarge --label nvidia.com/gpu.present=true
	# shellcheck disable=SC2016 # for the other shell
	part_start states bash -c 'kubectl get node p4d --watch -o json |
		gojq -r ".metadata.labels | [now, .[\"nvidia.com/mig.config\"] // \"-\", .[\"nvidia.com/mig.config.state\"] // \"-\"] | @tsv"'
	kubectl create namespace gpuslice
	chart install gpuslice --set migStrategy=mixed
	eventually 60 agents 1
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# layout NAME: as the user does it.
layout() {
	date +%s.%N >"$BATS_FILE_TMPDIR/asked"
	kubectl label node p4d --overwrite "$LAYOUT=$1"
}

# state WORD [PATTERN]: and the reason beside it.
state() {
	has_label p4d $STATE "$1" || return 1
	[[ -z ${2-} ]] || kubectl get node p4d -o json | jq -e --arg p "$2" \
		'.metadata.annotations["gpuslice.io/mig.config.reason"] // "" | if test($p) then true else error(.) end'
}

# went LAYOUT WORD...: the last states that the label has had since the layout was asked for.
went() {
	local want=$1
	shift
	[[ $(states "$want") == *"$* " ]]
}

# has_been LAYOUT WORD: one of them, whatever came after it.
has_been() {
	[[ " $(states "$1")" == *" $2 "* ]]
}

states() {
	awk -v since="$(cat "$BATS_FILE_TMPDIR/asked")" -v want="$1" \
		'$1 >= since && $2 == want && $3 != last { printf "%s ", last = $3 }' "$KUBE/log/states.log"
}

# migs PROFILE COUNT [ALLOCATABLE]
migs() {
	offers p4d "$2" "${3-$2}" "$MIG-$1"
}

# told REASON PATTERN: an Event on the Node.
told() {
	kubectl get events -A --field-selector "involvedObject.kind=Node,reason=$1" -o json |
		jq -e --arg p "$2" 'any(.items[]; .message | test($p))'
}

# sees PROFILE MIB APP: what a pod's process sees through NVML: one MIG device of this memory.
sees() {
	local pod
	pod=$(kubectl get pods -l "app=$3" -o json | jq -r '[.items[] | select(.status.phase == "Running")][0].metadata.name')
	kubectl exec "$pod" -- nvidia-smi >"$BATS_TEST_TMPDIR/seen"
	cat "$BATS_TEST_TMPDIR/seen"
	[[ $(grep -c ^/dev/nvidia "$BATS_TEST_TMPDIR/seen") == 1 && $(grep -c '^  ' "$BATS_TEST_TMPDIR/seen") == 1 ]] &&
		grep -qE "^  $1 MIG-[0-9a-f-]{36} $2 MiB\$" "$BATS_TEST_TMPDIR/seen"
}

# uuids [GPU]: of the MIG devices that the driver has, whatever anybody says of it.
uuids() {
	sim p4d show --json | jq -r --argjson gpu "${1-null}" \
		'[.gpus[] | select($gpu == null or .index == $gpu) | .mig.gpu_instances[].compute_instances[].uuid] | sort[]'
}

# on_each N: so many on each GPU.
on_each() {
	sim p4d show --json | jq -e --argjson n "$1" '[.gpus[].mig.gpu_instances | length] | if all(. == $n) then true else error("\(.)") end'
}

# --- The story.

@test "eight whole GPUs before anybody asks for MIG" {
	eventually 20 offers p4d 8
	eventually 20 has_label p4d nvidia.com/mig.capable true
	kubectl get node p4d -o json | jq -e ".metadata.labels | has(\"$STATE\") | not"
}

@test "label all-1g.5gb: pending, then success, and 56 instances instead of 8 GPUs" {
	layout all-1g.5gb
	eventually 60 state success
	eventually 10 went all-1g.5gb pending success
	eventually 20 migs 1g.5gb 56
	eventually 20 offers p4d 0
	eventually 20 has_label p4d nvidia.com/mig-1g.5gb.count 56
	eventually 20 has_label p4d nvidia.com/mig.strategy mixed
	eventually 10 told MigConfigApplied all-1g.5gb
	figure "label to allocatable, 8 GPUs to 56 instances: at most $(awk "BEGIN { printf \"%.1f\", $(date +%s.%N) - $(cat "$BATS_FILE_TMPDIR/asked") }") s"
}

@test "the user's Deployment, scaled to 100: 56 run" {
	kubectl apply -f "$FIXTURES/mig-1g-5gb-deployment.yaml"
	eventually 30 pods 1 0 app=mig1-5
	sees 1g.5gb 4864 mig1-5
	kubectl scale deployment/mig1.5 --replicas 100
	eventually 120 pods 56 44 app=mig1-5
	eventually 10 waits_for $MIG-1g.5gb
	# No two of them have the same instance.
	[[ $(kubectl get pods -l app=mig1-5 --field-selector status.phase=Running -o name |
		xargs -P 4 -I {} kubectl exec {} -- nvidia-smi | grep -o 'MIG-[0-9a-f-]*' | sort -u | wc -l) == 56 ]]
}

@test "another layout while pods hold the instances: failed, the pod is named, nothing is touched" {
	uuids >"$BATS_FILE_TMPDIR/before"
	layout all-balanced
	eventually 60 state failed 'mig1\.5-'
	eventually 10 told MigConfigFailed 'mig1\.5-'
	uuids | diff "$BATS_FILE_TMPDIR/before" -
	pods 56 44 app=mig1-5
	migs 1g.5gb 56
}

@test "when they are gone it is done by itself: 16, 8 and 8" {
	kubectl delete deployment/mig1.5
	eventually 120 state success
	eventually 20 migs 1g.5gb 16
	eventually 20 migs 2g.10gb 8
	eventually 20 migs 3g.20gb 8
	eventually 20 has_label p4d nvidia.com/mig-3g.20gb.count 8
}

@test "three Deployments, scaled to 20: 16, 8 and 8 run, each sees its own device" {
	kubectl apply -f "$FIXTURES/mig-1g-5gb-deployment.yaml" -f "$FIXTURES/mig-2g-10gb-and-3g.20gb-deployments.yaml"
	kubectl scale deployment/mig1.5 deployment/mig2-10 deployment/mig3-20 --replicas 20
	eventually 120 pods 16 4 app=mig1-5
	eventually 60 pods 8 12 app=mig2-10
	eventually 60 pods 8 12 app=mig3-20
	sees 1g.5gb 4864 mig1-5
	sees 2g.10gb 9984 mig2-10
	sees 3g.20gb 20096 mig3-20
	eventually 10 agent_status p4d '[.resources[] | select(.name | startswith("nvidia.com/mig-")) | .used] | sort == [8, 8, 16]'
}

# --- What else users do, and what goes wrong.

@test "a label that names no layout: failed at once, and what runs goes on" {
	layout all-9g.99gb
	eventually 30 state failed 'all-9g\.99gb'
	pods 16 4 app=mig1-5
	migs 3g.20gb 8
}

@test "a custom layout in the ConfigMap, one GPU only: the others' pods do not notice" {
	kubectl delete deployment mig2-10 mig3-20
	kubectl scale deployment/mig1.5 --replicas 16
	eventually 60 pods 16 0 app=mig1-5
	chart upgrade gpuslice --set migStrategy=mixed --set migManager.config.name=layouts --set configViaAPI=true
	eventually 60 agents 1
	kubectl create configmap layouts -n gpuslice --from-file=config.yaml=/dev/stdin <<-'EOF'
		version: v1
		mig-configs:
		  all-balanced:
		  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}
		  one-different:
		  - {devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}
		  - {devices: [7], mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 2}}
		  all-disabled:
		  - {devices: all, mig-enabled: false}
		  too-much:
		  - {devices: [7], mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}
	EOF
	uuids >"$BATS_FILE_TMPDIR/before"
	layout one-different
	eventually 60 state success
	eventually 20 migs 2g.10gb 9
	eventually 20 migs 3g.20gb 7
	eventually 20 migs 1g.5gb 16
	# One instance of GPU 7 went, and one came.
	[[ $(uuids | diff "$BATS_FILE_TMPDIR/before" - | grep -c '^[<>]') == 2 ]]
	kubectl get pods -l app=mig1-5 -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
	pods 16 0 app=mig1-5
}

@test "a layout that cannot fit: failed with the reason before anything is touched" {
	uuids >"$BATS_FILE_TMPDIR/before"
	layout too-much
	eventually 30 state failed 'GPU 7'
	uuids | diff "$BATS_FILE_TMPDIR/before" -
	# The ConfigMap is mended, the label stays: done by itself.
	kubectl delete deployment mig1.5
	kubectl get configmap layouts -n gpuslice -o json |
		jq '.data["config.yaml"] |= sub("3g.20gb: 2, 1g.5gb: 1"; "3g.20gb: 2")' | kubectl replace -f -
	eventually 90 state success
	eventually 20 migs 3g.20gb 9
}

@test "a process on an instance that no pod accounts for: failed, and done when it ends" {
	local uuid
	uuid=$(uuids 7 | sed -n 1p)
	sim p4d process start "$uuid" --pid 4242 --memory 1Gi
	layout all-balanced
	eventually 30 state failed 'GPU 7'
	sim p4d process stop 4242
	eventually 60 state success
	eventually 20 migs 3g.20gb 8
}

@test "the node is rebooted: the driver has lost all instances, the agent makes them again" {
	sim p4d reboot
	eventually 60 on_each 4
	eventually 60 migs 3g.20gb 8
	eventually 30 state success
}

@test "the agent is killed in the middle of a change: its successor ends it" {
	layout all-disabled
	eventually 30 has_been all-disabled pending
	kubectl delete pod -n gpuslice "$(agent_pod p4d)" --grace-period=0 --force
	eventually 90 state success
	eventually 30 offers p4d 8
	eventually 20 migs 1g.5gb 0
}

# --- NVIDIA's GPU clients beside us, and nodes without its toolkit.

# A DaemonSet of the GPU operator: its nodes are chosen by a label that the MIG manager pauses.
exporter() {
	kubectl apply -f - <<-EOF
		apiVersion: apps/v1
		kind: DaemonSet
		metadata: {name: nvidia-dcgm-exporter, namespace: gpuslice}
		spec:
		  selector: {matchLabels: {app: nvidia-dcgm-exporter}}
		  template:
		    metadata: {labels: {app: nvidia-dcgm-exporter}}
		    spec:
		      terminationGracePeriodSeconds: 1
		      nodeSelector: {nvidia.com/gpu.deploy.dcgm-exporter: "true"}
		      containers: [{name: main, image: any}]
	EOF
}

exporters() {
	kubectl get pods -n gpuslice -l app=nvidia-dcgm-exporter -o json | jq -r \
		'[.items[] | select(.metadata.deletionTimestamp == null and .status.phase == "Running")][].metadata.uid'
}

an_exporter_runs() {
	[[ -n $(exporters) ]]
}

@test "a GPU client of the operator is stopped for the change, and runs again after it" {
	local before
	exporter
	kubectl label node p4d nvidia.com/gpu.deploy.dcgm-exporter=true
	eventually 30 an_exporter_runs
	before=$(exporters)
	layout all-balanced
	eventually 60 state success '^all-balanced: applied' # not that of the layout before
	has_label p4d nvidia.com/gpu.deploy.dcgm-exporter true
	eventually 30 an_exporter_runs
	[[ $(exporters) != "$before" ]]
	kubectl delete daemonset -n gpuslice nvidia-dcgm-exporter --wait=false
}

@test "strategy single, shared twice, through CDI on a node without NVIDIA's toolkit" {
	node_add plain h100-1 --runtime runc
	node_exec plain gpuslice mig apply --builtin -c all-1g.10gb --nvml /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1
	put_file plain /etc/gpuslice.yaml <<-'EOF'
		version: v1
		flags: {migStrategy: single, plugin: {deviceListStrategy: [cdi-cri]}}
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}
	EOF
	agent_start plain --config-file /etc/gpuslice.yaml
	eventually 20 offers plain 14
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: cdi}
		spec:
		  nodeName: plain
		  terminationGracePeriodSeconds: 1
		  containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]
	EOF
	eventually 30 pod_is cdi Running
	record plain 'select(.pod == "cdi") | .cdi | length == 1'
	# The GPU, and the capabilities of one GPU instance and one compute instance.
	[[ $(kubectl exec cdi -- sh -c 'ls /dev/nvidia[0-9]* /dev/nvidia-caps/*' | wc -l) == 3 ]]
	kubectl exec cdi -- nvidia-smi | tee "$BATS_TEST_TMPDIR/seen"
	[[ $(grep -cE '^  1g\.10gb MIG-[0-9a-f-]{36} 9984 MiB$' "$BATS_TEST_TMPDIR/seen") == 1 && $(wc -l <"$BATS_TEST_TMPDIR/seen") == 2 ]]
}
