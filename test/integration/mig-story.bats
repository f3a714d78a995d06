#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The MIG manager with the real tool on simulated GPUs, and an API server that pretends.

bats_require_minimum_version 1.5.0
load lib
load cluster
load mig-manager

setup_file() {
	stage_programs
}

setup() {
	root_cuts
	node_setup p4d.24xlarge
	unset KUBERNETES_SERVICE_HOST KUBECONFIG NODE_NAME
	mkdir "$NODE_DIR/host"
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	MANAGER=(--mig-manager --mig-strategy mixed --host-root-mount "$NODE_DIR/host")
	fake_api
}

teardown() {
	node_teardown
}

# applied NAME: it is, and said so.
applied() {
	eventually 20 is_applied "$1"
}

is_applied() {
	state_is success && reason_has "$1: applied"
}

# geometry: where everything lies, a line for each GPU.
geometry() {
	"$GPUSLICE" mig status -o json | jq -c '.[] | [.mig, [.instances[] | [.profile, .start]]]'
}

failed_as() {
	eventually 20 state_is failed
	eventually 10 reason_has "$1"
}

# mig_pod NAME PROFILE: a pod that asks for one such device.
mig_pod() {
	k apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, namespace: default}
		spec:
		  containers:
		  - {name: main, image: x, resources: {limits: {nvidia.com/mig-$2: 1}}}
	EOF
}

@test "the user's story: label, pending, success, devices; another label" {
	node
	manager
	eventually 20 offers 8
	label nvidia.com/mig.config=all-1g.5gb
	applied all-1g.5gb
	states_were pending success
	eventually 5 offers 0
	offered 56 nvidia.com/mig-1g.5gb
	label nvidia.com/mig.config=all-balanced
	applied all-balanced
	reason_has "8 of 8 GPUs changed"
	offered 16 nvidia.com/mig-1g.5gb
	offered 8 nvidia.com/mig-2g.10gb
	offered 8 nvidia.com/mig-3g.20gb
	# Two of each GPU stayed where they were, and were offered all the time.
	never_below 16 nvidia.com/mig-1g.5gb
	label nvidia.com/mig.config=all-disabled
	applied all-disabled
	eventually 5 offers 8
	run "$GPUSLICE" status
	[[ $output == *"MIG"*"all-disabled"*"success"* ]]
}

@test "GPUs that report their profiles only in MIG mode follow the label at once" {
	local i
	for i in {0..7}; do sim set "$i" mig_query_needs_mode 1; done
	node nvidia.com/mig.config=all-balanced
	manager
	applied all-balanced
	reason_has "8 of 8 GPUs changed"
	states_were pending success
}

@test "only differing instances are changed: a pod on an instance that stays continues" {
	node nvidia.com/mig.config=all-balanced
	manager
	applied all-balanced
	mig_pod holder 3g.20gb
	eventually 10 pods 1
	# A file of our own that changes one other GPU alone.
	cat >"$NODE_DIR/layouts.yaml" <<-'EOF'
		version: v1
		mig-configs:
		  one:
		  - {devices: [7], mig-enabled: true, mig-devices: {7g.40gb: 1}}
	EOF
	stop agent
	label nvidia.com/mig.config=one
	manager --mig-config-file "$NODE_DIR/layouts.yaml"
	eventually 20 status '.mig.state == "success" and .mig.config == "one"'
	pods 1
	offered 7 nvidia.com/mig-3g.20gb
	offered 1 nvidia.com/mig-7g.40gb
}

@test "a pod's device is not destroyed; when the pod ends, the layout is applied" {
	node nvidia.com/mig.config=all-1g.5gb
	manager
	applied all-1g.5gb
	mig_pod holder 1g.5gb
	eventually 10 pods 1
	label nvidia.com/mig.config=all-7g.40gb
	failed_as "in use by pod default/holder"
	eventually 10 offers 56 56 nvidia.com/mig-1g.5gb
	k delete pod holder
	eventually 30 state_is success
	offered 8 nvidia.com/mig-7g.40gb
}

@test "a process that no pod explains is seen by the driver" {
	node nvidia.com/mig.config=all-1g.5gb
	manager
	applied all-1g.5gb
	sim process start 0:9:0 --pid $$ || sim process start "$(status '[.resources[].slices[]?.id | select(startswith("MIG-"))][0]' | tr -d \")" --pid $$
	label nvidia.com/mig.config=all-7g.40gb
	failed_as "$$"
	eventually 10 offers 56 56 nvidia.com/mig-1g.5gb
}

