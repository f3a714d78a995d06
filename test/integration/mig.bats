#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice mig on simulated nodes: every layout of every product, what is refused, what is kept, and
# what is left when it is killed or a step fails.

bats_require_minimum_version 1.5.0
load lib

DEFAULT_MAP=$BATS_TEST_DIRNAME/../../src/io/config/mig-default.yaml

setup_file() {
	stage_programs
	export WALK_NVML=$GPUSLICE_BUILD/test/support/libwalk-nvml.so
	export LD_LIBRARY_PATH=$STAGE/lib/gpuslice/sim
}

setup() {
	root_cuts
	node_setup a100-40-1
}

teardown() {
	node_teardown
}

sim() {
	"$GPUSLICE" sim "$@"
}

mig() {
	"$GPUSLICE" mig "$@"
}

# apply ARGUMENT...: without a word, unless it goes wrong.
apply() {
	local out
	out=$(mig apply "$@" 2>&1) || {
		echo "$out"
		return 1
	}
}

# node MODEL: another one.
node() {
	export GPUSLICE_SIM_NODE=$1
	rm -rf "$GPUSLICE_SIM_DIR"
	sim create >/dev/null
}

# Where everything lies: a line for each GPU.
geometry() {
	mig status -o json | jq -c '.[] | [.mig, [.instances[] | [.profile, .start, [.computeInstances[].profile]]]]'
}

# devices: how many MIG devices of each profile the first GPU has, "1g.5gb 2, 3g.20gb 1".
devices() {
	mig status -o json | jq -r '[.[0].instances[].computeInstances[].profile] | group_by(.) | map("\(.[0]) \(length)") | join(", ")'
}

# config NAME ENTRY...: a file with one config; each entry as YAML flow.
config() {
	printf 'version: v1\nmig-configs:\n  %s:\n' "$1"
	shift
	printf '  - %s\n' "$@"
}

# want PROFILES: a config that wants these of all GPUs.
want() {
	config it "{devices: all, mig-enabled: true, mig-devices: {$1}}"
}

# applied by the end of the output: ok, and the class of the error.
end_is() {
	tail -n 1 <<<"$output" | jq -e --argjson ok "$1" --arg code "${2-}" '.event == "end" and .ok == $ok and .code == $code'
}

result_is() {
	grep '"event":"gpu"' <<<"$output" | jq -se --argjson gpu "$1" --arg r "$2" 'map(select(.gpu == $gpu)) | length == 1 and .[0].result == $r'
}

