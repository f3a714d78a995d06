# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for tests of turns with real processes on a simulated GPU. Load it after lib and slice. All run on
# machines of two loaded cores too, and under sanitizers, so what is looked at is who gets more, roughly by
# how much, and that all go on. How exact it is, is test/gpu/turns.py.

KERNEL=1000000 # rounds of work of one kernel: about a millisecond, so that queues are full on any machine

# turns NAME [WEIGHT [CLASS [CAP]]]: a slice that takes turns.
turns() {
	put_slice "$1" "\"memory\": $((4 * GIB)), \"weight\": ${2-1}${4+, \"cap\": $4}" \
		"\"compute\": \"turns\", \"class\": \"${3-batch}\""
}

# in_dir NAME DIR PROGRAM [OPTION...]: in the background, in the slice whose directory this is.
in_dir() {
	start "$1" env LD_PRELOAD="$PRELOAD" GPUSLICE_SLICE_DIR="$2" "$PROGRAMS/$3" "${@:4}"
}

# burn NAME [SLICE [OPTION...]]: one that always has more to do, by default in the slice of its name.
burn() {
	in_dir "$1" "$(slice_dir "${2-$1}")" cuda-burn --work "$KERNEL" --depth 16 --seconds 0 --window-ms 20 "${@:3}"
	eventually 30 logged "$1" '^ready'
}

# done_of NAME: its iterations so far.
done_of() {
	local line
	line=$(grep '^window' "$NODE_DIR/$1.log" | tail -1)
	value 'done' "${line:-done=0}"
}

more_done() { # NAME THAN
	(($(done_of "$1") > $2))
}

# goes_on NAME...: each does some more.
goes_on() {
	local name
	for name in "$@"; do
		eventually 20 more_done "$name" $(($(done_of "$name") + 20)) || return 1
	done
}

sum_is() { # LEAST NAME...
	local name sum=0
	for name in "${@:2}"; do
		DID[$name]=$(($(done_of "$name") - BEFORE[$name]))
		sum=$((sum + DID[$name]))
	done
	((sum >= $1))
}

# measure COUNT NAME...: until they have done so much together; DID is what each did.
measure() {
	local name
	declare -gA DID=() BEFORE=()
	for name in "${@:2}"; do
		BEFORE[$name]=$(done_of "$name")
	done
	eventually_here 60 sum_is "$@"
}

# Like eventually, but the command may set variables.
eventually_here() {
	local deadline=$((SECONDS + $1 * ${GPUSLICE_PATIENCE:-1} + 1))
	shift
	until "$@"; do
		((SECONDS < deadline)) || {
			echo "never true: $*"
			return 1
		}
		sleep 0.05
	done
}

# ratio LEAST MOST NAME OTHER: NAME did so many hundredths of what OTHER did.
ratio() {
	local r=$((100 * DID[$3] / (DID[$4] > 0 ? DID[$4] : 1)))
	echo "$3 ${DID[$3]}, $4 ${DID[$4]}: $r %"
	((r >= $1 && r <= $2))
}

# comes_to COUNT LEAST MOST NAME OTHER: now, or a little later: a change takes effect in its time.
comes_to() {
	local _
	for _ in 1 2 3 4 5; do
		measure "$1" "$4" "$5"
		! ratio "${@:2}" || return 0
	done
	return 1
}

# gate NAME: as its page has it: 0 open, 1 metered, 2 closed.
gate() {
	local fd
	for fd in "/proc/${PID[$1]}/fd"/*; do
		[[ $(readlink "$fd") == /memfd:gpuslice-turns* ]] || continue
		echo $(($(od -An -tu4 -j 64 -N 4 "$fd") & 3))
		return 0
	done
	return 1
}

gate_is() { # NAME STATE
	[[ $(gate "$1") == "$2" ]]
}

# account NAME JQ_FILTER: of the slice's account on its GPU.
account() {
	local dir
	dir=$(slice_dir "$1")
	arbiter_status "[.slices[] | select(.id == \"${dir##*/}\")][0].gpus[0] | $2"
}

# charges: of all slices, by their names.
charges() {
	arbiter_status '.slices | sort_by(.id) | map(.gpus[0].charged_ns) | tojson'
}

# ends NAME...: told to end, each does so without an error.
ends() {
	local name
	for name in "$@"; do
		stop "$name" || return 1
		grep -q '"result":"ok"' "$NODE_DIR/$name.log"
		run ! grep -q '^gpuslice:' "$NODE_DIR/$name.log"
	done
}

nobody_there() {
	arbiter_status '[.slices[].processes[]] == [] and all(.slices[].gpus[]; .turn | not)'
}
