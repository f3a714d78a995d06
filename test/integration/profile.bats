#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice profile: what a program needs of a GPU, on a simulated one; and what the planner and the benchmark make of it.

bats_require_minimum_version 1.5.0
load lib
load slice

setup_file() {
	stage_programs
}

setup() {
	node_setup
	export TMPDIR=/tmp/gs-prof-$$
	mkdir -p "$TMPDIR"
	cd "$BATS_TEST_TMPDIR"
}

teardown() {
	[[ -z ${pid-} ]] || kill "$pid" || true
	rm -rf "$TMPDIR"
	slice_node_teardown
}

profile() {
	"$GPUSLICE" profile --node h100-1 --seconds 0.6 --warmup 0.3 --repetitions 1 "$@" 2>err
}

# measured COMMAND...: it succeeds, or a busy machine disturbed what it measured (13).
measured() {
	local status=0
	"$@" || status=$?
	return $((status == 13 ? 0 : status))
}

# number KEY FILE: of a profile, whatever its origin.
number() {
	sed -nE "s/^  $1: (\{value: )?([0-9.e+-]+).*/\2/p" "$2"
}

# between KEY LOW HIGH
between() {
	awk -v v="$(number "$1" p.yaml)" -v low="$2" -v high="$3" 'BEGIN { exit !(v != "" && v >= low && v <= high) }' || {
		echo "$1: expected $2 to $3" && cat p.yaml err && return 1
	}
}

nothing_left() {
	[[ -z $(ls "$TMPDIR") ]] && ! pgrep -f "$TMPDIR"
}

# A busy machine does not keep a GPU busy, and is late with requests: what depends on that is measured once more
# until it is as it should be.

@test "a built-in workload: a profile that the planner takes, and nothing is left behind" {
	keeps_busy() {
		measured profile --workload burn --save p.yaml --shares 50 >out &&
			between t_solo 0.0003 0.0006 && between busy 0.9 1 && between u 0.8 1
	}
	eventually 60 keeps_busy
	cat out err
	grep -F 'SIMULATED: NVIDIA H100' out
	grep -E '^time of a step +[0-9]+ us .* t_solo +alone, without the runtime' out
	grep -E '50% of them: x [0-9.]+ measured' out
	grep -Fx '  gpu_ref: H100-SXM5-80GB' p.yaml
	grep -Fx -- '- name: "burn"' p.yaml
	run -0 --separate-stderr "$GPUSLICE" plan p.yaml
	grep -E '^burn +1 +[0-9.]+' <<<"$output"
	eventually 20 nothing_left
}

@test "a program: steps by its lines, or by what it launches" {
	local burn=("$GPUSLICE_BUILD/test/cuda/cuda-burn" --window-ms 20 --seconds 0 --work 1000)
	by_lines() {
		measured profile --shares none --pattern '^window' --name my.step --kind train --save p.yaml -- "${burn[@]}" >out &&
			between t_solo 0.015 0.06
	}
	eventually 60 by_lines
	cat out
	grep -Fx '  kind: train' p.yaml
	grep -E '^a step takes longer under observation by +-?[0-9.]+ %' out
	# Silent: as fast as it launches, and it launches one kernel again and again.
	measured profile --shares none -o yaml -- "${burn[@]}" >p.yaml
	grep -Fx -- '- name: "cuda-burn"' p.yaml
	between t_solo 0.0000001 0.001
	grep -F '# from step to step, by what repeats in its launches' p.yaml
}

