#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The programs that load a GPU do what they say, on a simulated node. No figure of time is looked at.
set -euo pipefail

if [[ $# -ne 3 || $1 == --help ]]; then
	echo "usage: test/cuda/check-programs.sh PROGRAMS LIBCUDA-DIR LIBNVML-DIR"
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
programs=$1
GPUSLICE_SIM_DIR=$(mktemp -d)
export GPUSLICE_SIM_DIR GPUSLICE_SIM_NODE=p5.48xlarge
export LD_LIBRARY_PATH=$2:$3${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
unset CUDA_VISIBLE_DEVICES
pids=()
finish() {
	for pid in "${pids[@]}"; do
		if kill -9 "$pid" 2>/dev/null; then
			wait "$pid" 2>/dev/null || true
		fi
	done
	rm -rf "$GPUSLICE_SIM_DIR"
}
trap finish EXIT
out=$GPUSLICE_SIM_DIR/out

fail() {
	echo "check-programs: $1" >&2
	cat "$out" >&2 || true
	exit 1
}

run() {
	"$programs/$1" "${@:2}" >"$out" 2>&1 || fail "$* failed"
}

has() {
	grep -qE -- "$1" "$out" || fail "expected '$1'"
}

# wait_for FILE PATTERN: that a line of it says so.
wait_for() {
	local i
	for ((i = 0; i < 600; i++)); do
		grep -qE -- "$2" "$1" 2>/dev/null && return
		sleep 0.1
	done
	fail "no '$2' in $1"
}

# Each step once, and none of them lacking.
run cuda-mix --threads 0
has '^result=ok steps=8[0-9] lacking=0 hash=[0-9a-f]{16}$'
alone=$(tail -n 1 "$out")
run cuda-mix --threads 3 --burn 50000
[ "$(tail -n 1 "$out")" = "$alone" ] || fail "another hash than $alone"

# The same beside one who takes the whole GPU.
run cuda-mix --rounds 200 --seed 7
alone=$(tail -n 1 "$out")
"$programs/cuda-burn" --work 300000 --seconds 0 >"$out.beside" &
pids+=($!)
wait_for "$out.beside" '^ready '
run cuda-mix --rounds 200 --seed 7 --check-every 20
[ "$(tail -n 1 "$out")" = "$alone" ] || fail "another hash than $alone"
kill -TERM "${pids[0]}"
wait "${pids[0]}" || fail "a burn that was told to end failed"
grep -q '"result":"ok".*"done":[1-9]' "$out.beside" || fail "$(cat "$out.beside")"
pids=()

run cuda-burn --kernel-us 200 --calibrate-only
has '"rounds":[1-9][0-9]*'
now=$(awk '{ printf "%d", $1 * 1000 }' /proc/uptime)
run cuda-burn --work 100000 --start-at "$((now + 200))000000" --seconds 1 --window-ms 100
has '^window t_ns=[0-9]+ done=[0-9]+ delta=[0-9]+$'
has '"result":"ok".*"done":[1-9]'
run cuda-burn --work 20000 --seconds 1 --threads 2 --streams 3 --graph 4 --copy 65536 \
	--depth 5 --sync-every 7 --think-us 50
has '"result":"ok".*"done":[1-9]'

# Two at once; the one that is killed is not waited for.
"$programs/cuda-burn" --work 500000000 --seconds 0 >"$out.one" &
pids+=($!)
"$programs/cuda-burn" --work 300000 --seconds 0 --window-ms 50 >"$out.two" &
pids+=($!)
wait_for "$out.one" '^ready '
wait_for "$out.two" '^window .* delta=[1-9]'
kill -9 "${pids[0]}"
lines=$(wc -l <"$out.two")
tail -n "+$((lines + 1))" -f "$out.two" --pid "${pids[1]}" >"$out.rest" &
pids+=($!)
wait_for "$out.rest" '^window .* delta=[1-9]'

run cuda-latency --work 1000 --period-ms 5 --burst 4 --graph --seconds 1 --file "$out.samples"
has '"bursts":[1-9][0-9]*'
[ "\"bursts\":$(wc -l <"$out.samples")" = "$(grep -oE '"bursts":[0-9]+' "$out")" ] ||
	fail "not as many samples as bursts"

run cuda-launch --rounds 3 --launches 50 --bytes 4096 --threads 2
has '^what=threads bytes=0 median_ns=[0-9.]+'
has '^what=to_async bytes=4096 '
has '^result=ok$'

if "$programs/cuda-burn" --nonsense >"$out" 2>&1; then
	fail "an unknown option was taken"
fi
code=0
LD_LIBRARY_PATH=/nowhere "$programs/cuda-burn" >"$out" 2>&1 || code=$?
[ "$code" = 77 ] || fail "without a driver: $code instead of 77"
