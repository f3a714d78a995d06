# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for tests of MPS: a node of simulated GPUs, the simulated control program, clients as the containers of
# pods would be, but without containers. Load it after lib and cluster.

mps_node_setup() {
	node_setup "${1-g4dn.12xlarge}"
	CONFIG=$NODE_DIR/config.yaml
	MPS_ROOT=$BATS_TEST_TMPDIR/m # sockets lie below it: a short name
	PROGRAMS=$GPUSLICE_BUILD/test/cuda
	export GPUSLICE_MPS_CONTROL=$STAGE/lib/gpuslice/sim/nvidia-cuda-mps-control
	export LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim
	"$GPUSLICE" sim create >/dev/null
	readarray -t UUIDS < <("$GPUSLICE" sim show --json | jq -er '.gpus[].uuid')
}

mps_node_teardown() {
	local pid name
	for name in "${!PID[@]}"; do
		[[ $name == agent || $name == kubelet ]] || stop "$name" KILL || true
	done
	end_agent
	# Daemons go on without their agent, and the daemon that is the GPUs stays a while.
	for pid in $(leftovers | grep -E 'nvidia-cuda-mps|gpuslice-sim-gpu' | cut -d ' ' -f 1); do
		kill -KILL "$pid" 2>/dev/null || true
	done
	node_teardown
}

# mps_config REPLICAS [ISOLATION [LINE...]]: a config; lines are added to mps.
mps_config() {
	local replicas=$1 isolation=${2-}
	shift
	(($# == 0)) || shift
	cat <<-EOF
		version: v1
		flags:
		  mpsRoot: $MPS_ROOT
		  nvidiaDriverRoot: $GPUSLICE_SIM_DIR
		  plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}
		sharing:
		  mps:
	EOF
	((!$#)) || printf '    %s\n' "$@"
	cat <<-EOF
		    resources:
		    - name: nvidia.com/gpu
		      replicas: $replicas
		      isolation: {$isolation}
	EOF
}

# mps_up DEVICES: kubelet and agent with $CONFIG; so many healthy devices.
mps_up() {
	[[ -n ${PID[kubelet]-} ]] || kubelet || return 1
	mps_agent || return 1
	eventually 20 offers "$1"
}

mps_agent() {
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
}

# daemon JQ_FILTER [GPU]: of the daemon of that GPU, as the status says.
daemon() {
	status ".mps[] | select(.devices[0] == \"${UUIDS[${2-0}]}\") | $1"
}

is_state() { # STATE [GPU]
	[[ $(daemon .state "${2-0}") == "$1" ]]
}

# mps_says COMMAND [GPU]: what the daemon itself answers.
mps_says() {
	printf '%s' "$1" | CUDA_MPS_PIPE_DIRECTORY=$MPS_ROOT/${UUIDS[${2-0}]}/pipe "$GPUSLICE_MPS_CONTROL"
}

# fault [WORD]: what the simulated daemons do wrong from now on; nothing: all is well again.
fault() {
	echo "${1-}" >"$GPUSLICE_SIM_DIR/mps-fault"
}

# pod NAME [REPLICAS [RESOURCE]]
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $1}, spec: {restartPolicy: Never, containers: [
		{name: c, image: x, resources: {limits: {${3-nvidia.com/gpu}: ${2-1}}}}]}}
	EOF
	eventually 10 granted "$1"
}

# grant POD JQ_FILTER: of what its container was given.
grant() {
	k get pods -o json | jq -er --arg p "$1" \
		".items[] | select(.metadata.name == \$p) | .gpuslice.grants[0] | $2"
}

granted() {
	grant "$1" '.envs' >/dev/null
}

# env_of POD NAME: a variable of its container.
env_of() {
	grant "$1" ".envs[\"$2\"]"
}

# look_into POD: $vars is what its container would see: variables, and the pipe directory where it is mounted.
look_into() {
	local slice
	readarray -t vars < <(grant "$1" '.envs | to_entries[] | "\(.key)=\(.value)"')
	vars+=("CUDA_MPS_PIPE_DIRECTORY=$(grant "$1" '.mounts[] | select(.containerPath | endswith("/pipe")) | .hostPath')")
	vars+=("CUDA_VISIBLE_DEVICES=$(env_of "$1" NVIDIA_VISIBLE_DEVICES)")
	if slice=$(grant "$1" '.mounts[] | select(.containerPath == "/run/gpuslice/slice") | .hostPath'); then
		vars+=("GPUSLICE_SLICE_DIR=$slice"
			"LD_PRELOAD=$STAGE/lib/gpuslice/libgpuslice-cuda.so:$STAGE/lib/gpuslice/libgpuslice-nvml.so")
	fi
}

# in_pod POD COMMAND...
in_pod() {
	local vars=()
	look_into "$1"
	env "${vars[@]}" "${@:2}"
}

# client POD NAME [COMMAND...]: one that runs until it is ended; ready when it has a context.
client() {
	local name=$2 vars=()
	look_into "$1"
	shift 2
	(($#)) || set -- "$PROGRAMS/cuda-burn" --seconds 0 --kernel-us 200
	start "$name" env "${vars[@]}" "$@"
	eventually 20 logged "$name" ready
}

# clients_are N [GPU]
clients_are() {
	[[ $(daemon '.clients | length' "${2-0}") == "$1" ]]
}

# control_pid [GPU], server_pid [GPU]
control_pid() {
	daemon .pid "${1-0}"
}

server_pid() {
	mps_says get_server_list "${1-0}" | grep -E '^[0-9]+$'
}

# One control daemon for each of so many GPUs, and no more.
control_daemons() {
	[[ $(leftovers | grep -c 'mps-contro[l] -f') == "$1" ]] || {
		leftovers | grep mps
		find "$MPS_ROOT" -type f -exec grep -H '' {} + | tail -30
		return 1
	}
}

# gpu_of POD: which GPU it has a share of.
gpu_of() {
	local uuid i
	uuid=$(env_of "$1" NVIDIA_VISIBLE_DEVICES)
	for i in "${!UUIDS[@]}"; do
		[[ ${UUIDS[i]} != "$uuid" ]] || echo "$i"
	done
}

another_pid() { # PID GPU
	local now
	now=$(control_pid "$2") && [[ $now != "$1" && $now != 0 ]] && is_state ready "$2"
}

pod_is_gone() {
	! k get pods -o json | jq -e --arg p "$1" '.items[] | select(.metadata.name == $p)' >/dev/null
}

modes_are() { # MODE: of all GPUs
	"$GPUSLICE" sim show --json | jq -e --argjson m "$1" '[.gpus[] | .keys.compute_mode // .compute_mode // 0 == $m] | all'
}

pkill_daemons() {
	local pid
	for pid in $(leftovers | grep 'mps-contro[l] -f' | cut -d ' ' -f 1); do
		kill -KILL "$pid"
	done
	eventually 10 control_daemons 0
}
