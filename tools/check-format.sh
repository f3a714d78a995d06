#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# C files have the form of .clang-format. --fix rewrites those that have not.
set -euo pipefail

version=14 # what Debian 12 has; other versions break lines elsewhere

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-format.sh [--fix] [FILE...]"
	echo "Checks (or fixes) the C files of src/ and test/. Needs clang-format $version; with another"
	echo "version the check is skipped (exit 77) and --fix refuses."
	exit 0
fi
cd "$(dirname "$0")/.."
fix=
[[ ${1-} != --fix ]] || { fix=1 && shift; }

tool=
for name in "clang-format-$version" clang-format; do
	if command -v "$name" >/dev/null && [[ $("$name" --version) == *" version $version."* ]]; then
		tool=$name
		break
	fi
done
if [[ -z $tool ]]; then
	echo "no clang-format $version here (other versions break lines elsewhere)"
	[[ -z $fix ]] && exit 77 || exit 1
fi

if [[ $# -gt 0 ]]; then
	files=("$@")
else
	mapfile -t files < <(find src test -name '*.[ch]' | LC_ALL=C sort)
fi
if [[ -n $fix ]]; then
	printf '%s\0' "${files[@]}" | xargs -0 -n 8 -P "$(nproc)" "$tool" -i
	exit 0
fi
printf '%s\0' "${files[@]}" | xargs -0 "$tool" --dry-run -Werror 2>&1 |
	sed -n 's/^\([^:]*:[0-9]*\):[0-9]*: error: code should be clang-formatted.*/\1/p' |
	awk -F: '{ if (!($1 in first)) { first[$1] = $2; order[++n] = $1 } lines[$1]++ }
		END {
			for (i = 1; i <= n; i++)
				printf "%s:%d: %d places to format\n", order[i], first[order[i]], lines[order[i]]
			if (n) print "run `make fmt`"
			exit n > 0
		}'
echo "${#files[@]} files formatted"
