#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# An agent in a PID namespace of its own, as in a pod without hostPID, does not see the processes of pods: what it has not
# measured is nowhere a zero.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	((!EUID)) && unshare --pid --fork --mount-proc true 2>/dev/null || skip "needs root, for a PID namespace"
	node_setup h100-1
	export GPUSLICE_METRICS_INTERVAL=1s
	sharing 4 >"$NODE_DIR/config.yaml"
	sim create >/dev/null
	# The driver shows a process of another PID namespace a GPU that is busy, with no process on it.
	sim set 0 util_gpu 81 >/dev/null
	sim set 0 memory_other 8Gi >/dev/null
	kubelet
}

teardown() {
	# unshare blocks SIGTERM; its end takes the agent along.
	stop agent KILL || true
	node_teardown
}

# agent_apart: as agent, in a PID namespace of its own.
agent_apart() {
	start agent unshare --pid --fork --kill-child=TERM --mount-proc "$GPUSLICED" --config-file "$NODE_DIR/config.yaml"
	eventually 20 agent_answers_or_ended && running agent
	eventually 20 offers 4
}

pod() {
	k apply -f - <<-POD
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, namespace: see}
		spec: {containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}
	POD
}

# api PART [JQ_FILTER]
api() {
	curl -sf --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" "http://x/api/v1/$1" | jq -er "${2-.}"
}

metrics() {
	local port
	port=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
	curl -sf "http://127.0.0.1:$port/metrics"
}

uses_are() {
	api node "[.gpus[].units[].uses[] | select(.live)] | length == $1"
}

# The device's own figures are there: it is busy.
device_is_busy() {
	api node '.gpus[0].units[0] | .busy > 100000 and .memoryUsed > 8e9 and .otherMemory > 8e9'
}

# A round may have seen the first pod alone, whose figures then were the GPU's: its counters rest at what they were.
all_unmeasured() {
	api node '[.gpus[].units[].uses[] | select(.live)] as $uses | ($uses | length) == 2 and
		([$uses[] | .received, .busyFrom, .memoryUsed, .memoryFrom, .nProcesses] | length == 10 and all(. == null)) and
		([$uses[] | select(.pod == "two") | .busyNs, .memoryPeak, .memoryByteS] | length == 3 and all(. == null))'
}

# The web server's view may be one behind.
metrics_have_both() {
	metrics >"$NODE_DIR/metrics" && grep -E '^gpuslice_slices_held\{.*\} 2$' "$NODE_DIR/metrics"
}

@test "usage of pods that share a GPU is unknown, and the agent logs once how to enable it" {
	agent_apart
	pod one
	pod two
	eventually 10 uses_are 2
	eventually 10 device_is_busy
	all_unmeasured
	api pods '.pods | length == 2 and (map(.received, .memoryUsed) | all(. == null)) and
		(map(select(.pod == "two") | .busyNs, .memoryByteS) | length == 2 and all(. == null))'

	# Shares and replicas are known; the usage is not, in any family.
	eventually 10 metrics_have_both
	grep -E '^gpuslice_container_share_ratio\{.*pod="one".*\} 0.25$' "$NODE_DIR/metrics"
	run ! grep -E '^gpuslice_(container_(received|processes|gpu_busy|busy|memory_(used|byte))|slices_used)' "$NODE_DIR/metrics"
	run ! grep -E '^gpuslice_container_memory_peak.*pod="two"' "$NODE_DIR/metrics"
	run ! grep -E '^DCGM_.*pod="(one|two)"' "$NODE_DIR/metrics"
	grep -E '^gpuslice_agent_component_degraded\{.*component="pod-usage"\} 1$' "$NODE_DIR/metrics"

	run -0 "$GPUSLICE" top --once
	[[ $output == *"Degraded, pod-usage: "*"metrics.hostPID: true"* ]]
	[[ $(grep -cE ' (one|two) .* 25\.0% +- +- ' <<<"$output") == 2 ]]
	run -0 "$GPUSLICE" status
	[[ $output == *"DEGRADED  pod-usage: "*"metrics.hostPID: true"* ]]
	[[ $(times agent 'component degraded.*component=pod-usage') == 1 ]]

	# What is kept of it says so, too.
	eventually 10 ledger_says_unknown
}

