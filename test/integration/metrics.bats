#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the agent measures and serves where nobody said so, and how that is switched off. The usual address is one for the
# whole machine, so each test has a network of its own.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	((!EUID)) && unshare --net ip link set lo up 2>/dev/null || skip "needs root, unshare and ip, for a network of its own"
	node_setup p3.8xlarge
	unset GPUSLICE_METRICS GPUSLICE_METRICS_LISTEN
	export GPUSLICE_METRICS_INTERVAL=1s
	start network unshare --net sleep infinity
	eventually 10 another_network
	inside ip link set lo up
}

teardown() {
	node_teardown
}

another_network() {
	[[ $(readlink "/proc/${PID[network]}/ns/net") != "$(readlink /proc/self/ns/net)" ]]
}

stop_network() {
	stop network || (($? == 143))
}

# inside COMMAND...: in the network of this test.
inside() {
	nsenter --net="/proc/${PID[network]}/ns/net" "$@"
}

# agent_inside [OPTION...]
agent_inside() {
	start agent nsenter --net="/proc/${PID[network]}/ns/net" "$GPUSLICED" "$@"
	eventually 20 agent_answers_or_ended || return 1
	running agent
}

# somebody ADDRESS: has the port.
somebody() {
	start somebody nsenter --net="/proc/${PID[network]}/ns/net" python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.bind((sys.argv[1], 9400)); s.listen(); print("listens", flush=True); time.sleep(600)' "$1"
	eventually 10 logged somebody listens
}

# api PATH: of the unix socket.
api() {
	curl -s --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" "http://x$1"
}

# The addresses that somebody listens on.
listens() {
	inside ss -Hltn | awk '{ print $4 }'
}

# counts PATTERN: a line of /metrics.
counts() {
	inside curl -s http://127.0.0.1:9400/metrics | grep -e "^$1"
}

measures() {
	api /api/v1/node | jq -e '.seq > 0 and (.gpus | length) == 4'
}

@test "without options the agent measures, and serves on localhost only" {
	kubelet
	agent_inside
	eventually 20 measures
	[[ $(inside curl -s http://127.0.0.1:9400/metrics) == *gpuslice_build_info* ]]
	[[ $(inside curl -s http://localhost:9400/) == *"<title>"* ]]
	[[ $(listens) == 127.0.0.1:9400 ]]
	# what it has answered is in the next look
	eventually 10 counts 'gpuslice_web_requests_total{node="",class="2xx"} [1-9]'
	counts 'gpuslice_web_connections{node=""} [0-9]'
	run -0 "$GPUSLICE" top --once
	[[ $output == *V100* ]]
	[[ $(stat -c %a "$GPUSLICE_STATE_DIR/ledger.db") == 600 ]]
	run ! logged agent " (warn|error) "
	stop agent
	stop kubelet
	stop_network
}

@test "an address in use is logged once, the agent measures all the same, and listens later" {
	local address
	kubelet
	for address in 127.0.0.1 0.0.0.0 ::; do
		somebody "$address"
		agent_inside
		eventually 20 measures
		run -0 "$GPUSLICE" top --once
		[[ $output == *V100* ]]
		[[ $(logged agent " warn .*127.0.0.1:9400.*in use" | wc -l) == 1 ]]
		stop somebody || (($? == 143))
		eventually 20 inside curl -sf -o /dev/null http://127.0.0.1:9400/metrics
		[[ $(logged agent " (warn|error) " | wc -l) == 1 ]]
		stop agent
	done
	stop kubelet
	stop_network
}

@test "without a loopback interface it starts all the same" {
	inside ip link set lo down
	inside ip addr flush dev lo
	agent_inside
	eventually 20 measures
	logged agent " warn .*127.0.0.1:9400"
	stop agent
	stop_network
}

@test "an address that was asked for and another has is waited for as well" {
	somebody 127.0.0.1
	agent_inside --metrics-listen 127.0.0.1:9400
	eventually 20 logged agent "127.0.0.1:9400.*in use"
	eventually 20 measures
	stop somebody || (($? == 143))
	eventually 20 inside curl -sf -o /dev/null http://127.0.0.1:9400/metrics
	stop agent
	stop_network
}

@test "no address: the figures are there for the tool alone" {
	agent_inside --metrics-listen=
	eventually 20 measures
	[[ -z $(listens) ]]
	stop agent
	stop_network
}

@test "--metrics=false switches all of it off" {
	local how
	for how in option variable "with an address"; do
		case $how in
		option) agent_inside --metrics=false ;;
		variable) GPUSLICE_METRICS=false agent_inside ;;
		*) agent_inside --metrics=false --metrics-listen 127.0.0.1:9400 ;;
		esac
		[[ $(api /api/v1/node) == *"without --metrics=false"* ]]
		[[ -z $(listens) && ! -e $GPUSLICE_STATE_DIR/ledger.db ]]
		run ! "$GPUSLICE" top --once
		[[ $output == *"without --metrics=false"* ]]
		[[ $how != "with an address" ]] || logged agent " warn .*--metrics-listen is of no effect"
		stop agent
	done
	stop_network
}
