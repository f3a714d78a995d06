#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The MIG manager with an API server and a tool that both only pretend: what it asks for, in which
# order, and that whatever fails is put back. With the real tool on simulated GPUs: mig-story.bats.

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

@test "without a label and a default MIG is left alone" {
	node
	manager
	eventually 20 offers 4
	sleep 1
	[[ ! -e $FAKE_MIG/calls && ! -e $API/patches ]]
	status '.mig.enabled and .mig.config == null'
}

@test "the label is followed: pending, then success, and again with another" {
	node nvidia.com/mig.config=all-1g.5gb
	manager
	eventually 20 state_is success
	states_were pending success
	reason_has "all-1g.5gb: applied, 4 of 4 GPUs changed"
	eventually 5 event_has MigConfigApplied all-1g.5gb
	status '.mig.state == "success" and .mig.config == "all-1g.5gb" and .mig.nvmlCalls == 7 and .mig.phase == "rest"'
	[[ $(calls dry-run) == 1 && $(calls apply) == 1 ]]
	offered 4
	label nvidia.com/mig.config=all-balanced
	eventually 10 reason_has 'all-balanced: applied'
	state_is success
	[[ $(<"$FAKE_MIG/now") == all-balanced ]]
	label_is nvidia.com/mig.config all-balanced
	# Nothing else happens without a reason.
	sleep 1
	states_were pending success pending success
	[[ $(calls dry-run) == 2 ]]
}

@test "a layout that is already applied is success at once, and no client is paused" {
	echo all-1g.5gb >"$FAKE_MIG/now"
	node nvidia.com/mig.config=all-1g.5gb nvidia.com/gpu.deploy.dcgm=true
	manager
	eventually 20 state_is success
	states_were success
	[[ $(calls apply) == 0 ]]
	run ! grep paused "$API/patches"
}

@test "the default is used without the label, and without an API server" {
	node
	# V100s have no MIG: the default is not for them.
	manager --mig-config-default all-disabled
	eventually 20 offers 4
	status '.mig.config == null'
	stop agent
	unset KUBECONFIG NODE_NAME
	export GPUSLICE_SIM_NODE=p4d.24xlarge GPUSLICE_SIM_DIR=$NODE_DIR/sim2
	mkdir "$GPUSLICE_SIM_DIR"
	rm "$FAKE_MIG/uuids"
	manager --mig-config-default all-disabled
	eventually 20 status '.mig.state == "success" and .mig.chosenBy == "default"'
	[[ $(<"$FAKE_MIG/now") == all-disabled ]]
}

@test "clients are paused while a mode changes, waited for, and run again with their own values" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true nvidia.com/gpu.deploy.dcgm-exporter=false \
		nvidia.com/gpu.deploy.client=team-a nvidia.com/gpu.deploy.nvsm= nvidia.com/other=true
	pods_of dcgm
	behave apply <<<'step "one"; sleep 1'
	manager
	eventually 20 label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	label_is nvidia.com/gpu.deploy.client paused-for-mig-change
	label_is nvidia.com/gpu.deploy.dcgm-exporter false
	label_is nvidia.com/gpu.deploy.nvsm ''
	label_is nvidia.com/other true
	state_is pending
	sleep 1
	[[ $(calls apply) == 0 ]]
	eventually 10 offers 4
	echo '[]' | put "$API/pods"
	eventually 10 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
	label_is nvidia.com/gpu.deploy.client team-a
	label_is nvidia.com/gpu.deploy.dcgm-exporter false
	jq -e '.metadata.annotations | has("gpuslice.io/mig.paused") | not' "$API/nodes"
	offered 4
}

@test "devices are withdrawn while they change, and back before success" {
	node nvidia.com/mig.config=a
	behave apply <<<'step "one"; touch "$FAKE_MIG/at"; while [[ -e $FAKE_MIG/at ]]; do sleep 0.1; done'
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	status '[.resources[] | .capacity] | add // 0 | . == 0'
	[[ $(workers | wc -l) == 0 ]]
	status '.mig.phase == "applying" and .mig.step == "GPU 0: one" and .mig.state == "pending"'
	rm "$FAKE_MIG/at"
	eventually 10 state_is success
	offered 4
}

@test "a pod's device is not changed until it is free; retries disturb no pod" {
	node nvidia.com/gpu.deploy.dcgm=true
	manager
	eventually 20 offers 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	scale 1
	eventually 10 pods 1
	label nvidia.com/mig.config=a
	eventually 20 state_is failed
	reason_has "a: in use by pod gpu-demo/"
	eventually 5 event_has MigConfigFailed "in use by pod"
	# The client, which may have been the user, is paused once only.
	label_is nvidia.com/gpu.deploy.dcgm true
	eventually 10 offers 4
	pods 1
	eventually 20 tried_again
	sleep 1 # and has ended
	[[ $(calls apply) == 0 ]]
	states_were pending failed
	scale 0
	eventually 20 state_is success
	[[ $(calls apply) == 1 ]]
}

