#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The slice runtime on a simulated GPU: the preloaded libraries, a real arbiter, programs of the driver
# API. The slices are made by hand and named by GPUSLICE_SLICE_DIR, in place of the agent's mounts.
# STORM_SECONDS and CUT_EVERY make two of them longer and closer.

load lib
load slice

setup_file() {
	stage_programs
}

setup() {
	slice_node_setup
	start_arbiter
	slice a $((4 * GIB))
}

teardown() {
	slice_node_teardown
}

# slice NAME BYTES: makes the slice, or changes its limit.
slice() {
	put_slice "$1" "\"memory\": $2"
}

# hold NAME SLICE OPTION...: cuda-hold in the background, answering on ask.
hold() {
	local name=$1 slice=$2
	shift 2
	mkfifo "$NODE_DIR/$name.in"
	(in_slice "$slice" "$PROGRAMS/cuda-hold" "$@" --wait <"$NODE_DIR/$name.in" >"$NODE_DIR/$name.out" 2>&1 3>&-) &
	exec {fd}>"$NODE_DIR/$name.in"
	declare -gA HOLD
	HOLD[$name]=$fd
	eventually 20 test -s "$NODE_DIR/$name.out"
}

# ask NAME [WORD]: its next line.
ask() {
	local lines
	lines=$(wc -l <"$NODE_DIR/$1.out")
	echo "${2-look}" >&"${HOLD[$1]}"
	eventually 20 more_lines "$NODE_DIR/$1.out" "$lines"
	tail -1 "$NODE_DIR/$1.out"
}

more_lines() {
	(($(wc -l <"$1") > $2))
}

let_go() {
	local fd=${HOLD[$1]}
	exec {fd}>&-
}

used_is() { # SLICE BYTES
	local out
	out=$(in_slice "$1" "$PROGRAMS/nvml-look")
	[[ $(value used "$out") == "$2" ]] || { echo "$out" && return 1; }
}

total_is() { # SLICE BYTES
	local out
	out=$(in_slice "$1" "$PROGRAMS/nvml-look")
	[[ $(value total "$out") == "$2" ]] || { echo "$out" && return 1; }
}

@test "every way to memory: CUDA and NVML agree to the byte, and all comes back" {
	run in_slice a "$PROGRAMS/cuda-walk" --limit $((4 * GIB)) --verbose
	echo "$output"
	[[ $status -eq 0 && $output == *"walk result=ok"* ]]
	[[ $output != *gpuslice:* ]]
	eventually 5 used_is a 0
}

@test "in no slice the GPU is as it is, with the libraries and without them" {
	run "$PROGRAMS/cuda-walk"
	echo "$output"
	[[ $status -eq 0 ]]
	run env LD_PRELOAD="$PRELOAD" "$PROGRAMS/cuda-walk"
	echo "$output"
	[[ $status -eq 0 && $output == *"walk result=ok"* && $output != *gpuslice:* ]]
	[[ $("$PROGRAMS/nvml-look") == "$(env LD_PRELOAD="$PRELOAD" "$PROGRAMS/nvml-look")" ]]
}

@test "at the limit it is error 2, and total and free are the slice's" {
	local out
	out=$(in_slice a "$PROGRAMS/cuda-hold" --until-full 64Mi)
	echo "$out"
	[[ $(value last "$out") == 2 ]]
	[[ $(value total "$out") == $((4 * GIB)) && $(value nvml_total "$out") == $((4 * GIB)) ]]
	[[ $(value device_total "$out") == $((4 * GIB)) ]]
	((64 * 1024 * 1024 > $(value free "$out")))
	# What is not held is the context's.
	(($(value held "$out") > 3 * GIB && $(value held "$out") < 4 * GIB))
}

@test "a slice too small for a context is error 2 as well" {
	slice tiny $((64 * 1024 * 1024))
	local out
	out=$(in_slice tiny "$PROGRAMS/cuda-hold" --bytes 1Mi)
	echo "$out"
	[[ $(value last "$out") == 2 ]]
	eventually 5 used_is tiny 0
}

@test "NVML shows a slice its size and its own processes, with no CUDA, and no setting" {
	local out bare
	slice b $((2 * GIB))
	hold one a --bytes 1Gi
	hold two b --bytes 512Mi
	hold three b --bytes 256Mi
	out=$(in_slice a "$PROGRAMS/nvml-look" --set --time)
	echo "$out"
	[[ $(value total "$out") == $((4 * GIB)) && $(value total_v2 "$out") == $((4 * GIB)) ]]
	[[ $(value processes "$out") == 1 && $(value set "$out") == 4 ]]
	[[ $(value pids "$out") == "$(value pid "$(ask one)"):$(value used "$out")" ]]
	out=$(in_slice b "$PROGRAMS/nvml-look")
	echo "$out"
	[[ $(value total "$out") == $((2 * GIB)) && $(value processes "$out") == 2 ]]
	# The node sees all three, and what they have is no more than what they are charged.
	bare=$("$PROGRAMS/nvml-look")
	echo "$bare"
	[[ $(value processes "$bare") == 3 ]]
	out=$(ask two)
	[[ $(value processes "$out") == 2 && $(value total "$out") == $((2 * GIB)) ]]
	let_go one
	let_go two
	let_go three
	eventually 5 used_is a 0
	eventually 5 used_is b 0
}

