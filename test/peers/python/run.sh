#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs Python programs on the CUDA driver API on a simulated GPU, bare and in a slice: run.sh BUILD_DIR
#
# Packages (requirements.txt) come from PyPI into a temporary environment, 1.5 GB, which goes with the run; or
# GPUSLICE_PEERS_PYTHON names an interpreter that has them. Exit 77: no python3 with venv, no bats, or no compiler here.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	sed -n '3,6s/^# \{0,1\}//p' "$0"
	exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?usage: run.sh BUILD_DIR}" && pwd)
for program in bats cc; do
	command -v "$program" >/dev/null || exit 77
done
if [[ ! ${GPUSLICE_PEERS_PYTHON-} ]]; then
	venv=$(mktemp -d "${TMPDIR:-/tmp}/gs-peers.XXXXXX")
	trap 'rm -rf "$venv"' EXIT
	python3 -m venv "$venv" || exit 77
	"$venv/bin/pip" install --quiet --disable-pip-version-check -r "$here/requirements.txt"
	GPUSLICE_PEERS_PYTHON=$venv/bin/python
fi
export GPUSLICE_PEERS_PYTHON GPUSLICE_BUILD=$build
bats --tap "$here/../python.bats"
