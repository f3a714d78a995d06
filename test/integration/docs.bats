#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The command blocks of README and docs do what is printed, in the order in which they are printed.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	local build
	cd "$BATS_TEST_DIRNAME/../.."
	build=$(realpath "$GPUSLICE_BUILD")
	unset "${!GPUSLICE_@}"
	BUILD=$build
}

# What needs more than a simulated node is said in front of the block. This list is the review of such marks.
@test "the blocks that are not run are those that cannot be" {
	run -0 python3 test/docs/blocks.py list README.md CONTRIBUTING.md docs/*.md
	echo "$output"
	[[ $(grep -vc ' run$' <<<"$output") == 18 ]]
	[[ $(grep -c ' run$' <<<"$output") == 11 ]]
	while read -r place reason; do
		[[ $reason == "a cluster" ]] || continue
		sed -n "${place#*:},/^\`\`\`$/p" "${place%:*}" | grep -qE '^ *(kubectl|helm) '
	done <<<"$output"
}

@test "the others run as they are printed, and leave nothing behind" {
	unshare --map-root-user --mount --pid --fork --mount-proc true || skip "no namespaces here"
	local page
	for page in $(python3 test/docs/blocks.py list README.md docs/*.md | sed -n 's/:[0-9]* run$//p' | uniq); do
		timeout 120 test/docs/run "$BUILD" "$STAGE" "$page"
	done
}
