#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The simulated MPS, the stand-in that the tests of the agent lean on: what its programs and clients do is what
# NVIDIA's did on an H100, where that is known (mps-facts.sh says how). FAULT and 807 were measured on an H200. 808 is not
# measured but from NVIDIA's documents.

bats_require_minimum_version 1.5.0
load lib
load slice

setup_file() {
	stage_programs
	open_stage "$BATS_FILE_TMPDIR" # servers and clients of other users
}

setup() {
	umask 0 # clients of other users reach the simulated GPU
	slice_node_setup
	# The driver's programs, as the node has them.
	export PATH=$GPUSLICE_SIM_DIR/usr/bin:$PATH
	export CUDA_MPS_PIPE_DIRECTORY=$NODE_DIR/pipe CUDA_MPS_LOG_DIRECTORY=$NODE_DIR/mps-log
	mkdir "$CUDA_MPS_PIPE_DIRECTORY" "$CUDA_MPS_LOG_DIRECTORY"
}

teardown() {
	slice_node_teardown
}

mps() {
	timeout 5 nvidia-cuda-mps-control "$@"
}

# A daemon in the foreground; all users have one server where that may be.
serve() {
	local options=(-f)
	((EUID)) || options+=(-multiuser-server)
	start mps nvidia-cuda-mps-control "${options[@]}"
	eventually 5 mps get_server_list
}

client() {
	"$PROGRAMS/cuda-mps" "$@"
}

# begin NAME MODE [SECONDS]: in the background, until it is ready.
begin() {
	start "$1" "$PROGRAMS/cuda-mps" "${@:2}"
	eventually 10 logged "$1" '^ready'
}

# Starts as many clients as a server may have, and waits until all are ready.
crowd_comes() {
	local i
	for ((i = 0; i < 48; i++)); do
		start "c$i" "$PROGRAMS/cuda-mps" idle 120
	done
	for ((i = 0; i < 48; i++)); do
		eventually 20 logged "c$i" '^ready'
	done
}

crowd_goes() {
	local i
	for ((i = 0; i < 48; i++)); do
		stop "c$i" || true
	done
}

ended() { # NAME: its exit status, whatever it is
	local status=0
	wait "${PID[$1]}" || status=$?
	unset "PID[$1]"
	return "$status"
}

# NVML's rows of the GPU: kind, name and MiB of each.
rows() {
	"$GPUSLICE" sim show --json |
		jq -r '.gpus[0].processes[] | "\(.kind) \(.name) \(.memory_bytes / 1048576 | floor)"' | sort
}

rows_are() {
	[[ "$(rows)" == "$1" ]]
}

set_mode() {
	"$GPUSLICE" sim set 0 compute_mode "$1"
}

@test "it has the known facts of an H100" {
	((!EUID)) || skip "only root may have -multiuser-server"
	open_dir "$NODE_DIR"
	chmod -R a+rwX "$GPUSLICE_SIM_DIR"
	"$BATS_TEST_DIRNAME/../gpu/mps-facts.sh" "$PROGRAMS" >"$NODE_DIR/facts" 2>"$NODE_DIR/facts.log"
	diff "$BATS_TEST_DIRNAME/../gpu/mps-facts.expected.txt" "$NODE_DIR/facts"
}

@test "in the background it logs to files, and a second one refuses" {
	nvidia-cuda-mps-control -d 3>&-
	eventually 5 mps get_server_list
	run -1 nvidia-cuda-mps-control -d
	[[ $output == "An instance of this daemon is already running" ]]
	client idle
	grep -q 'Control .*\] NEW SERVER [0-9]*: Ready' "$CUDA_MPS_LOG_DIRECTORY/control.log"
	eventually 2 grep -q 'Server .*\] Client process [0-9]* disconnected' "$CUDA_MPS_LOG_DIRECTORY/server.log"
	run -0 mps quit
	eventually 5 test ! -e "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
	run -1 mps get_server_list
	[[ $output == "Cannot find MPS control daemon process" ]]
}

@test "NVML shows the server, and clients in two lists" {
	serve
	begin a hold 20
	begin b hold 20
	eventually 5 rows_are "compute cuda-mps 1546
compute cuda-mps 1546
compute nvidia-cuda-mps 66
mps cuda-mps 1546
mps cuda-mps 1546"
	kill -9 "${PID[a]}"
	ended a || true
	eventually 5 rows_are "compute cuda-mps 1546
compute nvidia-cuda-mps 66
mps cuda-mps 1546"
	stop b || true
	run -0 mps quit
	ended mps
}

@test "a client takes no more memory than its limit, of all its contexts" {
	serve
	run -0 mps "set_default_device_pinned_mem_limit 0 2G"
	run -0 client fill
	[[ $output == *"filled 1526 MiB, then 2"* ]]
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G run -0 client fill
	[[ $output == *"filled 502 MiB, then 2"* ]]
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=4G run -0 client fill
	[[ $output == *"filled 1526 MiB, then 2"* ]]
	# The limit leaves no room for a context.
	CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=100M run -4 client fill
	[[ $output == *"context 2 "* ]]
	run -0 mps quit
	ended mps
}

