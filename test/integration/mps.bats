#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# MPS: daemons that follow the config, what containers are given, and what happens when something dies. The control
# program, the server and CUDA are the simulator's.
bats_require_minimum_version 1.5.0
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

# Client a of pod one runs; its GPU and the daemon there are $gpu and $pid.
one_served() {
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	gpu=$(gpu_of one)
	client one a
	pid=$(control_pid "$gpu")
}

@test "a config starts all: daemons, their limits, healthy devices, and the environment of containers" {
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
	run grep -E 'Z (warn|error)' "$NODE_DIR/agent.log"
	[[ $status -ne 0 ]]
}

@test "clients have the limits of their pods; k replicas have k shares" {
	mps_config 4 '' 'failRequestsGreaterThanOne: false' >"$CONFIG"
	mps_up 16
	[[ $(status '.mps | length') == 1 ]] # a container may have several GPUs: one daemon for all
	pod two 2
	# One GPU's two replicas, or one each of two: what it has of one GPU.
	if [[ $(env_of two NVIDIA_VISIBLE_DEVICES) == *,* ]]; then
		[[ $(env_of two CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) == 25 ]]
	else
		[[ $(env_of two CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) == 50 ]]
	fi
}

@test "with isolation a container has its slice besides" {
	mps_config 4 'memory: equal, compute: capped, class: latency' >"$CONFIG"
	mps_up 16
	pod one
	[[ $(env_of one CUDA_MPS_CLIENT_PRIORITY) == 0 ]]
	slice=$(grant one '.mounts[] | select(.containerPath == "/run/gpuslice/slice") | .hostPath')
	jq -e '.compute == "mps" and .class == "latency"' "$slice/slice.json"
	client one a
	eventually 10 clients_are 1 0 || clients_are 1 1 || clients_are 1 2 || clients_are 1 3
}

@test "a killed daemon: devices are unhealthy with the reason, clients get Events, all recovers" {
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	gpu=$(gpu_of one)
	client one a
	eventually 10 clients_are 1 "$gpu"
	pid=$(control_pid "$gpu")
	kill -KILL "$pid"
	eventually 10 logged agent 'MPS is away.*signal 9'
	eventually 20 another_pid "$pid" "$gpu"
	eventually 20 offers 16
	[[ $(daemon .daemonDeaths "$gpu") == 1 ]]
	pod again
	client again b
}

@test "a killed server: reported, another one is started, new clients work" {
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	gpu=$(gpu_of one)
	client one a
	eventually 10 clients_are 1 "$gpu"
	kill -KILL "$(server_pid "$gpu")"
	eventually 10 logged agent 'an MPS server died'
	eventually 20 is_state ready "$gpu"
	eventually 20 offers 16
	[[ $(daemon .serverDeaths "$gpu") == 1 ]]
	eventually 10 clients_are 0 "$gpu"
	client one b
	eventually 10 clients_are 1 "$gpu"
}

@test "a client that faults ends all of its GPU: reported with the known clients, and MPS continues when they ended" {
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	gpu=$(gpu_of one)
	pod two
	while [[ $(gpu_of two) != "$gpu" ]]; do # one on the same GPU
		k delete pod two >/dev/null
		eventually 10 pod_is_gone two
		pod filler$((++n))
		pod two
	done
	client one a
	client two b
	eventually 10 clients_are 2 "$gpu"
	sim cuda-fault "$gpu" 700
	eventually 20 logged agent 'a fatal fault ended all MPS clients'
	logged agent 'clients=2'
	[[ $(daemon .faults "$gpu") == 1 ]]
	eventually 20 not_running a
	eventually 20 not_running b
	eventually 20 is_state ready "$gpu"
	eventually 20 offers 16
	client one c
}

@test "kill -9 of the agent at any moment: one daemon for each GPU, and clients do not notice" {
	one_served
	for ms in 0 5 10 20 30 40 50 60 80 100 150 200 300; do
		stop agent KILL || true
		start agent "$GPUSLICED" --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
		sleep "$(printf '0.%03d' "$ms")"
	done
	stop agent KILL || true
	mps_agent
	eventually 20 offers 16
	control_daemons 4
	[[ $(control_pid "$gpu") == "$pid" ]]
	running a
	eventually 10 clients_are 1 "$gpu"
}

