#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Programs of others that stand on the CUDA driver API alone, on a simulated GPU, bare and in a slice. python.sh installs
# them and says where (PEERS_PYTHON).

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/slice

setup_file() {
	stage_programs
}

setup() {
	slice_node_setup
	# Triton's launcher is linked with the driver's library.
	export LIBRARY_PATH=$STAGE/lib/gpuslice/sim TRITON_CACHE_DIR=$BATS_TEST_TMPDIR/triton NUMBA_CACHE_DIR=$BATS_TEST_TMPDIR/numba
}

teardown() {
	slice_node_teardown
}

# program NAME [COMMAND...]: runs it, behind COMMAND.
program() {
	local name=$1
	shift
	"$@" timeout 120 "$PEERS_PYTHON" "$BATS_TEST_DIRNAME/python/$name.py"
}

# bare_and_sliced NAME: bare, then in a slice of 8 GiB, which is what the program then sees, and whose account it leaves at 0.
bare_and_sliced() {
	run -0 --separate-stderr program "$1"
	# shellcheck disable=SC2154 # run sets it
	echo "$output $stderr"
	[[ $output == "ok name='NVIDIA H100 80GB HBM3'"* ]]
	# The program never asked for what the runtime needs.
	[[ $stderr != *"driver API only"* ]]
	start_arbiter
	put_slice a "\"memory\": $((8 * GIB))"
	run -0 --separate-stderr program "$1" in_slice a
	echo "$output $stderr"
	[[ $output == "ok name='NVIDIA H100 80GB HBM3'"* ]]
	sliced=$output
	eventually 10 nothing_used
}

nothing_used() {
	arbiter_status '[.slices[].gpus[].used] | add == 0' >/dev/null
}

@test "cuda-bindings: memory, modules, streams, graphs, errors" {
	bare_and_sliced bindings
	[[ $sliced == *"mib=8192" ]]
}

@test "cuda.core: PTX and machine code from NVRTC" {
	bare_and_sliced core
}

@test "Numba: arrays and kernels" {
	bare_and_sliced numba_kernels
}

@test "Triton: compiler and launcher" {
	bare_and_sliced triton_launch
}

@test "a program on the CUDA runtime is told in one line why it does not start" {
	cat >"$BATS_TEST_TMPDIR/runtime.py" <<-'EOF'
		import ctypes, glob, sys
		lib = ctypes.CDLL(glob.glob(sys.prefix + "/lib/python*/site-packages/nvidia/**/libcudart.so.1*", recursive=True)[0])
		n = ctypes.c_int(0)
		print(lib.cudaGetDeviceCount(ctypes.byref(n)), lib.cudaGetDeviceCount(ctypes.byref(n)))
	EOF
	run -0 --separate-stderr "$PEERS_PYTHON" "$BATS_TEST_TMPDIR/runtime.py"
	[[ $output != "0 "* ]]
	[[ $(grep -c 'driver API only' <<<"$stderr") == 1 ]]
}
