# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for tests of the slice runtime without containers: slices made by hand, named by
# GPUSLICE_SLICE_DIR in place of the agent's mounts, a real arbiter. Load it after lib.

GIB=1073741824

# slice_node_setup [NODE]: a node whose driver is the simulator's, as the loader finds it; the libraries
# stand in front of it by LD_PRELOAD.
slice_node_setup() {
	node_setup "${1-h100-1}"
	mkdir -p "$GPUSLICE_STATE_DIR/slices"
	export LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim
	PRELOAD=$STAGE/lib/gpuslice/libgpuslice-cuda.so:$STAGE/lib/gpuslice/libgpuslice-nvml.so
	PROGRAMS=$GPUSLICE_BUILD/test/cuda
	UUID=$("$GPUSLICE" sim show --json | jq -er '.gpus[0].uuid')
}

slice_node_teardown() {
	# The daemon that is the GPU stays a while, for the next process.
	local pid
	for pid in $(leftovers | grep gpuslice-sim-gpu | cut -d ' ' -f 1); do
		kill "$pid" 2>/dev/null || true
	done
	node_teardown
}

# The arbiter, and who reads NVML for it in place of the agent.
start_arbiter() {
	start arbiter "$STAGE/libexec/gpuslice/gpuslice-arbiter"
	eventually 10 test -S "$GPUSLICE_RUN_DIR/arbiter.sock"
	[[ -n ${PID[feed]-} ]] || start feed "$PROGRAMS/cuda-feed" "$GPUSLICE_RUN_DIR/arbiter.sock" --again
}

slice_dir() {
	printf '%s/slices/%032x' "$GPUSLICE_STATE_DIR" "'$1"
}

# put_slice NAME GPU [KEYS]: makes the slice, or changes it; GPU and KEYS as in its file.
put_slice() {
	local dir new=$NODE_DIR/slice.new
	dir=$(slice_dir "$1")
	mkdir -p "$new"
	printf '{"version": 1, "id": "%s", "resource": "nvidia.com/gpu", "devices": ["%s::%s"],
		"gpus": [{"uuid": "%s", %s}]%s, "unhooked": "report"}\n' \
		"${dir##*/}" "$UUID" "$1" "$UUID" "$2" "${3+, $3}" >"$new/slice.json"
	if [[ -d $dir ]]; then
		mv "$new/slice.json" "$dir/slice.json"
	else
		mv "$new" "$dir"
	fi
	eventually 5 test -S "$dir/socket"
}

# in_slice NAME COMMAND...
in_slice() {
	local dir
	dir=$(slice_dir "$1")
	shift
	env LD_PRELOAD="$PRELOAD" GPUSLICE_SLICE_DIR="$dir" "$@"
}

# value KEY TEXT: of key=value.
value() {
	sed -nE "s/^(.* )?$1=([^ ]*).*/\2/p" <<<"$2" | tail -1
}

# arbiter_status [JQ_FILTER]: what the arbiter says.
arbiter_status() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
s.sendall(b"{\"op\": \"status\"}\n")
b = b""
while not b.endswith(b"\n"):
    part = s.recv(65536)
    if not part:
        sys.exit(1)
    b += part
print(b.decode(), end="")' "$GPUSLICE_RUN_DIR/arbiter.sock" | jq -er "${1-.}"
}
