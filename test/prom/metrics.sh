#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The golden texts of metrics in the eyes of Prometheus: promtool parses each text in the classic format.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: test/prom/metrics.sh FILE..."
	echo "Runs promtool (tools/setup prom) over each file; exits with 77 where there is none."
	exit 0
fi
command -v promtool >/dev/null || {
	echo "no promtool: tools/setup prom installs it"
	exit 77
}

# What promtool says of style is not for names of others: DCGM's are in capitals and have no units.
bad=0
for file in "$@"; do
	said=$(promtool check metrics <"$file" 2>&1) && status=0 || status=$?
	ours=$(grep -v '^DCGM_\|^node_gpu_\|^container_gpu_allocation' <<<"$said" | grep . || true)
	# 3: only remarks about style, 1: not to be parsed
	if [[ $status != 0 && $status != 3 ]] || [[ -n $ours ]]; then
		printf '%s: promtool ends with %s:\n%s\n' "$file" "$status" "${ours:-$said}"
		bad=1
	fi
done
exit $bad
