#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slices: what a container is given where memory is isolated, and the life of its slice.
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

one_arbiter() {
	[[ $(arbiters | wc -l) == 1 ]] && arbiters
}

no_arbiter() {
	[[ -z $(arbiters) ]]
}

# isolated ISOLATION [STRATEGIES [REPLICAS]]: a config with simulated files as the driver root.
isolated() {
	cat <<-EOF
		version: v1
		flags:
		  nvidiaDriverRoot: $GPUSLICE_SIM_DIR
		  plugin:
		    deviceListStrategy: [${2-envvar}]
		    containerDriverRoot: $GPUSLICE_SIM_DIR
		sharing:
		  timeSlicing:
		    resources:
		    - name: nvidia.com/gpu
		      replicas: ${3-4}
		      isolation: {$1}
	EOF
}

# up ISOLATION [STRATEGIES [REPLICAS]]: kubelet and agent, in touch.
up() {
	isolated "$@" >"$CONFIG"
	kubelet && agent_up || return 1
	eventually 20 offers $((4 * ${3-4}))
}

agent_up() {
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys" "$@"
}

# pod NAME [REPLICAS]: one that asks for them.
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/gpu: ${2-1}}}}]}}
	EOF
}

# grant POD JQ_FILTER: of what its container was given.
grant() {
	k get pods -o json | jq -er --arg p "$1" \
		".items[] | select(.metadata.name == \$p) | .gpuslice.grants[0] | $2"
}

# id_of POD: its slice.
id_of() {
	grant "$1" '.mounts[] | select(.containerPath == "/run/gpuslice/slice") | .hostPath | split("/") | last'
}

has_slice() {
	id_of "$1" >/dev/null
}

# slice ID JQ_FILTER: of its file.
slice() {
	jq -er "$2" "$SLICES/$1/slice.json"
}

slice_count() {
	[[ $(find "$SLICES" -mindepth 1 -maxdepth 1 -name '[0-9a-f]*' | wc -l) == "$1" ]]
}

# limit_is ID BYTES: of its first GPU.
limit_is() {
	[[ $(slice "$1" '.gpus[0].memory') == "$2" ]]
}

# shows PATTERN: as a line of status for people.
shows() {
	"$GPUSLICE" status | grep -E -- "$1"
}

failed() {
	k get pods -o json | jq -e --arg p "$1" '.items[] | select(.metadata.name == $p) | .status.phase == "Failed"'
}