@test "each name of the default map for a product gives it the named layout" {
	local model name count profile
	while read -r model names; do
		node "$model"
		for name in $names; do
			count=${name#*=} name=${name%=*}
			profile=${name#all-}
			[[ $profile != *.me && $profile != *.gfx && $profile != *.all ]] || profile=${profile/gb./gb+}
			[[ $name != all-1g.24gb || $model != h100* ]] || profile=1g.24gb
			run -0 mig apply -f "$DEFAULT_MAP" -c "$name"
			[[ $(devices) == "$profile $count" ]] || {
				echo "$model $name: $(devices)"
				return 1
			}
			mig assert -f "$DEFAULT_MAP" -c "$name"
		done
		run -0 mig apply --builtin -c all-balanced
		apply --builtin -c all-enabled
		[[ $(geometry) == '["on",[]]' ]]
		apply --builtin -c all-disabled
		[[ $(geometry) == '["off",[]]' ]]
	done <<-'EOT'
		a100-40-1 all-1g.5gb=7 all-1g.5gb.me=1 all-1g.10gb=4 all-2g.10gb=3 all-3g.20gb=2 all-4g.20gb=1 all-7g.40gb=1
		a100-80-1 all-1g.10gb=7 all-1g.10gb.me=1 all-1g.20gb=4 all-2g.20gb=3 all-3g.40gb=2 all-4g.40gb=1 all-7g.80gb=1
		a30-1 all-1g.6gb=4 all-1g.6gb.me=1 all-2g.12gb=2 all-2g.12gb.me=1 all-4g.24gb=1
		h100-1 all-1g.10gb=7 all-1g.10gb.me=1 all-1g.20gb=4 all-2g.20gb=3 all-3g.40gb=2 all-4g.40gb=1 all-7g.80gb=1
		h200-1 all-1g.18gb=7 all-1g.18gb.me=1 all-1g.35gb=4 all-2g.35gb=3 all-3g.71gb=2 all-4g.71gb=1 all-7g.141gb=1
		b200-1 all-1g.23gb=7 all-1g.23gb.me=1 all-1g.45gb=4 all-2g.45gb=3 all-3g.90gb=2 all-4g.90gb=1 all-7g.180gb=1
		rtx-pro-6000-1 all-1g.24gb=4 all-1g.24gb.gfx=4 all-1g.24gb.me.all=1 all-1g.24gb-me=4 all-2g.48gb=2 all-2g.48gb.gfx=2 all-2g.48gb.me.all=1 all-2g.48gb-me=2 all-4g.96gb=1 all-4g.96gb.gfx=1
	EOT
}

@test "balanced is two small, one larger and one large of each product" {
	local model profiles
	while IFS=: read -r model profiles; do
		node "$model"
		run -0 mig apply --builtin -c all-balanced
		[[ $(devices) == "$profiles" ]] || {
			echo "$model: $(devices)"
			return 1
		}
	done <<-'EOT'
		a100-40-1:1g.5gb 2, 2g.10gb 1, 3g.20gb 1
		a100-80-1:1g.10gb 2, 2g.20gb 1, 3g.40gb 1
		a30-1:1g.6gb 2, 2g.12gb 1
		h100-1:1g.10gb 2, 2g.20gb 1, 3g.40gb 1
		h200-1:1g.18gb 2, 2g.35gb 1, 3g.71gb 1
		rtx-pro-6000-1:1g.24gb 2, 2g.48gb 1
		b200-1:1g.23gb 2, 2g.45gb 1, 3g.90gb 1
	EOT
}

@test "layouts that fit by NVIDIA's documents do, in any order, and others change nothing" {
	local text before
	for text in '3g.20gb: 2' '3g.20gb: 1, 2g.10gb: 1, 1g.5gb: 2' '4g.20gb: 1, 3g.20gb: 1' \
		'1g.5gb: 1, 2g.10gb: 1, 4g.20gb: 1' '1g.5gb: 1, 2g.10gb: 3' '1g.5gb: 7' '1g.10gb: 4' \
		'1c.3g.20gb: 3, 2c.4g.20gb: 2'; do
		want "$text" | mig apply -f -
		want "$text" | mig assert -f -
	done
	before=$(geometry)
	for text in '3g.20gb: 2, 1g.5gb: 1' '1g.5gb: 8' '4g.20gb: 2' '1g.10gb: 4, 1g.5gb: 1' '7g.40gb: 1, 1g.5gb: 1' \
		'1g.5gb+me: 2' '1g.20gb: 1'; do
		run -1 mig apply -f - -o json <<<"$(want "$text")"
		end_is false limit || end_is false invalid
		[[ $(grep -c '"event":"step"' <<<"$output") == 0 ]]
		[[ $(geometry) == "$before" ]]
	done
}

@test "explicit places are taken" {
	apply -f - <<<"$(config it '{devices: all, mig-enabled: true, mig-devices: [{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 5}]}')"
	[[ $(geometry) == '["on",[["3g.20gb",0,["3g.20gb"]],["1g.5gb",5,["1g.5gb"]]]]' ]]
	run -1 mig apply -f - <<<"$(config it '{devices: all, mig-enabled: true, mig-devices: [{profile: 3g.20gb, start: 2}]}')"
}

@test "only differing instances are changed, and a busy instance keeps its placement" {
	node p4d.24xlarge
	local uuid
	apply --builtin -c all-1g.5gb
	uuid=$(mig status -o json | jq -r '.[2].instances[] | select(.start == 0).computeInstances[0].uuid')
	sim process start "$uuid" --pid 4242
	run -0 mig apply -o json -f - <<<"$(config it '{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}' '{devices: [2], mig-enabled: true, mig-devices: {3g.20gb: 1, 1g.5gb: 3}}')"
	end_is true
	result_is 0 same
	result_is 2 changed
	[[ $(grep '"event":"step"' <<<"$output" | jq -s 'map(.gpu) | unique == [2]') == true ]]
	mig status -o json | jq -e --arg u "$uuid" '.[2].instances[].computeInstances[] | select(.uuid == $u) | .busy and .processes == [4242]'
}

@test "an instance in use is not taken, and no GPU is touched" {
	node p4d.24xlarge
	local before
	apply --builtin -c all-3g.20gb
	sim process start 5:1:0 --pid 4242 --kind mps
	before=$(geometry)
	run -1 mig apply --builtin -c all-1g.5gb -o json
	end_is false unavailable
	result_is 5 failed
	result_is 0 skipped
	grep -q 'process on this GPU: 4242' <<<"$output"
	[[ $(grep -c '"event":"step"' <<<"$output") == 0 && $(geometry) == "$before" ]]
	# By force the driver is asked: it refuses too, and the GPU is what it was.
	run -1 mig apply --builtin -c all-1g.5gb -o json --force
	result_is 5 undone || result_is 5 failed
	result_is 0 changed
	[[ $(geometry | sed -n 6p) == "$(sed -n 6p <<<"$before")" ]]
	sim process stop 4242
	apply --builtin -c all-1g.5gb
	[[ $(geometry | uniq | wc -l) == 1 ]]
}

@test "a GPU in use does not change its mode" {
	sim process start 0 --pid 77 --kind graphics
	run -1 mig apply --builtin -c all-balanced -o json
	end_is false unavailable
	grep -q 'process on this GPU: 77' <<<"$output"
	[[ $(geometry) == '["off",[]]' ]]
}

@test "processes that are ended before a change do not count as use; others do" {
	sim process start 0 --pid 77
	sim process start 0 --pid 78 --kind mps
	run -0 mig apply --builtin -c all-balanced --dry-run --ignore-process 77,78
	run -1 mig apply --builtin -c all-balanced --dry-run --ignore-process 78 -o json
	end_is false unavailable
	grep -q 'process on this GPU: 77' <<<"$output"
	for text in x 0 '77,' -1 '77,x'; do
		run -1 mig apply --builtin -c all-balanced --dry-run "--ignore-process=$text"
		[[ $output == *"--ignore-process: expected process ids like 4711,4712; found '"* ]]
	done
}

@test "--dry-run shows the steps and changes nothing" {
	run -0 mig apply --builtin -c all-balanced --dry-run
	grep -q '1. enable MIG' <<<"$output"
	grep -q '9. create compute instance' <<<"$output"
	[[ $(geometry) == '["off",[]]' ]]
	# Nobody has to be able to write the lock.
	GPUSLICE_RUN_DIR=/proc/nowhere mig apply --builtin -c all-balanced --dry-run
	run -0 mig apply --builtin -c all-balanced --dry-run -o json
	jq -se 'map(.event) == ["planned", "end"] and .[0].mode == "enable" and .[0].steps == 9 and (.[0].plan | length) == 9' <<<"$output"
}

# walk HOW: from layout $FROM to layout $TO with HOW at the first call that changes something, at the
# second, and so on until none is left. Calls check N for each; N + 1 runs were needed in $calls.
walk() {
	local how=$1 n status
	shift
	for ((n = 1; n < 100; n++)); do
		mig restore -f "$BATS_TEST_TMPDIR/from" >/dev/null
		rm -f "$BATS_TEST_TMPDIR/log"
		status=0
		WALK_NVML_DO=$how WALK_NVML_AT=$n WALK_NVML_LOG=$BATS_TEST_TMPDIR/log \
			mig apply --nvml "$WALK_NVML" -f "$BATS_TEST_TMPDIR/to.yaml" -o json >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- || status=$?
		((status)) || break
		"$@" "$n" "$status"
		WALK_NVML_LOG=$BATS_TEST_TMPDIR/log mig apply --nvml "$WALK_NVML" -f "$BATS_TEST_TMPDIR/to.yaml" >/dev/null
		mig assert -f "$BATS_TEST_TMPDIR/to.yaml" >/dev/null
	done
	calls=$((n - 1))
}

was_killed() {
	[[ $2 == 137 ]]
	untouched
}

# untouched: what was to stay has never been destroyed, in no run.
untouched() {
	if grep -E "$STAY" "$BATS_TEST_TMPDIR/log"; then
		echo "was to stay ($STAY)"
		return 1
	fi
}

# stay: a pattern of the log's lines that must not be there.
stay() {
	mig apply -f "$BATS_TEST_TMPDIR/to.yaml" --dry-run -o json |
		jq -r 'select(.event == "planned") | .gpu as $g | .stay[] | "destroy-[cg]i \($g) \(.gi)( |$)"' | paste -sd'|'
}

@test "killed at every step it continues when run again, and remaining instances never change" {
	apply --builtin -c all-1g.5gb
	mig checkpoint -f "$BATS_TEST_TMPDIR/from"
	want '1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1' >"$BATS_TEST_TMPDIR/to.yaml"
	STAY=$(stay)
	[[ $STAY == *'|'* ]]
	walk kill-before was_killed
	((calls == 14))
	untouched
	walk kill-after was_killed
	((calls == 14))
}

@test "killed at every step of two GPUs whose modes change, it continues when run again" {
	node h200-2
	apply -f - <<<"$(config it '{devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 3}}' '{devices: [1], mig-enabled: false}')"
	mig checkpoint -f "$BATS_TEST_TMPDIR/from"
	config it '{devices: [1], mig-enabled: true, mig-devices: {3g.71gb: 2}}' '{devices: [0], mig-enabled: false}' >"$BATS_TEST_TMPDIR/to.yaml"
	STAY=nothing
	walk kill-before was_killed
	((calls == 3 * 2 + 1 + 1 + 4))
	walk kill-after was_killed
}

was_undone() {
	[[ $2 == 1 ]]
	mig checkpoint -f "$BATS_TEST_TMPDIR/now" >/dev/null
	cmp "$BATS_TEST_TMPDIR/from" "$BATS_TEST_TMPDIR/now"
	output=$(cat "$BATS_TEST_TMPDIR/out")
	end_is false "$CODE"
	if (($1 == 1)); then result_is 0 undone; fi
}

@test "any step that fails restores the GPU" {
	apply --builtin -c all-1g.5gb
	mig checkpoint -f "$BATS_TEST_TMPDIR/from"
	want '1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1' >"$BATS_TEST_TMPDIR/to.yaml"
	CODE=unavailable walk fail:23 was_undone
	((calls == 14))
	CODE=permission walk fail:4 was_undone
	((calls == 14))
}

other_is_done() {
	[[ $2 == 1 ]]
	geometry | sed -n 2p | grep -qx '\["on",\[\["3g.71gb",4,.*\["3g.71gb",0,.*'
	geometry | sed -n 1p | grep -qx "$BEFORE"
}

@test "a GPU that fails does not keep another from its desired layout" {
	node h200-2
	apply --builtin -c all-1g.18gb
	BEFORE=$(geometry | sed -n '1s/[][]/\\&/gp')
	mig checkpoint -f "$BATS_TEST_TMPDIR/from"
	want '3g.71gb: 2' >"$BATS_TEST_TMPDIR/to.yaml"
	walk_first() { (($1 > 18)) || other_is_done "$@"; }
	walk fail:999 walk_first
	((calls == 36))
}

@test "a mode that does not take leaves the GPU as it was" {
	local before
	before=$(geometry)
	want '1g.5gb: 7' >"$BATS_TEST_TMPDIR/to.yaml"
	WALK_NVML_DO=fail:4 WALK_NVML_AT=1 run -1 mig apply --nvml "$WALK_NVML" -f "$BATS_TEST_TMPDIR/to.yaml" -o json
	end_is false permission
	grep -q 'needs root' <<<"$output"
	WALK_NVML_DO=fail:23 WALK_NVML_AT=2 run -1 mig apply --nvml "$WALK_NVML" -f "$BATS_TEST_TMPDIR/to.yaml" -o json
	result_is 0 undone
	[[ $(geometry) == "$before" ]]
}

@test "a GPU is skipped because the mode of another cannot be changed, not because that is in use" {
	node h200-2
	apply -f - <<<"$(config it '{devices: [0], mig-enabled: false}' '{devices: [1], mig-enabled: true, mig-devices: {1g.18gb: 7}}')"
	want '3g.71gb: 2' >"$BATS_TEST_TMPDIR/to.yaml"
	WALK_NVML_DO=fail:23 WALK_NVML_AT=1 run -1 mig apply --nvml "$WALK_NVML" -f "$BATS_TEST_TMPDIR/to.yaml" -o json
	result_is 1 skipped
	grep -q 'not changed, as the MIG mode of another GPU could not be changed' <<<"$output"
	! grep -q 'in use' <<<"$output"
}

@test "GPUs that report their profiles only in MIG mode are planned then" {
	sim set 0 mig_query_needs_mode 1
	run -0 mig apply --builtin -c all-balanced -o json
	end_is true
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
	apply --builtin -c all-disabled
	run -1 mig apply -o json -f - <<<"$(want '3g.20gb: 2, 1g.5gb: 1')"
	end_is false limit
	result_is 0 undone
	[[ $(geometry) == '["off",[]]' ]]
	# Only such a GPU has a second plan.
	node h200-2
	sim set 0 mig_query_needs_mode 1
	sim set 1 mig_query_needs_mode 1
	run -0 mig apply -o json -f - <<<"$(config it '{devices: [0], mig-enabled: true, mig-devices: {7g.141gb: 1}}' '{devices: [1], mig-enabled: false}')"
	[[ $(grep '"event":"planned"' <<<"$output" | jq -c '[.gpu, .steps]' | paste -sd' ') == "[0,1] [1,0] [0,2]" ]]
}

# smi: an nvidia-smi that resets, or says that it cannot.
smi() {
	mkdir -p "$NODE_DIR/bin"
	cat >"$NODE_DIR/bin/nvidia-smi" <<-'EOF'
		#!/bin/sh
		echo "$*" >>"$GPUSLICE_SIM_DIR/smi.log"
		[ -z "$SMI_SAYS" ] || { echo "$SMI_SAYS"; exit 3; }
		for id in $(echo "$3" | tr , ' '); do "$GPUSLICE" sim reset "$id" || exit 1; done
	EOF
	chmod +x "$NODE_DIR/bin/nvidia-smi"
	export PATH=$NODE_DIR/bin:$PATH
}

@test "of modes that wait for a reset, only these GPUs are reset" {
	node p4d.24xlarge
	smi
	sim set 3 mig_reset_required 1
	sim set 6 mig_reset_required 1
	run -0 mig apply --builtin -c all-balanced -o json
	end_is true
	[[ $(wc -l <"$GPUSLICE_SIM_DIR/smi.log") == 1 ]]
	grep -qx -- "-r -i $(mig status -o json | jq -r '[.[3, 6].busId] | join(",")')" "$GPUSLICE_SIM_DIR/smi.log"
	[[ $(geometry | sort -u | wc -l) == 1 ]]
	apply --builtin -c all-disabled
	[[ $(geometry | sort -u) == '["off",[]]' ]]
}

@test "a reset that cannot be leaves the mode pending, and a reboot is enough to go on" {
	smi
	sim set 0 mig_reset_required 1
	export SMI_SAYS="Resetting GPU 00000000:00:1E.0 is not supported."
	run -1 mig apply --builtin -c all-balanced -o json
	end_is false reset-required
	result_is 0 pending
	grep -q "is not supported" <<<"$output"
	[[ $(wc -l <"$GPUSLICE_SIM_DIR/smi.log") == 1 ]]
	sim reboot
	run -0 mig apply --builtin -c all-balanced -o json
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
}

@test "--skip-reset and --mode-only" {
	smi
	sim set 0 mig_reset_required 1
	run -0 mig apply --builtin -c all-balanced -ms -o json
	end_is true reset-required
	result_is 0 pending
	[[ ! -e $GPUSLICE_SIM_DIR/smi.log ]]
	run -1 mig assert -mf "$DEFAULT_MAP" -c all-balanced
	run -1 mig apply --builtin -c all-balanced -s -o json
	end_is false reset-required
	grep -qF '(--skip-reset); reset it (nvidia-smi -r) or reboot, and run the command again' <<<"$output"
	run -0 mig apply --builtin -c all-balanced -m
	[[ $(geometry) == '["on",[]]' ]]
	mig assert -m -f "$DEFAULT_MAP" -c all-balanced
}

@test "export and apply is the identity on every product" {
	local model
	for model in a100-40-1 a30-1 h100-1 h100-nvl-1 h200-2 rtx-pro-6000-1 b200-1 gb200-1 gh200-96-1; do
		node "$model"
		apply --builtin -c all-balanced
		mig export >"$BATS_TEST_TMPDIR/export"
		run -0 mig apply -o json -f "$BATS_TEST_TMPDIR/export"
		end_is true
		[[ $(grep -c '"event":"step"' <<<"$output") == 0 ]]
		mig export -o json | mig assert -f -
		apply --builtin -c all-disabled
		apply -f "$BATS_TEST_TMPDIR/export"
		mig export | cmp - "$BATS_TEST_TMPDIR/export"
	done
}

@test "checkpoint and restore give the same placements, and leave equal instances alone" {
	node p4d.24xlarge
	apply -f - <<<"$(config it '{devices: [0, 1], mig-enabled: true, mig-devices: [{profile: 3g.20gb, start: 0}, {profile: 1g.5gb, start: 6}]}' \
		'{devices: [2], mig-enabled: true, mig-devices: {1c.3g.20gb: 2, 2g.10gb: 1}}' '{devices: [3, 4, 5, 6, 7], mig-enabled: false}')"
	mig checkpoint -f "$BATS_TEST_TMPDIR/saved"
	run -0 mig restore -f "$BATS_TEST_TMPDIR/saved" -o json
	[[ $(grep -c '"event":"step"' <<<"$output") == 0 ]]
	local before
	before=$(geometry)
	apply --builtin -c all-disabled
	run -0 mig restore -f "$BATS_TEST_TMPDIR/saved"
	[[ ${lines[-1]} == "MIG configuration restored successfully" ]]
	[[ $(geometry) == "$before" ]]
	sim reboot
	[[ $(geometry | sed -n 1p) == '["on",[]]' ]]
	mig restore -f "$BATS_TEST_TMPDIR/saved"
	[[ $(geometry) == "$before" ]]
	mig checkpoint -f "$BATS_TEST_TMPDIR/again"
	cmp "$BATS_TEST_TMPDIR/saved" "$BATS_TEST_TMPDIR/again"
	sed -i 's/GPU-......../GPU-00000000/' "$BATS_TEST_TMPDIR/again"
	run -1 mig restore -f "$BATS_TEST_TMPDIR/again"
	grep -q "which is not on this node" <<<"$output"
	sed 's/"Start":0/"Start":3/' "$BATS_TEST_TMPDIR/saved" >"$BATS_TEST_TMPDIR/again"
	run -1 mig restore -f "$BATS_TEST_TMPDIR/again"
	grep -q "^GPU 0: failed: the checkpoint has a GPU instance of profile number .* at 3:4, where" <<<"$output"
}

@test "files that are wrong are refused with NVIDIA's words" {
	local text words
	while IFS='|' read -r text words; do
		run -1 mig apply -f - <<<"${text//;/$'\n'}"
		grep -qF "error parsing config file: unmarshal error: " <<<"$output"
		grep -qF "$words" <<<"$output" || {
			echo "$text: $output"
			return 1
		}
		run -1 mig assert -a -f - <<<"${text//;/$'\n'}"
	done <<-'EOT'
		mig-configs: {a: [{devices: all, mig-enabled: false}]}|unable to parse with missing 'version' field
		version: v2|unknown version: v2
		{version: v1, other: 1}|unexpected field: other
		{version: v1, mig-configs: {}}|at least one entry in 'mig-configs' is required
		{version: v1, mig-configs: {a: []}}|at least one entry in 'a' is required
		{version: v1, mig-configs: {a: [{mig-enabled: false}]}}|missing required field: devices
		{version: v1, mig-configs: {a: [{devices: all}]}}|missing required field: mig-enabled
		{version: v1, mig-configs: {a: [{devices: all, mig-enable: false}]}}|missing required field: mig-enabled; unexpected field: mig-enable
		{version: v1, mig-configs: {a: [{devices: some, mig-enabled: false}]}}|invalid string input for 'devices': some
		{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true}]}}|missing required field 'mig-devices' when 'mig-enabled' is true
		{version: v1, mig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}]}}|MIG devices included when 'mig-enabled' is false
		{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5: 1}}]}}|error validating values in 'mig-devices' field: invalid format for '1g.5'
		{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1}}]}}|invalid count for '
		{version: v1, mig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}]}}|all counts for all MigProfiles are 0
	EOT
}