ledger_says_unknown() {
	"$GPUSLICE" cost --ledger "$GPUSLICE_STATE_DIR/ledger.db" --from 1h --by pod --output json |
		jq -e '[.rows[] | select(.pod == "two")] | length == 1 and
			all(.busyNs == null and .memoryByteSeconds == null and .memoryPeakBytes == null and
				.busyIncomplete and .memoryIncomplete)'
}

@test "a pod that has a GPU alone has the GPU's figures, with that source" {
	agent_apart
	pod one
	eventually 10 uses_are 1
	eventually 10 api node '.gpus[0].units[0] as $u | $u.uses[0]
		| .busyFrom == "device" and .received > 100000 and .memoryFrom == "device" and .memoryUsed == $u.memoryUsed
			and .nProcesses == null'
	eventually 10 api node '.gpus[0].units[0].uses[0] | .busyNs > 0 and .memoryByteS > 0'
	# A second one makes it unknown again. What was counted stays, and its series rests instead of standing still.
	pod two
	eventually 10 uses_are 2
	eventually 10 figures_unknown
	api node '.gpus[0].units[0].uses[] | select(.pod == "one") | .busyNs > 0'
	eventually 10 counters_rest
}

counters_rest() {
	metrics >"$NODE_DIR/metrics" && grep -q '^gpuslice_container_gpu_held_seconds_total.*pod="two"' "$NODE_DIR/metrics" &&
		! grep -E '^gpuslice_container_(gpu_busy|memory_byte)_' "$NODE_DIR/metrics"
}

figures_unknown() {
	api node '[.gpus[0].units[0].uses[] | select(.live) | .received, .memoryUsed, .busyFrom, .memoryFrom] | all(. == null)'
}

@test "an agent that sees the node's processes knows that a pod is idle" {
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 4
	pod one
	pod two
	eventually 10 uses_are 2
	eventually 10 api node '[.gpus[0].units[0].uses[] | select(.live)]
		| all(.received == 0 and .memoryUsed == 0 and .nProcesses == 0 and .busyFrom == "processes" and .memoryFrom == "processes")'
	run -0 "$GPUSLICE" status
	[[ $output != *pod-usage* ]]
	# A process that NVML names and /proc does not show may be of any of them.
	sim process start 0 --pid 4194305 --memory 1Gi --sm 5 >/dev/null
	eventually 10 figures_unknown
}

# without GROUP...: NVML does not support them.
without() {
	local group
	for group in "$@"; do
		sim fail 0 "$group" NOT_SUPPORTED >/dev/null || return 1
	done
}

@test "figures that NVML does not report are omitted" {
	without accounting clock-reasons clocks ecc ecc-counters energy fan field-values gpm jpg-ofa margin memory nvlink pcie \
		power power-limit processes process-utilization pstate remapped-rows retired-pages temperature thresholds \
		utilization video violation virtualization
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 4
	pod one
	pod two
	eventually 10 uses_are 2
	eventually 10 figures_unknown
	api node '.gpus[0].sample | to_entries | map(select(.value == 0)) | if . == [] then true else error("\(.)") end'
	api node '.gpus[0].units[0] | .busy == null and .busyNs == null and .memoryUsed == null and .memoryTotal == null
		and .memoryReserved == null and .otherMemory == null'
	eventually 10 metrics_have_both
	run ! grep -E '^(DCGM_|gpuslice_gpu_(busy|memory|other)|gpuslice_container_(received|gpu_busy|memory_(used|peak|byte)|processes)).* 0$' \
		"$NODE_DIR/metrics"
	run -0 "$GPUSLICE" top --once
	[[ $(grep -cE ' (one|two) .* 25\.0% +- +- ' <<<"$output") == 2 ]]
}