@test "a child that outlives its parent keeps the memory, and so does the slice" {
	local child parent out
	slice b $((2 * GIB))
	hold one b --bytes 1Gi
	out=$(ask one fork)
	parent=$(value pid "$out") child=$(value child "$out")
	kill -9 "$parent"
	let_go one
	# The driver lists the process that is gone, and CUDA, NVML and the slice go by that.
	sleep 0.5
	[[ $(value pids "$("$PROGRAMS/nvml-look")") == "$parent":* ]]
	run -0 in_slice b "$PROGRAMS/cuda-hold" --bytes 1Gi
	[[ $(value last "$output") == 2 ]]
	kill -9 "$child"
	eventually 5 used_is b 0
	run -0 in_slice b "$PROGRAMS/cuda-hold" --bytes 1Gi
	[[ $(value last "$output") == 0 ]]
}

@test "a limit changes while programs run" {
	slice b $((2 * GIB))
	hold one b --until-full 128Mi
	[[ $(value last "$(ask one more)") == 2 ]]
	slice b $((3 * GIB))
	eventually 5 total_is b $((3 * GIB))
	[[ $(value last "$(ask one more)") == 0 ]]
	[[ $(value total "$(ask one)") == $((3 * GIB)) ]]
	slice b $((1 * GIB))
	eventually 5 total_is b $((1 * GIB))
	local out
	out=$(ask one more)
	echo "$out"
	[[ $(value last "$out") == 2 && $(value total "$out") == "$GIB" && $(value free "$out") == 0 ]]
	let_go one
	eventually 5 used_is b 0
}

@test "racing allocators: nothing beyond the limit, charges equal the truth, no effect on the neighbor" {
	slice b $GIB
	run timeout 280 "$PROGRAMS/cuda-storm" --preload "$PRELOAD" --slice "$(slice_dir a)" --limit $((4 * GIB)) \
		--processes "${STORM_PROCESSES-4}" --threads "${STORM_THREADS-4}" \
		--seconds "${STORM_SECONDS-5}" --neighbour "$(slice_dir b)"
	echo "$output"
	[[ $status -eq 0 && $output == *"storm result=ok"* ]]
	# A storm that never reached the wall has shown nothing.
	(($(value refused "$output") > 0))
}

@test "a GPU that the slice does not name is not limited by it" {
	stop feed || [[ $? == 143 ]] # it may not have begun yet
	stop arbiter
	export GPUSLICE_SIM_NODE=p3.8xlarge GPUSLICE_SIM_DIR=$NODE_DIR/sim4
	UUID=$("$GPUSLICE" sim show --json | jq -er '.gpus[1].uuid')
	start_arbiter
	slice b $((1 * GIB))
	run in_slice b "$PROGRAMS/cuda-hold" --device 1 --bytes 2Gi
	echo "$output"
	[[ $output == *" held=0 count=0 last=2 "* && $output == *" total=1073741824 "* ]]
	run in_slice b "$PROGRAMS/cuda-hold" --device 0 --bytes 2Gi
	echo "$output"
	[[ $status -eq 0 && $output == *" held=2147483648 "* ]]
}

@test "the arbiter is killed and started again under load" {
	start storm "$PROGRAMS/cuda-storm" --preload "$PRELOAD" --slice "$(slice_dir a)" --limit $((4 * GIB)) \
		--processes 3 --threads 2 --seconds 5
	sleep 1.5
	for _ in 1 2; do
		kill -9 "${PID[arbiter]}"
		wait "${PID[arbiter]}" 2>/dev/null || true
		sleep 0.3
		start_arbiter
		sleep 0.7
	done
	local status=0
	wait "${PID[storm]}" || status=$?
	unset 'PID[storm]'
	cat "$NODE_DIR/storm.log"
	[[ $status -eq 0 ]]
	logged storm "storm result=ok"
	eventually 5 used_is a 0
}

@test "killed at a driver call, before it and after it: the used bytes are right" {
	# The driver is behind a link there, so it does not find its GPU by its own place.
	export GPUSLICE_SIM_GPU=$STAGE/libexec/gpuslice/gpuslice-sim-gpu
	run timeout 250 "$PROGRAMS/cuda-cut" --preload "$PRELOAD" --slice "$(slice_dir a)" \
		--driver "$STAGE/lib/gpuslice/sim/libcuda.so.1" --shim "$PROGRAMS/cut" \
		--from "$((RANDOM % ${CUT_EVERY-61} + 1))" --every "${CUT_EVERY-61}" --when before,after,fail \
		-- "$PROGRAMS/cuda-walk" --limit $((4 * GIB))
	echo "$output"
	[[ $status -eq 0 && $output == *"cut result=ok"* ]]
	(($(value killed "$output") > 0))
}

@test "with no arbiter CUDA does not begin, and NVML does not show the whole card" {
	stop arbiter
	in_slice a "$PROGRAMS/nvml-look" >"$NODE_DIR/look.out" 2>&1 3>&- &
	local look=$! out
	run in_slice a "$PROGRAMS/cuda-hold" --bytes 1Mi
	echo "$output"
	# "system not yet initialized": nothing can be promised, and so nothing is begun.
	[[ $status -eq 1 && $output == *"cuInit: CUDA error 802"* ]]
	wait "$look"
	out=$(<"$NODE_DIR/look.out")
	echo "$out"
	[[ $(value memory "$out") == 999 && $(value total "$out") == 0 ]]
}
