#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice plan; with --trace on the small trace of test/data/openb, as gpuslice simulate (simulate.bats).

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

plan() {
	"$GPUSLICE" plan "$@"
}

@test "the example: 12.24, 3.06, 9.18, 75 %, and why it is not feasible" {
	run --separate-stderr plan "$BATS_TEST_DIRNAME/../../examples/plan/four-on-p3.yaml"
	[ "$status" = 0 ]
	grep -qE '^a GPU each +4 x p3.2xlarge, on demand +12.24 +8,935.20' <<<"$output"
	grep -qE '^4 slices of each GPU, time-slicing +1 x p3.2xlarge, on demand +3.06 +2,233.80' <<<"$output"
	grep -qE '^saving +9.18 +6,701.40 +75.0 %' <<<"$output"
	[[ $output == *"But it does not hold: they ask for 111 % of the GPU's time"*"22.5 % each at most, and within rho_max if for 18.0 %."* ]]
	for row in '4 x p3.2xlarge, spot +1.48 +88 %' '4 x g4dn.xlarge, on demand +2.10 +83 %' \
		'1 x g6.xlarge, on demand, sliced +0.80 +93 %' '1 x p3.2xlarge, spot, sliced +0.37 +97 %'; do
		grep -qE "^$row" <<<"$output"
	done
	[[ $output == *"The plan: 4 nodes, 2.10 USD an hour"*"all ways were tried."* ]]
	[[ $output == *"prices in USD an hour of 2026-07-20, shipped catalogue"* ]]
}

@test "a plan as JSON: nodes, load of each, sources of the figures" {
	cat >"$WORK/plan.yaml" <<-'END'
		version: gpuslice/plan/v1
		workloads:
		- {name: embed, replicas: 4, kind: inference-open, gpu_ref: A10G, t_solo: 8ms, busy: 0.08, rate: 12, u: 0.3,
		   mem_peak_mib: 2500, cpu: 500m, memory: 2Gi}
		- {name: whole, kind: train, gpu_ref: A10G, t_solo: 1.2, mem_peak_mib: 20000, slo: {max_slowdown: 1.2}}
		policy: {instances: [g5.xlarge, g5.12xlarge], modes: [exclusive, slices]}
	END
	plan "$WORK/plan.yaml" -o json >"$WORK/out.json" 2>/dev/null
	jq -e '.schema == "gpuslice/plan-result/v1" and .catalogue_stamp == "2026-07-20" and .complete
		and .bound.exact and .plan.usd_h == 3.018 and (.plan.instances | length) == 3
		and ([.plan.instances[].gpus[].tenants[].workload] | sort) == ["embed", "embed", "embed", "embed", "whole"]
		and ([.predictions[] | select(.workload == "embed")][0] | .model == "turns-ps" and .origin == "measured"
			and .band == 0.1 and .mean_s > 0.008 and .slo == "none")
		and ([.predictions[] | select(.workload == "whole")][0] | .slo == "pass")' "$WORK/out.json"
	plan "$WORK/plan.yaml" -o json 2>/dev/null | jq 'del(.created)' >"$WORK/again.json"
	jq 'del(.created)' "$WORK/out.json" | cmp - "$WORK/again.json"
}

@test "a profile that was disturbed is planned with less confidence, and the plan reports it" {
	printf '%s\n' 'version: gpuslice/plan/v1' 'workloads:' '- {name: embed, kind: inference-open, gpu_ref: A10G, t_solo: 8ms, busy: 0.08, rate: 12, u: 0.3,' \
		'   mem_peak_mib: 2500, sm_active: 0.1, dram: 0.1, u_bw: 0.1, disturbed: "host too busy: so"}' 'policy: {instances: [g5.xlarge]}' >"$WORK/plan.yaml"
	plan "$WORK/plan.yaml" -o json 2>/dev/null >"$WORK/out.json"
	jq -e '.predictions[0].origin == "derived" and .predictions[0].band == 0.25 and .workloads[0].disturbed == "host too busy: so"' "$WORK/out.json"
	run --separate-stderr plan "$WORK/plan.yaml"
	[[ $output == *"'embed' was disturbed while it was measured (host too busy: so), so none of its figures counts as measured: profile it again."* ]]
	sed -i 's/, disturbed: "[^"]*"//' "$WORK/plan.yaml"
	plan "$WORK/plan.yaml" -o json 2>/dev/null | jq -e '.predictions[0].origin == "measured" and (.workloads[0] | has("disturbed") | not)'
}