@test "a container gets its slice by every device list strategy" {
	local strategy id
	export GPUSLICE_CDI_DIR=$NODE_DIR/cdi
	up 'memory: 4Gi, unhooked: stop'
	for strategy in envvar volume-mounts cdi-annotations cdi-cri 'envvar, cdi-cri'; do
		isolated 'memory: 4Gi, unhooked: stop' "$strategy" | put "$CONFIG"
		stop agent
		agent_up
		eventually 20 offers 16
		pod "${strategy//[^a-z]/}"
		eventually 20 has_slice "${strategy//[^a-z]/}"
		id=$(id_of "${strategy//[^a-z]/}")
		[[ $id =~ ^[0-9a-f]{32}$ ]]
		# All of it is there when the answer is, and read-only.
		grant "${strategy//[^a-z]/}" '.mounts | map(select(.readOnly)) | map(.containerPath)
			| (index("/run/gpuslice/slice") and index("/usr/local/gpuslice/lib") and index("/etc/ld.so.preload"))'
		for path in $(grant "${strategy//[^a-z]/}" '.mounts[] | select(.containerPath | test("gpuslice|preload")) | .hostPath'); do
			[[ -e $path ]]
		done
		slice "$id" '.version == 1 and .unhooked == "stop" and .resource == "nvidia.com/gpu"'
		slice "$id" '.gpus | length == 1 and .[0].memory == 4294967296'
		[[ $(slice "$id" .id) == "$id" ]]
		[[ $(slice "$id" '.devices[0]') == "$(grant "${strategy//[^a-z]/}" '.devices[0] // .ids[0]')" ]]
	done
	slice_count 5
	grant envvar '.mounts | length == 3'
	grant volumemounts '.mounts | length == 4'
}

@test "several replicas are one slice: of one GPU with a larger limit, of two with two" {
	up 'memory: 2Gi'
	pod two 2
	eventually 20 has_slice two
	slice "$(id_of two)" '.devices | length == 2'
	slice "$(id_of two)" '.gpus | length == 2 and all(.memory == 2147483648)'
	isolated 'memory: 2Gi' | sed 's/  plugin:/  plugin:\n    sharedDevicesAllocationPolicy: packed/' | put "$CONFIG"
	stop agent
	agent_up
	eventually 20 offers 16
	pod packed 3
	eventually 20 has_slice packed
	slice "$(id_of packed)" '.devices | length == 3'
	slice "$(id_of packed)" '[.gpus[].memory] | add == 3 * 2147483648'
	slice "$(id_of packed)" '.gpus | length == 1'
}

@test "equal shares are of the total memory of CUDA, in whole 2 MiB" {
	local quarter half
	up 'memory: equal'
	pod one
	eventually 20 has_slice one
	quarter=$(slice "$(id_of one)" '.gpus[0].memory')
	((quarter % 2097152 == 0))
	# A V100 of 16 GiB: a quarter less than 4 GiB, as the driver keeps something, but not much.
	((quarter < 4294967296 && quarter > 4000000000))
	isolated 'memory: 50%' envvar 2 | put "$CONFIG"
	eventually 20 offers 8
	pod more
	eventually 20 has_slice more
	half=$(slice "$(id_of more)" '.gpus[0].memory')
	((half - 2 * quarter >= 0 && half - 2 * quarter <= 2097152))
}

@test "limits follow the config while pods run, and only those that change are written" {
	local id before
	up 'memory: 4Gi'
	pod one
	eventually 20 has_slice one
	id=$(id_of one)
	before=$(stat -c %i "$SLICES/$id/slice.json")
	isolated 'memory: 4096Mi' | put "$CONFIG"
	eventually 20 status '.config.generation == 1'
	[[ $(stat -c %i "$SLICES/$id/slice.json") == "$before" ]]
	isolated 'memory: 2Gi, unhooked: stop' | put "$CONFIG"
	eventually 20 limit_is "$id" 2147483648
	[[ $(slice "$id" .unhooked) == stop ]]
	status '.slices.list[0].gpus[0].limitBytes == 2147483648'
	# Isolation taken away: no limit any more, and new pods have no slice.
	isolated '' | put "$CONFIG"
	eventually 20 slice "$id" '.gpus[0] | has("memory") | not'
	pod free
	eventually 20 grant free '.envs | has("NVIDIA_VISIBLE_DEVICES")'
	run has_slice free
	[[ ${status:?} != 0 ]]
	# The isolation is back: the pod that has a slice is limited again, the other pod stays without a limit.
	isolated 'memory: 1Gi' | put "$CONFIG"
	eventually 20 limit_is "$id" 1073741824
	run has_slice free
	[[ ${status:?} != 0 ]]
	slice_count 1
}

@test "amounts that come to more than the card are given, with a note" {
	up 'memory: 8Gi'
	pod one
	eventually 20 has_slice one
	limit_is "$(id_of one)" 8589934592
	status '.notes | any(test("memory limits of all replicas of GPU 0 come to 32768 MiB"))'
}

@test "slices are found again after a restart of the agent, also after kill -9" {
	local id
	up 'memory: 4Gi'
	pod one
	eventually 20 has_slice one
	id=$(id_of one)
	# What a crash in the middle of an allocation leaves.
	mkdir "$SLICES/.new-00000000000000000000000000000000"
	stop agent KILL || true
	isolated 'memory: 3Gi' | put "$CONFIG"
	agent_up
	[[ ! -e $SLICES/.new-00000000000000000000000000000000 ]]
	eventually 20 limit_is "$id" 3221225472
	eventually 20 status ".slices.list | length == 1 and .[0].id == \"$id\" and .[0].holder.pod == \"one\""
}

@test "a slice that no pod has is removed after its time, and those in the kubelet's list stay" {
	local id named
	isolated 'memory: 4Gi' >"$CONFIG"
	kubelet
	agent_up --slice-keep 2s
	eventually 20 offers 16
	pod one
	pod two
	pod three
	eventually 20 has_slice three
	slice_count 3
	id=$(id_of one) named=$(id_of two)
	named_by_kubelet "$named"
	k delete pod one >/dev/null
	k delete pod two >/dev/null
	eventually 30 slice_count 2
	[[ ! -e $SLICES/$id && -e $SLICES/$named ]]
	echo '{"Data": {"PodDeviceEntries": []}}' >"$GPUSLICE_KUBELET_DIR/device-plugins/kubelet_internal_checkpoint"
	eventually 30 slice_count 1
	has_slice three
	[[ -e $SLICES/$(id_of three) ]]
}

# named_by_kubelet ID: alone, in its checkpoint.
named_by_kubelet() {
	jq -n --arg a "$(printf 'x%s\001' "$SLICES/$1" | base64 -w 0)" \
		'{Data: {PodDeviceEntries: [{AllocResp: $a}]}, Checksum: 0}' |
		put "$GPUSLICE_KUBELET_DIR/device-plugins/kubelet_internal_checkpoint"
}

# stacked_mounts: an ordinary user has 12 processes, each with 9,000 mounts on one directory, in namespaces of their own.
# The kernel takes half a second for the list of each.
stacked_mounts() {
	local dir=$BATS_TEST_TMPDIR/stack as=()
	open_dir "$BATS_TEST_TMPDIR"
	mkdir "$dir"
	((EUID != 0)) || as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	start stack "${as[@]}" python3 -c '
import ctypes, os, signal, sys
NEWNS, NEWUSER, BIND, PDEATHSIG = 0x20000, 0x10000000, 4096, 1
libc = ctypes.CDLL(None, use_errno=True)
uid, gid, where = os.getuid(), os.getgid(), sys.argv[1].encode()
if libc.unshare(NEWUSER | NEWNS) != 0:
    sys.exit("no user namespaces")
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
    open(f"/proc/self/{name}", "w").write(text)
for i in range(9000):
    if libc.mount(where, where, None, BIND, None) != 0:
        sys.exit("no more mounts: " + os.strerror(ctypes.get_errno()))
parent = os.getpid()
for i in range(11):
    if os.fork() == 0:
        libc.prctl(PDEATHSIG, signal.SIGKILL)
        sys.exit(1) if libc.unshare(NEWNS) != 0 else signal.pause()
print("stacked", flush=True)
signal.pause()
' "$dir"
	eventually 60 stacked_or_not
	running stack || skip "$(cat "$NODE_DIR/stack.log")"
}

stacked_or_not() {
	grep -q stacked "$NODE_DIR/stack.log" || not_running stack
}

# healthy_within SECONDS: asks until the file $NODE_DIR/asked_enough is there; false when an answer takes longer.
healthy_within() {
	while [[ ! -e $NODE_DIR/asked_enough ]]; do
		curl -sf -m "$1" --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://localhost/healthz >/dev/null || return 1
	done
}

@test "a tenant's mounts do not delay the agent when a slice is removed" {
	local id asker
	isolated 'memory: 4Gi' >"$CONFIG"
	kubelet
	agent_up --slice-keep 1s
	eventually 20 offers 16
	pod one
	eventually 20 has_slice one
	id=$(id_of one)
	stacked_mounts
	healthy_within 2 &
	asker=$!
	k delete pod one >/dev/null
	eventually 60 test ! -e "$SLICES/$id"
	grep "the mount list of a container is truncated" "$NODE_DIR/agent.log"
	touch "$NODE_DIR/asked_enough"
	wait "$asker"
	stop stack KILL || true
}

@test "two pods on one device, one soon after the other: each has its slice, and the first one is removed" {
	local first second
	isolated 'memory: 4Gi' >"$CONFIG"
	kubelet
	agent_up --slice-keep 2s
	eventually 20 offers 16
	pod one 16
	eventually 20 has_slice one
	first=$(id_of one)
	named_by_kubelet "$first"
	eventually 20 status ".slices.list | length == 1 and .[0].holder.pod == \"one\""
	k delete pod one >/dev/null
	pod two 16
	eventually 20 has_slice two
	second=$(id_of two)
	[[ $first != "$second" ]]
	named_by_kubelet "$second"
	eventually 30 slice_count 1
	[[ -e $SLICES/$second ]]
	eventually 20 status ".slices.list | length == 1 and .[0].id == \"$second\" and .[0].holder.pod == \"two\""
}

@test "a pod from before isolation is named, and gets no other pod's slice" {
	local id
	up 'memory: 4Gi'
	pod one 16
	eventually 20 has_slice one
	id=$(id_of one)
	k delete pod one >/dev/null
	isolated 'memory: none' | put "$CONFIG"
	eventually 20 status '.slices.wanted == false'
	pod two 16
	eventually 20 pods 1
	isolated 'memory: 4Gi' | put "$CONFIG"
	eventually 20 status '.slices.wanted and (.slices.unlimited | length == 1 and .[0].pod == "two" and (.[0].devices | length == 16))'
	status ".slices.list | all(.id != \"$id\" or .holder == null)"
	shows "^No slice +default/two \(c\), nvidia.com/gpu: "
	# Also for an agent that did not see it.
	stop agent
	agent_up
	eventually 20 status ".slices.unlimited[0].pod == \"two\" and (.slices.list | all(.id != \"$id\" or .holder == null))"
	# The same holds where its devices are no longer offered, but the same GPUs are partitioned in another way.
	{
		isolated 'memory: 4Gi' | sed '/^sharing:/,$d'
		printf 'sharing:\n  slices:\n  - name: nvidia.com/gpu\n    profiles:\n    - {name: nvidia.com/gpu.small, count: 2, memory: 2Gi}\n'
	} | put "$CONFIG"
	eventually 20 status '[.resources[].name] == ["nvidia.com/gpu.small"] and (.slices.unlimited | length == 1 and .[0].pod == "two")'
	shows "^No slice +default/two \(c\), nvidia.com/gpu: "
	isolated 'memory: 4Gi' | put "$CONFIG"
	eventually 20 offers 16
	k delete pod two >/dev/null
	eventually 20 status '.slices.unlimited == []'
	pod three
	eventually 20 has_slice three
	status '.slices.unlimited == []'
}

@test "without its libraries no container is given devices that should have a limit" {
	up 'memory: 4Gi'
	mkdir "$NODE_DIR/empty"
	stop agent
	agent_up --runtime-dir "$NODE_DIR/empty" --slice-keep 1s
	eventually 20 offers 16 0
	status '.slices.error.message | test("no library libgpuslice-cuda.so in")'
	curl -s --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://localhost/readyz | grep "slice libraries cannot be installed"
	"$GPUSLICE" status | grep "Slices    cannot be given"
	"$GPUSLICE" status --json | jq -e 'all(.resources[].slices[];
		.reason | contains("without its libraries a container would have no limit"))'
	pod one
	eventually 20 pods 0 1
	[[ ! -d $SLICES ]] || slice_count 0
	# The libraries come: devices are healthy and pods start without a restart of the agent.
	cp "$STAGE"/lib/gpuslice/libgpuslice-*.so "$NODE_DIR/empty/"
	eventually 30 has_slice one
	eventually 20 status '.slices.error == null'
}

@test "libraries of an older version stay while a slice has them mounted" {
	local old
	mkdir "$NODE_DIR/runtime"
	cp "$STAGE"/lib/gpuslice/libgpuslice-*.so "$NODE_DIR/runtime/"
	export GPUSLICE_RUNTIME_DIR=$NODE_DIR/runtime
	isolated 'memory: 4Gi' >"$CONFIG"
	kubelet
	agent_up --slice-keep 1s
	eventually 20 offers 16
	pod one
	eventually 20 has_slice one
	old=$(status .slices.libraries)
	[[ -e $GPUSLICE_STATE_DIR/lib/$old/libgpuslice-nvml.so ]]
	printf x >>"$NODE_DIR/runtime/libgpuslice-nvml.so"
	stop agent
	agent_up --slice-keep 1s
	eventually 20 offers 16
	[[ $(status .slices.libraries) != "$old" ]]
	[[ -e $GPUSLICE_STATE_DIR/lib/$old/libgpuslice-nvml.so ]]
	k delete pod one >/dev/null
	eventually 30 slice_count 0
	eventually 5 test ! -e "$GPUSLICE_STATE_DIR/lib/$old"
}

@test "where nothing is isolated there is no slice, library or arbiter" {
	up ''
	pod one
	eventually 20 grant one '.envs | has("NVIDIA_VISIBLE_DEVICES")'
	grant one '.mounts | length == 0'
	[[ -z $(find "$GPUSLICE_STATE_DIR" -mindepth 1 ! -name 'ledger.db*' ! -path '*/config' ! -path '*/config/last.json') ]]
	no_arbiter
	status '.slices.wanted == false and .slices.arbiter.state == "off" and .slices.list == []'
	! "$GPUSLICE" status | grep -E "Arbiter|LIMIT"
}

@test "agent and arbiter restart alone" {
	local first second
	up 'memory: 4Gi'
	eventually 20 status '.slices.arbiter.state == "up"'
	first=$(one_arbiter)
	[[ $(status .slices.arbiter.pid) == "$first" ]]
	# The next agent finds the same one.
	stop agent KILL || true
	[[ $(one_arbiter) == "$first" ]]
	agent_up
	eventually 20 status '.slices.arbiter.state == "up"'
	[[ $(status .slices.arbiter.pid) == "$first" && $(one_arbiter) == "$first" ]]
	stop agent
	[[ $(one_arbiter) == "$first" ]]
	agent_up
	eventually 20 status ".slices.arbiter | .state == \"up\" and .pid == $first"
	# An arbiter that dies is started again.
	kill -KILL "$first"
	eventually 20 status ".slices.arbiter | .state == \"up\" and .pid != $first"
	second=$(one_arbiter)
	kill -KILL "$second"
	eventually 20 status ".slices.arbiter | .state == \"up\" and .pid != $second"
	one_arbiter
	pod one
	eventually 20 status '.slices.list[0] | .known and .gpus[0].usedBytes == 0'
}

@test "an arbiter that hangs is ended, and another one takes its place" {
	local first
	up 'memory: 4Gi'
	eventually 20 status '.slices.arbiter.state == "up"'
	first=$(one_arbiter)
	kill -STOP "$first"
	eventually 30 status ".slices.arbiter | .state == \"up\" and .pid != $first"
	[[ $(one_arbiter) != "$first" ]]
	grep "the arbiter does not answer, restarting it" "$NODE_DIR"/agent*.log
}

@test "the directory of slices is closed to others, also one of an older release" {
	up 'memory: 4Gi'
	eventually 20 status '.slices.arbiter.state == "up"'
	[[ $(stat -c %a "$SLICES") == 700 ]]
	stop agent
	chmod 755 "$SLICES"
	agent_up
	[[ $(stat -c %a "$SLICES") == 700 ]]
}

@test "an arbiter of another build is replaced, once" {
	local first second dir
	for dir in old new; do
		mkdir "$NODE_DIR/$dir"
		ln -s "$STAGE/libexec/gpuslice/gpuslice-nvml" "$NODE_DIR/$dir/"
		cp "$STAGE/libexec/gpuslice/gpuslice-arbiter" "$NODE_DIR/$dir/"
	done
	printf x >>"$NODE_DIR/new/gpuslice-arbiter"
	GPUSLICE_LIBEXEC=$NODE_DIR/old up 'memory: 4Gi'
	eventually 20 status '.slices.arbiter.state == "up"'
	first=$(one_arbiter)
	stop agent
	GPUSLICE_LIBEXEC=$NODE_DIR/new agent_up
	eventually 20 status ".slices.arbiter | .state == \"up\" and .pid != $first"
	second=$(one_arbiter)
	[[ $(readlink "/proc/$second/exe") == "$NODE_DIR/new/gpuslice-arbiter" ]]
	grep "an arbiter of another build is there" "$NODE_DIR"/agent*.log
	stop agent
	GPUSLICE_LIBEXEC=$NODE_DIR/new agent_up
	eventually 20 status '.slices.arbiter.state == "up"'
	[[ $(one_arbiter) == "$second" ]]
}

@test "libraries that were removed under a running agent are installed for the next container" {
	local lib
	up 'memory: 4Gi'
	pod one
	eventually 20 has_slice one
	lib=$GPUSLICE_STATE_DIR/lib/$(status .slices.libraries)
	rm "$lib/ld.so.preload"
	mkdir "$lib/ld.so.preload"
	rm -r "$SLICES"/.new-*
	pod two
	eventually 20 has_slice two
	[[ -f $lib/ld.so.preload && $(wc -l <"$lib/ld.so.preload") == 2 ]]
	[[ -e $SLICES/$(id_of two)/slice.json ]]
}

@test "while the arbiter is down status reports it, and pods get slices" {
	local libexec=$NODE_DIR/libexec
	mkdir "$libexec"
	ln -s "$STAGE/libexec/gpuslice/gpuslice-nvml" "$libexec/"
	printf '#!/bin/sh\nexit 3\n' >"$libexec/gpuslice-arbiter"
	chmod +x "$libexec/gpuslice-arbiter"
	export GPUSLICE_LIBEXEC=$libexec
	up 'memory: 4Gi'
	pod one
	eventually 20 has_slice one
	eventually 20 status '.slices.arbiter | .state == "away" and (.reason | test("exited with status 3"))'
	status '.slices.list[0] | .known == false and .gpus[0].usedBytes == null'
	"$GPUSLICE" status | grep -E "^Arbiter   away, slices keep what they have: .*exited with status 3"
	eventually 20 shows "^$(id_of one | cut -c 1-8)  [0-3]  *4096 MiB  \?  *\?  *default/one \(c\)"
}

# all_unhealthy REGEX: each device is, for that reason.
all_unhealthy() {
	status "[.resources[].slices[] | .healthy == false and (.reason | test(\"$1\"))] | length > 0 and all"
}

@test "an arbiter that cannot start: devices are unhealthy with the reason, until it can" {
	local libexec=$NODE_DIR/libexec
	mkdir "$libexec"
	ln -s "$STAGE/libexec/gpuslice/gpuslice-nvml" "$STAGE/libexec/gpuslice/gpuslice-web" "$libexec/"
	printf '#!/bin/sh\nexit 3\n' >"$libexec/gpuslice-arbiter"
	chmod +x "$libexec/gpuslice-arbiter"
	export GPUSLICE_LIBEXEC=$libexec
	up 'memory: 4Gi'
	eventually 60 offers 16 0
	all_unhealthy 'gpuslice-arbiter, which grants memory and time, does not run: the arbiter exited with status 3'
	pod one
	ln -sf "$STAGE/libexec/gpuslice/gpuslice-arbiter" "$libexec/gpuslice-arbiter"
	eventually 60 offers 16 16
	eventually 20 has_slice one
}

@test "two agents of one node never have two arbiters" {
	up 'memory: 4Gi'
	eventually 20 status '.slices.arbiter.state == "up"'
	"$STAGE/libexec/gpuslice/gpuslice-arbiter" --state-dir "$GPUSLICE_STATE_DIR" --run-dir "$GPUSLICE_RUN_DIR" 3>&- 2>"$NODE_DIR/second.log" && return 1
	one_arbiter
}
