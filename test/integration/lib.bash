# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Helpers of the integration tests: the real programs from a staged install, on a simulated node in
# a directory of their own. Load it with `load lib`. Every wait polls with a deadline; no test
# sleeps and hopes. After each test nothing that it started may be left.

# A program that fails in front of a filter is a failure: jq is content with no input at all.
set -o pipefail

# Where the build is: Meson says so; by hand it is the Makefile's.
export GPUSLICE_BUILD=${GPUSLICE_BUILD-$(cd "$BATS_TEST_DIRNAME/../.." && pwd)/build/main}
PREFIX=${GPUSLICE_PREFIX-/}

# A version manager's script in front of python3 takes longer than what tests do with it.
without_python_shim() {
	local python
	python=$(command -v python3) || return 0
	[[ $(head -c 2 "$python" | tr -d '\0') != '#!' ]] ||
		PATH=$(python3 -c 'import os, sys; print(os.path.dirname(sys.executable))'):$PATH
}

# This one starts in 2 ms, jq in 35, and tests start it thousands of times. It sorts the keys of objects.
jq() {
	gojq "$@"
}

# Once a file: stages the build (quick when it is up to date).
stage_programs() {
	local stage=$GPUSLICE_BUILD/stage
	without_python_shim
	(
		flock 9
		"$BATS_TEST_DIRNAME/../../tools/stage" "$GPUSLICE_BUILD" "$stage"
	) 9>"$GPUSLICE_BUILD/stage.lock" || return 1
	use_stage "${stage}${PREFIX%/}"
}

use_stage() {
	export STAGE=$1
	export GPUSLICED=$STAGE/bin/gpusliced GPUSLICE=$STAGE/bin/gpuslice
	export SIM_NVML=$STAGE/lib/gpuslice/sim/libnvidia-ml.so.1
}

# open_stage DIR: the programs are from now on a copy in DIR, a directory of bats. All users reach it, also if the build
# is in a home that is closed to them.
open_stage() {
	local dir=$1
	cp -a "$STAGE" "$dir/stage"
	use_stage "$dir/stage"
	open_dir "$dir"
}

