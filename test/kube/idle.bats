#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What an agent that has nothing to do costs, with all of it on: config through the API, labels,
# Events, startup taint, CDI. IDLE=SECONDS for a longer look than 45 seconds; a watch is renewed every
# five to ten minutes, so that the figure of an hour needs half of one.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

ACCOUNT=system:serviceaccount:$NS:gpuslice
TAINT=gpuslice.io/not-ready

setup_file() {
	cluster_up
	node_add a p3.8xlarge --taint "$TAINT=:NoSchedule" --label nvidia.com/gpu.present=true
	kubectl create namespace $NS
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# asked: how many requests of the agent the API server has begun or ended.
asked() {
	jq -r --arg u $ACCOUNT 'select(.user.username == $u) | .auditID + .stage' "$KUBE/log/audit.jsonl" | wc -l
}

# quiet: it has asked nothing for five seconds.
quiet() {
	local before
	before=$(asked)
	sleep 5
	[[ $(asked) == "$before" ]]
}

# resident PROGRAM: kB of its one process on the node.
resident() {
	node_exec a bash -c 'awk "/^VmRSS/ { print \$2 }" "/proc/$(pgrep -x "$1")/status"' bash "$1"
}

@test "an idle agent asks the API server for nothing, and is small" {
	local before seconds=${IDLE-45}
	printf 'version: v1\nflags: {plugin: {deviceListStrategy: [envvar, cdi-cri]}}\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}' \
		>"$BATS_TEST_TMPDIR/config"
	chart install gpuslice --set configViaAPI=true,config.default=ten \
		--set-file "config.map.ten=$BATS_TEST_TMPDIR/config"
	eventually 60 agents 1
	eventually 20 offers a 40
	eventually 20 has_label a nvidia.com/gpu.replicas 10
	eventually 60 quiet # after the last Event
	before=$(asked)
	sleep "$seconds"
	figure "requests in $seconds idle seconds: $(($(asked) - before)), all from the start: $before"
	figure "resident: gpusliced $(resident gpusliced) kB, gpuslice-nvml $(resident gpuslice-nvml) kB, gpuslice-web $(resident gpuslice-web) kB"
	# Two watches, each renewed every five minutes at most.
	(($(asked) - before <= 4 * (seconds / 300 + (seconds >= 300 ? 1 : 0))))
	# With room for the library of a real driver's TLS; the figure above is what counts.
	(($(resident gpusliced) < 24000))
}
