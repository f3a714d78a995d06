#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice plan with Kubernetes manifests: the users' own.

bats_require_minimum_version 1.5.0
load lib

FIXTURES=$BATS_TEST_DIRNAME/../data/fixtures

setup_file() {
	stage_programs
}

# plan ARGUMENT...: in the directory of the fixtures, so that messages have short paths.
plan() {
	(cd "$FIXTURES" && "$GPUSLICE" plan "$@")
}

@test "Deployments, a sharing config and Provisioners: the cost of the present layout, and errors in it" {
	run --separate-stderr plan cifar10-train-deploy.yaml time-slicing-config.yaml \
		karpenter-node-template-p3-2xlarge.yaml karpenter-node-template-p3-8xlarge.yaml
	[[ $status == 0 ]]
	[[ $output == *"5 replicas of 1 workload."* ]]
	grep -qE '^a GPU each +5 x p3.2xlarge, on demand +15.30' <<<"$output"
	grep -qE '^4 slices of each GPU, time-slicing +2 x p3.2xlarge, on demand +6.12' <<<"$output"
	[[ $output == *"measure mem_peak_mib."* ]]
	[[ $output == *"karpenter-node-template-p3-2xlarge.yaml:1: Provisioner never had this apiVersion"* ]]
	[[ $output == *"karpenter-node-template-p3-2xlarge.yaml:7: spec.constraints was never a field"* ]]
	[[ $output == *"karpenter-node-template-p3-2xlarge.yaml:11: karpenter.sh/capacity-type is spot, on-demand or reserved, not 'ON_DEMAND'"* ]]
	[[ $output == *"time-slicing-config.yaml:7: 'p3.2xlarge'"*"set renameByDefault"* ]]
	[[ $output == *"for the one on p3.8xlarge write layout:"* ]]
}

@test "replicas are of each GPU: 8 on four GPUs are 32" {
	cat >"$BATS_TEST_TMPDIR/layout.yaml" <<-'EOF'
		version: gpuslice/plan/v1
		layout: {instance: p3.8xlarge, mode: time-slicing, slices: 8}
	EOF
	run --separate-stderr plan cifar10-train-deploy.yaml "$BATS_TEST_TMPDIR/layout.yaml"
	[[ $output == *"8 slices of each of the 4 GPUs of p3.8xlarge are 32, each 1/8 of a GPU."* ]]
}

@test "a profile for a Deployment, and its patch names the container" {
	cat >"$BATS_TEST_TMPDIR/profile.yaml" <<-'EOF'
		version: gpuslice/plan/v1
		workloads:
		- {name: tensorflow-cifar10-deployment, gpu_ref: V100-SXM2-16GB, busy: 0.1, t_solo: 0.05, rate: 2, mem_peak_mib: 2000, slo: {max_slowdown: 3}}
		policy: {instances: [p3.2xlarge], modes: [time-slicing]}
	EOF
	plan "$BATS_TEST_TMPDIR/profile.yaml" cifar10-train-deploy.yaml --write "$BATS_TEST_TMPDIR/out" -o json |
		jq -e '.plan.instances | length == 1 and (.[0].gpus[0].tenants | length == 5)'
	grep -F 'name: "tensorflow-cifar10"' "$BATS_TEST_TMPDIR/out/patches/tensorflow-cifar10-deployment.yaml"
	grep -F 'kubectl patch deployment --namespace gpu-demo tensorflow-cifar10-deployment --patch-file' "$BATS_TEST_TMPDIR/out/patches/tensorflow-cifar10-deployment.yaml"
	run ! grep CONTAINER "$BATS_TEST_TMPDIR/out/patches/tensorflow-cifar10-deployment.yaml"
}

@test "faults that every API server refuses are notes, with file and line" {
	run --separate-stderr plan gpu-app.yaml dcgmproftester-pod.yaml -o json
	jq -c '[.warnings[] | [.file, .line, .code]]' <<<"$output"
	jq -e '[.warnings[] | [.file, .line, .code]] == [["gpu-app.yaml", 1, "no-selector"], ["dcgmproftester-pod.yaml", 1, "no-api-version"]]' <<<"$output"
}

@test "input through a pipe" {
	run -0 --separate-stderr plan - <"$FIXTURES/gpu-app.yaml"
	[[ $output == *"The plan:"* ]]
	[[ $output == *"standard input:1:"* ]]
	run -0 plan --translate - <"$FIXTURES/karpenter-provisioner-gpu-shared.yaml"
	[[ $output == *"kind: NodePool"* ]]
}

@test "configs that are files of their own" {
	printf 'version: v1\nsharing: {timeSlicing: {renameByDefault: true, failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n' \
		>"$BATS_TEST_TMPDIR/p3.2xlarge.yaml"
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: a, replicas: 4}]\n' >"$BATS_TEST_TMPDIR/plan.yaml"
	run -0 --separate-stderr plan "$BATS_TEST_TMPDIR/plan.yaml" "$BATS_TEST_TMPDIR/p3.2xlarge.yaml" default-mig-parted-config.yaml -o json
	jq -e '.layout.type == "p3.2xlarge" and .layout.slices == 4 and ([.warnings[].code] == ["not-read"])' <<<"$output"
	printf 'version: v1\nsharing: {timeSlicing: {resources: 7}}\n' >"$BATS_TEST_TMPDIR/bad.yaml"
	run -2 plan "$BATS_TEST_TMPDIR/plan.yaml" "$BATS_TEST_TMPDIR/bad.yaml"
	[[ $output == *"bad.yaml:2:"* ]]
}

@test "--translate: Provisioners as they are written today" {
	run --separate-stderr plan --translate karpenter-provisioner-gpu-shared.yaml
	[[ $status == 0 ]]
	[[ $output == *"# karpenter-provisioner-gpu-shared.yaml:1: Provisioner karpenter.sh/v1alpha5 is gone"* ]]
	[[ $output == *'values: ["g4dn.xlarge", "g4dn.2xlarge"]'* ]]
	[[ $output == *'"nvidia.com/gpu": "10"'* ]]
	run -3 plan --translate gpu-app.yaml
	[[ $output == *"expected Karpenter's Provisioners or AWSNodeTemplates, found none"* ]]
	run -2 plan --translate
	[[ $output == *"expected files"* ]]
}