# open_dir DIR: all users may enter this directory of bats.
open_dir() {
	local dir=$1
	while [[ $dir == "$BATS_RUN_TMPDIR"/* ]]; do
		chmod a+x "$dir"
		dir=${dir%/*}
	done
	chmod a+x "$BATS_RUN_TMPDIR"
}

# Each test: a node directory and the environment that makes all programs meet there.
node_setup() {
	local program
	for program in "$GPUSLICED" "$GPUSLICE" "$SIM_NVML"; do
		[[ -e $program ]] || { echo "no $program in this build" && return 1; }
	done
	NODE_DIR=$BATS_TEST_TMPDIR/node
	export GPUSLICE_TEST=$BATS_TEST_TMPDIR # the mark by which left-over processes are found
	export GPUSLICE_SIM_NODE=${1-p3.8xlarge} GPUSLICE_SIM_DIR=$NODE_DIR/sim
	export GPUSLICE_KUBELET_DIR=$NODE_DIR/kubelet GPUSLICE_RUN_DIR=$NODE_DIR/run
	export GPUSLICE_STATE_DIR=$NODE_DIR/state
	export GPUSLICE_NVML=$SIM_NVML
	export GPUSLICE_METRICS_LISTEN=127.0.0.1:0 # many agents at a time have a port each
	export NO_COLOR=1
	mkdir -p "$GPUSLICE_SIM_DIR" "$GPUSLICE_KUBELET_DIR/device-plugins" "$GPUSLICE_RUN_DIR"
	declare -gA PID=()
}

# start NAME COMMAND...: in the background, with its output in $NODE_DIR/NAME.log; the output of an
# earlier one of the same name moves to NAME.old.log.
start() {
	local name=$1
	shift
	[[ ! -e $NODE_DIR/$name.log ]] || mv "$NODE_DIR/$name.log" "$NODE_DIR/$name.old.log"
	"$@" >"$NODE_DIR/$name.log" 2>&1 3>&- &
	PID[$name]=$!
}

running() {
	[[ -n ${PID[$1]-} ]] && kill -0 "${PID[$1]}" 2>/dev/null
}

not_running() {
	! running "$1"
}

# stop NAME [SIGNAL]: ends it and returns its exit status; after 10 seconds SIGKILL and a failure.
stop() {
	local name=$1 signal=${2-TERM} pid=${PID[$1]-} status=0
	[[ -n $pid ]] || return 0
	kill "-$signal" "$pid" 2>/dev/null || true
	if ! eventually 10 not_running "$name"; then
		kill -KILL "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
		unset "PID[$name]"
		echo "$name did not end within 10 seconds of SIG$signal"
		return 1
	fi
	wait "$pid" 2>/dev/null || status=$?
	unset "PID[$name]"
	return "$status"
}

# eventually SECONDS COMMAND...: until it succeeds, looking less and less often; shows its last output else.
# GPUSLICE_PATIENCE multiplies the seconds, for builds that are slow by design.
eventually() {
	local deadline=$((SECONDS + $1 * ${GPUSLICE_PATIENCE:-1} + 1)) out n=0
	# A look costs some processes: what takes long is looked for less often. The pauses differ, as looks in step with
	# something that comes and goes (a gate, in turns of 25 ms) would see the same side of it each time.
	local pauses=(0.05 0.1 0.15 0.25 0.35 0.28 0.33 0.41 0.27)
	shift
	while ! out=$("$@" 2>&1); do
		if ((SECONDS >= deadline)); then
			printf 'never true: %s\n%s\n' "$*" "$out"
			return 1
		fi
		sleep "${pauses[n]}"
		n=$((n < ${#pauses[@]} - 1 ? n + 1 : 4))
	done
}

# agent [OPTION...]: starts gpusliced on the node and waits until it answers.
agent() {
	start agent "$GPUSLICED" "$@"
	eventually 20 agent_answers_or_ended || return 1
	running agent || {
		show_log agent
		return 1
	}
}

agent_answers_or_ended() {
	not_running agent || "$GPUSLICE" status --json >/dev/null
}

# For tests that cut GPUs: the driver lets nobody else, nor does the simulator.
root_cuts() {
	((!EUID)) || skip "only root may change MIG"
}

# as_root COMMAND...: a program that cuts GPUs, in a user namespace where we are somebody else.
as_root() {
	((EUID)) || {
		"$@"
		return
	}
	unshare --map-root-user true 2>/dev/null || root_cuts
	unshare --map-root-user "$@"
}

# cut_gpu GPU on|off|none|ID...: MIG by NVML alone (test/support/mig-cut.c), as somebody else does it.
cut_gpu() {
	root_cuts
	"$GPUSLICE_BUILD/test/support/mig-cut" "$SIM_NVML" "$@"
}

# kubelet [OPTION...]: starts the stand-in kubelet and waits for its registration socket.
kubelet() {
	start kubelet "$GPUSLICE" kubelet --kubelet-dir "$GPUSLICE_KUBELET_DIR" "$@"
	eventually 20 test -S "$GPUSLICE_KUBELET_DIR/device-plugins/kubelet.sock"
}

# status [JQ_FILTER]: the agent's answer.
status() {
	"$GPUSLICE" status --json | jq -er "${1-.}"
}

# logged NAME PATTERN: the program has logged a line like this.
logged() {
	grep -E -- "$2" "$NODE_DIR/$1.log"
}

show_log() {
	echo "--- $1.log"
	tail -n 60 "$NODE_DIR/$1.log"
}

# Processes that carry the mark of this test in their environment.
leftovers() {
	local file pid
	for file in $(env -u GPUSLICE_TEST grep -lzxsF "GPUSLICE_TEST=$GPUSLICE_TEST" /proc/[0-9]*/environ); do
		pid=${file#/proc/} pid=${pid%/environ}
		[[ $pid != "$$" && $pid != "$BASHPID" ]] || continue
		printf '%s %s\n' "$pid" "$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)"
	done
}

# The arbiters of this test, by process id.
arbiters() {
	leftovers | awk '$2 ~ /gpuslice-arbiter$/ {print $1}'
}

# end_agent: with the arbiter that it started, which outlives it, as it should; nobody ends that but us.
end_agent() {
	local pid
	stop agent || true
	for pid in $(arbiters); do
		[[ $pid == "${PID[arbiter]-}" ]] || kill "$pid" || true
	done
}

no_leftovers() {
	local left
	left=$(leftovers)
	[[ -z $left ]] || {
		echo "left over: $left"
		return 1
	}
}

# tiny DIR OPTIONS: a file system of its own that is full at once.
tiny() {
	((!EUID)) || skip "only root may mount"
	mkdir -p "$1"
	mount -t tmpfs -o "$2" tmpfs "$1" 2>/dev/null || skip "may not mount here"
	MOUNTED+=("$1")
}

# For teardown(): ends what still runs, shows the logs of a failed test, finds what was left.
node_teardown() {
	local name status=0 file pid dir
	[[ -n ${NODE_DIR-} ]] || return 0
	if [[ -z ${BATS_TEST_COMPLETED-} ]]; then
		for file in "$NODE_DIR"/*.log; do
			[[ ! -e $file ]] || show_log "$(basename "$file" .log)"
		done
	fi
	for name in "${!PID[@]}"; do
		stop "$name" || { echo "$name ended with status $?" && status=1; }
	done
	if ! eventually 5 no_leftovers; then
		for pid in $(leftovers | cut -d ' ' -f 1); do
			kill -KILL "$pid" 2>/dev/null || true
		done
		status=1
	fi
	for dir in "${MOUNTED[@]-}"; do
		[[ -z $dir ]] || umount -l "$dir"
	done
	return $status
}
