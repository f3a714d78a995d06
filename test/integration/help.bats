#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Help texts and man pages.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup
}

teardown() {
	node_teardown
}

@test "man pages and --help have the same commands, options and variables" {
	"$BATS_TEST_DIRNAME/../../tools/check-help.sh" "$STAGE/bin"
}

@test "every command answers --help" {
	local command
	for command in '' $("$GPUSLICE" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'); do
		# shellcheck disable=SC2086 # no word for the help of the program itself
		run -0 "$GPUSLICE" $command --help
		[[ -n $output ]]
	done
}