@test "a name that is not there, a profile that this GPU has not, a layout that does not fit" {
	cat >"$NODE_DIR/layouts.yaml" <<-'EOF'
		version: v1
		mig-configs:
		  good: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}]
		  other-gpu: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 1}}]
		  too-much: [{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}]
	EOF
	node nvidia.com/mig.config=nonsense
	manager --mig-config-file "$NODE_DIR/layouts.yaml"
	failed_as nonsense
	label nvidia.com/mig.config=other-gpu
	eventually 10 reason_has 1g.18gb
	label nvidia.com/mig.config=too-much
	eventually 10 reason_has "too-much: "
	[[ $(sim calls) == *" 0 "* || $(sim calls) == *"changed MIG: 0"* ]] || sim calls
	eventually 10 offers 8
	# A custom layout added to the file makes the same label right.
	label nvidia.com/mig.config=mine
	eventually 10 reason_has "mine: "
	sed '$a\  mine: [{devices: all, mig-enabled: true, mig-devices: {2g.10gb: 3}}]' "$NODE_DIR/layouts.yaml" | put "$NODE_DIR/layouts.yaml"
	applied mine
	offered 24 nvidia.com/mig-2g.10gb
}

@test "instances lost by a reset or a reboot are recreated; manual changes are reported" {
	node nvidia.com/mig.config=all-balanced
	manager
	applied all-balanced
	geometry >"$NODE_DIR/before"
	sim reset 3
	eventually 30 cmp_geometry
	eventually 20 reason_has "all-balanced: applied, 1 of 8 GPUs changed"
	state_is success
	stop agent
	sim reboot
	manager
	eventually 30 cmp_geometry
	eventually 10 offers 8 8 nvidia.com/mig-3g.20gb
	eventually 20 reason_has "all-balanced: applied, 8 of 8 GPUs changed" # not that of the one before
	# By hand: one instance less on GPU 0.
	cat >"$NODE_DIR/hand.yaml" <<-'EOF'
		version: v1
		mig-configs: {hand: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1, 2g.10gb: 1, 3g.20gb: 1}}]}
	EOF
	"$GPUSLICE" mig apply -f "$NODE_DIR/hand.yaml" -c hand
	eventually 30 event_has MigConfigDrift "GPU 0"
	eventually 10 offers 15 15 nvidia.com/mig-1g.5gb
	state_is success
}

cmp_geometry() {
	diff "$NODE_DIR/before" <(geometry)
}

@test "killed at many points of a change, agent and tool, the next one gets there" {
	local i
	node nvidia.com/mig.config=all-balanced
	manager
	applied all-balanced
	for i in 0.05 0.15 0.25 0.3 0.35 0.4 0.45 0.5 0.6; do
		label nvidia.com/mig.config=all-1g.5gb
		sleep "$i"
		leftovers | grep -E 'gpusliced|gpuslice mi[g]|gpuslice-nvm[l]' | cut -d ' ' -f 1 | xargs -r kill -KILL || true
		wait "${PID[agent]}" || true
		unset "PID[agent]"
		manager
		applied all-1g.5gb
		eventually 10 offers 56 56 nvidia.com/mig-1g.5gb
		label nvidia.com/mig.config=all-balanced
		applied all-balanced
		geometry >"$NODE_DIR/now"
		[[ $(sort -u "$NODE_DIR/now" | wc -l) == 1 ]]
	done
}

@test "a driver that hangs in a step is given up, and the offer comes back" {
	node nvidia.com/mig.config=all-balanced nvidia.com/gpu.deploy.dcgm=true
	printf 'version: v1\nhealth: {cooldown: 1s, probes: 2, probeInterval: 200ms}\n' >"$NODE_DIR/config.yaml"
	GPUSLICE_MIG_SILENCE=3s manager --config-file "$NODE_DIR/config.yaml"
	applied all-balanced
	sim hang 2 forever
	label nvidia.com/mig.config=all-1g.5gb
	eventually 60 state_is failed
	eventually 10 reason_has "said nothing for 3 s"
	eventually 10 label_is nvidia.com/gpu.deploy.dcgm true
	# The agent has left it alone for a minute since it hung, but for a change that it went through.
	eventually 30 health_is 2 unhealthy "did not come back in time"
	sim hang 2 off
	eventually 60 state_is success
	status 'any(.resources[]; .name == "nvidia.com/mig-1g.5gb" and .capacity == 56)'
	eventually 10 offers 56 56 nvidia.com/mig-1g.5gb
}
