#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice bench: on a simulated GPU, all of it; and what it says of results.

bats_require_minimum_version 1.5.0
load lib
load slice

setup_file() {
	stage_programs
}

setup() {
	node_setup
	export TMPDIR=/tmp/gs-bench-$$
	mkdir -p "$TMPDIR"
}

teardown() {
	rm -rf "$TMPDIR"
	slice_node_teardown
}

# On a busy machine the result is inconclusive (13), which is as good unless the test is about it.
bench() {
	"$GPUSLICE" bench --node h100-1 --seconds 0.4 --warmup 0.1 --repetitions 2 "$@" 2>"$BATS_TEST_TMPDIR/err" || unless_inconclusive $?
}

# unless_inconclusive STATUS: returns it; 0 for 13.
unless_inconclusive() {
	return $(($1 == 13 ? 0 : $1))
}

# nothing_left: neither files nor programs of a bench; the simulated GPU goes some seconds after its last program.
nothing_left() {
	[[ -z $(ls "$TMPDIR") ]] && ! pgrep -f "$TMPDIR"
}

@test "all modes: rows, the exclusive baseline, and nothing is left behind" {
	bench --scenario '3 burn,latency + burn' --save "$BATS_TEST_TMPDIR/r.json" >"$BATS_TEST_TMPDIR/out"
	cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
	grep -F 'SIMULATED: no GPU was measured.' "$BATS_TEST_TMPDIR/out"
	jq -e '.simulated and (.interrupted | not) and .repetitions == 2 and .multiprocessors == 132
		and ([.rows[] | .mode] | unique == ["exclusive", "mps", "mps-limited", "time-slicing", "turns", "turns-latency", "turns-weighted"])
		and ([.rows[].runs[] | .errors] | add == 0) and ([.rows[] | .runs | length] | unique == [2])
		and (.checks | length == 0)' "$BATS_TEST_TMPDIR/r.json"
	# Weights 1, 2, 3 give shares in that order.
	jq -e '[.rows[] | select(.mode == "turns-weighted")] | sort_by(.weight)
		| [.[] | [.runs[].pods[][]] | add] | length == 3 and .[0] < .[1] and .[1] < .[2]' "$BATS_TEST_TMPDIR/r.json"
	eventually 20 nothing_left
	run -0 bench --mode exclusive --scenario burn -o csv
	[[ ${lines[0]} == mode,pods,replicas,scenario,workload,* && ${lines[1]} == 'exclusive,1,1,alone,burn,'* ]]
	[[ ${#lines[@]} == 2 ]]
}

# undisturbed FILE: as on a machine that had nothing else to do.
undisturbed() {
	jq -c '.inconclusive = false | del(.rows[].runs[].doubt)' "$1" >"$1.new"
	mv "$1.new" "$1"
}

hogs() {
	local i
	pids=()
	for ((i = 0; i < 4 * $(nproc); i++)); do
		timeout 120 sh -c 'while :; do :; done' 3>&- &
		pids+=($!)
	done
}

@test "a host that is too busy makes a result inconclusive, and not a verdict" {
	cd "$BATS_TEST_TMPDIR"
	hogs
	in_doubt() {
		run -13 --separate-stderr "$GPUSLICE" bench --node h100-1 --seconds 0.4 --warmup 0.1 --repetitions 2 \
			--mode exclusive,turns --scenario '2 burn' --save r.json || return 1
		echo "$output" >out
		grep -E '^  2 burn, turns, burn, [1-9] of 2 repetitions: .*host too busy' out
	}
	eventually 90 in_doubt
	check_in_doubt() {
		bench --scenario burn --mode turns --checks neighbour --save c.json >checks &&
			jq -e '.checks[0].what | test("host too busy")' c.json
	}
	eventually 90 check_in_doubt
	kill "${pids[@]}"
	cat out checks
	jq -e '.inconclusive and ([.rows[].runs[].doubt // "" | select(test("host too busy"))] | length > 0)' r.json
	# Those that were disturbed; not all need be.
	jq -c '(.rows[] | select(any(.runs[]; (.doubt // "") != "")) | .runs[].blocks[])
		|= (.sum_ns *= 2 | .times |= [to_entries[] | .value + (if .key % 2 == 0 then 128 else 0 end)])' r.json >slow.json
	run -13 "$GPUSLICE" bench compare r.json slow.json
	[[ $output == *"Inconclusive: 2 burn, burn: "*"host too busy"* ]]
	run -13 --separate-stderr "$GPUSLICE" bench compare r.json slow.json -o json
	jq -e '.verdict == "inconclusive" and .rowsInDoubt > 0 and ([.lines[] | select(.doubt)] | all(.verdict == "inconclusive"))' <<<"$output"
	"$GPUSLICE" bench report r.json --save r.html
	grep -F '>Inconclusive</strong> under' r.html
	# Isolation tests that are judged by time are inconclusive, too.
	jq -e '.checks[0] | .name == "neighbour" and (.known | not) and (.what | test("host too busy.*measured: "))' c.json
	grep -E '^neighbour +turns +inconclusive ' checks
}

# beside_another COMMAND...: with another process on the GPU that waits for work most of the time.
beside_another() {
	local pid status=0
	LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim "$GPUSLICE_BUILD/test/cuda/cuda-burn" --window-ms 100 --seconds 0 --work 1000 >another 3>&- &
	pid=$!
	eventually 20 test -s another
	LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim GPUSLICE_MPS_CONTROL=$STAGE/lib/gpuslice/sim/nvidia-cuda-mps-control "$@" || status=$?
	kill "$pid"
	wait "$pid" || true
	return "$status"
}

@test "isolation tests beside another process are inconclusive; unknown figures of others are named" {
	local burn="$GPUSLICE_BUILD/test/cuda/cuda-burn --window-ms 20 --seconds 0 --work 1000"
	node_teardown
	node_setup h100-1
	cd "$BATS_TEST_TMPDIR"
	"$GPUSLICE" sim create h100-1
	measure() {
		"$GPUSLICE" bench --seconds 0.4 --warmup 0.1 --repetitions 1 --save r.json "$@"
	}
	run -13 beside_another measure --mode time-slicing,turns,mps-limited --scenario '2 small' --checks memory
	echo "$output"
	jq -e '.checks | length == 3 and all((.known | not) and (.what | test("1 other process used the GPU.*[(]measured: ")))' r.json
	jq -e '[.rows[].runs[].doubt | test("1 other process used the GPU")] | all' r.json
	# Also where it cannot be counted how many processes are the benchmark's own: this one was there before.
	run -13 beside_another measure --mode time-slicing --scenario '2 command' --command "$burn" --pattern '^window'
	echo "$output"
	jq -e '[.rows[].runs[].doubt | test("1 other process used the GPU")] | all' r.json
	run -13 beside_another "$GPUSLICE" profile --seconds 0.6 --warmup 0.3 --repetitions 1 --shares none --pattern '^window' \
		--save p.yaml -- $burn
	echo "$output"
	grep -E '^  disturbed: .*1 other process used the GPU' p.yaml
	# Without one there may have been some that came later.
	alone() {
		LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim GPUSLICE_MPS_CONTROL=$STAGE/lib/gpuslice/sim/nvidia-cuda-mps-control \
			measure --mode turns,mps-limited --scenario '2 small' --checks memory || unless_inconclusive $?
	}
	run -0 alone
	jq -e '.checks | length == 2 and all(.known)' r.json
	jq -e '.notes | index("Isolation tests: Not known, so no doubt could come of it: whether other processes used the GPU (mps-limited).")
		and index("Not known, so no doubt could come of it: whether other processes used the GPU (mps-limited).")' r.json
}

@test "a GPU in MIG mode has no processes of its own: those of its devices count" {
	root_cuts
	node_teardown
	node_setup h100-1
	cd "$BATS_TEST_TMPDIR"
	printf '%s\n' 'version: v1' 'mig-configs: {mine: [{devices: [0], mig-enabled: true, mig-devices: {2g.20gb: 3}}]}' >mine.yaml
	"$GPUSLICE" mig apply -f mine.yaml -c mine
	GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc run -13 beside_another "$GPUSLICE" bench --seconds 0.4 --warmup 0.1 --repetitions 1 --mode mig \
		--scenario '2 small' --checks memory --save r.json
	echo "$output"
	jq -e '.checks[0] | (.known | not) and (.what | test("1 other process used the GPU"))' r.json
	jq -e '.rows[0].runs[0].doubt | test("1 other process used the GPU")' r.json
}

@test "compare: the same passes, a slower one fails, one repetition is inconclusive" {
	cd "$BATS_TEST_TMPDIR"
	# Five repetitions are so many that a busy machine leaves no doubt.
	bench --repetitions 5 --mode exclusive --scenario small --save a.json >/dev/null
	# A busy machine would make all of it inconclusive: that is another test.
	undisturbed a.json
	# Twice as slow, by the result's own classes: one doubling is 128 of them.
	jq -c '.rows[].runs[].blocks[] |= (.sum_ns *= 2 | .times |= [to_entries[] | .value + (if .key % 2 == 0 then 128 else 0 end)])' a.json >b.json
	run -0 "$GPUSLICE" bench compare a.json a.json --slo mean=10000%
	[[ ${lines[-1]} == "pass: 1 pass, 0 fail, 0 inconclusive" ]]
	run -1 "$GPUSLICE" bench compare a.json b.json --slo mean_ms=0.0001
	[[ $output == *"fail: 0 pass, 1 fail, 0 inconclusive"* ]]
	run -1 --separate-stderr "$GPUSLICE" bench compare a.json b.json --slo mean_ms=0.0001 -o json
	jq -e '.verdict == "fail" and (.lines | length == 1) and .lines[0].change > 0.9 and .lines[0].change < 1.1' <<<"$output"
	# The same work as before, or a word about it.
	bench --mode exclusive --scenario small --like a.json --save like.json >/dev/null
	run ! grep measuring "$BATS_TEST_TMPDIR/err"
	jq -es '.[0].sizes == .[1].sizes and (.[0].sizes | length == 1)' a.json like.json
	jq -c '.sizes[0].rounds *= 2' a.json >twice.json
	run -0 "$GPUSLICE" bench compare a.json twice.json --slo mean=10000%
	[[ $output == *"A kernel of small is +100.0% of work after; 'gpuslice bench --like"* ]]
	jq -c '.checks = [{name: "memory", mode: "turns", passed: true, known: true, value: 99, unit: "%", what: "w"}]' a.json >passed.json
	jq -c '.checks[0].passed = false' passed.json >lost.json
	run -0 "$GPUSLICE" bench compare lost.json passed.json --slo mean=10000%
	run -13 "$GPUSLICE" bench compare passed.json a.json --slo mean=10000%
	[[ $output == *"Inconclusive: isolation test memory, turns passed before and is not known now"*"; 1 isolation test known only before"* ]]
	run -1 "$GPUSLICE" bench compare passed.json lost.json --slo mean=10000%
	[[ $output == *"Isolation: memory, turns passed before and fails now: w"*"; 1 isolation test that passed before" ]]
	jq -c '.rows[].runs |= .[:1]' a.json >one.json
	run -13 "$GPUSLICE" bench compare a.json one.json
	[[ $output == *inconclusive* ]]
}

# page FILE: well-formed, with a picture for each <svg>, and nothing of elsewhere; what is said in it is in $page.
page() {
	python3 - "$1" <<-'EOF'
		import re, sys, xml.etree.ElementTree as tree
		text = open(sys.argv[1], encoding="utf-8").read()
		root = tree.fromstring(text)
		svg = root.findall(".//{http://www.w3.org/2000/svg}svg")
		assert svg and all("SIMULATED" in "".join(s.itertext()) for s in svg), "a plot does not say it"
		assert not re.search(r"<script|<link|<img|url\(|\b(nan|inf)\b", text), "of elsewhere, or no number"
		assert "SIMULATED" in root.find("head/title").text
		print(len(svg), "plots")
	EOF
}

@test "report: a page of a run, of its file, and of errors" {
	cd "$BATS_TEST_TMPDIR"
	bench --mode exclusive,time-slicing,turns-weighted --scenario '2 burn' --save r.json --report r.html >out
	grep -F 'SIMULATED: no GPU was measured.' out
	page r.html
	grep -F '<h2>2 burn</h2>' r.html
	grep -F 'Shares of 2 burn in 2 burn, turns-weighted' r.html
	run -0 "$GPUSLICE" bench report r.json -s again.html
	[[ -z $output ]]
	cmp r.html again.html
	grep -qE '[0-9][.][0-9]{14}' r.json # all digits of a number, or the two differ where one is rounded
	"$GPUSLICE" bench report r.json | cmp - r.html
	# Texts of the file are no markup.
	jq -c '.gpu = "<b>&\"" | .rows[0].runs[0] |= (.errors = 1 | .error = "<script>no") | .notes = ["</main>"]' r.json >hostile.json
	"$GPUSLICE" bench report hostile.json >hostile.html
	page hostile.html
	grep -F '&lt;script&gt;no' hostile.html
	undisturbed r.json
	undisturbed hostile.json
	"$GPUSLICE" bench report r.json hostile.json -s both.html
	page both.html
	grep -F 'GPU sharing benchmark: before and after' both.html
	grep -F 'errors that were not there before: 1.' both.html
	run -3 "$GPUSLICE" bench report nowhere.json
	run -2 "$GPUSLICE" bench report
	[[ $output == *"expected one result"* ]]
	run -3 "$GPUSLICE" bench --node h100-1 --report nowhere/at/all.html
	[[ $output == *"--report: write in 'nowhere/at': No such file"* ]]
}

@test "a program of one's own: each line is a unit, in slices and under MPS too" {
	local burn=$GPUSLICE_BUILD/test/cuda/cuda-burn
	bench --command "exec '$burn' --window-ms 20 --seconds 0 --work 1000" --pattern '^window' --mode exclusive,turns,mps \
		--scenario '2 command' --save "$BATS_TEST_TMPDIR/c.json"
	cat "$BATS_TEST_TMPDIR/err"
	jq -e '([.rows[] | .mode] | sort == ["exclusive", "mps", "turns"]) and ([.rows[].runs[].errors] | add == 0)
		and ([.rows[].runs[] | .pods[] | add] | all(. >= 5 and . <= 25))' "$BATS_TEST_TMPDIR/c.json"
	# Programs that all fail have no figure, and are no success.
	run -9 bench --command "echo one; echo no more; exit 3" --mode exclusive --repetitions 1 --scenario command -o csv
	[[ $output == *',1,1,true,'[01] && $output == *,command,,,,,,,,,,,,,,,* ]] # one error, no figure of units
	grep -F 'gpuslice bench: no pod did a unit of work: ended with status 3' "$BATS_TEST_TMPDIR/err"
	run -9 bench --command false --mode exclusive,time-slicing --repetitions 1 --scenario '2 command' --save "$BATS_TEST_TMPDIR/f.json"
	"$GPUSLICE" bench report "$BATS_TEST_TMPDIR/f.json" --save "$BATS_TEST_TMPDIR/f.html"
	run ! grep -w nan "$BATS_TEST_TMPDIR/f.html"
	run -9 bench --command false --mode exclusive,time-slicing --repetitions 1 --scenario '2 command'
	[[ $output == *'1: ended with status 1'* && $output != *0.00* ]]
	grep -E '^2 command +time-slicing +2 command +- .* 2: ' <<<"$output"
	# Where one row works, the other is not known.
	run -13 "$GPUSLICE" bench --node h100-1 --seconds 0.4 --warmup 0.1 --repetitions 1 --mode exclusive,turns --scenario '2 command' \
		--command '[ "$(env | grep -c gpuslice-cuda)" = 0 ] || exit 4; while echo unit; do sleep 0.02; done'
	grep -E '^2 command +turns +2 command +- .* 2: ' <<<"$output"
	run -2 bench --command true --pattern '(' --mode exclusive --scenario command
	grep -F "pattern '('" "$BATS_TEST_TMPDIR/err"
	eventually 20 nothing_left
}

# check NAME MODE EXPRESSION: of the test's check in c.json.
check() {
	jq -e --arg name "$1" --arg mode "$2" "[.checks[] | select(.name == \$name and .mode == \$mode)] | length == 1 and (.[0] | $3)" \
		"$BATS_TEST_TMPDIR/c.json"
}

# said JQ_TEST: of the only error in c.json.
said() {
	jq -e ".rows[0].runs[0] | .errors == 1 and (.error | $1)" c.json
}

@test "a program that does no unit is given up" {
	cd "$BATS_TEST_TMPDIR"
	local args=(--repetitions 1 --mode exclusive --scenario command --startup 1 --save c.json)
	run -9 bench "${args[@]}" --pattern '^done' --command 'while sleep 0.05; do echo "step $((n += 1))"; done'
	said 'test("^no unit in 1 s, no line matched the pattern; it said last: step [0-9]+$")'
	run -9 bench "${args[@]}" --command 'while sleep 0.05; do echo "only here" >&2; done'
	said '. == "no unit in 1 s; it said last: only here"'
	run -9 bench "${args[@]}" --command 'exec sleep 60'
	said '. == "no unit in 1 s; it said nothing (python3 wants -u)"'
	# What is no UTF-8, or is cut within a character, is a text all the same.
	run -9 bench "${args[@]}" --pattern '^done' --command "while sleep 0.05; do printf 'caf\\351 %064d\\351\\033\\n' 0 | tr 0 '\\303'; done"
	said 'test("it said last: caf")'
	run -9 bench "${args[@]}" --command "printf 'caf\\351\\n' >&2; exit 3"
	said '. == "ended with status 3: caf?"'
	eventually 20 nothing_left
}

# One line for each GPU: index, mode, instances and their places.
layout() {
	"$GPUSLICE" mig status -o json | jq -c '.[] | [.index, .mig, [.instances[]? | [.profile, .start]]]'
}

# given_back: as it was before, and nothing is left of it.
given_back() {
	diff <(layout) before && [[ $(ls "$GPUSLICE_RUN_DIR") == mig.lock ]]
}

@test "mig: the GPU is partitioned for each scenario, and restored" {
	root_cuts
	node_teardown
	node_setup p5.48xlarge
	cd "$BATS_TEST_TMPDIR"
	# A person's layout on two GPUs; that of the second is nobody's business.
	printf '%s\n' 'version: v1' 'mig-configs:' '  mine:' '  - {devices: [0, 1], mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 2}}' \
		'  - {devices: [2, 3, 4, 5, 6, 7], mig-enabled: false}' >mine.yaml
	"$GPUSLICE" mig apply -f mine.yaml -c mine
	layout >before
	cat before
	[[ $(sed -n 1p before) == '[0,"on",[['* ]]
	local args=(bench --seconds 1 --warmup 0.1 --repetitions 2 --allow-mig
		--command 'echo "$CUDA_VISIBLE_DEVICES" >>seen; while echo unit; do sleep 0.02; done'
		--scenario '2 command,4 command,8 command')
	"$GPUSLICE" "${args[@]}" --mode exclusive,mig --save r.json 2>err || unless_inconclusive $?
	cat err
	given_back
	jq -e '[.rows[] | "\(.mode) \(.replicas) \([.runs[].errors] | add)"] == ["exclusive 1 0", "mig 2 0", "mig 4 0"]
		and .notes == ["Not known, so no doubt could come of it: whether other processes used the GPU.", "mig, 2 pods: each had a device 3g.40gb.", "mig, 4 pods: each had a device 1g.20gb.",
		"mig was left out for 8 pods: GPU 0: the GPU has no room for 8 MIG devices"] and (.interrupted | not)' r.json
	grep -F 'the GPU is 4 MIG devices 1g.20gb now' err
	# Two repetitions of one pod on the whole GPU, of two and of four with a device each.
	[[ $(grep -c '^GPU-' seen) == 2 && $(grep '^MIG-' seen | sort | uniq -c | awk '{print $1}' | sort -u) == 2 ]]
	[[ $(grep '^MIG-' seen | sort -u | wc -l) == 6 ]]
	# Programs compute there: each of two on three sevenths does more than each of seven on one.
	LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim "$GPUSLICE" bench --seconds 0.5 --warmup 0.1 --repetitions 1 --allow-mig --mode mig \
		--scenario '2 burn,7 burn' --checks memory --save r.json 2>err || [[ $? == 13 ]] || { cat err && false; }
	given_back
	jq -e '[.rows[].runs[].errors] | add == 0' r.json
	jq -e '[.rows[] | [.runs[0].pods[][]] | add / length] as [$two, $seven] | $two > 2 * $seven and $seven > 0' r.json
	jq -e '.checks | length == 1 and .[0].name == "memory" and .[0].mode == "mig" and .[0].passed' r.json
	# Off before, off after; a GPU that waits for nobody.
	"$GPUSLICE" "${args[@]}" --gpu 2 --mode mig --repetitions 1 >/dev/null 2>err || [[ $? == 13 ]]
	given_back
}

# The GPU has been cut for them.
pods_run() {
	leftovers | awk '$2 == "/bin/sh" && $3 == "-c" { n++ } END { exit !n }'
}

no_pods() {
	! pods_run
}

@test "mig: a benchmark that is stopped gives the GPU back; after kill -9 a person does" {
	root_cuts
	node_teardown
	node_setup p5.48xlarge
	cd "$BATS_TEST_TMPDIR"
	printf '%s\n' 'version: v1' 'mig-configs: {mine: [{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 1, 1g.10gb: 2}}]}' >mine.yaml
	"$GPUSLICE" mig apply -f mine.yaml -c mine
	layout >before
	local number status saved args=(bench --seconds 60 --warmup 0.1 --allow-mig --mode mig
		--command 'while echo unit; do sleep 0.02; done' --scenario '2 command,4 command')
	for number in INT TERM HUP; do
		rm -f err # what the last one wrote says nothing of this one
		"$GPUSLICE" "${args[@]}" --save r.json >out 2>err &
		eventually 20 grep -q 'mig, 2 command' err
		kill -$number $!
		kill -$number $! # once more, for those who cannot wait
		status=0
		wait $! || status=$?
		[[ $status == 12 ]]
		given_back
		eventually 5 no_pods # what was killed may take a moment
	done
	# Somebody is still there: it waits.
	rm -f err
	"$GPUSLICE" "${args[@]}" >out 2>err &
	eventually 20 pods_run
	"$GPUSLICE" sim process start "$("$GPUSLICE" mig status -o json | jq -r '.[0].instances[] | select(.start == 0).computeInstances[0].uuid')" --pid 77
	kill -INT $!
	eventually 20 grep -q '^the GPU cannot be changed yet, waiting: ' err
	run ! given_back
	"$GPUSLICE" sim process stop 77
	status=0
	wait $! || status=$?
	[[ $status == 12 ]]
	given_back
	# Between two steps of the cut.
	"$GPUSLICE" "${args[@]}" >out 2>err &
	eventually 20 compgen -G "$GPUSLICE_RUN_DIR/bench-mig-GPU-*.json"
	kill -INT $!
	status=0
	wait $! || status=$?
	[[ $status == 12 ]]
	given_back
	eventually 5 no_pods
	"$GPUSLICE" "${args[@]}" >out 2>err &
	eventually 20 pods_run
	kill -KILL $!
	wait $! || true
	run ! given_back
	eventually 10 not_in_bench gpuslice-load
	saved=$(echo "$GPUSLICE_RUN_DIR"/bench-mig-GPU-*.json)
	# What it is now may be somebody's wish by now.
	run -4 "$GPUSLICE" "${args[@]}"
	[[ $output == *"--allow-mig: a benchmark was killed before it gave the GPU back. What it was is in '$saved': "* ]]
	"$GPUSLICE" mig restore -f "$saved"
	rm "$saved"
	given_back
	# Where it makes no sense, and where there is no MIG.
	run -2 "$GPUSLICE" bench --allow-mig --mode exclusive
	[[ $output == *"--allow-mig is for the mode mig"* ]]
	run -2 "$GPUSLICE" bench --allow-mig --scenario burn
	[[ $output == *"--allow-mig: expected a scenario of two pods or more"* ]]
	GPUSLICE_SIM_NODE=p3.8xlarge GPUSLICE_SIM_DIR=$BATS_TEST_TMPDIR/v100 run -6 "$GPUSLICE" "${args[@]}"
	[[ $output == *"--allow-mig: the GPU has no MIG"* ]]
}

@test "isolation: which tests each way of sharing passes" {
	local busy='((.known | not) and (.what | test("host too busy")))'
	bench --scenario burn --mode turns,turns-latency,mps --checks memory,neighbour,fault,recovery \
		--save "$BATS_TEST_TMPDIR/c.json" >"$BATS_TEST_TMPDIR/out"
	cat "$BATS_TEST_TMPDIR/out" "$BATS_TEST_TMPDIR/err"
	jq -e '(.rows | length == 0) and (.checks | length == 9) and (.checks | all(.known or (.what | test("host too busy")))) and (.interrupted | not)' "$BATS_TEST_TMPDIR/c.json"
	check memory turns '.passed and .value > 95 and .value <= 100.5 and .unit == "%"'
	check memory mps '(.passed | not) and .value > 95 and (.what | test("^no limit: .*; its neighbour then got 0.0 GiB$"))'
	check neighbour turns-latency "$busy or .unit == \"ms\""
	check fault turns '.passed and (.what | test("ILLEGAL_ADDRESS \\(700\\)\\), its neighbour went on"))'
	check recovery turns '(.value < 1000 or (.known | not)) and (.what | test("a new pod ran after .* GiB free"))'
	check fault mps '(.passed | not) and .value == null and (.what | test("its neighbour too .*; a new pod ran after"))'
	grep -E '^ISOLATION +MODE +RESULT +FIGURE +WHAT' "$BATS_TEST_TMPDIR/out"
	grep -E '^memory +turns +PASS +[0-9.]+% +a pod got' "$BATS_TEST_TMPDIR/out"
	grep -F 'isolation: memory limit, turns' "$BATS_TEST_TMPDIR/err"
	# What it does alone is measured first, and on a busy machine is less than it was: then once more.
	neighbours() {
		check neighbour turns "$busy or (.value > -20 and .value < 60)" && check neighbour mps "$busy or .value > 5" && return
		bench --scenario burn --mode turns,mps --checks neighbour --save "$BATS_TEST_TMPDIR/c.json"
		return 1
	}
	eventually 90 neighbours
	# A pod that is killed while it waits for a CPU has nothing on the GPU, and ends nobody: then once more.
	ends_too() {
		bench --scenario burn --mode mps --checks recovery --save "$BATS_TEST_TMPDIR/c.json"
		check recovery mps "$busy"' or ((.passed | not) and (.what | test("ended too .*; a new pod ran after")))'
	}
	eventually 90 ends_too
	eventually 20 nothing_left
}

@test "isolation: unmeasured results are unknown; Ctrl-C keeps results; kill -9 leaves nothing behind" {
	cd "$BATS_TEST_TMPDIR"
	bench --scenario burn --mode mps-limited --checks memory --save c.json
	check memory mps-limited '.passed and .value > 95 and .value <= 100.5'
	# No daemon: no guess, and that is no success.
	run -13 "$GPUSLICE" bench --node h100-1 --seconds 0.4 --warmup 0.1 --repetitions 2 --scenario burn --mode mps,turns \
		--checks memory --mps-control /bin/false --save c.json
	check memory mps '(.known or .passed | not) and (.what | test("nvidia-cuda-mps-control ended with status 1"))'
	check memory turns '.passed'
	"$GPUSLICE" bench --node h100-1 --scenario burn --mode turns --checks memory,recovery --save c.json >out 2>err &
	eventually 30 grep -q '^isolation: recovery' err
	kill -INT $!
	local status=0
	wait $! || status=$?
	[[ $status == 12 ]]
	jq -e '.interrupted and [.checks[].name] == ["memory"]' c.json
	eventually 20 nothing_left
	"$GPUSLICE" bench --node h100-1 --scenario burn --mode mps --checks fault >out 2>err &
	eventually 30 in_bench bad_address
	kill -KILL $!
	wait $! || true
	eventually 10 not_in_bench 'gpuslice-load|gpuslice-arbiter|nvidia-cuda-mps-control'
}

@test "errors are reported with their place" {
	cd "$BATS_TEST_TMPDIR"
	run -2 "$GPUSLICE" bench --node h100-1 --scenario '3 bern'
	[[ $output == *"scenario '3 bern': no workload 'bern'; there are: burn, small, "* ]]
	run -2 "$GPUSLICE" bench --node h100-1 --mode shared
	[[ $output == *"no mode 'shared'"* ]]
	run -2 "$GPUSLICE" bench --node h100-1 --seconds 0
	run -2 "$GPUSLICE" bench --node h100-1 --checks memory,all
	[[ $output == *"--checks: expected memory, neighbour, fault, recovery, or none, found 'all'"* ]]
	run -3 "$GPUSLICE" bench --node nothing-1
	run -3 "$GPUSLICE" bench --node h100-1 --gpu 3
	[[ $output == *"no GPU '3' on this node, which has 1"* ]]
	run -3 "$GPUSLICE" bench --node h100-1 --save nowhere/at/all.json
	[[ $output == *"--save: write in 'nowhere/at': No such file"* ]]
	run -2 "$GPUSLICE" bench run
	[[ $output == *"unknown command 'run'"* ]]
	printf '{"format": "gpuslice/bench/v1", "rows": [{"mode": "turn"}]}' >bad.json
	run -2 "$GPUSLICE" bench compare bad.json bad.json
	[[ $output == *"bad.json: rows[0].mode: expected exclusive, "*"found 'turn'"* ]]
	run -2 "$GPUSLICE" bench compare bad.json
	[[ $output == *"expected two results"* ]]
	run -2 "$GPUSLICE" bench compare bad.json bad.json --slo p99=5
	[[ $output == *"--slo: limit 'p99=5': expected"* ]]
	eventually 20 nothing_left
}

@test "Ctrl-C keeps the results, and kill -9 leaves no program" {
	cd "$BATS_TEST_TMPDIR"
	"$GPUSLICE" bench --node h100-1 --seconds 1 --warmup 0.1 --mode exclusive,turns --scenario '2 burn' --save k.json >out 2>err &
	eventually 30 grep -q '^2 of ' err
	kill -INT $!
	local status=0
	wait $! || status=$?
	[[ $status == 12 ]]
	jq -e '.interrupted and (.rows | length == 1)' k.json
	eventually 20 nothing_left
	local mode
	for mode in turns mps; do
		"$GPUSLICE" bench --node h100-1 --seconds 60 --mode $mode --scenario '2 burn' >out 2>err &
		eventually 30 in_bench '--depth'
		kill -KILL $!
		wait $! || true
		eventually 10 not_in_bench 'gpuslice-load|gpuslice-arbiter|nvidia-cuda-mps-control'
	done
}

# in_bench PATTERN: a program of this test's bench has it in its command line.
in_bench() {
	local pid
	for pid in $(grep -lsz "=$TMPDIR/" /proc/[0-9]*/environ | cut -d / -f 3); do
		{ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null
		echo
	done >"$BATS_TEST_TMPDIR/programs"
	grep -E -- "$1" "$BATS_TEST_TMPDIR/programs"
}

not_in_bench() {
	! in_bench "$1"
}
