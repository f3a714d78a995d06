#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What `gpuslice plan --write` writes, to a real API server with Karpenter's definitions: it is taken, nodes that are
# made as its NodePools say offer what its NodeOverlays say, and patched workloads run there. Each test goes on where
# the one before ended.
# needs: karpenter

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

PLANS=$BATS_TEST_DIRNAME/../data/plan/artefacts
DIR=$BATS_RUN_TMPDIR/cluster-plan

setup_file() {
	local file
	cluster_up
	kubectl create namespace gpuslice
	for file in "$(kube_bin karpenter)"/*.yaml; do
		kubectl apply --server-side -f "$file"
	done
	kubectl wait --for condition=established --timeout 60s crd/nodepools.karpenter.sh crd/nodeoverlays.karpenter.sh \
		crd/ec2nodeclasses.karpenter.k8s.aws
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# plan NAME DIR
plan() {
	"$GPUSLICE_BUILD/src/tools/cli/gpuslice" plan "$PLANS/$1.yaml" --write "$2" >/dev/null
}

# node_of NAME POOL: a node with the type, the labels and the taints that the NodePool says.
node_of() {
	local name=$1 pool args=() type
	pool=$(kubectl get nodepool "$2" -o json)
	type=$(jq -r '.spec.template.spec.requirements[] | select(.key == "node.kubernetes.io/instance-type").values[0]' <<<"$pool")
	mapfile -t args < <(jq -r '.spec.template
		| (.metadata.labels | to_entries[] | "--label", "\(.key)=\(.value)"),
		  (.spec.taints + .spec.startupTaints | .[] | "--taint", "\(.key)=:\(.effect)")' <<<"$pool")
	node_add "$name" "$type" "${args[@]}" --label "node.kubernetes.io/instance-type=$type"
}

# as_promised NODE POOL: the node offers what the overlay says of it, and no other GPUs.
as_promised() {
	local want is
	want=$(kubectl get nodeoverlay "$2" -o json | jq -c '.spec.capacity | with_entries(select(.value != "0")) | to_entries | sort')
	is=$(kubectl get node "$1" -o json | jq -c '.status.allocatable
		| with_entries(select((.key | startswith("nvidia.com/")) and .value != "0")) | to_entries | sort')
	[[ $is == "$want" ]] || { echo "$1: expected $want, found $is" && return 1; }
}

# untainted NODE: its agent has taken the startup taint away, and left the other.
untainted() {
	kubectl get node "$1" -o json | jq -e '[.spec.taints[].key] | sort == ["nvidia.com/gpu"]'
}

@test "the objects of every plan are taken" {
	local name
	for name in time-slicing mps slices mig whole part; do
		plan "$name" "$BATS_TEST_TMPDIR/$name"
		kubectl apply --validate=strict -f "$BATS_TEST_TMPDIR/$name"
		kubectl delete -f "$BATS_TEST_TMPDIR/$name"
	done
}

@test "what the users' old Provisioners are translated to is taken" {
	cat >"$BATS_TEST_TMPDIR/old.yaml" <<-'EOF'
		apiVersion: karpenter.sh/v1alpha5
		kind: Provisioner
		metadata: {name: all}
		spec:
		  providerRef: {name: machines}
		  consolidation: {enabled: true}
		  ttlSecondsUntilExpired: 2592000
		  startupTaints: [{key: example.com/starting, effect: NoSchedule}]
		  kubeletConfiguration: {maxPods: 110, containerRuntime: containerd, evictionHard: {memory.available: 5%}, clusterDNS: [10.0.1.100]}
		---
		apiVersion: karpenter.k8s.aws/v1alpha1
		kind: AWSNodeTemplate
		metadata: {name: machines}
		spec:
		  amiFamily: Bottlerocket
		  subnetSelector: {aws-ids: "subnet-09fa4a0a8f233a921,subnet-09fa4a0a8f233a922"}
		  securityGroupSelector: {karpenter.sh/discovery: mine}
		  userData: "[settings.kubernetes]"
		  metadataOptions: {httpEndpoint: enabled, httpTokens: required, httpPutResponseHopLimit: 2}
		  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 100Gi, volumeType: gp3, encrypted: true}}]
	EOF
	"$GPUSLICE_BUILD/src/tools/cli/gpuslice" plan --translate "$FIXTURES"/karpenter-*.yaml "$BATS_TEST_TMPDIR/old.yaml" \
		>"$BATS_TEST_TMPDIR/now.yaml"
	kubectl apply --validate=strict -f "$BATS_TEST_TMPDIR/now.yaml"
	kubectl get nodepools -o json | jq -e '[.items[].metadata.name] | sort
		== ["all", "gpu-provisioner-p3-2xlarge", "gpu-provisioner-p3-8xlarge", "gpu-shared"]'
	kubectl delete -f "$BATS_TEST_TMPDIR/now.yaml"
}

@test "nodes as the pools say offer what the overlays say" {
	plan cluster "$DIR"
	kubectl apply --validate=strict -f "$DIR"
	# The order of 00-README.md.
	local configs=config.name=gpuslice-plan,config.map=null,config.default= mig=migManager.config.name=gpuslice-plan-mig,migManager.config.default=
	grep -F -- "--set $configs --set slices.enabled=true" "$DIR/00-README.md"
	grep -F -- "--set migManager.enabled=true --set $mig" "$DIR/00-README.md"
	chart install gpuslice --set "$configs" --set slices.enabled=true --set migManager.enabled=true --set "$mig"
	node_of ts g6-xlarge-time-slicing-6
	node_of cut p3-8xlarge-slices
	node_of mig p4d-24xlarge-mig
	eventually 60 agents 3
	eventually 60 as_promised ts g6-xlarge-time-slicing-6
	eventually 60 as_promised cut p3-8xlarge-slices
	eventually 120 as_promised mig p4d-24xlarge-mig
	for node in ts cut mig; do
		eventually 30 untainted $node
	done
}

@test "patched workloads run in their pools" {
	local name replicas
	while read -r name replicas; do
		kubectl create deployment "$name" --image sleep:latest --replicas "$replicas" --dry-run=client -o json |
			jq '.spec.template.spec.containers[0].resources = {limits: {"nvidia.com/gpu": "1"}, requests: {"nvidia.com/gpu": "1"}}' |
			kubectl apply -f -
		sed 's/"CONTAINER"/"sleep"/' "$DIR/patches/$name.yaml" >"$BATS_TEST_TMPDIR/$name.yaml"
		kubectl patch deployment "$name" --patch-file "$BATS_TEST_TMPDIR/$name.yaml"
	done <<-'EOF'
		web 6
		large 4
		small 6
		walled 9
	EOF
	eventually 60 pods 6 0 app=web
	eventually 60 pods 4 0 app=large
	eventually 60 pods 6 0 app=small
	eventually 60 pods 9 0 app=walled
	kubectl get pods -l 'app in (web, large, small, walled)' -o json |
		jq -e '[.items[] | [.metadata.labels.app, .spec.nodeName]] | unique
			== [["large", "cut"], ["small", "cut"], ["walled", "mig"], ["web", "ts"]]'
}
