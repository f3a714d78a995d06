#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong around the MIG manager while it works, as far as the whole agent is needed to see it: devices meanwhile,
# NVML, and the agent's end in each phase. The rest is in test/unit/node/agent/mig. API server and tool only pretend, as
# in mig-manager.bats.

bats_require_minimum_version 1.5.0
load lib
load cluster
load mig-manager

setup_file() {
	stage_programs
}

setup() {
	manager_setup
}

teardown() {
	node_teardown
}

@test "output that is no UTF-8 is reported all the same" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'step "one"; printf "broken \\xff\\xfe here\\n" >&2; exit 3'
	manager
	fails_and_recovers "broken ?? here"
}

profiles_are() { # JSON: sorted, of the MIG devices of GPU 0, as the agent shows them
	status "[.gpus[0].migDevices[].profile] | sort == $1"
}

@test "while a layout changes the MIG devices are those of before, and then those of after" {
	local before='["3g.20gb","3g.20gb"]' n=0 ids
	root_cuts
	export GPUSLICE_SIM_NODE=a100-40-1 GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	cut_gpu 0 on
	cut_gpu 0 9 9
	printf 'version: v1\nhealth: {probeInterval: 100ms}\n' >"$NODE_DIR/config.yaml"
	node
	manager --config-file "$NODE_DIR/config.yaml"
	eventually 20 profiles_are "$before"
	behave dry <<<'planned 3 null; finish true'
	behave apply <<-'EOF'
		planned 3 null
		for n in 1 2 3; do
			step "$n"
			touch "$FAKE_MIG/at"
			while [[ -e $FAKE_MIG/at ]]; do sleep 0.05; done
		done
		results changed
		finish true
	EOF
	label nvidia.com/mig.config=a
	for ids in none 19 '14 14'; do
		eventually 20 test -e "$FAKE_MIG/at"
		# shellcheck disable=SC2086 # words
		cut_gpu 0 $ids
		# What is no part of the layout says that the agent has looked since.
		sim set 0 ecc_uncorrected_aggregate $((++n))
		eventually 10 status ".gpus[0].signals.eccUncorrectedAggregate == $n"
		profiles_are "$before"
		rm "$FAKE_MIG/at"
	done
	eventually 20 state_is success
	profiles_are '["1g.5gb","2g.10gb","2g.10gb"]'
	offered 2 nvidia.com/mig-2g.10gb
}

@test "a new driver root while a mode changes does not open the GPUs again" {
	local config=$NODE_DIR/config.yaml
	printf 'version: v1\nflags: {plugin: {containerDriverRoot: /one}}\n' >"$config"
	node nvidia.com/mig.config=a
	behave apply <<<'step "one"; touch "$FAKE_MIG/at"; while [[ -e $FAKE_MIG/at ]]; do sleep 0.1; done'
	manager --config-file "$config"
	eventually 20 test -e "$FAKE_MIG/at"
	workers_are 0
	printf 'version: v1\nflags: {plugin: {containerDriverRoot: /two}}\n' | put "$config"
	kill -HUP "${PID[agent]}"
	eventually 10 grep -q 'config applied' "$NODE_DIR/agent.log"
	sleep 1
	workers_are 0
	rm "$FAKE_MIG/at"
	eventually 10 state_is success
	offered 4
}

@test "an agent that ends in any phase leaves no program, and the next one continues" {
	local phase
	local -a options=(--mig-shutdown-host-gpu-clients --mig-gpu-clients-file "$NODE_DIR/clients.yaml"
		--mig-with-reboot --mig-reboot-command "sleep 60")
	mkdir "$NODE_DIR/bin"
	cat >"$NODE_DIR/bin/chroot" <<-'EOF2'
		#!/bin/bash
		[[ ! -e $1/block-$3 ]] || sleep 60
	EOF2
	chmod +x "$NODE_DIR/bin/chroot"
	printf 'version: v1\nsystemd-services: [a.service]\n' >"$NODE_DIR/clients.yaml"
	node nvidia.com/gpu.deploy.dcgm=true
	for phase in planning pausing stopping applying registering starting rebooting; do
		case $phase in
		planning) behave dry <<<'step "one"; sleep 60' ;;
		pausing) pods_of dcgm ;;
		stopping) touch "$NODE_DIR/host/block-stop" ;;
		applying) behave apply <<<'step "one"; sleep 60' ;;
		registering) behave apply <<<'echo "$name" >"$FAKE_MIG/now"; results changed; kill -STOP "$(<"$FAKE_MIG/kubelet")"; sleep 2; finish true' ;;
		starting) touch "$NODE_DIR/host/block-start" ;;
		rebooting) behave apply <<<'finish false reset-required "GPU 0 waits for a reset"' ;;
		esac
		label "nvidia.com/mig.config=$phase"
		PATH=$NODE_DIR/bin:$PATH manager "${options[@]}"
		echo "${PID[kubelet]}" >"$FAKE_MIG/kubelet"
		eventually 20 in_phase "$phase"
		stop agent
		kill -CONT "${PID[kubelet]}"
		eventually 5 no_programs
		rm -f "$FAKE_MIG/dry" "$FAKE_MIG/apply" "$NODE_DIR/host"/block-*
		echo '[]' | put "$API/pods"
	done
	label nvidia.com/mig.config=a
	PATH=$NODE_DIR/bin:$PATH manager "${options[@]}"
	eventually 20 state_is success
	reason_has "a: applied"
	label_is nvidia.com/gpu.deploy.dcgm true
	[[ ! -e $GPUSLICE_RUN_DIR/mig-services ]]
	offered 4
}

# in_phase WORD: the first of its name; a reboot is one when its command runs.
in_phase() {
	status ".mig.phase | startswith(\"$1\")" && { [[ $1 != rebooting ]] || leftovers | grep 'slee[p] 60'; }
}

no_programs() {
	! leftovers | grep -E 'fake-mi[g]|chroo[t]|slee[p]'
}
