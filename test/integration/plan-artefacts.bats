#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice plan --write: the objects to apply, against what an agent makes of them.

bats_require_minimum_version 1.5.0
load lib

PLANS=$BATS_TEST_DIRNAME/../data/plan/artefacts

setup_file() {
	stage_programs
}

# gpuslice ARGUMENT...
gpuslice() {
	"$GPUSLICE" "$@"
}

# plan NAME: into the directory of that name, where the rest of the test is.
plan() {
	gpuslice plan "$PLANS/$1.yaml" --write "$BATS_TEST_TMPDIR/$1" >/dev/null
	cd "$BATS_TEST_TMPDIR/$1" || return
}

# offered POOL OPTION...: what a node would offer under the pool's config.
offered() {
	local pool=$1
	shift
	gpuslice config check "$@" --json 10-device-plugin-config.yaml |
		jq -c --arg pool "#$pool" '.configs[] | select(.name | endswith($pool))
			| [.offers[] | {key: .name, value: (.devices | tostring)}] | from_entries'
}

# promised POOL: the capacity of its overlay.
promised() {
	python3 - "$1" <<-'EOF'
		import json, sys, yaml
		for o in yaml.safe_load_all(open("40-nodeoverlays.yaml")):
		    if o["metadata"]["name"] == sys.argv[1]:
		        print(json.dumps({k: v for k, v in o["spec"]["capacity"].items() if v != "0"},
		                         sort_keys=True, separators=(",", ":")))
	EOF
}

@test "a T4 offers all slices that are planned on it" {
	printf 'version: gpuslice/plan/v1\npolicy: {modes: [slices], instances: [g4dn.xlarge]}\nworkloads: [{name: x, gpu_ref: T4, busy: 0.1, t_solo: 0.01, rate: 5, mem_peak_mib: 4500, replicas: 3, slo: {max_slowdown: 9}}]\n' >"$BATS_TEST_TMPDIR/t4.yaml"
	run -0 --separate-stderr "$GPUSLICE" plan "$BATS_TEST_TMPDIR/t4.yaml" --write "$BATS_TEST_TMPDIR/t4"
	run -0 --separate-stderr "$GPUSLICE" config check --node g4dn.xlarge "$BATS_TEST_TMPDIR/t4/10-device-plugin-config.yaml"
	[[ $output == *"2 good, 0 bad, 0 warnings"* ]]
}

@test "a slice has room for the first CUDA context, and for the contexts that a profile measured" {
	local head='version: gpuslice/plan/v1
policy: {modes: [slices], instances: [p5.4xlarge]}
workloads: [{name: x, gpu_ref: H100-SXM5-80GB, busy: 0.1, t_solo: 0.01, rate: 5, slo: {max_slowdown: 9}' figures memory
	while read -r memory figures; do
		printf '%s, %s}]\n' "$head" "$figures" >"$BATS_TEST_TMPDIR/p.yaml"
		rm -rf "$BATS_TEST_TMPDIR/p"
		gpuslice plan "$BATS_TEST_TMPDIR/p.yaml" --write "$BATS_TEST_TMPDIR/p" >/dev/null
		grep -F "memory: ${memory}Mi" "$BATS_TEST_TMPDIR/p/10-device-plugin-config.yaml"
		run -0 gpuslice config check --node p5.4xlarge "$BATS_TEST_TMPDIR/p/10-device-plugin-config.yaml"
		[[ $output != *note:* ]]
	done <<-'EOF'
		768 mem_peak_mib: 1
		768 mem_peak_mib: 1, context_mib: 100
		1536 mem_peak_mib: 900
		1280 mem_peak_mib: 900, context_mib: 300
	EOF
}

@test "nothing is written that an agent would not take as it is" {
	printf 'version: gpuslice/plan/v1\npolicy: {modes: [slices], instances: [p5.4xlarge], headroom: 0}\nworkloads: [{name: x, gpu_ref: H100-SXM5-80GB, busy: 0.1, t_solo: 0.01, rate: 5, mem_peak_mib: 19880, replicas: 4, slo: {max_slowdown: 9}}]\n' >"$BATS_TEST_TMPDIR/p.yaml"
	run -2 --separate-stderr "$GPUSLICE" plan "$BATS_TEST_TMPDIR/p.yaml" --write "$BATS_TEST_TMPDIR/p"
	# shellcheck disable=SC2154 # run sets it
	[[ $stderr == *"10-device-plugin-config.yaml#"*"3 of 4 fit on GPU 0"*"so nothing is written"* ]]
	[[ ! -e $BATS_TEST_TMPDIR/p ]]
}

@test "nothing is written where something has no place, and the exit status is the plan's" {
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: huge, mem_peak_mib: 900000}]\n' >"$BATS_TEST_TMPDIR/p.yaml"
	run -1 --separate-stderr "$GPUSLICE" plan "$BATS_TEST_TMPDIR/p.yaml" --write "$BATS_TEST_TMPDIR/p"
	[[ $stderr == *"--write: not all workloads have a place, so nothing is written"* && $output == *"no place for 1 of 'huge'"* ]]
	[[ ! -e $BATS_TEST_TMPDIR/p ]]
}

