#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The CUDA library compiled for AArch64, checked as a file, and run under qemu: entry points, the
# dlopen wrapper and the correction of its tables are not the same code there.
set -euo pipefail

if [[ ${1-} == --help || $# -lt 3 ]]; then
	echo "usage: test/loader/aarch64.sh BUILD-DIRECTORY NAMES SOURCE..."
	echo "Exits with 77 without aarch64-linux-gnu-gcc; without qemu-aarch64 it only compiles and checks."
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
build=$(realpath "$1") names=$(realpath "$2")
shift 2
here=$(cd "$(dirname "$0")" && pwd)
top=$here/../..
cc=aarch64-linux-gnu-gcc
command -v $cc >/dev/null || { echo "skipped: no $cc" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

$cc -O2 -Wall -Werror -std=gnu17 -D_GNU_SOURCE -include "$top/src/lib/base/banned.h" -I"$build/src" -I"$top/src" \
	-fvisibility=hidden -fPIC -fstack-protector-strong -mno-outline-atomics -shared -nostartfiles \
	-Wl,-Bsymbolic -Wl,-z,separate-code -Wl,--hash-style=gnu -Wl,--no-undefined -Wl,-z,lazy -Wl,-z,norelro -Wl,-z,nodelete \
	-Wl,--as-needed -Wl,-soname,libcuda.so.1 -Wl,--version-script="$build/src/container/forward-cuda.map" \
	-o "$work/libgpuslice-cuda.so" "$build/src/container/forward-cuda.c" "$@"
"$top/tools/check-runtime.sh" "$work/libgpuslice-cuda.so" libcuda.so.1 "$names"
command -v qemu-aarch64 >/dev/null || { echo "not run: no qemu-aarch64" && exit 0; }

mkdir -p "$work"/{driver,near}
options=(-O1 -w -D_GNU_SOURCE)
$cc "${options[@]}" -shared -fPIC -Wl,-Bsymbolic -Wl,-soname,libcuda.so.1 -DORIGIN=1 \
	-o "$work/driver/libcuda.so.1" "$here/fake-driver.c"
$cc "${options[@]}" -o "$work/client" "$here/client.c"
$cc "${options[@]}" -DNEEDED -o "$work/client-needed" "$here/client.c" "$work/driver/libcuda.so.1"
$cc "${options[@]}" -shared -fPIC -DNEIGHBOUR -o "$work/near/libneighbour.so" "$here/inside.c"
# shellcheck disable=SC2016 # the loader's $ORIGIN
$cc "${options[@]}" -shared -fPIC -Wl,-rpath,'$ORIGIN/near' -o "$work/libinside.so" "$here/inside.c"

check() {
	local expected=$1 found
	shift
	found=$(qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$work/driver" \
		-E LD_PRELOAD="$work/libgpuslice-cuda.so" "$@" 2>&1) || found+=" (status $?)"
	# shellcheck disable=SC2053 # a pattern
	[[ $found == $expected ]] || {
		printf 'expected: %s\nfound:    %s\n' "$expected" "$found"
		bad=1
	}
}

check "ours 1 -" "$work/client-needed" needed
check "ours 1 4711" "$work/client" dlopen libcuda.so.1
check "ours 1 4711" "$work/client" dlopen "$work/driver/libcuda.so.1"
check "64 4712 ours none" "$work/client" names libcuda.so
check "0 0" "$work/client" arguments
check "ours ours 0 0 ours 1 0 ours 1 0 real 500 1 none 1" "$work/client" procaddr
check "ours 1 *" "$work/client" dlmopen libcuda.so.1
check found "$work/client" inside "$work/libinside.so" dlopen libneighbour.so
check "0 bad" "$work/client" race
exit $bad
