#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slices under MPS: real processes, libraries and arbiter; GPU, control daemon and server are the simulator's.

bats_require_minimum_version 1.5.0
load lib
load slice
load turns

setup_file() {
	stage_programs
}

setup() {
	slice_node_setup
	CONTROL=$STAGE/lib/gpuslice/sim/nvidia-cuda-mps-control
	export CUDA_MPS_PIPE_DIRECTORY=$BATS_TEST_TMPDIR/m # sockets lie in it: a short name
	export GPUSLICE_SIM_GPU=$STAGE/libexec/gpuslice/gpuslice-sim-gpu
}

teardown() {
	local pid
	for pid in $(leftovers | grep nvidia-cuda-mps | cut -d ' ' -f 1); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	[[ -z ${PID[daemon]-} ]] || wait "${PID[daemon]}" || true
	unset 'PID[daemon]'
	slice_node_teardown
}

OUTSIDE='^gpuslice: this slice is to run under MPS'

daemon_up() {
	local options=()
	((EUID)) || options=(-multiuser-server) # only root may have it
	mkdir -p "$CUDA_MPS_PIPE_DIRECTORY"
	start daemon "$CONTROL" -f "${options[@]}"
	eventually 10 test -S "$CUDA_MPS_PIPE_DIRECTORY/control"
}

# under_mps NAME [WEIGHT [CLASS [CAP]]]: a slice whose processes are to run under MPS.
under_mps() {
	put_slice "$1" "\"memory\": $((4 * GIB)), \"weight\": ${2-1}${4+, \"cap\": $4}" \
		"\"compute\": \"mps\", \"class\": \"${3-batch}\""
}

# slice_is NAME JQ_FILTER
slice_is() {
	local dir
	dir=$(slice_dir "$1")
	arbiter_status ".slices[] | select(.id == \"${dir##*/}\") | $2"
}

# stays_open NAME...: for a second, at each look.
stays_open() {
	local name _
	for _ in {1..20}; do
		for name in "$@"; do
			gate_is "$name" 0 || return 1
		done
		sleep 0.05
	done
}

# What is charged to slices is the time in which any of them had work.
charges_add_up() {
	arbiter_status '([.slices[].gpus[].charged_ns] | add) == .gpus[0].busy_ns'
}

# warned NAME COUNT: so many lines of warning.
warned() {
	[[ $(grep -c '^gpuslice:' "$NODE_DIR/$1.log") == "$2" ]]
}

over() { # NAME...
	local name
	for name in "$@"; do
		stop "$name" || return 1
		grep -q '"result":"ok"' "$NODE_DIR/$name.log"
	done
}

@test "under MPS no process is blocked, and time is counted" {
	start_arbiter
	daemon_up
	under_mps a
	under_mps b 20 latency 50000
	burn a
	burn b
	eventually 10 gate_is a 0
	eventually 10 gate_is b 0
	goes_on a b
	stays_open a b
	slice_is a '.compute == "mps" and .compute_error == null and .processes[0].mps'
	slice_is b '.compute == "mps" and .processes[0].mps and .class == "latency"'
	slice_is b '.gpus[0] | .weight == 20 and .cap == 50000 and .turns == 0 and .waits == 0 and .wait_ns == 0 and .queue_ns == 0'
	account a '.launches > 20 and .charged_ns > 0'
	account b '.launches > 20 and .charged_ns > 0'
	# Half of the time for each, whatever they weigh, as both have work all the time.
	measure 1000 a b
	charges_add_up
	warned a 0
	warned b 0
	run ! logged arbiter 'outside MPS'
	over a b
	eventually 10 nobody_there
	charges_add_up
}

@test "memory is counted once for each, and the server belongs to no slice" {
	start_arbiter
	daemon_up
	under_mps a
	under_mps b
	burn a
	burn b
	goes_on a b
	# The reading has them, with all that they have.
	eventually 10 slice_is a '.processes[0].gpus[0] | .physical > 0 and .physical == .used'
	eventually 10 slice_is b '.processes[0].gpus[0] | .physical > 0 and .physical == .used'
	slice_is a '(.processes | length) == 1 and .unhooked_processes == [] and .gpus[0].used == .processes[0].used'
	slice_is b '(.processes | length) == 1 and .unhooked_processes == [] and .gpus[0].used == .processes[0].used'
	# The ledger holds all processes of a slice to its limit together, as ever.
	in_slice a "$PROGRAMS/cuda-hold" --until-full $((64 * 1024 * 1024))
	slice_is a ".gpus[0].peak > $((4 * GIB - 256 * 1024 * 1024)) and .gpus[0].peak <= $((4 * GIB))"
	over a b
	eventually 10 slice_is a '.gpus[0].used == 0'
}

@test "a process outside MPS is detected, reported, and continues" {
	start_arbiter
	under_mps a
	under_mps b
	burn a
	burn b
	goes_on a b
	stays_open a b
	slice_is a '.processes[0].mps == false'
	[[ $(grep -c "$OUTSIDE" "$NODE_DIR/a.log") == 1 ]]
	warned a 1
	warned b 1
	logged arbiter " warn process runs outside MPS.* pid=${PID[a]} "
	[[ $(grep -c 'outside MPS' "$NODE_DIR/arbiter.log") == 2 ]]
	charges_add_up
	over a b
}

@test "from the fair-share scheduler to MPS and back, under load" {
	start_arbiter
	daemon_up
	turns a
	turns b 3
	turns c 1 batch 20000
	burn a
	burn b
	burn c
	eventually 10 gate_is a 2
	eventually 10 gate_is c 2
	under_mps c 1 batch 20000
	eventually 10 gate_is c 0
	# The process is no longer blocked, and the quanta of the other slices continue beside it.
	goes_on c
	stays_open c
	eventually 10 gate_is a 2
	comes_to 1500 20 58 a b
	under_mps a
	under_mps b 3
	eventually 10 gate_is a 0
	eventually 10 gate_is b 0
	goes_on a b c
	stays_open a b c
	slice_is a '.compute == "mps"'
	# All is of one moment.
	charges_add_up
	turns a
	turns b 3
	eventually 10 gate_is a 2
	eventually 10 gate_is b 2
	comes_to 1500 20 58 a b
	slice_is a '.compute == "turns" and .processes[0].mps'
	turns c 1 batch 20000
	eventually 10 gate_is c 2
	logged arbiter 'share of a GPU changed.*compute=mps'
	logged arbiter 'share of a GPU changed.*compute=turns'
	# The same connections all along.
	run ! logged arbiter 'takes no turns'
	over a b c
	eventually 10 nobody_there
}

@test "the arbiter dies, and no process under MPS is blocked" {
	start_arbiter
	daemon_up
	under_mps a 1 batch 20000
	burn a
	goes_on a
	kill -KILL "${PID[arbiter]}"
	goes_on a
	stays_open a
	start_arbiter
	eventually 10 slice_is a '(.processes | length) == 1 and .processes[0].mps'
	account a .charged_ns >"$NODE_DIR/charged"
	goes_on a
	eventually 10 slice_is a ".gpus[0].charged_ns > $(<"$NODE_DIR/charged")"
	warned a 0
	over a
}
