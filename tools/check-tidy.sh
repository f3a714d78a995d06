#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy (.clang-tidy) over all C files that a build directory compiles. Findings are errors,
# but for long functions, which are listed as guides.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-tidy.sh [--short] [BUILD_DIR [FILE...]]"
	echo "BUILD_DIR (default build/main) must be built: it holds the generated headers. A file that passed before, in this"
	echo "tree or another, is skipped while it, the headers that it includes, the flags and the checks are the same."
	echo "--short follows fewer paths through long functions: for the gate, whose processors are slow."
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

passed=${XDG_CACHE_HOME:-$HOME/.cache}/gpuslice/tidy
mkdir -p "$passed"
find "$passed" -type f -mtime +30 -delete
mapfile -t rows < <({
	cat tools/check-tidy.sh .clang-tidy tools/tidy-hints.h
	clang-tidy --version
	echo "$short"
} | tools/tidy-keys.py "$build")
if [[ $# -gt 0 ]]; then
	mapfile -t rows < <(printf '%s\n' "${rows[@]}" | awk -v files="$*" '
		BEGIN { split(files, list, " "); for (i in list) wanted[list[i]] = 1 } $2 in wanted')
	[[ ${#rows[@]} -eq $# ]] || { echo "$build does not compile each of: $*" >&2 && exit 2; }
fi

# check_one "KEY FILE"
check_one() {
	local file=${1#* } key=$passed/${1%% *} out args hints=(--extra-arg=-include "--extra-arg=$PWD/tools/tidy-hints.h")
	[[ $file != src/lib/base/error.c ]] || hints=()
	# The analysis of paths takes most of the time; what it would find in tests, their runs under the
	# sanitizers do.
	[[ $file != test/* ]] || hints+=('--checks=-clang-analyzer-*')
	[[ ${1%% *} == - || ! -e $key ]] || { touch "$key" && cat "$key" && return 0; }
	read -ra args <<<"$short"
	if out=$(clang-tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
		"${hints[@]}" "${args[@]}" "$file" 2>/dev/null); then
		# What is left is guides: one line each, kept with the verdict.
		out=$(grep -E ': warning: ' <<<"$out" | sed -E 's#^([^ ]*/)?((src|test)/)#guide: \2#; s# \[.*##' | sort -u)
		[[ ${1%% *} == - ]] || { printf '%s' "${out:+$out$'\n'}" >"$key.$$" && mv "$key.$$" "$key"; }
		printf '%s' "${out:+$out$'\n'}"
	else
		# The path to a finding can be long; its end and the line itself tell most.
		printf '%s\n' "$out" | sed -E 's#^[^ ]*/((src|test)/)#\1#' |
			awk '/: (error|warning): / { show = 3 } / note: / { show = 0 } show-- > 0'
		return 1
	fi
}
export -f check_one
export build passed short
status=0
printf '%s\0' "${rows[@]}" | xargs -0 -I{} -P "$(nproc)" bash -c 'check_one "$1"' _ {} || status=1
echo "${#rows[@]} files through clang-tidy"
exit $status
