#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Turns of real processes on a simulated GPU when something dies, hangs, forks or is replaced.
# STORM_SECONDS makes the storm longer.

bats_require_minimum_version 1.5.0
load lib
load slice
load turns
load cluster

setup_file() {
	stage_programs
}

setup() {
	slice_node_setup
}

teardown() {
	end_agent
	slice_node_teardown
}

@test "the process with the quantum is killed, the next one continues" {
	local _
	start_arbiter
	turns a
	turns b
	burn b
	for _ in 1 2 3 4 5; do
		burn a
		eventually 10 gate_is a 2
		eventually 10 gate_is a 1
		kill -9 "${PID[a]}"
		wait "${PID[a]}" || true
		unset 'PID[a]'
		goes_on b
		eventually 10 arbiter_status "[.slices[].processes[].pid] == [${PID[b]}]"
	done
	eventually 10 gate_is b 0
	ends b
}

# holds_to MOST NAME OTHER...: of a thousand, now or a little later: a gate thread may just have had no processor.
holds_to() {
	local _
	for _ in 1 2 3 4 5; do
		measure 1000 "${@:2}"
		[[ ${DID[$2]} -gt $1 ]] || return 0
	done
	return 1
}

@test "the arbiter is killed and restarted: all continue, shares and accounts are kept" {
	local before _
	start_arbiter
	turns a 1
	turns b 3
	turns c 1 batch 100000
	burn a
	burn b
	burn c
	comes_to 1500 20 58 a b
	for _ in 1 2 3; do
		before=$(charges)
		kill -9 "${PID[arbiter]}"
		wait "${PID[arbiter]}" || true
		goes_on a b c
		# The one with a cap holds to it by itself.
		holds_to 250 c a b
		start_arbiter
		eventually 10 arbiter_status '[.slices[].processes[]] | length == 3'
		jq -ne --argjson before "$before" --argjson now "$(charges)" \
			'[range(3)] | all(. as $i | $now[$i] >= $before[$i])'
		comes_to 1500 20 58 a b
	done
	ends a b c
	eventually 10 nobody_there
	arbiter_status '([.slices[].gpus[].charged_ns] | add) == .gpus[0].busy_ns'
}

@test "children of fork are clients of their own" {
	! grep -qE '__[at]san_init' "$LD_LIBRARY_PATH/libcuda.so.1" || skip "an interpreter without the sanitizer"
	start_arbiter
	turns a
	turns b
	burn b
	# Before CUDA began: parent and child each use it. Then one that does nothing, and one that ends as a
	# program does, both made while work is under way. Python 3.12 warns of fork() beside threads: these are
	# the libraries' own, and fork() is what is tested.
	in_slice a python3 -W ignore::DeprecationWarning - >"$NODE_DIR/fork.out" 2>&1 3>&- <<-'PY' &
		import ctypes, os, sys, time
		cu = ctypes.CDLL("libcuda.so.1")

		def must(code, what):
		    if code:
		        print(f"{what}: {code}", flush=True)
		        os._exit(1)

		first = os.fork()
		must(cu.cuInit(0), "cuInit")
		context, at = ctypes.c_void_p(), ctypes.c_uint64()
		must(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), "cuDevicePrimaryCtxRetain")
		must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent")
		must(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(1 << 26)), "cuMemAlloc")

		def work(times):
		    for _ in range(times):
		        must(cu.cuMemsetD8Async(at, 1, ctypes.c_size_t(1 << 26), None), "cuMemsetD8Async")
		    must(cu.cuCtxSynchronize(), "cuCtxSynchronize")

		work(300)
		if first:
		    asleep = os.fork()
		    if not asleep:
		        time.sleep(600)
		        os._exit(0)
		    ends = os.fork()
		    if not ends:
		        sys.exit(0)
		    work(300)
		    must(os.waitpid(ends, 0)[1], "the child that ends")
		    os.kill(asleep, 9)
		    os.waitpid(asleep, 0)
		    must(os.waitpid(first, 0)[1], "the child that works")
		print("worked", flush=True)
	PY
	PID["fork"]=$!
	eventually 60 not_running fork
	cat "$NODE_DIR/fork.out"
	wait "${PID["fork"]}"
	unset 'PID[fork]'
	[[ $(grep -c '^worked' "$NODE_DIR/fork.out") == 2 && $(wc -l <"$NODE_DIR/fork.out") == 2 ]]
	account a '.copies >= 900'
	eventually 10 arbiter_status "[.slices[].processes[].pid] == [${PID[b]}]"
	goes_on b
	eventually 10 gate_is b 0
	ends b
}