@test "while clients of a fault are left, new ones get that error" {
	serve
	begin a idle 20
	run -0 client bad
	server=$(mps get_server_list)
	run -0 mps "get_server_status $server"
	[[ $output == FAULT ]]
	run -3 client idle
	[[ $output == "init 807" ]]
	kill "${PID[a]}"
	ended a || true
	eventually 5 client idle
	run -0 mps "get_server_status $server"
	[[ $output == ACTIVE ]]
	[[ $(mps get_server_list) == "$server" ]]
	run -0 mps quit
	ended mps
}

@test "the forty-ninth client is refused" {
	serve
	crowd_comes
	run -3 client idle
	[[ $output == "init 808" ]]
	crowd_goes
	eventually 5 client idle
	run -0 mps quit
	ended mps
}

@test "as many as may be wait for the server, and all are served at once when it is there" {
	serve
	echo slow-server=2000 >"$GPUSLICE_SIM_DIR/mps-fault"
	crowd_comes
	# The clients waited: they are more than a socket holds.
	(($(grep -c 'push client to pending list' "$NODE_DIR/mps.log") > 30))
	crowd_goes
	run -0 mps quit
	ended mps
}

@test "the compute mode is obeyed: one process, or the server's clients, or no process" {
	set_mode 3
	begin alone idle 20
	run -4 client idle
	[[ $output == *"context 46 CUDA_ERROR_DEVICE_UNAVAILABLE"* ]]
	stop alone || true
	serve
	begin a idle 20
	run -0 client idle
	# The process is no client of the server.
	CUDA_MPS_PIPE_DIRECTORY=$NODE_DIR/none run -4 client idle
	[[ $output == *"mps 0"*"context 46 "* ]]
	stop a || true
	run -0 mps quit
	ended mps
	set_mode 2
	run -4 client idle
	[[ $output == *"context 46 "* ]]
	set_mode 0
	run -0 client idle
}

@test "a server on a GPU that another process has to itself does not start" {
	set_mode 3
	begin alone idle 20
	serve
	run -3 client idle
	[[ $output == "init 805" ]]
	stop alone || true
	run -0 client idle
	run -0 mps quit
	ended mps
}

@test "faults that tests ask for: of the start, of commands, of servers" {
	GPUSLICE_SIM_MPS_FAULT=no-start run -1 nvidia-cuda-mps-control -f
	[[ $output == "Cannot start: a fault was asked for" ]]
	GPUSLICE_SIM_MPS_FAULT='exit' run -1 nvidia-cuda-mps-control -f
	[[ $output == "" ]]
	start mps env GPUSLICE_SIM_MPS_FAULT=hang-start nvidia-cuda-mps-control -f
	eventually 5 test -e "$CUDA_MPS_PIPE_DIRECTORY/nvidia-cuda-mps-control.pid"
	run -1 mps get_server_list
	kill -9 "${PID[mps]}"
	ended mps || true

	serve
	echo hang=quit >"$GPUSLICE_SIM_DIR/mps-fault"
	run -124 timeout 1 nvidia-cuda-mps-control quit
	run -0 mps get_server_list
	echo hang >"$GPUSLICE_SIM_DIR/mps-fault"
	run -124 timeout 1 nvidia-cuda-mps-control get_server_list
	echo no-server >"$GPUSLICE_SIM_DIR/mps-fault"
	run -3 client idle
	[[ $output == "init 805" ]]
	logged mps 'Server encountered a fatal exception. Shutting down'
	echo slow-server=1000 >"$GPUSLICE_SIM_DIR/mps-fault"
	run -0 mps "start_server -uid $EUID"
	server=$(mps get_server_list)
	run -0 mps "get_server_status $server"
	[[ $output == INITIALIZING ]]
	rm "$GPUSLICE_SIM_DIR/mps-fault"
	run -0 client idle
	run -0 mps "get_server_status $server"
	[[ $output == ACTIVE ]]
	run -0 mps "shutdown_server $server -f"
	eventually 5 logged mps "Server $server exited"
	run -0 mps quit
	ended mps
}

@test "a pipe directory that is not there is named" {
	CUDA_MPS_PIPE_DIRECTORY=$NODE_DIR/none run -1 nvidia-cuda-mps-control -f
	[[ $output == "Cannot access CUDA_MPS_PIPE_DIRECTORY=$NODE_DIR/none" ]]
}

@test "commands come by words and by lines, and are limited" {
	serve
	run -0 mps get_default_active_thread_percentage
	[[ $output == 100.0 ]]
	run -0 mps <<<$'set_default_active_thread_percentage 50\n\nget_default_client_priority\nquux 1'
	[[ $output == $'50.0\n0\nUnknown command "quux 1"' ]]
	run -0 mps "$(printf 'x%.0s' {1..10000})"
	[[ $output == 'Unknown command "xxx'* ]]
	# What is no packet of ours ends its connection, not the daemon.
	python3 -c '
import os, socket, sys
for size in (0, 1, 4, 100, 5000, 60000):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    s.send(os.urandom(size))
    s.close()
' "$CUDA_MPS_PIPE_DIRECTORY/control"
	run -0 mps get_server_list
	run -0 mps quit
	ended mps
}
