#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Each of the users' manifests, as it stands, to a real API server: what it takes, and its own words
# where it takes nothing.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
	node_add gpu p3.8xlarge
	agent_start gpu
	kubectl create namespace gpu-demo
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

# File, and what is made of it, or "!" and a part of the message.
answers() {
	cat <<-'EOF'
		cifar10-train-deploy.yaml                 deployment.apps/tensorflow-cifar10-deployment
		dcgmproftester-pod.yaml                   ! apiVersion not set
		default-mig-parted-config.yaml            ! [apiVersion not set, kind not set]
		eksctl-p4d-cluster.yaml                   ! no matches for kind "ClusterConfig" in version "eksctl.io/v1alpha5"
		gpu-app.yaml                              ! spec.selector: Required value
		gpu-deployment.yaml                       deployment.apps/gpu-deployment
		karpenter-node-template-p3-2xlarge.yaml   ! no matches for kind "Provisioner" in version "karpenter.sh/v1beta1"
		karpenter-node-template-p3-8xlarge.yaml   ! no matches for kind "Provisioner" in version "karpenter.sh/v1beta1"
		karpenter-provisioner-gpu-shared.yaml     ! no matches for kind "Provisioner" in version "karpenter.sh/v1alpha5"
		mig-1g-5gb-deployment.yaml                deployment.apps/mig1.5
		mig-2g-10gb-and-3g.20gb-deployments.yaml  deployment.apps/mig2-10 deployment.apps/mig3-20
		nvidia-device-plugin-config.yaml          configmap/nvidia-device-plugin-config
		nvidia-device-plugin.yaml                 configmap/nvidia-device-plugin
		time-slicing-config.yaml                  configmap/time-slicing-config
		time-slicing-verification.yaml            deployment.apps/time-slicing-verification
	EOF
}

@test "every manifest is taken, or refused with the server's reason" {
	local file want word bad=0
	while read -r file want; do
		run kubectl apply -f "$FIXTURES/$file"
		echo "$file: $output"
		if [[ $want == '! '* ]]; then
			((status != 0)) && [[ $output == *"${want#! }"* ]] || bad=1
			continue
		fi
		((status == 0)) || bad=1
		for word in $want; do
			[[ $output == *"$word created"* ]] || bad=1
		done
	done < <(answers)
	((!bad))
}

@test "the table has every manifest" {
	diff <(answers | awk '{ print $1 }') <(cd "$FIXTURES" && printf '%s\n' *)
}

@test "what was taken does what it can on one node without sharing" {
	# Four GPUs for 5 + 1 + 5 pods; the MIG profiles are nowhere.
	eventually 40 pods 4 10
	eventually 10 waits_for nvidia.com/gpu
	eventually 10 waits_for nvidia.com/mig-1g.5gb
	eventually 10 waits_for nvidia.com/mig-2g.10gb
	eventually 10 waits_for nvidia.com/mig-3g.20gb
}

@test "with their mistakes mended, gpu-app waits for its node label and dcgmproftester runs" {
	kubectl delete deployments --all -A --wait=false
	eventually 60 pods 0
	{ echo 'apiVersion: v1' && cat "$FIXTURES/dcgmproftester-pod.yaml"; } | kubectl apply -f -
	eventually 30 pod_is dcgmproftester-1 Succeeded
	eventually 5 pod_says dcgmproftester-1 '--no-dcgm-validation'
	sed 's/^  template:/  selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}/' \
		"$FIXTURES/gpu-app.yaml" | kubectl apply -f -
	eventually 10 pods 0 1 app=a
	kubectl label node gpu nvidia.com/device-plugin.config=shared_gpu
	eventually 30 pods 1 0 app=a
}