@test "errors are reported" {
	run -2 profile
	[[ $(<err) == *"expected a program, as in gpuslice profile -- python3 infer.py, or --workload"* ]]
	run -2 profile --workload brun
	[[ $(<err) == *"no workload 'brun'; there are: burn, small, bandwidth, decode, latency, requests"* ]]
	run -2 profile --workload burn --shares 0
	run -2 profile --workload burn --kind open
	run ! profile --workload burn --save /nowhere/p.yaml
	run -2 "$GPUSLICE" profile --pid 1 -- true
	run -2 "$GPUSLICE" profile --pod server
	[[ $output == *"--pod: expected NAMESPACE/NAME, found 'server'"* ]]
	run -2 profile --pid 1
	[[ $(<err) == *"--node is for a program that is started, not for --pid and --pod"* ]]
	# Nothing is kept of a program that ends before it was measured.
	run -9 profile --shares none --pattern x --save none.yaml -- sh -c 'echo is it; exit 3'
	[[ $(<err) == *"nothing could be measured: ended with status 3"*"the program has to run for longer than --warmup and --seconds together, 0.9 s"* ]]
	[[ ! -e none.yaml ]]
}

# A program that has ended needs no wait, and the signal of a user who does not want to wait finds it ended.
@test "a program that cannot run, or ends, ends the measurement at once" {
	local rest status=0
	for rest in "-- /no/such/program" "--pattern ^x -- sh -c 'echo x'"; do
		eval "timeout 60 '$GPUSLICE' profile --node h100-1 --seconds 600 --warmup 600 --repetitions 1 $rest" 2>err && status=0 || status=$?
		cat err
		((status == 9))
	done
	grep -F 'nothing could be measured: ended with status 0' err
	# In the measured part, too, after which the slice and MPS are next.
	timeout 60 "$GPUSLICE" profile --node h100-1 --seconds 600 --warmup 0 --repetitions 1 -- sleep 0.2 2>err && status=0 || status=$?
	((status == 9))
	eventually 20 nothing_left
}

@test "an incomplete profile is kept, names missing figures, and is not a success" {
	# The program ends at once when profile starts it again, to measure it in a slice.
	run -13 profile --shares none --pattern x --save p.yaml -- sh -c '
		[ ! -e ran ] || exit 3
		touch ran
		while echo x; do sleep 0.02; done'
	echo "$output"
	[[ $output == *"Not all could be measured: no mem_peak_mib ("*"; ended with status 3"* ]]
	between t_solo 0.01 10
	rm ran
	run -13 profile --shares none --pattern x -o yaml -- sh -c '
		[ ! -e ran ] || exit 3
		touch ran
		while echo x; do sleep 0.02; done'
	grep -F "Not all could be measured: " err
}

@test "a running program is only sampled, by PID or as a pod" {
	export GPUSLICE_SIM_NODE=h100-1
	"$GPUSLICE" sim create h100-1
	LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim "$GPUSLICE_BUILD/test/cuda/cuda-burn" --window-ms 100 --seconds 0 --work 200000 >burn.out 3>&- &
	pid=$!
	eventually 20 test -s burn.out
	# The benchmark says that it is not alone there.
	not_alone() {
		LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim "$GPUSLICE" bench --nvml "$GPUSLICE_NVML" --scenario small --mode exclusive --seconds 0.5 \
			--warmup 0.1 --repetitions 1 2>&1 | tee out
		grep -F 'The GPU is not free: 1 other process was on it during the benchmark.' out
	}
	eventually 20 not_alone
	run -0 --separate-stderr measured "$GPUSLICE" profile --nvml "$GPUSLICE_NVML" --pid "$pid" --seconds 2 --save p.yaml --name server
	echo "$output"
	[[ $output == *"gpuslice profile, of process $pid"*"1 process"* ]]
	[[ $output == *"only of a program that gpuslice profile starts"* ]]
	between busy 0.3 1
	between mem_peak_mib 1 2000
	sleep 100 3>&- &
	run ! "$GPUSLICE" profile --nvml "$GPUSLICE_NVML" --pid $! --gpu 0 --seconds 1
	kill $!
	[[ $output == *"no process of it was on this GPU in 1 s"* ]]
	run ! "$GPUSLICE" profile --nvml "$GPUSLICE_NVML" --pod default/server --run-dir /nowhere
	[[ $output == *"ask gpusliced for the pod; is it running, with this --run-dir?"* ]]
}