@test "selecting, asserting and missing options speak as NVIDIA's program" {
	local file=$DEFAULT_MAP
	run -1 --separate-stderr mig apply
	grep -q '^Usage: gpuslice mig apply' <<<"$output"
	# shellcheck disable=SC2154 # run sets it
	grep -q "missing required flags 'config-file'" <<<"$stderr"
	run -1 mig apply -f "$file"
	grep -q "error selecting MIG config: missing required flag 'selected-config' when more than one config available; there are all-disabled, " <<<"$output"
	run -1 mig apply -f "$file" -c nope
	grep -q "error selecting MIG config: selected mig-config not present: nope; there are all-disabled, .* more$" <<<"$output"
	run -1 mig apply -f - -c nope <<<"$(config it '{devices: all, mig-enabled: false}')"
	grep -q "selected mig-config not present: nope; there is it$" <<<"$output"
	run -1 mig apply -f - </dev/null
	grep -q "selected mig-config not present: ; there is none$" <<<"$output"
	run -1 mig apply -f
	grep -q -- " -f: expected text, found nothing$" <<<"$output"
	run -1 mig apply -f /nowhere
	grep -q "error parsing config file: read error: " <<<"$output"
	run -1 mig assert -f "$file" -c all-1g.5gb
	grep -q "assertion failure: selected configuration not currently applied" <<<"$output"
	run -0 --separate-stderr mig assert -af "$file" -c all-1g.5gb
	[[ $output == "Selected MIG configuration is valid" ]]
	run -0 --separate-stderr mig apply -f "$file" -c all-1g.5gb
	[[ ${lines[-1]} == "MIG configuration applied successfully" ]]
	run -0 --separate-stderr mig assert -f "$file" -c all-1g.5gb
	[[ $output == "Selected MIG configuration currently applied" ]]
	run -0 --separate-stderr mig assert -mf "$file" -c all-1g.5gb
	[[ $output == "Selected MIG mode settings from configuration currently applied" ]]
	run -1 mig export -o toml
	grep -q "unrecognized 'output-format': toml" <<<"$output"
	run -1 mig checkpoint
	grep -q "missing required flags 'checkpoint-file'" <<<"$output"
	run -0 --separate-stderr env MIG_PARTED_CHECKPOINT_FILE="$BATS_TEST_TMPDIR/c" "$GPUSLICE" mig checkpoint
	[[ $output == "MIG configuration checkpointed successfully" ]]
	ln -s "$GPUSLICE" "$BATS_TEST_TMPDIR/nvidia-mig-parted"
	run -1 "$BATS_TEST_TMPDIR/nvidia-mig-parted" -d apply -f "$file" -c nope
	grep -qE '^time="[0-9TZ:-]+" level=fatal msg="Error selecting MIG config: selected mig-config not present: nope; there are [^"]+ more"$' <<<"$output"
}