@test "the commands of the first step are for any release and namespace, and drop an earlier config" {
	cd "$BATS_TEST_TMPDIR"
	printf 'version: gpuslice/plan/v1\npolicy: {modes: [mig], instances: [p4d.24xlarge]}\nworkloads: [{name: m, gpu_ref: A100-SXM4-40GB, u: 0.1, busy: 0.1, t_solo: 0.01, rate: 5, mem_peak_mib: 4000, isolation: hardware, slo: {max_slowdown: 9}}]\n' >mig.yaml
	"$GPUSLICE" plan mig.yaml --write mig >/dev/null
	mkdir bin
	printf '#!/bin/sh\necho "kubectl $*" >>"$CALLED"\n[ "$1" = create ] || cat >>"$CALLED"\n' >bin/kubectl
	printf '#!/bin/sh\necho "helm $*" >>"$CALLED"\n' >bin/helm
	chmod +x bin/*
	sed -n '/```sh/,/```/{/```/d;p}' mig/00-README.md | sed -n '1,/helm/p;/^ *--/p' | sed 's/RELEASE=gpuslice NAMESPACE=gpuslice/RELEASE=mine NAMESPACE=here/' >step.sh
	cat step.sh
	(cd mig && CALLED=$PWD/../called PATH=$PWD/../bin:$PATH sh -eu ../step.sh)
	cat called
	grep -Fx 'kubectl create namespace here --dry-run=client -o yaml' called
	[[ $(grep -c '^  namespace: here$' called) == 2 ]]
	grep -F 'helm upgrade --install mine deploy/helm/gpuslice --namespace here --reset-then-reuse-values --set config.name=gpuslice-plan,config.map=null,config.default= ' called
	grep -F -- '--set migManager.enabled=true --set migManager.config.name=gpuslice-plan-mig,migManager.config.default= ' called
}

@test "an object for each resource, with its replicas; the prerequisites of the cluster" {
	local out="$BATS_TEST_TMPDIR/fleet"
	run -0 --separate-stderr "$GPUSLICE" plan "$BATS_TEST_DIRNAME/../../examples/plan/fleet.yaml" --write "$out"
	grep -F 'RELEASE=gpuslice NAMESPACE=gpuslice' "$out/00-README.md"
	grep -F 'resources/nvidia.com/gpu,Value=0' "$out/60-cluster-autoscaler-tags.txt"
	grep -F '# kubectl patch deployment embed-2 --patch-file' "$out/patches/embed-2.yaml"
	[ "$(awk '/^  replicas: / { n += $2 } END { print n }' "$out"/patches/embed*.yaml)" = 8 ]
	printf 'version: gpuslice/plan/v1\npolicy: {modes: [mig], instances: [p4d.24xlarge]}\nworkloads: [{name: m, gpu_ref: A100-SXM4-40GB, u: 0.1, busy: 0.1, t_solo: 0.01, rate: 5, mem_peak_mib: 4000, isolation: hardware, slo: {max_slowdown: 9}}]\n' >"$BATS_TEST_TMPDIR/mig.yaml"
	run -0 --separate-stderr "$GPUSLICE" plan "$BATS_TEST_TMPDIR/mig.yaml" --write "$BATS_TEST_TMPDIR/mig"
	grep -F -- '--set migManager.withReboot=true' "$BATS_TEST_TMPDIR/mig/00-README.md"
}

@test "a node of the type offers the resources of the overlay: slots, slices, MPS, a share of a GPU" {
	local plan node pool
	while read -r plan node pool; do
		plan "$plan"
		gpuslice config check 10-device-plugin-config.yaml
		run promised "$pool"
		[[ -n $output ]]
		[[ $(offered "$pool" --node "$node") == "$output" ]]
	done <<-'EOF'
		time-slicing g6.xlarge g6-xlarge-time-slicing-6
		mps g6.xlarge g6-xlarge-mps-4
		slices p3.8xlarge p3-8xlarge-slices
		part g6.xlarge g6f-2xlarge-exclusive
	EOF
}

@test "MIG: the layout is one that the GPUs can have, and the devices are those of the overlay" {
	plan mig
	python3 - <<-'EOF' >layout.yaml
		import yaml
		print(yaml.safe_load(open("15-mig-config.yaml"))["data"]["config.yaml"])
	EOF
	export GPUSLICE_NVML=$SIM_NVML GPUSLICE_SIM_NODE=p4d.24xlarge GPUSLICE_SIM_DIR=$PWD/sim
	gpuslice sim create
	as_root "$GPUSLICE" mig apply -f layout.yaml -c p4d-24xlarge-mig
	[[ $(offered p4d-24xlarge-mig --nvml "$SIM_NVML") == "$(promised p4d-24xlarge-mig)" ]]
}

@test "whole GPUs need no overlay; a part of one needs one, and a word about the feature gate" {
	plan whole
	[[ ! -e 40-nodeoverlays.yaml && ! -e 15-mig-config.yaml ]]
	run ! grep NodeOverlay 00-README.md
	grep -F 'nvidia.com/gpu: "2"' patches/train.yaml
	plan part
	grep -F 'NodeOverlay=true' 00-README.md
}

@test "all or nothing: a directory with files stays as it is, an empty one is filled, and nothing is left beside" {
	cd "$BATS_TEST_TMPDIR"
	mkdir full empty
	touch full/mine
	run -4 gpuslice plan "$PLANS/whole.yaml" --write full
	[[ $output == *"full: expected an empty directory or none, found files in it"* ]]
	[[ $(ls full) == mine ]]
	gpuslice plan "$PLANS/whole.yaml" --write empty/
	[[ -e empty/00-README.md ]]
	run -3 gpuslice plan "$PLANS/whole.yaml" --write nowhere/at/all
	[[ $output == *"nowhere/at/all"*"No such file"* ]]
	[[ $(ls) == $'empty\nfull' ]]
}

@test "a workload's name is no path, no shell and no markup" {
	cd "$BATS_TEST_TMPDIR"
	cat >w.yaml <<-'EOF'
		version: gpuslice/plan/v1
		workloads:
		- {name: "../../$(x)\"", replicas: 1, gpu_ref: L4, mem_peak_mib: 3000}
		- {name: "../../$(x)'", replicas: 1, gpu_ref: L4, mem_peak_mib: 3000}
		policy: {instances: [g6.xlarge]}
	EOF
	gpuslice plan w.yaml --write out
	[[ $(ls out/patches | paste -s -d ' ') == '_._..___x__.yaml _._..___x__~2.yaml' ]]
	for f in out/patches/*; do
		python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))' "$f"
	done
}