@test "kill -9 while daemons are started: none is lost, none is twice" {
	mps_config 4 >"$CONFIG"
	kubelet
	for ms in 1 3 5 8 12 16 20 25 30 40 50 60 70 80 90 100 120; do
		start agent "$GPUSLICED" --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
		sleep "$(printf '0.%03d' "$ms")"
		stop agent KILL || true
	done
	mps_up 16
	control_daemons 4
	stop agent
	eventually 10 control_daemons 0
}

@test "SIGTERM without clients leaves nothing behind; with clients it leaves them alone" {
	mps_config 2 >"$CONFIG"
	mps_up 8
	pod one
	gpu=$(gpu_of one)
	client one a
	stop agent
	running a
	control_daemons 1
	mps_agent
	eventually 20 offers 8
	control_daemons 4
	stop a || true
	eventually 10 clients_are 0 "$gpu"
	stop agent
	control_daemons 0
	[[ -z $(find "$MPS_ROOT" ! -type d) ]]
}

@test "from MPS to time-slicing and back with a client: it continues, its daemon quits after it" {
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	gpu=$(gpu_of one)
	client one a
	sharing 3 | put "$CONFIG"
	eventually 20 offers 12
	eventually 10 is_state draining "$gpu"
	eventually 10 control_daemons 1
	running a
	stop a || true
	eventually 20 control_daemons 0
	mps_config 4 | put "$CONFIG"
	eventually 20 offers 16
	control_daemons 4
	# Wanted again before it has drained: it stays.
	client one b
	pid=$(control_pid "$gpu")
	sharing 3 | put "$CONFIG"
	eventually 10 is_state draining "$gpu"
	mps_config 2 | put "$CONFIG"
	eventually 20 offers 8
	[[ $(control_pid "$gpu") == "$pid" ]]
	running b
	[[ $(mps_says get_default_active_thread_percentage "$gpu") == 50.0 ]]
	# The server that ran before has the new limits too.
	[[ $(mps_says "get_active_thread_percentage $(server_pid "$gpu")" "$gpu") == 50.0 ]]
}

@test "compute mode: exclusive as long as the daemon runs, and restored on every path" {
	((!EUID)) || skip "only root may change the compute mode"
	mps_config 4 '' 'computeMode: exclusive' >"$CONFIG"
	mps_up 16
	modes_are 3
	stop agent
	modes_are 0
	mps_agent
	eventually 20 offers 16
	modes_are 3
	# Killed, and configured away meanwhile.
	stop agent KILL || true
	sharing 2 | put "$CONFIG"
	mps_agent
	eventually 20 offers 8
	eventually 20 modes_are 0
	# Killed with its daemons.
	mps_config 4 '' 'computeMode: exclusive' | put "$CONFIG"
	eventually 20 offers 16
	stop agent KILL || true
	pkill_daemons
	sharing 2 | put "$CONFIG"
	mps_agent
	eventually 20 modes_are 0
	eventually 20 offers 8
	# At any moment of the start.
	mps_config 4 '' 'computeMode: exclusive' | put "$CONFIG"
	stop agent
	modes_are 0
	for ms in 10 20 30 40 50 60 80 100 130; do
		start agent "$GPUSLICED" --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
		sleep "$(printf '0.%03d' "$ms")"
		stop agent KILL || true
	done
	sharing 2 | put "$CONFIG"
	mps_agent
	eventually 20 offers 8
	eventually 20 modes_are 0
	eventually 20 control_daemons 0
}