@test "the benchmark compares predictions with its measurements, and reports the cost of sharing" {
	measured profile --workload burn --save p.yaml --shares 50 >/dev/null
	costs() { # fails if the GPU was not kept busy; on a busy host it says that, which is as good
		measured "$GPUSLICE" bench --node h100-1 --seconds 1 --warmup 0.2 --repetitions 1 --scenario '3 burn' --mode exclusive,time-slicing,turns,mps \
			--profile p.yaml --price p5.4xlarge --calibration c.yaml --save r.json >out 2>err ||
			grep -E -- '--calibration: .*inconclusive: .*host too busy' err
	}
	eventually 60 costs
	cat out err
	jq -e '.rows | length == 4 and all(.planned_s > 0.0003 and .planned_s < 0.003)' r.json
	jq -e '.usd_per_hour == 6.88 and (.price_source | startswith("p5.4xlarge by its 1 GPU,"))' r.json
	grep -F 'USD/MILLION' out
	grep -E '^time-slicing +1 +[0-9.]+ %' out
	if [[ -s c.yaml ]]; then
		grep -Ex '  time_slicing: 0\.[0-9]+  # .*3 burn, the middle of 1' c.yaml
	else
		echo '{version: gpuslice/plan/v1, calibration: [{gpu: H100-SXM5-80GB, time_slicing: 0.11}]}' >c.yaml
	fi
	run -13 "$GPUSLICE" bench compare r.json#time-slicing r.json#turns # of one repetition
	grep -E '^3 burn +time-slicing, turns +3 burn +[0-9.]+ +[0-9.]+ +[-+][0-9.]+%' <<<"$output"
	# The planner goes by it.
	run -0 --separate-stderr "$GPUSLICE" plan p.yaml c.yaml
	run -2 "$GPUSLICE" bench --node h100-1 --prices x
	run ! "$GPUSLICE" bench --node h100-1 --price nothing.xlarge --scenario burn
	run ! "$GPUSLICE" bench --node h100-1 --profile /nowhere.yaml
}

@test "requests arrive as in a trace" {
	printf '%s\r\n' TIMESTAMP,ContextTokens,GeneratedTokens >trace.csv
	for i in {10..99}; do printf '2023-11-16 18:17:03.%s00000,600,%d\n' "$i" $((i % 3)) >>trace.csv; done
	arrive() { # about a hundred a second; the trace repeats at its end
		measured "$GPUSLICE" bench --node h100-1 --seconds 0.5 --warmup 0.1 --repetitions 1 --scenario trace --mode exclusive --arrivals trace.csv \
			--save r.json >out 2>err &&
			jq -e '.rows | length == 1 and ([.[0].runs[0].pods[0][]] | add) > 30 and ([.[0].runs[0].pods[0][]] | add) < 60' r.json
	}
	eventually 60 arrive
	cat out err
	echo '2023-11-16 18:17:02.0,1,1' >>trace.csv
	"$GPUSLICE" bench --node h100-1 --seconds 0.5 --repetitions 1 --scenario trace --mode exclusive --arrivals trace.csv >out 2>err || true
	grep -F 'trace.csv:92: expected a moment and tokens, not before that of the line above' err
}

@test "the Job's arguments are the benchmark's" {
	mapfile -t args < <(sed -n 's,^ *- \(--[a-z].*\),\1,p' "$BATS_TEST_DIRNAME/../../deploy/bench-job.yaml" | sed "s,/report,$BATS_TEST_TMPDIR,")
	[[ ${#args[@]} == 4 ]]
	measured "$GPUSLICE" bench "${args[@]}" --node h100-1 --scenario burn --seconds 0.3 --repetitions 1 >out 2>err
	jq -e '.rows | length == 1' bench.json
	grep -F '<title>SIMULATED' bench.html
	! command -v python3 || ! python3 -c 'import yaml' 2>/dev/null ||
		python3 -c 'import sys, yaml; d = list(yaml.safe_load_all(open(sys.argv[1]))); assert len(d) == 1 and d[0]["kind"] == "Job"' \
			"$BATS_TEST_DIRNAME/../../deploy/bench-job.yaml"
}
