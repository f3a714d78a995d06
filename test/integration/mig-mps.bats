#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The MIG manager on GPUs that the agent shares by MPS: an idle server is in nobody's way, one with clients is. The
# tool, the GPUs and MPS are the simulator's; the API server pretends.

bats_require_minimum_version 1.5.0
load lib
load cluster
load mps
load mig-manager

setup_file() {
	stage_programs
}

setup() {
	root_cuts
	MORE=()
	mps_node_setup a100-40-1
	unset KUBERNETES_SERVICE_HOST KUBECONFIG NODE_NAME
	mkdir "$NODE_DIR/host"
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	fake_api
	node
}

teardown() {
	mps_node_teardown
}

# with_mps [OPTION...]: kubelet and agent with the config, which has its options.
with_mps() {
	MANAGER=(--mig-manager --host-root-mount "$NODE_DIR/host" --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
		"$@")
	manager
}

# served [LINE...]: pod one has a client a; its server stays when the client has ended.
served() {
	mps_config 4 '' "$@" >"$CONFIG"
	with_mps --mig-strategy mixed "${MORE[@]}"
	eventually 20 offers 4
	pod one
	client one a
	server=$(server_pid)
}

# used: as served, but the pod is gone again.
used() {
	served "$@"
	stop a || true
	k delete pod one >/dev/null
	eventually 10 pod_is_gone one
	eventually 10 clients_are 0
	on_gpu "$server"
}

on_gpu() {
	sim show --json | jq -e --argjson p "$1" 'any(.gpus[0].processes[]; .pid == $p)'
}

applied() {
	eventually 40 is_applied "$1"
}

is_applied() {
	state_is success && reason_has "$1: applied"
}

# partitioned: no daemon, no server, MIG devices.
partitioned() {
	applied all-1g.5gb
	offered 7 nvidia.com/mig-1g.5gb
	control_daemons 0
	run ! on_gpu "$server"
}

# shared: the GPU as a whole, with a daemon that serves.
shared() {
	eventually 20 offers 4
	eventually 20 is_state ready
	control_daemons 1
}

@test "a GPU that MPS has served is partitioned; when it is whole again it is shared again" {
	used
	label nvidia.com/mig.config=all-1g.5gb
	partitioned
	states_were pending success
	label nvidia.com/mig.config=all-disabled
	applied all-disabled
	shared
}

@test "so it is with compute mode exclusive, which is put back before" {
	used 'computeMode: exclusive'
	modes_are 3
	label nvidia.com/mig.config=all-1g.5gb
	partitioned
	modes_are 0
}

# The simulated CUDA has no MPS on MIG devices: nobody comes to these.
@test "daemons of MIG devices follow the layout" {
	node nvidia.com/mig.config=all-3g.20gb
	mps_config 2 >"$CONFIG"
	with_mps --mig-strategy single
	applied all-3g.20gb
	eventually 20 offers 4
	control_daemons 2
	label nvidia.com/mig.config=all-2g.10gb
	applied all-2g.10gb
	eventually 20 offers 6
	control_daemons 3
}

@test "a server with a client is in use until the client has ended, and continues" {
	served
	label nvidia.com/mig.config=all-1g.5gb
	eventually 20 state_is failed
	reason_has "(processes on this GPU: "
	reason_has "in use"
	shared
	running a
	[[ $(server_pid) == "$server" ]]
	stop a || true
	k delete pod one >/dev/null
	partitioned
}

@test "a daemon that does not quit is waited for, until it is killed" {
	used
	fault hang=quit
	label nvidia.com/mig.config=all-1g.5gb
	partitioned
	states_were pending success
}

@test "after a failure the daemon serves again" {
	cat >"$NODE_DIR/hooks.yaml" <<-'EOF'
		version: v1
		hooks:
		  pre-apply-mode: [{workdir: /, command: /bin/false}]
	EOF
	MORE=(--mig-hooks-file "$NODE_DIR/hooks.yaml")
	used
	label nvidia.com/mig.config=all-1g.5gb
	eventually 40 state_is failed
	shared
	pod two
	client two b
}

@test "killed at many points of a change, the next agent gets there, both ways" {
	local i
	used
	for i in 0.05 0.2 0.35 0.5 0.8; do
		label nvidia.com/mig.config=all-1g.5gb
		sleep "$i"
		stop agent KILL || true
		manager
		partitioned
		label nvidia.com/mig.config=all-disabled
		sleep "$i"
		stop agent KILL || true
		manager
		applied all-disabled
		shared
		pod "p$i"
		client "p$i" b
		server=$(server_pid)
		stop b || true
		k delete pod "p$i" >/dev/null
	done
}