@test "MPS and time-slicing and whole GPUs on one node" {
	mps_config 4 >"$CONFIG"
	sed -i 's/^      replicas: 4$/      replicas: 4\n      devices: [0]\n      rename: nvidia.com\/gpu.mps/' "$CONFIG"
	cat >>"$CONFIG" <<-EOF
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, replicas: 2, devices: [1], rename: nvidia.com/gpu.slow}
	EOF
	kubelet
	mps_agent
	eventually 20 offers 4 4 nvidia.com/gpu.mps
	eventually 20 offers 2 2 nvidia.com/gpu.slow
	eventually 20 offers 2 2 nvidia.com/gpu
	control_daemons 1
	pod slow 1 nvidia.com/gpu.slow
	run env_of slow CUDA_MPS_PIPE_DIRECTORY
	[[ $status -ne 0 ]]
	pod mps 1 nvidia.com/gpu.mps
	env_of mps CUDA_MPS_PIPE_DIRECTORY
}

reason_is() { # PATTERN
	status '.resources[0].slices[0].reason' | grep -E -- "$1"
}

@test "a daemon that does not start, hangs, or has no server: the reason, and healthy again by itself" {
	mps_config 2 >"$CONFIG"
	kubelet
	fault no-start
	mps_agent
	eventually 20 offers 8 0
	eventually 10 reason_is 'the MPS control daemon ended with status 1: .'
	fault exit
	eventually 20 reason_is 'the MPS control daemon ended with status'
	fault
	eventually 60 offers 8
	# The daemon is there and does not answer: the agent's check finds it, kills it, and starts another one.
	pid=$(control_pid)
	fault hang
	kill -STOP "$pid" # nor does it die of anything but SIGKILL
	eventually 40 reason_is 'does not answer'
	fault
	eventually 60 offers 8
	[[ $(control_pid) != "$pid" ]]
	# A new server does not come up: until one does nobody is given the GPU, though the daemon answers.
	pod one
	gpu=$(gpu_of one)
	client one a
	eventually 10 clients_are 1 "$gpu"
	fault no-server
	kill -KILL "$(server_pid "$gpu")"
	eventually 10 logged agent 'the MPS server ended at its start: Server encountered a fatal exception'
	for _ in {1..20}; do
		offers 8 6
		sleep 0.1
	done
	fault
	eventually 60 offers 8
	control_daemons 4
}

@test "a disk that is full: the reason, and healthy again when it is not" {
	((!EUID)) || skip "only root may mount"
	mkdir "$MPS_ROOT"
	mount -t tmpfs -o size=64k,nr_inodes=64 full "$MPS_ROOT" || skip "no mounts here"
	head -c 200k /dev/zero >"$MPS_ROOT/filler" || true
	mps_config 2 >"$CONFIG"
	kubelet
	mps_agent
	eventually 20 offers 8 0
	eventually 10 reason_is 'No space left on device'
	rm "$MPS_ROOT/filler"
	eventually 60 offers 8
	end_agent
	eventually 10 control_daemons 0
	umount "$MPS_ROOT"
}

@test "errors are reported: no program, a foreign directory" {
	mps_config 4 >"$CONFIG"
	kubelet
	GPUSLICE_MPS_CONTROL=/nonexistent/x mps_agent
	eventually 20 logged agent "/nonexistent/x.*is not a program"
	eventually 20 offers 16 0
	status '.resources[0].slices[0].reason' | grep "is not a program"
	stop agent
	if ((!EUID)); then
		mkdir -p "$MPS_ROOT/${UUIDS[0]}"
		chown 12345 "$MPS_ROOT/${UUIDS[0]}"
		mps_agent
		eventually 20 offers 16 12
		status '.resources[0].slices[] | select(.healthy | not) | .reason' | grep "belongs to user 12345"
		chown 0 "$MPS_ROOT/${UUIDS[0]}"
		eventually 40 offers 16
		stop agent
	fi
}

