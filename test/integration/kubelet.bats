#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Kubelets that come late, go, come back, lose files, answer late or not at all, and agents that
# are one too many.

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

@test "the directory is not there yet when the agent starts" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 4 >"$CONFIG"
	rm -r "$GPUSLICE_KUBELET_DIR"
	agent --config-file "$CONFIG"
	eventually 5 status '.resources[0] | .capacity == 16 and .state == "waiting" and (.reason | contains("device-plugins"))'
	kubelet
	eventually 10 offers 16
	[[ $(times agent 'cannot serve the kubelet yet') == 1 ]]
}

@test "the kubelet starts after the agent, stops, and restarts" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 4 >"$CONFIG"
	agent --config-file "$CONFIG"
	eventually 5 status '.resources[0].state == "waiting"'
	kubelet
	eventually 10 offers 16
	stop kubelet
	eventually 10 status '.resources[0].state == "waiting"'
	kubelet
	eventually 10 offers 16
	stop kubelet KILL || true
	kubelet
	eventually 10 offers 16
	eventually 5 status '.resources[0].state == "registered"'
}

@test "sockets are deleted under it" {
	local before
	node_up 4
	before=$(stat -c %i:%W "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock")
	k fault delete-sockets
	eventually 10 test -S "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock"
	[[ $(stat -c %i:%W "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock") != "$before" ]]
	# The stream was not touched: nothing to register again.
	k get resources -o json | jq -e '.counts.registrations == 1 and .items[0].connected'
	never_below 16
	k fault drop-streams
	eventually 10 registered_times 2
	eventually 10 offers 16
}

@test "the whole directory is replaced" {
	node_up 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	mv "$GPUSLICE_KUBELET_DIR/device-plugins" "$GPUSLICE_KUBELET_DIR/old"
	k restart
	eventually 10 test -S "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock"
	eventually 10 offers 16
	pods 5
	# The agent puts its socket back meanwhile.
	eventually 10 rm -r "$GPUSLICE_KUBELET_DIR/device-plugins"
	mkdir "$GPUSLICE_KUBELET_DIR/device-plugins"
	k restart --killed
	eventually 10 offers 16
	pods 5
}

@test "registrations are refused: the agent retries, and logs each reason once" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 4 >"$CONFIG"
	kubelet
	k fault refuse 3
	agent --config-file "$CONFIG"
	eventually 15 offers 16
	k get resources -o json | jq -e '.counts | .refusedRegistrations == 3 and .registrations == 1'
	[[ $(times agent 'not registered with the kubelet') == 1 ]]
}

@test "answers come late, later than the agent waits, or never" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 4 >"$CONFIG"
	kubelet
	k fault delay 1500
	agent --config-file "$CONFIG"
	eventually 10 offers 16
	# Pods are not held up by a kubelet that is slow with its other answers.
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	eventually 10 status '.holders.known and .resources[0].used == 5'
	k fault clear
	k fault never-answer on
	k restart
	# The agent waits only 200 ms for an answer, and retries for 5 s; the reason stays.
	eventually 15 status '.resources[0] | .state != "registered" and (.reason | startswith("register "))'
	k fault clear
	k restart
	eventually 15 offers 16
	pods 5
}

@test "a second stream, and one that never reads, harm neither the first nor the agent" {
	local i
	node_up 2
	k fault duplicate-stream
	k fault slow-reader
	k fault slow-reader
	for i in {3..40}; do
		sharing "$i" | put "$CONFIG"
		((i % 10)) || eventually 5 offers $((4 * i))
	done
	eventually 5 offers 160
	k fault duplicate-stream
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 5 pods 5
	k get resources -o json | jq -e '.counts.registrations == 1'
	never_below 8
	stop agent # is not held up by those who do not read
}

@test "the end of an old stream does not take the new registration with it" {
	local i dir=$GPUSLICE_KUBELET_DIR/device-plugins
	node_up 4
	k fault reregister-race on
	# The socket looks like that of another kubelet, so the agent registers while its old stream is open.
	mv "$dir/kubelet.sock" "$dir/same.sock"
	ln -s same.sock "$dir/kubelet.sock"
	eventually 10 registered_times 2
	eventually 10 offers 16
	k fault drop-streams
	eventually 10 registered_times 3
	eventually 10 offers 16
	for i in {4..5}; do # and a new agent
		stop agent KILL || (($? == 137))
		agent --config-file "$CONFIG"
		eventually 10 registered_times "$i"
		eventually 10 offers 16
	done
	eventually 5 status '.resources[0].state == "registered"'
	# One disconnection for each: none has hit the wrong one.
	registered_times 5
	[[ $(times kubelet 'plugin disconnected') == 4 ]]
}

