#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice labels: what it takes, prints and writes. What the labels are is the unit tests' part.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	cd "$BATS_TEST_DIRNAME/../data/fixtures"
}

@test "labels prints sorted lines, and the same as JSON" {
	run -0 --separate-stderr "$GPUSLICE" labels --no-timestamp
	[[ $output == *$'\nnvidia.com/gpu.count=4\n'* ]]
	[[ $output == *$'\nnvidia.com/gpu.product=Tesla-V100-SXM2-16GB\n'* ]]
	[[ $output != *timestamp* ]]
	LC_ALL=C sort -c <<<"$output"
	printf '%s\n' "$output" >"$BATS_TEST_TMPDIR/lines"
	run -0 --separate-stderr "$GPUSLICE" labels --no-timestamp --json
	python3 -c 'import json, sys
lines = dict(l.rstrip("\n").split("=", 1) for l in open(sys.argv[2]))
assert json.loads(sys.argv[1]) == lines' "$output" "$BATS_TEST_TMPDIR/lines"
}

@test "labels follow the config, by file or by entry of a ConfigMap" {
	run -0 --separate-stderr "$GPUSLICE" labels --node p3.2xlarge \
		--config-file 'time-slicing-config.yaml#p3.2xlarge'
	[[ $output == *gpu.count=1$'\n'* ]]
	[[ $output == *gpu.machine=p3.2xlarge$'\n'* ]]
	[[ $output == *gpu.mode=compute$'\n'* ]]
	[[ $output == *gpu.product=Tesla-V100-SXM2-16GB-SHARED$'\n'* ]]
	[[ $output == *gpu.replicas=4$'\n'* ]]
	run -2 "$GPUSLICE" labels --config-file time-slicing-config.yaml
	[[ $output == *"expected one config, found 2"* ]]
	run -2 "$GPUSLICE" labels --config-file 'time-slicing-config.yaml#none'
	[[ $output == *"expected one config, found 0"* ]]
	printf 'flags: {gfd: {noTimestamp: true, machineTypeFile: %s/m}}\n' "$BATS_TEST_TMPDIR" \
		>"$BATS_TEST_TMPDIR/c.yaml"
	echo ' big  box ' >"$BATS_TEST_TMPDIR/m"
	run -0 --separate-stderr env GFD_CONFIG_FILE="$BATS_TEST_TMPDIR/c.yaml" "$GPUSLICE" labels
	[[ $output == *gpu.machine=big-box$'\n'* ]]
	[[ $output != *timestamp* ]]
	run -0 --separate-stderr "$GPUSLICE" labels --config-file "$BATS_TEST_TMPDIR/c.yaml" \
		--no-timestamp=false --machine-type-file /dev/null
	[[ $output == *gpu.machine=$'\n'* ]]
	[[ $output == *gfd.timestamp=1* ]]
	echo 'flags: {migStrategi: none}' >"$BATS_TEST_TMPDIR/c.yaml"
	run -2 "$GPUSLICE" labels --config-file "$BATS_TEST_TMPDIR/c.yaml"
	[[ $output == *"c.yaml:1:9: flags: unknown key"* ]]
}

@test "labels writes a file as gpu-feature-discovery does" {
	local dir=$BATS_TEST_TMPDIR/features.d
	mkdir "$dir"
	run -0 --separate-stderr "$GPUSLICE" labels --oneshot --no-timestamp -o "$dir/gfd"
	[[ -z $output ]]
	[[ $(stat -c %a "$dir/gfd") == 644 ]]
	[[ $(ls -A "$dir") == gfd ]]
	run -0 --separate-stderr env GFD_OUTPUT_FILE="$dir/two" GFD_USE_NODE_FEATURE_API=true \
		"$GPUSLICE" labels --no-timestamp
	cmp "$dir/gfd" "$dir/two"
	run ! "$GPUSLICE" labels -o "$dir/no/such"
	[[ $output == *"$dir/no/"* ]]
	run ! "$GPUSLICE" labels --use-node-feature-api
	[[ $output == *"written by the agent"* ]]
}

@test "labels leave a FIFO and a link in place, and write to what they are" {
	local dir=$BATS_TEST_TMPDIR/out pipe
	mkdir "$dir"
	"$GPUSLICE" labels --no-timestamp >"$dir/want"
	# both ends, so that nobody waits for the other
	mkfifo "$dir/fifo"
	exec {pipe}<>"$dir/fifo"
	run -0 --separate-stderr "$GPUSLICE" labels --no-timestamp -o "$dir/fifo"
	[[ -z $output && -p $dir/fifo ]]
	timeout 5 head -n "$(wc -l <"$dir/want")" <&"$pipe" | cmp - "$dir/want"
	ln -s fifo "$dir/link-to-fifo"
	run -0 "$GPUSLICE" labels --no-timestamp -o "$dir/link-to-fifo"
	[[ -L $dir/link-to-fifo && -p $dir/fifo ]]
	exec {pipe}<&-
	# the file behind a link is replaced, as a whole
	mkdir "$dir/a"
	echo old >"$dir/a/file"
	ln "$dir/a/file" "$dir/old"
	ln -s a/file "$dir/link"
	run -0 "$GPUSLICE" labels --no-timestamp -o "$dir/link"
	[[ -L $dir/link && $(<"$dir/old") == old ]]
	cmp "$dir/a/file" "$dir/want"
	ln -s none "$dir/nowhere"
	run -3 "$GPUSLICE" labels -o "$dir/nowhere"
	[[ $output == *"$dir/nowhere': this link leads nowhere"* && -L $dir/nowhere ]]
	run ! "$GPUSLICE" labels -o "$dir/a"
	[[ $output == *"open '$dir/a': Is a directory"* ]]
}