@test "a client is identified by its environment; an unreadable one delays no other" {
	local libexec=$NODE_DIR/libexec out
	out=$(printf '%d\n%d\n' $$ 1 | GPUSLICE_MPS_DEVICES=x "$STAGE/libexec/gpuslice/gpuslice-mps" clients)
	[[ $(wc -l <<<"$out") == 2 && $out == "$$ "* ]]
	start sleeper env GPUSLICE_MPS_DEVICES=GPU-1::3 sleep 1000
	eventually 5 says_devices "${PID[sleeper]}" GPU-1::3
	stop sleeper KILL || true
	run -1 "$STAGE/libexec/gpuslice/gpuslice-mps" clients <<<'no pid'
	[[ $output == *'expected a PID, found "no pid"'* ]]

	# The program does not answer, as if a page of it were never handed out.
	mkdir "$libexec"
	ln -s "$STAGE/libexec/gpuslice/"* "$libexec/"
	rm "$libexec/gpuslice-mps"
	printf '#!/bin/sh\n[ "$1" != clients ] || exec sleep 1000\nexec %s "$@"\n' \
		"$STAGE/libexec/gpuslice/gpuslice-mps" >"$libexec/gpuslice-mps"
	chmod +x "$libexec/gpuslice-mps"
	export GPUSLICE_LIBEXEC=$libexec
	mps_config 4 >"$CONFIG"
	mps_up 16
	pod one
	client one a
	eventually 10 clients_are 1 "$(gpu_of one)"
	curl -sf -m 2 --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://localhost/healthz
	eventually 20 logged agent 'the pod of an MPS client is not known.*cannot be read in time'
	is_state ready "$(gpu_of one)"
	eventually 20 no_such_helper
}

# says_devices PID IDS
says_devices() {
	[[ $("$STAGE/libexec/gpuslice/gpuslice-mps" clients <<<"$1") == "$1 "*" $2" ]]
}

no_such_helper() {
	[[ -z $(leftovers | grep 'sleep 100[0]') ]]
}

# forge GPU TEXT: a line in the daemon's log, as a process of a container can write.
forge() {
	echo "[2026-11-23 17:47:17.605 Server   609] $2" >>"$MPS_ROOT/${UUIDS[$1]}/log/mps.log"
}

# How often the daemon of $gpu was asked for clients.
times_asked() {
	grep -c 'Cmd:get_client_list' "$MPS_ROOT/${UUIDS[gpu]}/log/mps.log" || true
}

asked_after() { # COUNT
	(($(times_asked) > $1))
}

multiuser_daemons() {
	[[ $(leftovers | grep -c 'mps-contro[l] -f -multiuser-server') == "$1" ]]
}

@test "a forged line of the log removes neither multi-user mode nor clients" {
	((!EUID)) || skip "a server of several users needs root"
	one_served
	multiuser_daemons 4
	forge "$gpu" 'Failed to start: unknown option -multiuser-server'
	# The agent has read this line when it has read the next one.
	forge "$gpu" 'Client {PID: 1, Context ID: 0} connected'
	eventually 10 clients_are 2 "$gpu"
	kill -KILL "$pid"
	eventually 40 another_pid "$pid" "$gpu"
	multiuser_daemons 4
	stop a || true
	client one b
	eventually 10 clients_are 1 "$gpu"
	local client
	client=$(daemon '.clients[0].pid' "$gpu")
	sharing 3 | put "$CONFIG"
	eventually 10 is_state draining "$gpu"
	for _ in 1 2 3; do
		forge "$gpu" "Client process $client disconnected"
		asked=$(times_asked)
		eventually 10 asked_after "$asked"
		eventually 10 clients_are 1 "$gpu"
	done
	is_state draining "$gpu"
	running b
	stop b || true
	eventually 20 control_daemons 0
}