@test "a GPU without MIG is left alone by 'all', and refused by its index" {
	node p3.2xlarge
	run -0 mig apply -f - -o json <<<"$(want '1g.5gb: 1')"
	result_is 0 skipped
	run -0 mig apply -f - <<<"$(want '1g.5gb: 1')"
	[[ $(grep -cx 'note: GPU 0 has no MIG and is left alone' <<<"$output") == 1 ]]
	run -0 mig apply -f - <<<"$(config it '{devices: all, mig-enabled: false}')"
	[[ $output == "MIG configuration applied successfully" ]]
	run -1 mig apply -f - -o json <<<"$(config it '{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1}}')"
	grep -q 'non MIG-capable GPU' <<<"$output"
}

@test "an unreadable GPU fails commands for this GPU, and no others" {
	node p4d.24xlarge
	sim lose 4
	run -1 mig apply --builtin -c all-balanced -o json
	result_is 4 failed
	[[ $(grep -c '"event":"step"' <<<"$output") == 0 ]]
	run -0 mig apply -o json -f - <<<"$(config it '{devices: [0, 1, 2, 3, 5], mig-enabled: true, mig-devices: {1g.5gb: 7}}')"
	result_is 4 skipped
	result_is 5 changed
	run -1 mig export
	for look in status list; do
		run -0 mig "$look"
		grep -qE '^GPU 4 [^ ]+ unknown: MIG cannot be read: ' <<<"$output"
		run -0 mig "$look" -o json
		jq -e '.[4] | .name == null and .mig == null and .deviceFilter == null and .fault' <<<"$output"
		jq -e '.[5] | .name and .mig == "on" and .deviceFilter' <<<"$output"
	done
}

