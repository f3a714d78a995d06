#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Python programs that know nothing of the simulator, on simulated nodes: python.sh BUILD_DIR
#
# nvitop and gpustat on whole GPUs and on MIG devices; the strict parser of OpenMetrics on the agent's /metrics; what stands on the
# CUDA driver API alone (cuda-bindings, cuda.core, Numba, Triton), bare and in a slice. The packages come from PyPI, once, into
# .cache/peers/python (1.5 GB). Exit 77: no python3 that can make virtual environments.
set -euo pipefail

if [[ ${1-} == --help || $# == 0 ]]; then
	sed -n '3,7s/^# \{0,1\}//p' "$0"
	exit 0
fi
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
GPUSLICE_BUILD=$(cd "$1" && pwd)
venv=$root/.cache/peers/python
list=$here/python/requirements.txt
if ! cmp -s "$list" "$venv/requirements.txt"; then
	rm -rf "$venv"
	python3 -m venv "$venv" || exit 77
	"$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$list"
	cp "$list" "$venv/requirements.txt"
fi
export GPUSLICE_BUILD PEERS_PYTHON=$venv/bin/python
exec bats "$here/python.bats" "$here/cuda-python.bats"