@test "forged lines about faults and servers: the daemon itself is asked, and nothing ends" {
	one_served
	local server client
	server=$(server_pid "$gpu")
	client=$(daemon '.clients[0].pid' "$gpu")
	for _ in 1 2 3 4; do
		forge "$gpu" 'Server is handling a fatal GPU error.'
		forge "$gpu" 'The following client process have a sticky error set:'
		forge "$gpu" "$client"
		forge "$gpu" "Server $server exited with status 139"
		forge "$gpu" 'NEW SERVER 1: Ready'
		forge "$gpu" "Server $server exited with status 139"
		asked=$(times_asked)
		eventually 15 asked_after "$asked"
		offers 16
	done
	is_state ready "$gpu"
	[[ $(control_pid "$gpu") == "$pid" && $(server_pid "$gpu") == "$server" ]]
	[[ $(daemon ".faults + .serverDeaths + .daemonDeaths" "$gpu") == 0 ]]
	running a
	run logged agent 'fatal fault|server died|MPS is away'
	((status))
	# What really happens is found, though the lines before it were not true.
	sim cuda-fault "$gpu" 700
	eventually 20 logged agent 'a fatal fault ended all MPS clients'
	eventually 20 is_state ready "$gpu"
	[[ $(control_pid "$gpu") == "$pid" ]]
}

@test "a server that is stopped: its clients are not known, which is not none" {
	one_served
	kill -STOP "$(server_pid "$gpu")"
	eventually 60 logged agent 'MPS was asked in vain, trying again .*does not answer'
	clients_are 1 "$gpu"
	eventually 60 another_pid "$pid" "$gpu"
	eventually 20 offers 16
}

# lost_gpu: agent and kubelet, with one daemon for all GPUs, which was started while GPU 1 was lost.
lost_gpu() {
	local wait=${COOLDOWN}s
	mps_config 4 '' 'failRequestsGreaterThanOne: false' >"$CONFIG"
	echo "health: {cooldown: $wait, resetCooldown: $wait, maxCooldown: $wait, probes: 2, probeInterval: 200ms}" >>"$CONFIG"
	mps_up 16
	sim lose 1
	eventually 20 offers 16 12
	pid=$(control_pid)
	kill -KILL "$pid"
	eventually 20 another_pid "$pid" 0
	eventually 20 offers 16 12
}

# slices_of GPU: "HEALTHY REASON" of each of its replicas.
slices_of() {
	status ".resources[].slices[] | select(.gpu == $1) | \"\(.healthy) \(.reason)\""
}

lost_then() {
	slices_of 1 | grep 'false its MPS daemon was started while this GPU was lost'
}

@test "a daemon of several GPUs that was started while one was lost: restarted with it when it has no clients" {
	lost_gpu
	pod one
	client one a
	sim return 1
	eventually 20 lost_then
	offers 16 12
	# Also for the agent after this one.
	stop agent KILL || true
	mps_agent
	eventually 20 lost_then
	eventually 20 offers 16 12
	running a
	stop a || true
	eventually 40 offers 16
	control_daemons 1
	# What is offered can be used.
	run -0 in_pod one env "CUDA_VISIBLE_DEVICES=${UUIDS[1]}" \
		"$PROGRAMS/cuda-burn" --seconds 1 --kernel-us 200
}

@test "MPS limits follow the places that GPUs have in the daemon, also when one is back" {
	lost_gpu
	[[ $(status '.mps[0].devices | length') == 4 ]]
	pod one
	client one a
	sim return 1
	eventually 20 status '.gpus[1].health == "healthy"'
	is_state ready
	CUDA_MPS_PIPE_DIRECTORY=$(echo "$MPS_ROOT"/set-*/pipe)
	export CUDA_MPS_PIPE_DIRECTORY
	for at in 0 1 2; do
		[[ $("$GPUSLICE_MPS_CONTROL" get_default_device_pinned_mem_limit $at) == 15G ]]
	done
	run "$GPUSLICE_MPS_CONTROL" get_default_device_pinned_mem_limit 3
	[[ $output != 15G ]]
}

@test "another set of GPUs: the new daemons start when the old one has ended" {
	mps_config 4 '' 'failRequestsGreaterThanOne: false' >"$CONFIG"
	mps_up 16
	pod one
	client one a
	mps_config 4 | put "$CONFIG"
	eventually 20 offers 16 0
	eventually 10 reason_is 'another MPS daemon of this GPU has not ended yet'
	control_daemons 1
	running a
	stop a || true
	eventually 40 offers 16
	control_daemons 4
}