@test "hooks run with the environment of their file and of the options, and nothing else" {
	cat >"$BATS_TEST_TMPDIR/hooks" <<-EOF
		version: v1
		hooks:
		  apply-start:
		  - command: sh
		    args: [-c, "/usr/bin/env | /usr/bin/sort >$BATS_TEST_TMPDIR/start; pwd >>$BATS_TEST_TMPDIR/start"]
		    envs: {OWN: mine, MIG_PARTED_SELECTED_CONFIG: not this}
		    workdir: /tmp
		  pre-apply-mode:
		  - {command: sh, args: [-c, "echo mode >>$BATS_TEST_TMPDIR/order; echo seen"]}
		  pre-apply-config:
		  - {command: sh, args: [-c, "echo config >>$BATS_TEST_TMPDIR/order"]}
		  apply-exit:
		  - {command: sh, args: [-c, "echo exit >>$BATS_TEST_TMPDIR/order"]}
	EOF
	run -0 mig apply --builtin -c all-balanced -k "$BATS_TEST_TMPDIR/hooks"
	grep -v '^\(PWD\|_\|SHLVL\)=' "$BATS_TEST_TMPDIR/start" | diff - <(
		cat <<-EOF
			MIG_PARTED_CONFIG_FILE=
			MIG_PARTED_HOOKS_FILE=$BATS_TEST_TMPDIR/hooks
			MIG_PARTED_MODE_CHANGE_ONLY=false
			MIG_PARTED_SELECTED_CONFIG=all-balanced
			MIG_PARTED_SKIP_RESET=false
			OWN=mine
			/tmp
		EOF
	)
	[[ $(paste -sd' ' "$BATS_TEST_TMPDIR/order") == "mode config exit" ]]
	if grep -x seen <<<"$output"; then return 1; fi
	# Nothing to do: only the two ends. A failing hook ends it, and the exit hook still runs.
	rm "$BATS_TEST_TMPDIR/order"
	run -0 mig -d apply --builtin -c all-balanced -k "$BATS_TEST_TMPDIR/hooks"
	[[ $(paste -sd' ' "$BATS_TEST_TMPDIR/order") == "exit" ]]
	sed -i 's/echo config >>/echo why not; exit 3 #/' "$BATS_TEST_TMPDIR/hooks"
	run -1 mig apply --builtin -c all-1g.5gb -k "$BATS_TEST_TMPDIR/hooks" -o json
	grep -q "hook pre-apply-config: 'sh' ended with exit status 3: why not" <<<"$output"
	[[ $(paste -sd' ' "$BATS_TEST_TMPDIR/order") == "exit exit" ]]
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
}

