#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The web server's process crashes or hangs: the device plugin does not notice, and the page comes back.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_METRICS_INTERVAL=1s
	# Where a sanitizer is on: signals do in the process what they do without.
	export ASAN_OPTIONS=${ASAN_OPTIONS-}:handle_segv=0 TSAN_OPTIONS=${TSAN_OPTIONS-}:handle_segv=0
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	eventually 10 page
}

teardown() {
	node_teardown
}

page() {
	local port
	port=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
	curl -sf "http://127.0.0.1:$port/metrics"
}

# The process of the web server.
web_process() {
	leftovers | grep '[ /]*gpuslice-we[b]' | cut -d ' ' -f 1
}

no_web_process() {
	[[ -z $(web_process) ]]
}

another_process() {
	local pid
	pid=$(web_process)
	[[ -n $pid && $pid != "$1" ]]
}

# answered: how many requests it has.
answered() {
	page | sed -n 's/^gpuslice_web_requests_total{.*class="2xx"} //p'
}

# asked_more_than N: the server has answered more than N requests, of which this function makes some.
asked_more_than() {
	local i n
	for i in {1..10}; do
		page >"$NODE_DIR/page"
	done
	n=$(answered)
	((n > $1))
}

@test "killed by any signal: the agent and its devices stay, the page comes back, counters go on" {
	local signal pid before
	for signal in SEGV KILL; do
		# More than this test requests afterwards: a counter that restarted at 0 stays below it.
		eventually 60 asked_more_than 40
		before=$(answered)
		pid=$(web_process)
		kill "-$signal" "$pid"
		eventually 10 another_process "$pid"
		eventually 10 page
		(($(answered) > before))
		running agent
		offers 40
		[[ $(held | wc -l) == 5 ]]
	done
	[[ $(times agent "warn .*the web server's process ended by signal 11 ") == 1 ]]
	[[ $(times agent "warn .*the web server's process ended by signal 9 ") == 1 ]]
	never_below 40
	stop agent
	eventually 5 no_web_process
}

@test "stopped: the agent answers the kubelet and the tool, and ends" {
	local pid
	pid=$(web_process)
	kill -STOP "$pid"
	scale 6
	eventually 10 pods 6
	status '.resources[0].state == "registered"'
	offers 40
	stop agent
	eventually 5 no_web_process
}

@test "the agent is killed: the process ends, also one that is stopped" {
	local stopped
	for stopped in "" yes; do
		[[ -z $stopped ]] || kill -STOP "$(web_process)"
		stop agent KILL || (($? == 137))
		eventually 5 no_web_process
		agent --config-file "$CONFIG"
		eventually 20 page
	done
}

@test "it has no descriptor of the agent's but its own, and no privilege but to read" {
	local pid
	pid=$(web_process)
	# Socket, page, listening socket, two epolls and a pipe or an eventfd of libmicrohttpd's.
	(($(ls "/proc/$pid/fd" | wc -l) <= 10))
	run ! grep -lE 'inotify|gpusliced' <(ls -l "/proc/$pid/fd")
	grep -xE 'NoNewPrivs:	1' "/proc/$pid/status"
	grep -xE 'Cap(Eff|Prm):	000000000000000[04]' "/proc/$pid/status"
	grep -xE 'CapInh:	0+' "/proc/$pid/status"
}