registered_times() {
	k get resources -o json | jq -e ".counts.registrations == $1"
}

# refuses WHY OPTION...: a second agent ends with 1 and says why; the first one is unharmed.
refuses() {
	local why=$1 socket=$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock before
	shift
	before=$(stat -c %i:%W "$socket")
	run timeout 20 "$GPUSLICED" --config-file "$CONFIG" "$@"
	[[ $status == 1 && $output == *"$why"* ]] || {
		echo "status $status, wanted '$why': $output"
		return 1
	}
	[[ $(stat -c %i:%W "$socket") == "$before" ]]
	"$GPUSLICE" status --json | jq -e '.resources[0].state == "registered"'
	offers 16
}

@test "a lock that a child of a killed agent has for a moment is waited for" {
	local lock=$GPUSLICE_RUN_DIR/gpusliced.lock
	start child flock "$lock" sh -c "until [ -e '$NODE_DIR/go' ]; do sleep 0.05; done"
	eventually 10 test -e "$lock"
	kubelet
	start agent "$GPUSLICED"
	eventually 10 has_open agent "$lock"
	touch "$NODE_DIR/go"
	eventually 20 offers 4
	stop child
}

# has_open NAME FILE: that program has it open, or has ended.
has_open() {
	local fd
	running "$1" || return 0
	for fd in "/proc/${PID[$1]}/fd/"*; do
		[[ $(readlink "$fd") != "$2" ]] || return 0
	done
	return 1
}

@test "a second agent refuses: same run directory, same kubelet directory" {
	node_up 4
	refuses "another gpusliced (pid ${PID[agent]}) has the run directory '$GPUSLICE_RUN_DIR'"
	# Another user cannot take the lock either.
	[[ $(stat -c %a "$GPUSLICE_RUN_DIR/gpusliced.lock") == 600 ]]
	refuses "another process serves '$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock'" \
		--run-dir "$NODE_DIR/run2"
	k get resources -o json | jq -e '.counts.registrations == 1'
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	never_below 16
}

@test "a file or a directory in place of the socket does not end an agent that starts" {
	local make socket=$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.sock
	CONFIG=$NODE_DIR/config.yaml
	sharing 4 >"$CONFIG"
	kubelet
	for make in touch mkdir 'ln -s /nowhere'; do
		$make "$socket"
		agent --config-file "$CONFIG"
		eventually 10 status '.resources[0].reason | contains("is no socket; move it away")'
		running agent
		rm -r "$socket"
		eventually 10 offers 16
		stop agent
	done
}

@test "a child of a killed agent that has its lock for a moment does not end the next agent" {
	node_up 4
	stop agent KILL || true
	start child python3 -c '
import fcntl, sys, time
lock = open(sys.argv[1])
fcntl.flock(lock, fcntl.LOCK_EX)
print("has it", flush=True)
time.sleep(600)' "$GPUSLICE_RUN_DIR/gpusliced.lock"
	eventually 10 logged child 'has it'
	start next "$GPUSLICED" --config-file "$CONFIG"
	eventually 5 tries_the_lock
	stop child KILL || true
	eventually 10 logged next 'registered with the kubelet'
	running next
}

# tries_the_lock: the process NEXT has opened the lock file.
tries_the_lock() {
	[[ -n $(find "/proc/${PID[next]}/fd" -lname '*/gpusliced.lock') ]]
}

@test "a stray file in place of a new resource's socket does not end an agent that serves" {
	node_up 4
	echo stray >"$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.shared.sock"
	sharing 4 'renameByDefault: true' | put "$CONFIG"
	eventually 10 logged agent 'exists and is no socket'
	eventually 5 status '.resources[0] | .name == "nvidia.com/gpu.shared" and (.reason | contains("no socket"))'
	rm "$GPUSLICE_KUBELET_DIR/device-plugins/nvidia-gpu.shared.sock"
	eventually 10 offers 16 16 nvidia.com/gpu.shared
	running agent
}
