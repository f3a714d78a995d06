#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What goes wrong around the MIG manager while it works: the agent ends, the Node, the label or the
# layouts change or go, services do not start. API server and tool only pretend, as in mig-manager.bats.

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

@test "words that are no UTF-8 are said all the same" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'step "one"; printf "broken \\xff\\xfe here\\n" >&2; exit 3'
	manager
	fails_and_recovers "broken ?? here"
}

@test "services that a dead agent stopped start again, also where nothing is wanted any more" {
	mkdir "$NODE_DIR/bin"
	printf '#!/bin/bash\necho "${@:3}" >>"$1/log"\n' >"$NODE_DIR/bin/chroot"
	chmod +x "$NODE_DIR/bin/chroot"
	mkdir -p "$GPUSLICE_RUN_DIR"
	printf 'a.service\nb.service\n' >"$GPUSLICE_RUN_DIR/mig-services"
	node
	PATH=$NODE_DIR/bin:$PATH manager
	eventually 20 test -e "$NODE_DIR/host/log"
	eventually 5 test ! -e "$GPUSLICE_RUN_DIR/mig-services"
	[[ $(tr '\n' ' ' <"$NODE_DIR/host/log") == "start b.service start a.service " ]]
	# Then a label is followed as ever.
	label nvidia.com/mig.config=a
	eventually 10 state_is success
}

@test "of a list of stopped services what is a service starts, and the rest is told" {
	mkdir "$NODE_DIR/bin"
	printf '#!/bin/bash\necho "${@:3}" >>"$1/log"\n' >"$NODE_DIR/bin/chroot"
	chmod +x "$NODE_DIR/bin/chroot"
	printf 'a.service\n\n--root=/\n\001\377 b.service' >"$GPUSLICE_RUN_DIR/mig-services"
	node nvidia.com/mig.config=a
	PATH=$NODE_DIR/bin:$PATH manager
	eventually 10 state_is success
	[[ $(<"$NODE_DIR/host/log") == "start a.service" ]]
	[[ ! -e $GPUSLICE_RUN_DIR/mig-services ]]
	logged agent "no name of a service file=$GPUSLICE_RUN_DIR/mig-services found=\"?--root="
	stop agent
	mkdir "$GPUSLICE_RUN_DIR/mig-services"
	agent "${MANAGER[@]}"
	logged agent "not known reason=.*mig-services': expected a regular file, found a directory"
}

@test "layouts that cannot be read are failed after a while, and paused clients run again" {
	node nvidia.com/mig.config=a nvidia.com/mig.config.state=pending nvidia.com/gpu.deploy.dcgm=paused-for-mig-change
	touch "$API/configmaps.fail"
	GPUSLICE_MIG_SILENCE=2s manager --mig-config-map gpu/mig
	eventually 20 state_is failed
	reason_has "a: configmap gpu/mig"
	eventually 5 label_is nvidia.com/gpu.deploy.dcgm true
	[[ ! -e $FAKE_MIG/calls ]]
	# Not again and again, and at once when it can be read.
	sleep 1
	states_were failed
	jq -n '{metadata: {name: "mig", uid: "1"}, data: {"config.yaml": "one"}}' | put "$API/configmaps"
	rm "$API/configmaps.fail"
	eventually 40 state_is success
	[[ $(<"$FAKE_MIG/text") == one ]]
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

@test "the reason names the layout that is wanted now, also while clients are waited for" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	pods_of dcgm
	manager
	eventually 20 reason_has "a: being applied"
	label nvidia.com/mig.config=b
	eventually 10 reason_has "b: being applied"
	state_is pending
	echo '[]' | put "$API/pods"
	eventually 10 state_is success
}

@test "a Node that is made anew while clients are waited for is marked anew" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	pods_of dcgm
	manager
	eventually 20 label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	no_node
	sleep 3
	[[ $(calls apply) == 0 ]]
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	eventually 10 label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	[[ $(calls apply) == 0 ]]
	state_is pending
	echo '[]' | put "$API/pods"
	eventually 10 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
}