@test "a kernel that does not end is reported, and the others continue" {
	start_arbiter
	turns a
	turns b
	turns c
	burn b
	burn c
	in_dir a "$(slice_dir a)" cuda-burn --work 100000000000 --depth 1 --seconds 1
	eventually 40 account a .stuck
	eventually 5 logged arbiter 'does not end'
	[[ $(account b .stuck) == false && $(account c .stuck) == false ]]
	comes_to 500 50 200 b c
	kill -9 "${PID[a]}"
	wait "${PID[a]}" || true
	unset 'PID[a]'
	eventually 10 logged arbiter 'did not end is over'
	goes_on b c
	ends b c
	eventually 10 nobody_there
}

# pod NAME: one that asks for a replica.
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}
	EOF
}

# pod_slice POD: the directory of its slice on the host.
pod_slice() {
	k get pods -o json | jq -er --arg p "$1" '.items[] | select(.metadata.name == $p) | .gpuslice.grants[0].mounts[]
		| select(.containerPath == "/run/gpuslice/slice") | .hostPath'
}

# config REPLICAS CLASS
config() {
	cat <<-EOF
		version: v1
		flags: {nvidiaDriverRoot: $GPUSLICE_SIM_DIR, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}}
		sharing:
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, replicas: $1, isolation: {memory: equal, compute: fair, class: $2}}
	EOF
}

agent_up() {
	agent --config-file "$NODE_DIR/config.yaml" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 2
}

@test "pods are scheduled, and the agent is replaced under load" {
	local arbiter
	config 2 batch >"$NODE_DIR/config.yaml"
	kubelet
	agent_up
	pod one
	pod two
	eventually 20 pod_slice one
	eventually 20 pod_slice two
	in_dir one "$(pod_slice one)" cuda-burn --work "$KERNEL" --depth 16 --seconds 0 --window-ms 20
	in_dir two "$(pod_slice two)" cuda-burn --work "$KERNEL" --depth 16 --seconds 0 --window-ms 20
	eventually 30 logged one '^ready'
	eventually 30 logged two '^ready'
	comes_to 1000 50 200 one two
	eventually 10 gate_is one 2
	arbiter=$(arbiters)
	for signal in TERM KILL; do
		stop agent "$signal" || [[ $signal == KILL ]]
		goes_on one two
		comes_to 1000 50 200 one two
		agent_up
		goes_on one two
	done
	[[ $(arbiters) == "$arbiter" ]]
	# What the config says of those that run holds for them.
	config 2 latency | put "$NODE_DIR/config.yaml"
	eventually 20 arbiter_status '[.slices[].class] == ["latency", "latency"]'
	comes_to 1000 50 200 one two
	ends one two
}

@test "status names the process whose kernel does not end" {
	local slice
	config 2 batch >"$NODE_DIR/config.yaml"
	kubelet
	agent_up
	pod one
	pod two
	eventually 20 pod_slice one
	eventually 20 pod_slice two
	in_dir two "$(pod_slice two)" cuda-burn --work "$KERNEL" --depth 16 --seconds 0 --window-ms 20
	in_dir works "$(pod_slice one)" cuda-burn --work "$KERNEL" --depth 16 --seconds 0 --window-ms 20
	eventually 30 logged two '^ready'
	eventually 30 logged works '^ready'
	in_dir hangs "$(pod_slice one)" cuda-burn --work 100000000000 --depth 1 --seconds 1
	slice=$(basename "$(pod_slice one)")
	eventually 60 status "[.slices.list[].processes[] | select(.gpus[0].stuck) | .pid] == [${PID["hangs"]}]"
	"$GPUSLICE" status >"$NODE_DIR/status"
	grep -E "^${slice:0:8} .*  STUCK: its work does not end$" "$NODE_DIR/status"
	grep -E "  cuda-burn \(pid ${PID["hangs"]}\) +STUCK: its work does not end$" "$NODE_DIR/status"
	[[ $(grep -c STUCK "$NODE_DIR/status") == 2 ]]
	kill -9 "${PID["hangs"]}"
	wait "${PID["hangs"]}" || true
	unset 'PID[hangs]'
	eventually 10 status '[.slices.list[].gpus[], .slices.list[].processes[].gpus[] | .stuck] | any | not'
	ends two works
}

@test "a storm of deaths leaves nothing behind" {
	local seconds=12
	[[ -z ${GPUSLICE_TEST_LONG-} ]] || seconds=300
	run "$BATS_TEST_DIRNAME/../soak/turns.sh" --storm --report "$((${GPUSLICE_PATIENCE:-1} > 1 ? 10 : 5))" "${STORM_SECONDS-$seconds}"
	echo "$output"
	[[ $status -eq 0 && $output == *"verdict: ok"* ]]
}
