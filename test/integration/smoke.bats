#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The programs start, answer and end; the rest of the tests can rely on that.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
}

teardown() {
	node_teardown
}

@test "both programs print their version and their usage" {
	local program
	for program in "$GPUSLICED" "$GPUSLICE"; do
		run -0 "$program" --version
		[[ $output == "${program##*/} "[0-9]* ]]
		run -0 "$program" --help
		[[ $output == "Usage: ${program##*/}"* ]]
	done
}

@test "an unknown option is refused by name" {
	run "$GPUSLICED" --no-such-option
	((status != 0))
	[[ $output == *no-such-option* ]]
	run "$GPUSLICE" status --no-such-option
	((status != 0))
	[[ $output == *no-such-option* ]]
}

@test "the agent starts without a kubelet, answers status and ends on SIGTERM" {
	agent
	status .
	stop agent
}

@test "the agent registers with the kubelet, whichever starts first" {
	kubelet
	agent
	eventually 20 logged kubelet nvidia.com/gpu
	stop kubelet
	kubelet
	eventually 20 logged kubelet nvidia.com/gpu
	stop agent
	stop kubelet
}

@test "kill -9 of the agent leaves no process behind, and the next one starts" {
	agent
	stop agent KILL || (($? == 137))
	eventually 5 no_leftovers
	agent
	stop agent
}

@test "a second agent on the same node refuses" {
	agent
	run timeout 20 "$GPUSLICED"
	((status != 0 && status != 124))
	running agent
	stop agent
}

@test "the simulated NVML exports the functions of the vendor's library, and nothing else" {
	"$BATS_TEST_DIRNAME/../../tools/check-exports.sh" "$SIM_NVML" libnvidia-ml.so.1 \
		"$BATS_TEST_DIRNAME/../../src/testbed/sim/nvml/names.txt"
}

@test "the agent links to no driver library, no simulator, no HTTP client and no TLS" {
	run -0 readelf -dW "$GPUSLICED"
	[[ $output != *nvidia* && $output != *libcuda* && $output != *curl* && $output != *ncurses* && $output != *gnutls* ]]
}
