#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the agent shows of a node: who holds which part of which GPU, for how long and for how much, over restarts of the
# agent and while others are away.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_METRICS=true GPUSLICE_METRICS_INTERVAL=1s
}

teardown() {
	node_teardown
}

# view [JQ_FILTER]
view() {
	curl -sf --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/api/v1/node | jq -er "${1-.}"
}

# Sums of the view hold, to the nanosecond and the nano-unit.
adds_up() {
	view 'def sum: map(. // 0) | add // 0;
		[.gpus[].units[]] as $units | ($units | map(
		(.busyNs // 0) == ([.uses[].busyNs, .past.busyNs, .otherBusyNs] | sum)
		and .presentNs == ([.uses[].gpuNs, .past.gpuNs, .idleGpuNs] | sum)
		and (.costNano // 0) == ([.uses[].costNano, .past.costNano, .idleCostNano] | sum)) | all)
		and (.costNano // 0) == ([$units[].costNano, .otherCostNano] | sum)'
}

# uses LIVE [ENDED]: so many are listed.
uses() {
	view "[.gpus[].units[].uses[]] | (map(select(.live)) | length) == $1 and
		(map(select(.live | not)) | length) == ${2-0}"
}

# pod NAME [LIMITS]: one with a GPU of each kind.
pod() {
	k apply -f - <<-POD
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, namespace: see}
		spec:
		  containers:
		  - name: main
		    image: x
		    resources: {limits: {${2-nvidia.com/gpu: 1}}}
	POD
}

# The kubelet's checkpoint, which the stand-in does not write.
checkpoint() {
	k get pods -o json | jq -c '{Data: {PodDeviceEntries: [.items[] | .metadata.uid as $u | .gpuslice.grants[]
		| {PodUID: $u, ContainerName: .container, ResourceName: .resource, DeviceIDs: {"-1": .ids}, AllocResp: ""}],
		RegisteredDevices: {}}, Checksum: 1}' >"$GPUSLICE_KUBELET_DIR/device-plugins/kubelet_internal_checkpoint"
}

@test "pods that share a GPU by turns have their part of its time and price" {
	node_up 4 --price 36
	eventually 5 view '.gpus | length == 4'
	pod one
	pod two 'nvidia.com/gpu: 2'
	eventually 5 uses 3
	eventually 5 view '[.gpus[].units[].uses[] | select(.pod == "two") | .share] | add == 500000'
	view '[.gpus[].units[].uses[] | select(.pod == "one")][0]
		| .share == 250000 and .mode == "time-slicing" and .namespace == "see" and .container == "main"'
	eventually 10 view '[.gpus[].units[].uses[] | select(.pod == "one")][0] | .heldNs > 2e9 and .costNano > 0'
	# A quarter of a GPU of four costs 0.0625 of 1 cent a second.
	view '[.gpus[].units[].uses[] | select(.pod == "one")][0]
		| (.costNano / (.heldNs / 1e9)) as $s | $s > 624999 and $s < 625001'
	view '.priced and .currency == "USD" and .priceSource == "option"'
	adds_up
	k delete pod one -n see
	eventually 5 uses 2 1
	adds_up
}

@test "counters go on when the agent starts again, and others of the name begin anew" {
	local before after
	node_up 2 --price 36
	pod web-0
	eventually 5 uses 1
	checkpoint
	eventually 5 view '[.gpus[].units[].uses[]][0].uid | length > 0'
	eventually 10 view '[.gpus[].units[].uses[]][0].heldNs > 2e9'
	before=$(view '[.gpus[].units[].uses[]][0].heldNs')
	stop agent KILL || true
	agent --config-file "$CONFIG" --price 36
	eventually 10 uses 1
	after=$(view '[.gpus[].units[].uses[]][0].heldNs')
	((after >= before))
	adds_up
	view '.costNano > 0'
	k delete pod web-0 -n see
	pod web-0
	checkpoint
	eventually 5 uses 1 1
	eventually 5 view "[.gpus[].units[].uses[] | select(.live)][0] | .heldNs < $before"
	view '[.gpus[].units[].uses[] | .uid] | unique | length == 2'
	adds_up
}

@test "the rest is shown while the kubelet or NVML is away" {
	node_up 2 --price 36
	pod one
	eventually 5 uses 1
	stop kubelet
	eventually 10 view '.holdersKnown == false and (.holdersError | length > 0)'
	uses 1
	adds_up
	kubelet
	eventually 15 offers 8
	eventually 20 view '.holdersKnown'
	adds_up
	sim fault nvml-init || sim fault lost 0 || true
	adds_up
}

@test "a pod that lives for a second is not lost" {
	GPUSLICE_METRICS_INTERVAL=5s node_up 4
	eventually 10 view '.gpus | length == 4'
	pod brief
	sleep 1
	k delete pod brief -n see
	eventually 8 uses 0 1
	view '[.gpus[].units[].uses[]][0] | .pod == "brief" and .heldNs > 5e8'
	adds_up
}

@test "without a place to keep them counters go on, and it is told" {
	mkdir -p "$GPUSLICE_STATE_DIR/ledger.db"
	node_up 4
	eventually 5 view '.agent.ledgerError | length > 0'
	view '.agent.ledgerErrors > 0'
	pod one
	eventually 5 view '[.gpus[].units[].uses[]][0].heldNs > 1e9'
	adds_up
	[[ $(times agent 'the ledger cannot be written') == 1 ]]
}

@test "MIG devices lie where they are, and have their part of the GPU and its price" {
	root_cuts
	node_setup p4d.24xlarge
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	sim create >/dev/null
	cat >"$NODE_DIR/layouts.yaml" <<-EOF
		version: v1
		mig-configs:
		  mixed: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}]
	EOF
	"$GPUSLICE" mig apply -f "$NODE_DIR/layouts.yaml" -c mixed >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	printf 'version: v1\nflags: {migStrategy: mixed}\n' >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG" --price 28.8
	eventually 10 view '[.gpus[0].units[] | .profile] | sort == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]'
	view '[.gpus[].units[] | select(.mig)] | (map(.part) | add) <= 1000000 and (map(.start != null) | all)'
	view '.gpus[0].units | map(select(.profile == "3g.20gb"))[0] | .size == 3 and .memorySize == 4 and .part == 428571'
	# None lies on another.
	view '[.gpus[0].units[] | range(.memoryStart; .memoryStart + .memorySize)] | length == (unique | length)'
	eventually 10 k get resources -o json
	eventually 10 offers 1 1 nvidia.com/mig-3g.20gb
	pod big 'nvidia.com/mig-3g.20gb: 1'
	eventually 5 view '[.gpus[0].units[].uses[]][0]
		| .pod == "big" and .mode == "exclusive" and .share == 428571 and .resource == "nvidia.com/mig-3g.20gb"'
	eventually 5 view '[.gpus[0].units[].uses[]][0].heldNs > 1e9'
	view '.gpus | length == 8'
	adds_up
}

@test "a container in a slice has its limit, its weight and the slice's account" {
	sim create >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	cat >"$CONFIG" <<-EOF
		version: v1
		flags: {nvidiaDriverRoot: $GPUSLICE_SIM_DIR, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}}
		sharing:
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, replicas: 4, isolation: {memory: equal, compute: fair}}
	EOF
	kubelet
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 16
	pod one
	eventually 10 view '[.gpus[].units[].uses[]][0]
		| .pod == "one" and .memoryLimit > 0 and .slice.compute == "fair" and .slice.weight == 1'
	eventually 10 view '[.gpus[].units[].uses[]][0] | .busyExact and .slice.timeKnown != false'
	adds_up
	end_agent
}
