#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) over all C files that a build directory compiles. Findings are errors,
# but for long functions, which are listed as guides.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-tidy.sh [--short] [BUILD_DIR [FILE...]]"
	echo "BUILD_DIR (default build/main) must be built: it holds the generated headers. A file that"
	echo "passed before is skipped while it, all headers, .clang-tidy, this script and the flags are the same."
	echo "--short follows fewer paths through long functions: for CI, whose processors are slow."
	exit 0
fi
short=
if [[ ${1-} == --short ]]; then
	shift
	# The analyzer gives up on a function at 225000 states by default.
	short="--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=20000"
fi
cd "$(dirname "$0")/.."
build=${1-build/main}
[[ $# == 0 ]] || shift
[[ -e $build/compile_commands.json ]] || { echo "$build is no build directory" >&2 && exit 2; }

if [[ $# -gt 0 ]]; then
	files=("$@")
else
	mapfile -t files < <(python3 - "$build" <<-'EOF'
		import json, os, sys
		build = sys.argv[1]
		seen = set()
		for unit in json.load(open(build + "/compile_commands.json")):
		    path = os.path.relpath(os.path.realpath(os.path.join(unit["directory"], unit["file"])))
		    if path.startswith(("src/", "test/")) and path.endswith(".c") \
		            and not path.startswith("test/peers/"):
		        seen.add(path)
		print("\n".join(sorted(seen)))
	EOF
	)
fi

cache=$build/tidy-passed
mkdir -p "$cache"
common=$({
	cat tools/check-tidy.sh .clang-tidy tools/tidy-hints.h "$build/compile_commands.json"
	find src test "$build" -name '*.h' -print0 | LC_ALL=C sort -z | xargs -0 cat
	clang-tidy --version
} | sha256sum)

check_one() {
	local file=$1 key out args hints=(--extra-arg=-include "--extra-arg=$PWD/tools/tidy-hints.h")
	[[ $file != src/base/error.c ]] || hints=()
	# The analysis of paths takes most of the time; what it would find in tests, their runs under the
	# sanitizers do.
	[[ $file != test/* ]] || hints+=('--checks=-clang-analyzer-*')
	key=$cache/$({ echo "$common" && cat "$file"; } | sha256sum | cut -c 1-40)
	[[ ! -e $key ]] || { cat "$key" && return 0; }
	if [[ -n $short ]]; then
		read -ra args <<<"$short"
		hints+=("${args[@]}")
		key+=-short # counts for no full run
		[[ ! -e $key ]] || { cat "$key" && return 0; }
	fi
	if out=$(clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
		"${hints[@]}" "$file" 2>/dev/null); then
		# What is left is guides: one line each, kept with the verdict.
		grep -E ': warning: ' <<<"$out" | sed -E 's#^([^ ]*/)?((src|test)/)#guide: \2#; s# \[.*##' | sort -u >"$key" || true
		cat "$key"
	else
		# The path to a finding can be long; its end and the line itself tell most.
		printf '%s\n' "$out" | sed -E 's#^[^ ]*/((src|test)/)#\1#' |
			awk '/: (error|warning): / { show = 3 } / note: / { show = 0 } show-- > 0'
		return 1
	fi
}
export -f check_one
export build cache common short
status=0
printf '%s\0' "${files[@]}" | xargs -0 -I{} -P "$(nproc)" bash -c 'check_one "$1"' _ {} || status=1
echo "${#files[@]} files through clang-tidy"
exit $status
