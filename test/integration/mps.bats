#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# MPS: daemons that follow the config, what containers are given, and what happens when something dies. The control
# program, the server and CUDA are the simulator's.
load lib
load cluster
load mps

setup_file() {
	stage_programs
}

setup() {
	mps_node_setup
}

teardown() {
	mps_node_teardown
}

@test "a config is all it takes: daemons, their limits, healthy devices, and what a container is given" {
	mps_config 4 >"$CONFIG"
	mps_up 16
	control_daemons 4
	is_state ready
	# NVIDIA's arithmetic: 16 GiB of a T4, 15360 MiB for NVML.
	[[ $(mps_says get_default_active_thread_percentage) == 25.0 ]]
	[[ $(daemon '.memoryLimitsMib[0]') == 3840 ]]
	pod one
	[[ $(env_of one CUDA_MPS_PIPE_DIRECTORY) == /mps/nvidia.com/gpu/pipe ]]
	[[ $(env_of one CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) == 25 ]]
	[[ $(env_of one CUDA_MPS_PINNED_DEVICE_MEM_LIMIT) == 0=3840M ]]
	[[ $(grant one '.mounts | length') == 1 ]]
	! grep -E 'level=(warn|error)' "$NODE_DIR/agent.log"
}