tried_again() {
	(($(calls dry-run) >= 2))
}

@test "--mig-force does not request the list of pods" {
	node
	manager --mig-force
	eventually 20 offers 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	scale 1
	eventually 10 pods 1
	label nvidia.com/mig.config=a
	eventually 20 state_is success
}

@test "a refused layout changes nothing, and another label is tried at once" {
	node nvidia.com/mig.config=nonsense nvidia.com/gpu.deploy.dcgm=true
	behave dry <<-'EOF2'
		[[ $name != nonsense ]] || finish false not-found "there is no such layout"
	EOF2
	manager
	eventually 20 state_is failed
	reason_has "nonsense: there is no such layout"
	states_were failed
	[[ $(calls apply) == 0 ]]
	run ! grep paused "$API/patches"
	eventually 10 offers 4
	label nvidia.com/mig.config=a
	eventually 5 state_is success
}

@test "an apply that fails is failed with its reason, and everything is put back" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'planned 2 null; step "one"; results failed; finish false io "create GPU instance: no"'
	manager
	fails_and_recovers "a: create GPU instance: no"
	# A failure after a success of the same process is put back just the same.
	rm "$API/patches"
	behave apply <<<'finish false io "second"'
	label nvidia.com/mig.config=a
	fails_and_recovers second
}

@test "a tool that dies, prints malformed lines, or reports no end has failed" {
	local -A cases=(
		['ended with signal 9']='step "one"; kill -9 $$'
		['expected a JSON object']='echo Hello; sleep 20'
		['ended with status 3']='step "one"; echo "oh no" >&2; exit 3'
		['GPUs']='for i in $(seq 300); do printf "{\"event\":\"planned\",\"gpu\":1,\"uuid\":\"u$i\",\"steps\":1}\n"; done; sleep 20'
	)
	local pattern
	node nvidia.com/gpu.deploy.dcgm=true
	manager
	for pattern in "${!cases[@]}"; do
		rm -f "$API/patches" "$API/events"
		behave apply <<<"${cases[$pattern]}"
		label nvidia.com/mig.config=a
		fails_and_recovers "$pattern"
	done
}

@test "a tool that hangs is ended, even if it does not listen, and the step is named" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'trap "" TERM; step "set MIG mode on"; while :; do sleep 0.2; done'
	GPUSLICE_MIG_SILENCE=2s manager
	fails_and_recovers "said nothing for 2 s and was ended at: GPU 0: set MIG mode on"
}

@test "killed while it applies, the next one finds the label, the paused clients and the layout" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'step "one"; touch "$FAKE_MIG/at"; while [[ -e $FAKE_MIG/at ]]; do sleep 0.1; done'
	manager
	eventually 20 test -e "$FAKE_MIG/at"
	stop agent KILL || true
	state_is pending
	label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	rm "$FAKE_MIG/at" "$FAKE_MIG/apply"
	manager
	eventually 20 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
	offered 4
}

@test "layouts come from a file, and its new text is applied" {
	local config=$NODE_DIR/layouts/config.yaml
	mkdir "$NODE_DIR/layouts"
	node nvidia.com/mig.config=a
	manager --mig-config-file "$config"
	eventually 20 state_is failed
	reason_has "has no config.yaml"
	echo 'version: v1 # 1' | put "$config"
	eventually 10 state_is success
	[[ $(<"$FAKE_MIG/text") == "version: v1 # 1" ]]
	echo 'version: v1 # 2' | put "$config"
	eventually 10 grep -q 2 "$FAKE_MIG/text"
	[[ $(calls dry-run) == 2 ]]
	state_is success
}

@test "layouts come from a ConfigMap through the API" {
	node nvidia.com/mig.config=a
	jq -n '{metadata: {name: "mig", uid: "1"}, data: {"config.yaml": "one"}}' | put "$API/configmaps"
	manager --mig-config-map gpu/mig
	eventually 20 state_is success
	[[ $(<"$FAKE_MIG/text") == one ]]
	jq -n '{metadata: {name: "mig", uid: "1"}, data: {"config.yaml": "two"}}' | put "$API/configmaps"
	eventually 10 grep -q two "$FAKE_MIG/text"
	rm "$API/configmaps"
	eventually 10 state_is failed
	reason_has "configmap gpu/mig"
}

@test "where a reset is needed: failed without a reboot" {
	node nvidia.com/mig.config=a
	behave apply <<<'results pending; finish false reset-required "GPU 0 waits for a reset"'
	manager
	eventually 20 state_is failed
	reason_has "GPU 0 waits for a reset; a reset of the GPU or a reboot of the host is needed"
}