@test "labels take - for standard output, and a link to it" {
	local dir=$BATS_TEST_TMPDIR
	cd "$dir"
	"$GPUSLICE" labels --no-timestamp >want
	run -0 --separate-stderr "$GPUSLICE" labels --no-timestamp -o -
	[[ $output == "$(<want)" && ! -e - ]]
	# the link is made here: as root, a mistake would take away the one in /dev
	ln -s /proc/self/fd/1 stdout
	{ echo before && "$GPUSLICE" labels --no-timestamp -o "$dir/stdout" && echo after; } >got
	[[ -L stdout && $(head -n 1 got) == before && $(tail -n 1 got) == after ]]
	sed '1d;$d' got | cmp - want
}

@test "a simulated node is in TMPDIR, and the files of a killed probe are removed by the next" {
	local dir=$BATS_TEST_TMPDIR/tmp pipe
	mkdir "$dir" "$dir/gpuslice-look.other"
	export TMPDIR=$dir
	: >"$dir/gpuslice-look.other/lock"
	mkdir "$dir/gpuslice-look.unlocked"
	# one in use, and one that is none of ours
	mkdir "$dir/gpuslice-look.used" "$dir/gpuslice-demo.x"
	: >"$dir/gpuslice-demo.x/lock"
	exec {pipe}>"$dir/gpuslice-look.used/lock"
	flock "$pipe"
	run -0 --separate-stderr "$GPUSLICE" labels --node p3.2xlarge
	exec {pipe}>&-
	[[ $(cd "$dir" && echo *) == 'gpuslice-demo.x gpuslice-look.unlocked gpuslice-look.used' ]]
	# it must be able to make one there
	export TMPDIR=$dir/none
	run -3 "$GPUSLICE" labels --node p3.2xlarge
	[[ $output == *"make a directory in '$dir/none'"* ]]
	TMPDIR=relative run -0 "$GPUSLICE" labels --node p3.2xlarge
}

@test "labels without a driver fail, or report that and print what they can" {
	local -a nothing=(env -u GPUSLICE_SIM_NODE GPUSLICE_NVML="$BATS_TEST_TMPDIR/none.so" "$GPUSLICE" labels)
	run -3 "${nothing[@]}"
	[[ $output == *none.so* ]]
	run -0 --separate-stderr "${nothing[@]}" --fail-on-init-error=false
	[[ $output == *gfd.timestamp=* ]]
	[[ $output != *gpu.count* ]]
	# shellcheck disable=SC2154 # set by run
	[[ $stderr == *"note: "*none.so* ]]
	# --nvml is as the variable is.
	run -3 "$GPUSLICE" labels --nvml "$BATS_TEST_TMPDIR/none.so"
	run -0 --separate-stderr "$GPUSLICE" labels --nvml "$BATS_TEST_TMPDIR/none.so" --fail-on-init-error=false
	[[ $output == *gfd.timestamp=* && $output != *gpu.count* ]]
	[[ $stderr == *"note: "*none.so* ]]
	run -2 "$GPUSLICE" labels --mig-strategy bogus
	[[ $output == *"unknown MIG strategy: bogus"* ]]
	run ! "$GPUSLICE" labels --device-discovery-strategy vfio
	[[ $output == *"expected auto or nvml"* ]]
	run -2 "$GPUSLICE" labels surplus
	[[ $output == *"found 'surplus'"* ]]
}

@test "a lost GPU is in no label, and a note reports it" {
	"$GPUSLICE" sim create
	"$GPUSLICE" sim lose 2
	run -0 --separate-stderr "$GPUSLICE" labels
	[[ $output == *gpu.count=3$'\n'* ]]
	[[ $stderr == *"note: GPU 2"*"is not counted in the labels"*"GPU is lost"* ]]
}

@test "a node with several models is reported, and labeled by the first" {
	"$GPUSLICE" sim create
	"$GPUSLICE" sim add T4
	run -0 --separate-stderr "$GPUSLICE" labels
	[[ $output == *gpu.count=4$'\n'* ]]
	[[ $output == *gpu.product=Tesla-V100-SXM2-16GB$'\n'* ]]
	[[ $stderr == *"note: several GPU models"*"not about 'Tesla T4'"* ]]
}