@test "a hook ends with its process, whatever that leaves running, and keeps its last line" {
	cat >"$BATS_TEST_TMPDIR/hooks" <<-EOF
		version: v1
		hooks:
		  apply-start:
		  - {command: sh, args: [-c, "sleep 60 & echo \$! >$BATS_TEST_TMPDIR/pid"]}
		  - {command: sh, args: [-c, "yes flood &"]}
		  apply-exit:
		  - {command: sh, args: [-c, "yes | head -c 1000000; echo the end; sleep 60 & echo \$! >>$BATS_TEST_TMPDIR/pid; exit 3"]}
	EOF
	run -1 timeout 20 "$GPUSLICE" mig apply --builtin -c all-balanced -k "$BATS_TEST_TMPDIR/hooks"
	xargs kill <"$BATS_TEST_TMPDIR/pid"
	grep -q "hook apply-exit: 'sh' ended with exit status 3: the end$" <<<"$output"
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
}

@test "clients that a hook ends are not in the way" {
	apply --builtin -c all-1g.5gb
	sim process start 0:7:0 --pid 99
	cat >"$BATS_TEST_TMPDIR/hooks" <<-EOF
		version: v1
		hooks:
		  pre-apply-config:
		  - command: $GPUSLICE
		    args: [sim, process, stop, "99"]
		    envs: {GPUSLICE_SIM_NODE: $GPUSLICE_SIM_NODE, GPUSLICE_SIM_DIR: $GPUSLICE_SIM_DIR}
	EOF
	run -1 mig apply --builtin -c all-7g.40gb
	run -0 mig apply --builtin -c all-7g.40gb -k "$BATS_TEST_TMPDIR/hooks"
	[[ $(devices) == '7g.40gb 1' ]]
}

