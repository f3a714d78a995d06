#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cppcheck over src/ and test/; every finding is an error. Exceptions: tools/cppcheck.suppress.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-cppcheck.sh [FILE...]"
	exit 0
fi
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- src test
# The lists of <sys/queue.h> are a syntax of their own.
queue=$(printf '#include <sys/queue.h>\n' | ${CC:-cc} -E -x c - | sed -n 's|^# 1 "\(/.*sys/queue.h\)".*|\1|p' | head -n 1)
cppcheck --enable=warning,performance,portability --std=c11 --library=posix -D_GNU_SOURCE \
	-DGPUSLICE_VERSION='"0"' -Isrc -Itest \
	--include="$queue" --include=tools/cppcheck.h -i test/peers --inline-suppr --suppressions-list=tools/cppcheck.suppress \
	--error-exitcode=1 --quiet -j "$(nproc)" "$@"