@test "an SLO that cannot be evaluated is named, with the missing figure" {
	printf '%s\n' 'version: gpuslice/plan/v1' 'workloads:' \
		'- {name: a, kind: inference-open, gpu_ref: A10G, busy: 0.1, mem_peak_mib: 2000, rate: 5, slo: {p99_ms: 20}}' \
		'- {name: b, kind: inference-open, gpu_ref: A10G, t_solo: 10ms, busy: 0.1, mem_peak_mib: 2000, slo: {p95_ms: 20, min_rate: 4}}' \
		'- {name: c, kind: batch, gpu_ref: A10G, t_solo: 10ms, busy: 0.1, mem_peak_mib: 2000}' 'policy: {instances: [g5.xlarge]}' >"$WORK/plan.yaml"
	run -13 --separate-stderr plan "$WORK/plan.yaml"
	[[ $output == *"Not known is whether an SLO is met: 'a' (p99_ms; without t_solo), 'b' (p95_ms, min_rate; without rate)."* ]]
	[[ $output == *"What is known of it rests on what was measured."* ]]
}

@test "workloads without a place and unknown results have exit codes" {
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: huge, mem_peak_mib: 900000}]\n' >"$WORK/huge.yaml"
	run -1 --separate-stderr plan "$WORK/huge.yaml"
	[[ $output == *"huge.yaml:2: no place for 1 of 'huge': memory"* ]]
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: a, mem_peak_mib: 900, slo: {p99_ms: 50}}]\n' >"$WORK/unknown.yaml"
	run -13 --separate-stderr plan "$WORK/unknown.yaml"
	[[ $output == *"t_solo"* ]]
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: a, busy: 2}]\n' >"$WORK/bad.yaml"
	run -2 --separate-stderr plan "$WORK/bad.yaml"
	[[ $stderr == *"bad.yaml:2:29: busy: expected a number from 0 to 1, found 2"* ]]
	# A layout that nothing is cheaper than, and that is dearer than the baseline.
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: a, busy: 0.05, mem_peak_mib: 10}]\nlayout: {instance: p3.8xlarge, slices: 4}\nbaseline: g4dn.xlarge\n' >"$WORK/dear.yaml"
	run -0 --separate-stderr plan "$WORK/dear.yaml"
	grep -qE '^more +11.71 +8,551.22 +-2227.0 %' <<<"$output"
	run -2 --separate-stderr plan "$WORK/dear.yaml" --policy value
	[[ $stderr == *"--policy is for --trace"* ]]
	run -2 --separate-stderr plan
	[[ $stderr == *"expected files that say what is to be planned"* ]]
}

@test "a catalogue of one's own" {
	printf 'version: gpuslice/prices/v1\ntypes:\n  mine: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 64,\n    memoryMiB: 99999, pricePerHour: {"*": 0.01}}\n' >"$WORK/prices.yaml"
	printf 'version: gpuslice/plan/v1\nworkloads: [{name: a, mem_peak_mib: 900}]\n' >"$WORK/plan.yaml"
	run -0 --separate-stderr plan "$WORK/plan.yaml" --prices "$WORK/prices.yaml"
	[[ $output == *"The plan: 1 node, 0.01 USD an hour"* ]]
}

@test "prices of others, and one by hand; the better source counts in any order" {
	local data="$BATS_TEST_DIRNAME/../data/prices"
	printf 'version: gpuslice/plan/v1\npolicy: {regions: [us-east-1]}\nworkloads: [{name: a, gpu_ref: L4, mem_peak_mib: 20000, isolation: hardware}]\n' >"$WORK/plan.yaml"
	run -0 --separate-stderr plan "$WORK/plan.yaml" --prices "$data/price-query.json" --prices "$data/spot-advisor.json"
	[[ $output == *"1 node, 0.70 USD an hour"* ]]
	[[ $output == *"$data/price-query.json"* ]]
	[[ $stderr$output == *"left out, as the catalogue does not know their GPUs: g99.xlarge"* ]]
	run -0 --separate-stderr plan --price g6.xlarge=0.11 "$WORK/plan.yaml" --prices "$data/price-list.json"
	[[ $output == *"1 node, 0.11 USD an hour"* ]]
	run -2 --separate-stderr plan "$WORK/plan.yaml" --price g6.xlarge=x
	[[ $stderr == *"expected TYPE=AMOUNT"* ]]
	echo '{"foo": 1}' >"$WORK/none.json"
	run -2 --separate-stderr plan "$WORK/plan.yaml" --prices "$WORK/none.json"
	[[ $stderr == *"none.json: expected version: gpuslice/prices/v1, AWS's Price List"*"found something else"* ]]
}

@test "a fleet: all have a place, those that must be apart are, and the plan is cheaper than a GPU each" {
	run -0 --separate-stderr plan "$BATS_TEST_DIRNAME/../../examples/plan/fleet.yaml" -o json
	jq -e '(.unplaced | length) == 0 and .plan.usd_h < 0.6 * .unsliced.usd_h and .unsliced.usd_h < .baseline.usd_h
		and ([.plan.instances[] | select(any(.gpus[].tenants[]; .workload == "speech"))] | length) == 2
		and .extras.plan.all_usd_h > .plan.usd_h
		and all(.predictions[]; .slo != "fail")' <<<"$output"
}

