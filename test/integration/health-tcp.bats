#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The TCP address of --listen: it answers probes, says nothing else, and no peer can keep a probe out, make the agent
# hold memory or keep it from allocating GPUs.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	node_up 10 --listen 127.0.0.1:0
	PORT=$(sed -n 's/.*answering probes.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
	[[ -n $PORT ]]
}

teardown() {
	node_teardown
}

# probe PATH [OPTION...]: its status and text, as the kubelet asks: with a deadline of a second.
probe() {
	local path=$1
	shift
	curl -s -m "${GPUSLICE_PATIENCE:-1}" -w '%{http_code}\n' "$@" "http://127.0.0.1:$PORT$path"
}

resident_kib() {
	sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\) kB/\1/p' "/proc/${PID[agent]}/status"
}

opened() {
	(($(cat "$NODE_DIR/opened") >= $1))
}

@test "only health is answered over TCP; the unix socket has the status" {
	local path
	[[ $(probe /healthz) == $'ok\n200' ]]
	[[ $(probe /readyz) == $'ok\n200' ]]
	[[ $(probe /readyz -I) == *'200 OK'* ]]
	for path in / /v1/status /api/v1/node /api/v1/pods /metrics /healthz/x; do
		[[ $(probe "$path") == $'the status is served on the unix socket and at --metrics-listen\n404' ]]
	done
	[[ $(probe /v1/status -d x) == *413 ]]
	[[ $(probe /healthz -X DELETE) == *405 ]]
	curl -sf --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/v1/status | jq -e .resources
	stop kubelet
	eventually 10 not_ready
	[[ $(curl -s --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/readyz) == *'not registered'* ]]
}

not_ready() {
	[[ $(probe /readyz) == $'not ready; gpuslice status says why\n503' ]]
}

@test "slow connections neither keep probes out, nor cost memory, nor delay GPUs" {
	local before i
	before=$(resident_kib)
	start peers python3 "$BATS_TEST_DIRNAME/slow-peers.py" 127.0.0.1 "$PORT" 200 "$NODE_DIR/opened"
	eventually 20 opened 500
	for i in {1..40}; do
		[[ $(probe /healthz) == $'ok\n200' ]]
		[[ $(probe /readyz) == $'ok\n200' ]]
		(($(ls "/proc/${PID[agent]}/fd" | wc -l) < 200))
	done
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	scale 40
	eventually 10 pods 40
	nothing_twice
	eventually 20 opened 3000
	[[ $(probe /healthz) == $'ok\n200' ]]
	echo "# resident: $before KiB, then $(resident_kib) KiB"
	(($(resident_kib) < before + 8192))
	running peers
	stop peers || true
	[[ $(probe /readyz) == $'ok\n200' ]]
}
