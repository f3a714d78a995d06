#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tenants that come and go on a simulated GPU, for as long as wanted: do shares hold, does every account
# add up, and is nothing left behind? turns.py has what is looked at.
set -euo pipefail

if [[ ${1-} == -h || ${1-} == --help ]]; then
	cat <<-'EOF'
	Usage: test/soak/turns.sh [--storm] [--report S] [--out DIR] [SECONDS]

	SECONDS: an hour by default. --storm: tenants only die, and the arbiter often. --report: a line each
	so many seconds (60). GPUSLICE_BUILD: the build directory (build/main). Exit 1 if something was found.
	EOF
	exit 0
fi

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${GPUSLICE_BUILD-$here/../../build/main}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$here/../gpu/slice.sh" pack "$build" "$work/bundle" >"$work/pack.log" 2>&1 || { cat "$work/pack.log"; exit 1; }
status=0
python3 "$here/turns.py" "$work/bundle" --out "$work/out" "$@" || status=$?
exit "$status"
