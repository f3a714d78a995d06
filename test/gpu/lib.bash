# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the scripts for real GPUs share: the programs of a staged install, a directory, a transcript.

# use_stage STAGE: its programs come first in PATH, and its own libraries are used if it has some.
# Sets $stage and $tmp, a new directory, which the script removes.
use_stage() {
	stage=$(cd "$1" && pwd)
	if [[ -d $stage/deps ]]; then
		export LD_LIBRARY_PATH=$stage/deps${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	fi
	PATH=$stage/bin:$PATH
	tmp=$(mktemp -d /tmp/gsgpu.XXXXXX)
	failed=0
	export NO_COLOR=1
}

heading() { printf '\n== %s\n' "$*"; }

# expect WHAT EXPECTED FOUND: a difference sets $failed.
expect() {
	if [[ $2 == "$3" ]]; then
		printf 'ok    %s: %s\n' "$1" "$3"
	else
		printf 'FAIL  %s: expected %s, found %s\n' "$1" "$2" "$3"
		failed=1
	fi
}

# show COMMAND...: with its output and its exit status, which it returns.
show() {
	local status=0
	printf '$ %s\n' "$*"
	"$@" >"$tmp/shown" 2>&1 || status=$?
	sed 's/^/  /' "$tmp/shown"
	((status == 0)) || printf '  exit status %d\n' "$status"
	return $status
}
