#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice simulate: policies that place pods, compared on the small trace of test/data/openb.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	DATA=$BATS_TEST_DIRNAME/../data/openb
	WORK=$BATS_TEST_TMPDIR
	small=(--nodes "$DATA/openb_small_nodes.csv" --trace "$DATA/openb_small_pods.csv")
}

simulate() {
	"$GPUSLICE" simulate "$@"
}

# Without the times of decisions, the rest of the JSON is the same in every run.
without_times() {
	jq 'del(.. | .decisionUs?, .slowestUs?)'
}

@test "a table with all policies, and the lower bound for shares of GPUs" {
	run -0 --separate-stderr simulate "${small[@]}" --seeds 2
	[ -z "$stderr" ]
	[[ ${lines[0]} == "63 nodes with 315 GPUs, 408 pods; known mix" ]]
	for policy in value fgd best-fit first-fit random; do
		grep -qE "^$policy +[0-9]+\.[0-9]{2} .* 2 +[0-9]+ us +[0-9.]+ ms$" <<<"$output"
	done
	[[ $output == *"154 pods ask for 90.1 GPUs. No packing needs fewer than 104 (102 by"*"needs 104, the best that was found 104."* ]]
}

@test "JSON, with only the policies that are named; our own allocates more than best-fit" {
	simulate "${small[@]}" --policy value,best-fit --seeds 5 --mix learned -o json >"$WORK/out.json"
	jq -e '.schema == "gpuslice/placement/v1" and .nodes == 63 and .gpus == 315 and .pods == 408
		and .mix == "learned" and .complete
		and .parts.l2 == 102 and .parts.bound == 104
		and ([.policies[].policy] == ["value", "best-fit"])
		and ([.policies[].runs] == [5, 5])' "$WORK/out.json"
	jq -e '[.policies[].points[4].allocatedPct] | .[0] > .[1] + 1' "$WORK/out.json"
}

@test "the same seeds give the same answers, also by gpuslice plan --trace" {
	simulate "${small[@]}" --policy value,random --seeds 2 -o json | without_times >"$WORK/one"
	simulate "${small[@]}" --policy value,random --seeds 2 -o json | without_times >"$WORK/two"
	cmp "$WORK/one" "$WORK/two"
	"$GPUSLICE" plan "${small[@]}" --policy value,random --seeds 2 -o json | without_times >"$WORK/two"
	cmp "$WORK/one" "$WORK/two"
	simulate "${small[@]}" --policy value,random --seeds 2 --seed 7 -o json | without_times >"$WORK/two"
	run ! cmp -s "$WORK/one" "$WORK/two"
}

@test "errors name this command, and the option, or file, line and column" {
	run -2 --separate-stderr simulate
	[[ $stderr == "gpuslice simulate: expected --trace FILE with pods and --nodes FILE with the nodes for them" ]]
	run -2 --separate-stderr simulate "${small[@]}" more
	[[ $stderr == "gpuslice simulate: unexpected argument 'more'" ]]
	run -2 --separate-stderr simulate "${small[@]}" -o html
	[[ $stderr == "gpuslice simulate: --output: expected text or json, found 'html'" ]]
	run -2 --separate-stderr simulate "${small[@]}" --write "$WORK/out"
	[[ $stderr == "gpuslice simulate: unknown option '--write'"* ]]
	run -2 --separate-stderr simulate "${small[@]}" --mix guess
	[[ $stderr == "gpuslice simulate: --mix: expected known or learned, found 'guess'" ]]
	run -2 --separate-stderr simulate "${small[@]}" --seeds 1001
	[[ $stderr == "gpuslice simulate: --seeds: expected 1 to 1000, found 1001" ]]
	run -3 --separate-stderr simulate "${small[@]}" --policy worst-fit
	[[ $stderr == "gpuslice simulate: no policy 'worst-fit'; there are value, fgd, best-fit, first-fit, random" ]]
	sed '3s/^\([^,]*\),[0-9]*/\1,many/' "$DATA/openb_small_nodes.csv" >"$WORK/nodes.csv"
	run -2 --separate-stderr simulate --nodes "$WORK/nodes.csv" --trace "$DATA/openb_small_pods.csv"
	[[ $stderr == "gpuslice simulate: $WORK/nodes.csv:3: cpu_milli: expected a whole number from 0 to 10000000, found 'many'" ]]
	run -3 --separate-stderr simulate --nodes "$WORK/none.csv" --trace "$DATA/openb_small_pods.csv"
	[[ $stderr == *"$WORK/none.csv"* ]]
}

@test "Ctrl-C shows the runs that are complete" {
	# All policies, a thousand runs each: much longer than the test waits.
	"$GPUSLICE" simulate "${small[@]}" --seeds 1000 >"$WORK/out" 2>"$WORK/err" 3>&- &
	eventually 30 has_computed $! 30
	kill -INT $!
	wait $! && status=0 || status=$?
	[ "$status" = 12 ]
	grep -q '^value ' "$WORK/out"
	grep -qE '^interrupted: [0-9]+ of 5000 runs are in it$' "$WORK/err"
}

# has_computed PID TICKS: the process has used so much time of the processor, whatever else the machine does.
has_computed() {
	awk -v ticks="$2" '{ exit $14 < ticks }' "/proc/$1/stat"
}
