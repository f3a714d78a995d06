#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The same faults many times, at random moments. ROUNDS says how often: a few in the integration
# suite, hundreds in the suite `stress`. SEED repeats a run's choices, though not its timing.

bats_require_minimum_version 1.5.0
load lib
load cluster
COOLDOWN=1 # more rounds

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	ROUNDS=${ROUNDS-8}
	RANDOM=${SEED:=$(date +%N | sed 's/^0*//')}
	echo "SEED=$SEED ROUNDS=$ROUNDS"
}

teardown() {
	node_teardown
}

# Sets moment to a random time of up to 200 ms, as seconds; most are short.
random_moment() {
	printf -v moment '0.%03d' $((RANDOM % (RANDOM % 3 ? 40 : 200)))
}

# no_change BEFORE: whoever ran before and runs now has the same devices.
no_change() {
	local now
	now=$(held)
	diff <(join <(echo "$1") <(echo "$now") -o 1.1,1.2) <(join <(echo "$1") <(echo "$now") -o 2.1,2.2)
}

all_run() {
	[[ $(held | wc -l) == "$1" ]] || {
		k get pods
		k get resources
		return 1
	}
}

@test "the kubelet is restarted at random moments while pods are being created" {
	local i n=5 moment before
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	for ((i = 1; i <= ROUNDS; i++)); do
		before=$(held)
		n=$((1 + RANDOM % 40))
		scale "$n" >/dev/null
		random_moment && sleep "$moment"
		random_moment
		case $((RANDOM % 4)) in
		0) k restart --down "${moment#0.}ms" ;;
		1) k restart --down "${moment#0.}ms" --killed ;;
		2) k restart && k restart --killed ;; # twice within a moment
		3) k fault drop-streams && k restart --down "${moment#0.}ms" ;;
		esac >/dev/null
		((i % 10)) || { # all is well after it
			eventually 30 offers 40
			eventually 30 all_run "$n"
			nothing_twice
		}
		no_change "$before"
	done
	eventually 30 offers 40
	eventually 30 all_run "$n"
	nothing_twice
	eventually 5 status '.resources[0].state == "registered"'
	tidy
	workers_are 1
}

@test "the kubelet is killed at random moments, and its successor finds the agent" {
	local i moment
	node_up 10
	for ((i = 1; i <= ROUNDS / 2; i++)); do
		k apply -f "$FIXTURES/cifar10-train-deploy.yaml" >/dev/null || true
		random_moment && sleep "$moment"
		stop kubelet KILL || (($? == 137))
		random_moment && sleep "$moment"
		kubelet
		((RANDOM % 3)) || continue
		eventually 15 offers 40
	done
	eventually 15 offers 40
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	tidy
}

@test "the agent is killed at random moments of everything" {
	local i n=5 moment before load
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	for ((i = 1; i <= ROUNDS / 2; i++)); do
		before=$(held)
		n=$((1 + RANDOM % 40))
		{
			scale "$n"
			"$GPUSLICE" status --json || true
			((RANDOM % 4)) || k restart --killed
			((RANDOM % 4)) || sim xid $((RANDOM % 4)) 48
			"$GPUSLICE" status || true
		} >"$NODE_DIR/load.log" 2>&1 3>&- &
		load=$!
		sharing $((11 + RANDOM % 5)) | put "$CONFIG"
		random_moment && sleep "$moment"
		stop agent KILL || (($? == 137))
		sharing 10 | put "$CONFIG"
		start agent "$GPUSLICED" --config-file "$CONFIG"
		wait "$load" || true
		((i % 5)) || {
			eventually 30 offers 40
			eventually 40 all_run "$n"
			nothing_twice
		}
		no_change "$before"
	done
	eventually 30 offers 40
	eventually 40 all_run "$n"
	nothing_twice
	tidy
	eventually 5 workers_are 1
}

@test "GPUs come and go at random while pods come and go; all end well" {
	local i n=5 gpu
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	for ((i = 1; i <= ROUNDS; i++)); do
		gpu=$((RANDOM % 3)) # the last one stays well
		case $((RANDOM % 6)) in
		0) sim lose $gpu ;;
		1) sim return $gpu ;;
		2) sim xid $gpu 48 ;;
		3) sim fail $gpu name UNKNOWN ;;
		4) sim reset $gpu ;;
		5) pkill -KILL -P "${PID[agent]}" || true ;;
		esac
		n=$((1 + RANDOM % 40))
		scale "$n" >/dev/null
		sharing $((10 + RANDOM % 3)) | put "$CONFIG"
	done
	for gpu in 0 1 2; do
		sim return $gpu || true
		sim reset $gpu
	done
	sharing 10 | put "$CONFIG"
	eventually 60 offers 40
	eventually 40 all_run "$n"
	nothing_twice
	never_below 10
	status '.error == null and .config.lastError == null'
}