@test "an agent that ends in any phase leaves no program, and the next one goes on" {
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

# held: an apply that waits at its first step for release.
hold_apply() {
	behave apply <<<'step "one"; touch "$FAKE_MIG/at"; while [[ -e $FAKE_MIG/at ]]; do sleep 0.1; done'
}

release() {
	rm "$FAKE_MIG/apply" "$FAKE_MIG/at"
}

@test "a label that changes while a layout is applied is followed afterwards; changed back, it was not" {
	node nvidia.com/mig.config=a
	hold_apply
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	label nvidia.com/mig.config=b
	seen
	label nvidia.com/mig.config=a
	seen
	release
	eventually 10 state_is success
	sleep 1
	states_were pending success
	[[ $(calls dry-run) == 1 && $(<"$FAKE_MIG/now") == a ]]
	hold_apply
	label nvidia.com/mig.config=b
	eventually 20 test -e "$FAKE_MIG/at"
	label nvidia.com/mig.config=c
	seen
	release
	eventually 10 reason_has "c: applied"
	state_is success
	[[ $(<"$FAKE_MIG/now") == c ]]
}

@test "a label that goes while a layout is applied leaves nobody paused and nothing pending" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	hold_apply
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	label nvidia.com/mig.config-
	seen
	release
	eventually 10 label_is nvidia.com/gpu.deploy.dcgm true
	eventually 5 state_is ''
	offered 4
	label nvidia.com/mig.config=a
	eventually 10 state_is success
	[[ $(calls apply) == 1 ]]
}

@test "a Node that is deleted and made anew while a layout is applied is told how it ended" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	hold_apply
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	no_node
	eventually 10 status '.cluster.nodeState == "absent"'
	release
	eventually 10 status '.mig.phase == "rest"'
	offered 4
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	eventually 10 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
	[[ $(calls apply) == 1 ]]
}

@test "a ConfigMap that goes while its layout is applied is failed afterwards" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	jq -n '{metadata: {name: "mig", uid: "1"}, data: {"config.yaml": "one"}}' | put "$API/configmaps"
	hold_apply
	manager --mig-config-map gpu/mig
	eventually 20 test -e "$FAKE_MIG/at"
	rm "$API/configmaps"
	seen configmaps
	release
	eventually 10 state_is failed
	reason_has "configmap gpu/mig"
	label_is nvidia.com/gpu.deploy.dcgm true
	eventually 10 offers 4
}

@test "without the API server a change ends as ever, and is told when the server is back" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	hold_apply
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	touch "$API/nodes.fail"
	release
	eventually 10 status '.mig.state == "success" and .mig.phase == "rest"'
	offered 4
	label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	rm "$API/nodes.fail"
	eventually 40 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
}

@test "a service that does not start is failed until it does" {
	mkdir "$NODE_DIR/bin"
	printf '#!/bin/bash\n[[ $3 != start || $4 != a.service || ! -e $1/broken ]] && echo "$3 $4" >>"$1/log"\n' >"$NODE_DIR/bin/chroot"
	chmod +x "$NODE_DIR/bin/chroot"
	touch "$NODE_DIR/host/broken"
	printf 'version: v1\nsystemd-services: [a.service, b.service]\n' >"$NODE_DIR/clients.yaml"
	node nvidia.com/mig.config=a
	PATH=$NODE_DIR/bin:$PATH manager --mig-shutdown-host-gpu-clients --mig-gpu-clients-file "$NODE_DIR/clients.yaml"
	eventually 20 state_is failed
	reason_has "start service a.service"
	grep -x "start b.service" "$NODE_DIR/host/log"
	sleep 11
	state_is failed
	[[ $(grep -c "start b.service" "$NODE_DIR/host/log") == 1 ]]
	rm "$NODE_DIR/host/broken"
	eventually 30 state_is success
	grep -x "start a.service" "$NODE_DIR/host/log"
	[[ ! -e $GPUSLICE_RUN_DIR/mig-services && $(calls apply) == 1 ]]
}