@test "options without effect are refused" {
	touch "$WORK/plan.yaml"
	run -2 --separate-stderr plan "${small[@]}" --write "$WORK/out"
	[[ $stderr == *"--write is not for --trace"* ]]
	run -2 --separate-stderr plan "${small[@]}" --price g6.xlarge=1
	[[ $stderr == *"--price is not for --trace"* ]]
	run -2 --separate-stderr plan "$WORK/plan.yaml" --translate --write "$WORK/out"
	[[ $stderr == *"--write is not for --translate"* ]]
	run -2 --separate-stderr plan "$WORK/plan.yaml" --seeds 3
	[[ $stderr == *"--seeds is for --trace"* ]]
	[ ! -e "$WORK/out" ]
}

@test "a table with all policies, and the lower bound for shares of GPUs" {
	run --separate-stderr plan "${small[@]}" --seeds 2
	[ "$status" = 0 ]
	[ -z "$stderr" ]
	[[ ${lines[0]} == "63 nodes with 315 GPUs, 408 pods; known mix" ]]
	for policy in value fgd best-fit first-fit random; do
		grep -qE "^$policy +[0-9]+\.[0-9]{2} .* 2 +[0-9]+ us +[0-9.]+ ms$" <<<"$output"
	done
	[[ $output == *"154 pods ask for 90.1 GPUs. No packing needs fewer than 104 (102 by"*"needs 104, the best that was found 104."* ]]
}

@test "JSON, with only the policies that are named; our own allocates more than best-fit" {
	plan "${small[@]}" --policy value,best-fit --seeds 5 --mix learned -o json >"$WORK/out.json"
	jq -e '.schema == "gpuslice/placement/v1" and .nodes == 63 and .gpus == 315 and .pods == 408
		and .mix == "learned" and .complete
		and .parts.l2 == 102 and .parts.bound == 104
		and ([.policies[].policy] == ["value", "best-fit"])
		and ([.policies[].points[].askedPct] == [50, 80, 90, 95, 100, 110, 120, 50, 80, 90, 95, 100, 110, 120])' \
		"$WORK/out.json"
	jq -e '[.policies[].points[4].allocatedPct] | .[0] > .[1] + 1' "$WORK/out.json"
}

@test "the same seeds give the same answers" {
	plan "${small[@]}" --policy value,random --seeds 2 -o json | jq 'del(.. | .decisionUs?, .slowestUs?)' >"$WORK/one"
	plan "${small[@]}" --policy value,random --seeds 2 -o json | jq 'del(.. | .decisionUs?, .slowestUs?)' >"$WORK/two"
	cmp "$WORK/one" "$WORK/two"
	plan "${small[@]}" --policy value,random --seeds 2 --seed 7 -o json |
		jq 'del(.. | .decisionUs?, .slowestUs?)' >"$WORK/two"
	run ! cmp -s "$WORK/one" "$WORK/two"
}

@test "errors name the option, or file, line and column" {
	run -2 --separate-stderr plan --trace "$DATA/openb_small_pods.csv"
	[[ $stderr == *"expected --trace FILE with pods and --nodes FILE with the nodes for them"* ]]
	run -2 --separate-stderr plan "${small[@]}" --mix guess
	[[ $stderr == *"--mix: expected known or learned, found 'guess'"* ]]
	run -2 --separate-stderr plan "${small[@]}" --seeds 0
	[[ $stderr == *"--seeds: expected 1 to 1000, found 0"* ]]
	run --separate-stderr plan "${small[@]}" --policy worst-fit
	[ "$status" != 0 ]
	[[ $stderr == *"no policy 'worst-fit'; there are value, fgd, best-fit, first-fit, random"* ]]
	sed '3s/^\([^,]*\),[0-9]*/\1,many/' "$DATA/openb_small_nodes.csv" >"$WORK/nodes.csv"
	run -2 --separate-stderr plan --nodes "$WORK/nodes.csv" --trace "$DATA/openb_small_pods.csv"
	[[ $stderr == *"$WORK/nodes.csv:3: cpu_milli: expected a whole number from 0 to 10000000, found 'many'"* ]]
	run --separate-stderr plan --nodes "$WORK/none.csv" --trace "$DATA/openb_small_pods.csv"
	[ "$status" != 0 ]
	[[ $stderr == *"$WORK/none.csv"* ]]
}

# computed PID TICKS: it has used so much time of the processor, whatever else the machine does.
computed() {
	awk -v ticks="$2" '{ exit $14 < ticks }' "/proc/$1/stat"
}

@test "Ctrl-C shows the runs that are complete" {
	# All policies: many times as long as what is waited for.
	"$GPUSLICE" plan "${small[@]}" --seeds 1000 >"$WORK/out" 2>"$WORK/err" 3>&- &
	eventually 30 computed $! 30
	kill -INT $!
	wait $! && status=0 || status=$?
	[ "$status" = 12 ]
	grep -q '^value ' "$WORK/out"
	grep -qE '^interrupted: [0-9]+ of [0-9]+ runs are in it$' "$WORK/err"
}
