#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every shell script passes shellcheck, is strict and answers --help.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-scripts.sh"
	exit 0
fi
cd "$(dirname "$0")/.."
mapfile -t scripts < <({ grep -rlE '^#!.*\b(ba)?sh$' tools test deploy .ci 2>/dev/null || true; } | LC_ALL=C sort)
bad=0
for script in "${scripts[@]}"; do
	[[ -x $script ]] || { echo "$script: not executable" && bad=1; }
	strict='set -euo pipefail'
	[[ $(head -n 1 "$script") != '#!/bin/sh' ]] || strict='set -eu'
	grep -q "^$strict\$" "$script" || { echo "$script: no '$strict'" && bad=1; }
	grep -q -e '--help' "$script" || { echo "$script: no --help" && bad=1; }
done
if ! command -v shellcheck >/dev/null; then
	echo "no shellcheck here"
	[[ $bad == 0 ]] && exit 77 || exit 1
fi
# Bats runs tests with `set -e`, and load() brings what looks unused.
shellcheck --external-sources --severity=warning "${scripts[@]}" || bad=1
find test -name '*.bats' -o -name '*.bash' | LC_ALL=C sort | xargs -r shellcheck --shell=bats --severity=warning -e SC2164,SC2034 || bad=1
echo "${#scripts[@]} scripts"
exit $bad
