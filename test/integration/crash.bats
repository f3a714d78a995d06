#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs that are killed at the worst moment: everything comes back, pods keep their devices, and
# nothing is left lying about.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
}

teardown() {
	node_teardown
}

# back PODS: the agent is started again; all is as it was.
back() {
	eventually 5 no_workers_of_the_dead
	agent --config-file "$CONFIG"
	eventually 15 offers 40
	eventually 20 pods_run "$1"
	nothing_twice
	eventually 5 status '.resources[0].state == "registered"'
	tidy
}

# The deployment has all its pods: it replaces those that failed while there was no agent. More failures
# take longer.
pods_run() {
	[[ $(held | wc -l) == "$1" ]]
}

# The worker ends with its agent, also when that could not say goodbye.
no_workers_of_the_dead() {
	workers_are 0
}

kill_agent() {
	stop agent KILL || (($? == 137))
}

@test "killed while it registers" {
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	kill_agent
	k fault never-answer on # Register is on its way until its time-out
	agent --config-file "$CONFIG"
	eventually 5 status '.resources[0].state == "registering"'
	kill_agent
	k fault clear
	back 5
}

@test "killed with Allocate, GetPreferredAllocation and status requests under way" {
	local before
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	before=$(held)
	kill -STOP "${PID[agent]}" # whatever comes now is never answered
	scale 7
	"$GPUSLICE" status --json >"$NODE_DIR/status.log" 2>&1 3>&- &
	k get resources -o json >/dev/null # the stand-in has sent its calls by now
	kill_agent
	wait $! || true
	grep -q 'no agent answers' "$NODE_DIR/status.log"
	back 7
	[[ -z $(comm -23 <(echo "$before") <(held)) ]]
}

@test "killed again and again at random moments of reloads, allocations and requests" {
	local i n before
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	for ((i = 0; i < ${ROUNDS-5}; i++)); do
		before=$(held)
		n=$((5 + RANDOM % 30))
		{
			scale $n
			"$GPUSLICE" status --json || true
			((RANDOM % 4)) || k restart --killed
		} >"$NODE_DIR/load.log" 2>&1 3>&- &
		sharing $((11 + RANDOM % 5)) | put "$CONFIG"
		sleep "0.0$((RANDOM % 10))" # any moment will do
		kill_agent
		wait $! || true
		sharing 10 | put "$CONFIG"
		agent --config-file "$CONFIG"
		((RANDOM % 3)) || { # while it starts
			kill_agent
			agent --config-file "$CONFIG"
		}
		eventually 15 offers 40
		eventually 20 pods_run $n
		nothing_twice
		kept "$before"
	done
	eventually 5 workers_are 1
	stop agent
	eventually 5 workers_are 0
	back $n
}

# kept BEFORE: whoever ran before and runs now has the same devices.
kept() {
	local now
	now=$(held)
	diff <(join <(echo "$1") <(echo "$now") -o 1.1,1.2) <(join <(echo "$1") <(echo "$now") -o 2.1,2.2)
}

@test "the stand-in kubelet is killed, and a new one finds the agent" {
	local i
	node_up 10
	for i in {1..3}; do
		k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
		eventually 10 pods 5
		stop kubelet KILL || (($? == 137))
		kubelet
		eventually 10 offers 40
	done
	tidy
}

# fill DIR: until there is no inode and no block left.
fill() {
	local i=0
	while : >"$1/fill.$i" && head -c 4096 /dev/zero >"$1/fill.$i"; do
		i=$((i + 1))
	done 2>/dev/null
}

@test "the run directory is full: devices are served, others have a reason; the running agent continues" {
	tiny "$GPUSLICE_RUN_DIR" size=64k,nr_inodes=8
	fill "$GPUSLICE_RUN_DIR"
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	start agent "$GPUSLICED" --config-file "$CONFIG"
	eventually 20 offers 40
	logged agent "component degraded.*run-directory.*$GPUSLICE_RUN_DIR.*No space left on device"
	rm "$GPUSLICE_RUN_DIR"/fill.*
	eventually 30 status .version
	eventually 15 status 'all(.components[]; .degraded | not)'
	fill "$GPUSLICE_RUN_DIR"
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	eventually 5 status '.resources[0].used == 5'
}

@test "the kubelet's directory is full: shown with the reason, served when there is space again" {
	tiny "$GPUSLICE_KUBELET_DIR" size=64k,nr_inodes=12
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	fill "$GPUSLICE_KUBELET_DIR"
	agent --config-file "$CONFIG"
	eventually 5 status '.resources[0] | .state == "waiting" and (.reason | contains("No space left"))'
	rm "$GPUSLICE_KUBELET_DIR"/fill.*
	eventually 10 offers 40
	fill "$GPUSLICE_KUBELET_DIR"
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	sharing 20 | put "$CONFIG" # needs no space there
	eventually 10 offers 80
	never_below 40
}

@test "the config's disk is full: a truncated config is refused" {
	local etc=$NODE_DIR/etc
	tiny "$etc" size=8k,nr_inodes=6
	sharing 10 >"$etc/config.yaml"
	kubelet
	agent --config-file "$etc/config.yaml"
	eventually 20 offers 40
	head -c 100000 /dev/zero >"$etc/fill" 2>/dev/null || true
	# In place: emptied first, and then there is space for nothing or for one page.
	{ sharing 20 && printf '%.0s#' {1..9000} && echo && echo 'bad: yes'; } >"$etc/config.yaml" 2>/dev/null || true
	rm "$etc/fill"
	offers 40 || offers 80 # one page may hold all that matters
	: >"$etc/config.yaml"
	eventually 10 status '.config.lastError.message | contains("is empty")'
	sharing 11 | rewrite "$etc/config.yaml"
	eventually 10 offers 44
	never_below 40
}