@test "with a reboot: rebooting, once; if that does not help, failed" {
	node nvidia.com/mig.config=a nvidia.com/gpu.deploy.dcgm=true
	behave apply <<<'results pending; finish false reset-required "GPU 0 waits for a reset"'
	manager --mig-with-reboot --mig-reboot-command "touch $NODE_DIR/rebooted"
	eventually 20 test -e "$NODE_DIR/rebooted"
	state_is rebooting
	label_is nvidia.com/gpu.deploy.dcgm paused-for-mig-change
	# The host goes down; the mode has not changed when it is back.
	stop agent KILL || true
	rm "$NODE_DIR/rebooted"
	manager --mig-with-reboot --mig-reboot-command "touch $NODE_DIR/rebooted"
	eventually 20 state_is failed
	reason_has "rebooted for this already"
	label_is nvidia.com/gpu.deploy.dcgm true
	[[ ! -e $NODE_DIR/rebooted ]]
	# An agent that starts again does not reboot again.
	stop agent
	manager --mig-with-reboot --mig-reboot-command "touch $NODE_DIR/rebooted"
	eventually 20 status '.mig.state == "failed"'
	[[ ! -e $NODE_DIR/rebooted ]]
	# Where it helped all is well, and another reboot for the same is possible.
	rm "$FAKE_MIG/apply"
	label nvidia.com/mig.config=b
	eventually 10 state_is success
	eventually 5 jq -e '.metadata.annotations | has("gpuslice.io/mig.config.rebooted") | not' "$API/nodes"
}

@test "services of the host stop and start again in reverse, also after an agent that was killed" {
	local host=$NODE_DIR/host
	# chroot and systemctl, as far as they are asked.
	mkdir "$NODE_DIR/bin"
	cat >"$NODE_DIR/bin/chroot" <<-'EOF2'
		#!/bin/bash
		echo "${@:3}" >>"$1/log"
		[[ $3 != is-active || $4 != idle.service ]]
	EOF2
	chmod +x "$NODE_DIR/bin/chroot"
	printf 'version: v1\nsystemd-services: [a.service, idle.service, b.service]\n' >"$NODE_DIR/clients.yaml"
	node nvidia.com/mig.config=a
	behave apply <<<'step "one"; touch "$FAKE_MIG/at"; while [[ -e $FAKE_MIG/at ]]; do sleep 0.1; done'
	PATH=$NODE_DIR/bin:$PATH manager --mig-shutdown-host-gpu-clients --mig-gpu-clients-file "$NODE_DIR/clients.yaml"
	eventually 20 test -e "$FAKE_MIG/at"
	[[ $(tr '\n' ' ' <"$host/log") == "is-active a.service stop a.service is-active idle.service is-active b.service stop b.service " ]]
	stop agent KILL || true
	rm "$FAKE_MIG/at" "$FAKE_MIG/apply" "$host/log"
	eventually 5 no_tool
	PATH=$NODE_DIR/bin:$PATH manager --mig-shutdown-host-gpu-clients --mig-gpu-clients-file "$NODE_DIR/clients.yaml"
	eventually 20 state_is success
	[[ $(grep start "$host/log" | tr '\n' ' ') == "start b.service start a.service " ]]
	[[ ! -e $GPUSLICE_RUN_DIR/mig-services ]]
}

# degraded_for OPTION...: the MIG manager does not start, and $TEXT says why.
degraded_for() {
	agent --mig-manager "$@"
	logged agent 'component degraded.*mig-manager'
	[[ $("$GPUSLICE" status --json | jq -r '.components[] | select(.name == "mig-manager") | .reason') == *"$TEXT"* ]]
}

@test "with invalid options the MIG manager does not start, and the agent does" {
	TEXT="only one can be given" degraded_for --mig-config-file a --mig-config-map b
	stop agent
	TEXT="expected the name of a MIG layout" degraded_for --mig-config-default 'a"b'
	stop agent
	echo 'version: v2' >"$NODE_DIR/clients.yaml"
	TEXT="clients.yaml:1:10: version: unknown version: v2; expected v1" \
		degraded_for --mig-gpu-clients-file "$NODE_DIR/clients.yaml"
	echo 'version: v1' >"$NODE_DIR/clients.yaml"
	eventually 20 status '.mig.enabled and (.components[] | select(.name == "mig-manager") | .degraded | not)'
}

@test "many changes in a row leak no process and no memory worth the name" {
	local i
	node nvidia.com/mig.config=a
	manager
	eventually 20 state_is success
	for i in $(seq 20); do
		label "nvidia.com/mig.config=l$i"
		eventually 10 reason_has "l$i: applied"
	done
	eventually 5 no_tool
	workers_are 1
	[[ $(find "/proc/${PID[agent]}/fd" | wc -l) -lt 60 ]]
	[[ $(find "$GPUSLICE_RUN_DIR" -type f -o -type s | wc -l) -le 4 ]]
}
