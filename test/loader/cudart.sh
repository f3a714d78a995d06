#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program with NVIDIA's static CUDA runtime, on the simulated driver: it starts, and of the more
# than 400 functions that it asks for it gets ours for each that has a hook.
set -euo pipefail

package=nvidia-cuda-runtime==13.0.96

if [[ ${1-} == --help || $# -ne 3 ]]; then
	cat <<-'EOT'
		usage: test/loader/cudart.sh CUDA.so NAMES SIMULATED-LIBCUDA

		The runtime is $GPUSLICE_CUDART (libcudart_static.a); else that of NVIDIA's Python package,
		fetched once by pip. Exits with 77 without either.
	EOT
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
cuda=$(realpath "$1") names=$(realpath "$2") sim=$(dirname "$(realpath "$3")")
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuslice/loader/cudart
archive=${GPUSLICE_CUDART-$cache/libcudart_static.a}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ ! -e $archive ]]; then
	pip download -q --no-deps --dest "$work" "$package" >"$work/log" 2>&1 || {
		echo "skipped: no \$GPUSLICE_CUDART, and pip has no $package: $(tail -n 1 "$work/log")"
		exit 77
	}
	mkdir -p "$cache"
	python3 -m zipfile -e "$work"/*.whl "$work/wheel"
	find "$work/wheel" -name libcudart_static.a -exec cp {} "$cache/part" \;
	mv "$cache/part" "$archive"
fi
version=GLIBC_2.34
[[ $(uname -m) == x86_64 ]] || version=GLIBC_2.17
gcc -w -O1 -D_GNU_SOURCE -DDLSYM_VERSION="\"$version\"" -o "$work/program" "$here/cudart.c" "$archive" \
	-ldl -lpthread -lrt
env -i LD_LIBRARY_PATH="$sim" LD_PRELOAD="$cuda" timeout 60 "$work/program" >"$work/asked"
hooks=$(sed 's/#.*//' "$names" | awk '/ (hook|launch|copy|sync|pass)( |$)/ { print $1 }' | LC_ALL=C sort)
passed=$(awk '$1 == "real" { print $2 }' "$work/asked" | LC_ALL=C sort -u)
missed=$(LC_ALL=C comm -12 <(echo "$hooks") <(echo "$passed"))
ours=$(grep -c '^ours' "$work/asked" || true)
echo "$(grep -c '' "$work/asked") lines: $ours functions of ours, $(wc -l <<<"$passed") of the driver's"
[[ -z $missed ]] || { echo "not ours, though there is a hook: ${missed//$'\n'/ }" && exit 1; }
[[ $ours -ge 150 && $((ours + $(wc -l <<<"$passed"))) -ge 400 ]] || { cat "$work/asked" && exit 1; }
[[ $(tail -n 1 "$work/asked") == "runtime 130"* ]] || { tail -n 3 "$work/asked" && exit 1; }