@test "two editors at once: one after the other, and the second reports the owner of the lock" {
	cat >"$BATS_TEST_TMPDIR/hooks" <<-'EOF'
		version: v1
		hooks: {apply-start: [{command: sleep, args: ["1"]}]}
	EOF
	start one "$GPUSLICE" mig apply --builtin -c all-1g.5gb -k "$BATS_TEST_TMPDIR/hooks"
	start two "$GPUSLICE" mig apply --builtin -c all-balanced -k "$BATS_TEST_TMPDIR/hooks"
	stop_both() { not_running one && not_running two; }
	eventually 20 stop_both
	logged one "applied successfully"
	logged two "applied successfully"
	mig assert -f "$DEFAULT_MAP" -c all-1g.5gb ||
		mig assert -f "$DEFAULT_MAP" -c all-balanced
	exec 8>"$GPUSLICE_RUN_DIR/mig.lock"
	echo 12345 >&8
	flock 8
	run -1 mig apply --builtin -c all-1g.5gb -o json 8>&-
	end_is false exists
	grep -q "process 12345 changes the MIG layout" <<<"$output"
	exec 8>&-
	apply --builtin -c all-1g.5gb
	# Another user cannot take the lock either.
	[[ $(stat -c %a "$GPUSLICE_RUN_DIR/mig.lock") == 600 ]]
}

