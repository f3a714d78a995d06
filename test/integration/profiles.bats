#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# sharing.slices: profiles on a node with the stand-in kubelet, what pods of them get, and changes while they
# run; shares of compute of replicas. What the time comes to is not looked at here.
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	SLICES=$GPUSLICE_STATE_DIR/slices
	CONFIG=$NODE_DIR/config.yaml
	"$GPUSLICE" sim create >/dev/null
}

teardown() {
	end_agent
	node_teardown
}

# config DEVICES PROFILE...: cuts these GPUs.
config() {
	cat <<-EOF
		version: v1
		flags: {nvidiaDriverRoot: $GPUSLICE_SIM_DIR, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}}
		sharing:
		  slices:
		  - name: nvidia.com/gpu
		    devices: $1
		    profiles:
	EOF
	shift
	printf '    - {%s}\n' "$@"
}

LARGE='name: gpu.large, count: 1, memory: 8Gi, weight: 4, compute: capped'
SMALL='name: gpu.small, memory: 2Gi, class: latency'

agent_up() {
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
}

# pod NAME RESOURCE [COUNT]
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/$2: ${3-1}}}}]}}
	EOF
}

# slice POD JQ_FILTER: of the file of its slice; fails while it has none.
slice() {
	local id
	id=$(k get pods -o json | jq -er --arg p "$1" '.items[] | select(.metadata.name == $p) | .gpuslice.grants[0].mounts[]
		| select(.containerPath == "/run/gpuslice/slice") | .hostPath | split("/") | last') || return 1
	jq -er "$2" "$SLICES/$id/slice.json"
}

@test "profiles are offered beside whole GPUs, and a pod gets the slice of its profile" {
	config '[0, 1]' "$LARGE" "$SMALL" >"$CONFIG"
	kubelet
	agent_up
	eventually 20 offers 2 2 nvidia.com/gpu.large
	eventually 20 offers 6 6 nvidia.com/gpu.small
	eventually 20 offers 2 2 nvidia.com/gpu
	pod one gpu.large
	eventually 20 slice one '.gpus | length == 1'
	slice one '.compute == "turns" and .class == "batch" and .resource == "nvidia.com/gpu.large"'
	slice one '.gpus[0] | .memory == 8589934592 and .weight == 4 and .cap == 571428'
	slice one '.devices[0] | test("^GPU-[0-9a-f-]{36}::gpu.large::0$")'
	# Two of a profile are one slice of twice the size, although pods are spread by default.
	pod two gpu.small 2
	eventually 20 slice two '.gpus | length == 1'
	slice two '.class == "latency" and .gpus[0].memory == 4294967296 and .gpus[0].weight == 2 and (.gpus[0] | has("cap") | not)'
	# None has two left now but the other GPU; then they are of two.
	pod three gpu.small 4
	eventually 20 slice three '.gpus | length == 2'
	slice three '[.gpus[].weight] | add == 4'
	# A whole GPU has no wall.
	pod whole gpu
	eventually 20 pods 4
	run slice whole .id
	[ "$status" -ne 0 ]
}

@test "status and config check show profiles, and those that do not fit" {
	config '[0]' "$LARGE" "$SMALL" 'name: gpu.huge, count: 2, memory: 20Gi' >"$CONFIG"
	kubelet
	agent_up
	eventually 20 offers 3 3 nvidia.com/gpu.small
	status '.config.sharing == "slices" and .gpus[1].profiles == []'
	status '.gpus[0].profiles | map([.resource, .slices, .memoryBytes, .weight, .capMillionths, .compute, .class]) ==
		[["nvidia.com/gpu.large", 1, 8589934592, 4, 571428, "capped", "batch"],
		["nvidia.com/gpu.small", 3, 2147483648, 1, null, "fair", "latency"]]'
	pod one gpu.small 2
	eventually 20 status '.gpus[0].profiles[1].used == 2'
	eventually 20 status '.slices.list[0] | .compute == "fair" and .class == "latency" and .gpus[0].weight == 2 and .gpus[0].capMillionths == null'
	# The arbiter understands it.
	eventually 20 status '.slices.list[0] | .known and .error == null and .computeError == null'
	"$GPUSLICE" status >"$BATS_TEST_TMPDIR/status"
	grep -E "^0    nvidia.com/gpu.large  1 +0 +8192 MiB +4 +capped at 57.1% +batch" "$BATS_TEST_TMPDIR/status"
	grep -E "^[0-9a-f]{8}  0    weight 2, latency  [^ ]+( s)? +4096 MiB " "$BATS_TEST_TMPDIR/status"
	grep -F "profile 'nvidia.com/gpu.huge' (line 10): does not fit on GPU 0: it needs 20480 MiB, and 7744 MiB are left of 15936 MiB" "$BATS_TEST_TMPDIR/status"
	# Where one looks: before the tables, in which it is missing.
	status '.warnings | length == 1 and (.[0] | test("gpu.huge. .line 10.: fits nowhere on this node"))'
	[[ $(grep -nE "^WARNING   profile 'nvidia.com/gpu.huge' .line 10.: fits nowhere" "$BATS_TEST_TMPDIR/status" | cut -d: -f1) -lt \
		$(grep -nE '^GPU +NAME' "$BATS_TEST_TMPDIR/status" | cut -d: -f1) ]]
	logged agent "the config does not fit this node.*profile 'nvidia.com/gpu.huge' \(line 10\): fits nowhere"
	logged agent "not offered as configured.*profile 'nvidia.com/gpu.huge' \(line 10\)"
	"$GPUSLICE" config check --node p3.8xlarge "$CONFIG" >"$BATS_TEST_TMPDIR/check"
	grep -E "^  nvidia.com/gpu.large +1 +1 +1  slices +8192 MiB +weight 4, at most 57.1%$" "$BATS_TEST_TMPDIR/check"
	grep -E "^  nvidia.com/gpu.small +3 +1 +3  slices +2048 MiB +weight 1, latency$" "$BATS_TEST_TMPDIR/check"
	grep -F "note: profile 'nvidia.com/gpu.huge' (line 10)" "$BATS_TEST_TMPDIR/check"
	grep -F "warning: profile 'nvidia.com/gpu.huge' (line 10): fits nowhere" "$BATS_TEST_TMPDIR/check"
	grep -F "1 good, 0 bad, 1 warning" "$BATS_TEST_TMPDIR/check"
	"$GPUSLICE" config check --json --node p3.8xlarge "$CONFIG" | jq -e '.configs[0].warnings | length == 1'
	"$GPUSLICE" config check --json --node p3.8xlarge "$CONFIG" |
		jq -e '.configs[0].offers | map(select(.name == "nvidia.com/gpu.large").time) == [{compute: "capped", weight: 4, capMinMillionths: 571428, capMaxMillionths: 571428, class: "batch"}]'
}

@test "on a node of several kinds a profile is where it fits" {
	sim add H100-PCIe-80GB >/dev/null
	config all 'name: gpu.large, count: 2, memory: 20Gi' 'name: gpu.small, count: 3, memory: 4Gi' >"$CONFIG"
	kubelet
	agent_up
	eventually 20 offers 2 2 nvidia.com/gpu.large
	eventually 20 offers 15 15 nvidia.com/gpu.small
	status '.notes | length == 1 and (.[0] | test("gpu.large.*does not fit on GPU 0, GPU 1, GPU 2, GPU 3: it needs 20480 MiB"))'
	pod one gpu.large 2
	eventually 20 slice one '.gpus | length == 1 and .[0].memory == 42949672960'
}

@test "a reload changes weight, cap, class and memory of slices that run, and nothing else" {
	local before small
	config '[0, 1]' "$LARGE" "$SMALL" >"$CONFIG"
	kubelet
	agent_up
	eventually 20 offers 6 6 nvidia.com/gpu.small
	pod one gpu.large
	pod two gpu.small
	eventually 20 slice one .id
	eventually 20 slice two .id
	before=$(slice one '[.id, .devices, .created] | tostring')
	small=$(slice two 'tostring')
	# All at once: whoever reads sees the one or the other.
	config '[0, 1]' 'name: gpu.large, count: 1, memory: 9Gi, weight: 2, compute: capped, class: latency' "$SMALL" | put "$CONFIG"
	eventually 20 slice one '.gpus[0].memory == 9663676416'
	slice one '.class == "latency" and .gpus[0].weight == 2 and .gpus[0].cap == 400000'
	[[ $(slice one '[.id, .devices, .created] | tostring') == "$before" ]]
	[[ $(slice two tostring) == "$small" ]]
	# Other profiles come: what a capped one has of all is less, and its device keeps its ID.
	config '[0, 1]' 'name: gpu.other, count: 2, weight: 3' 'name: gpu.large, count: 1, memory: 9Gi, weight: 2, compute: capped, class: latency' "$SMALL" | put "$CONFIG"
	eventually 20 slice one '.gpus[0].cap == 181818'
	[[ $(slice one '[.id, .devices, .created] | tostring') == "$before" ]]
	# No cap any more.
	config '[0, 1]' 'name: gpu.large, count: 1, memory: 9Gi' "$SMALL" | put "$CONFIG"
	eventually 20 slice one '.compute == "turns" and .class == "batch" and .gpus[0].weight == 1 and (.gpus[0] | has("cap") | not)'
	# A profile that is gone leaves its pod what it has.
	config '[0, 1]' "$SMALL" | put "$CONFIG"
	eventually 20 status '.earlier | any(.resource == "nvidia.com/gpu.large" and .holder.pod == "one")'
	slice one '.gpus[0].memory == 9663676416'
	# A file that partitions a GPU twice changes nothing.
	{
		config '[0, 1]' "$SMALL"
		printf '  - {name: gpu, devices: [1], profiles: [{name: gpu.x, count: 1}]}\n'
	} | put "$CONFIG"
	eventually 20 status '.config.lastError.message | test("config.yaml:9:26: sharing.slices\\[1\\].devices: expected GPUs that sharing.slices \\(line 5\\) does not divide, found 1")'
	offers 14 14 nvidia.com/gpu.small
}

@test "an unhealthy GPU takes its slices with it, and no others" {
	config '[0, 1]' 'name: gpu.small, count: 3, memory: 2Gi' >"$CONFIG"
	kubelet
	agent_up
	eventually 20 offers 6 6 nvidia.com/gpu.small
	sim xid 0 79 >/dev/null
	eventually 20 offers 6 3 nvidia.com/gpu.small
	offers 2 2
}

@test "compute of replicas is divided, with memory or without" {
	cat >"$CONFIG" <<-EOF
		version: v1
		flags: {nvidiaDriverRoot: $GPUSLICE_SIM_DIR, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR, sharedDevicesAllocationPolicy: packed}}
		sharing:
		  timeSlicing:
		    resources:
		    - name: nvidia.com/gpu
		      replicas: 4
		      isolation: {compute: capped}
	EOF
	kubelet
	agent_up
	eventually 20 offers 16
	pod one gpu 3
	eventually 20 slice one .id
	slice one '.compute == "turns" and .class == "batch" and (.gpus | length == 1)'
	slice one '.gpus[0] | .weight == 3 and .cap == 750000 and (has("memory") | not)'
	sed 's/{compute: capped}/{compute: fair, class: latency, memory: equal}/' "$CONFIG" | put "$CONFIG"
	eventually 20 slice one '.class == "latency" and .gpus[0].memory > 0 and .gpus[0].weight == 3 and (.gpus[0] | has("cap") | not)'
	# Isolation goes: the slice stays, and nothing of it is enforced.
	sed '/isolation/d' "$CONFIG" | put "$CONFIG"
	eventually 20 slice one '(has("compute") | not) and (.gpus[0] | keys == ["uuid"])'
}

@test "labels describe profiles" {
	config '[0, 1]' "$LARGE" "$SMALL" >"$CONFIG"
	"$GPUSLICE" labels --config-file "$CONFIG" >"$BATS_TEST_TMPDIR/labels"
	grep -x "nvidia.com/gpu.sharing-strategy=slices" "$BATS_TEST_TMPDIR/labels"
	grep -x "nvidia.com/gpu.large.memory=8192" "$BATS_TEST_TMPDIR/labels"
	grep -x "nvidia.com/gpu.large.compute=capped" "$BATS_TEST_TMPDIR/labels"
	grep -x "nvidia.com/gpu.small.replicas=3" "$BATS_TEST_TMPDIR/labels"
	grep -x "nvidia.com/gpu.small.class=latency" "$BATS_TEST_TMPDIR/labels"
}