@test "lost output is a reported failure, and never goes to another file" {
	local at=(apply --builtin -c)
	apply --builtin -c all-balanced
	for form in text json; do
		run -1 --separate-stderr bash -c '"$GPUSLICE" mig "$@" >/dev/full' - "${at[@]}" all-balanced -o "$form"
		# shellcheck disable=SC2154 # run sets it
		[[ $stderr == "gpuslice mig apply: write to standard output: "* ]]
		run -1 --separate-stderr bash -c '"$GPUSLICE" mig "$@" >&-' - "${at[@]}" all-balanced -o "$form"
		[[ $stderr == "gpuslice mig apply: write to standard output: "* ]]
		grep -qxE '[0-9]+' "$GPUSLICE_RUN_DIR/mig.lock"
	done
	run -1 --separate-stderr bash -c '"$GPUSLICE" mig status >/dev/full'
	[[ $stderr == "gpuslice mig status: write to standard output: No space left on device" ]]
	run -1 --separate-stderr bash -c '"$GPUSLICE" mig apply -f - <&-'
	[[ $stderr == *"read error: standard input: "* ]]
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
}

@test "a signal ends it between two steps, and the next run continues" {
	apply --builtin -c all-1g.5gb
	sim hang 0 100 # about two seconds for the steps after the third
	start apply "$GPUSLICE" mig apply --builtin -c all-balanced
	eventually 20 logged apply '\[3/14\]'
	local status=0
	stop apply || status=$?
	((status == 1))
	sim hang 0 off
	logged apply "half-way"
	logged apply "run the same command again to go on"
	[[ $(devices) != "1g.5gb 7" && $(devices) != '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
	run -0 mig apply --builtin -c all-balanced
	[[ $(devices) == '1g.5gb 2, 2g.10gb 1, 3g.20gb 1' ]]
}

@test "without root the driver refuses, and the error reports that" {
	((!EUID)) || skip "only root may become somebody else"
	open_stage "$BATS_TEST_TMPDIR"
	export GPUSLICE_NVML=$SIM_NVML
	apply --builtin -c all-1g.5gb
	chmod -R a+rwX "$NODE_DIR"
	run -1 setpriv --reuid 65534 --clear-groups "$GPUSLICE" mig apply --builtin -c all-balanced -o json
	end_is false permission
	[[ $output == *"changing MIG needs root"* ]]
	[[ $(devices) == '1g.5gb 7' ]]
}

@test "list and status show profiles, placements, free capacity and users" {
	run -0 mig list
	grep -qE '^3g.20gb +9 +2 +2 +3 +20096 MiB .* \{0,4\}:4$' <<<"$output"
	apply --builtin -c all-balanced
	sim process start 0:1:0 --pid 31
	run -0 mig status
	grep -qE '^3g.20gb +4:4 +1 +0 +31 +MIG-' <<<"$output"
	grep -qx 'No free capacity' <<<"$output"
	mig list -o json | jq -e '.[0].profiles | map(select(.name == "1g.5gb"))[0] | .free == 0 and .max == 7 and .starts == [0,1,2,3,4,5,6]'
	sim process stop 31
	apply -f - <<<"$(want '1g.5gb: 2')"
	mig status -o json | jq -e '.[0].room["1g.5gb"] == 5'
	run -0 mig status
	grep -q '^Room for 5 x 1g.5gb, or ' <<<"$output"
}

@test "a config that selects none of the GPUs, or some, is reported once, with the form of a filter" {
	local other='{device-filter: "0x233010DE", devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}'
	node p4d.24xlarge
	run -0 mig apply -f - <<<"$(config it "$other")"
	grep -qxF "note: config 'it' has no entry for GPUs 0-7, which stay as they are; GPU 0 is 0x20B010DE to a device-filter" <<<"$output"
	run -0 mig apply -f - <<<"$(config it '{devices: [1, 5], mig-enabled: false}')"
	grep -qxF "note: config 'it' has no entry for GPUs 0, 2-4, 6-7, which stay as they are" <<<"$output"
	[[ $(grep -c ^note: <<<"$output") == 1 ]]
	run -0 mig list
	grep -q '^GPU 0 .*: MIG off, device-filter 0x20B010DE$' <<<"$output"
	mig status -o json | jq -e '.[0].deviceFilter == "0x20B010DE"'
}

@test "a full change of eight GPUs takes few calls" {
	node p4d.24xlarge
	apply --builtin -c all-1g.5gb
	run -0 mig apply --builtin -c all-balanced -o json
	tail -n 1 <<<"$output" | jq -e '.nvml_calls <= 530'
	run -0 mig apply --builtin -c all-balanced -o json
	tail -n 1 <<<"$output" | jq -e '.nvml_calls <= 185'
}
