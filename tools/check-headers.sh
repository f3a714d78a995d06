#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every header compiles alone, and begins with its licence and #pragma once. Every source file, script
# and build file names its licence.
set -euo pipefail

if [[ ${1-} == --help || $# -gt 1 ]]; then
	echo "usage: tools/check-headers.sh [BUILD_DIR]"
	echo "BUILD_DIR (default build/main) holds the generated headers."
	exit 0
fi
cd "$(dirname "$0")/.."
build=${1-build/main}
cc=${CC:-cc}
bad=0

while read -r file; do
	if ! head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0'; then
		echo "$file: the first line names the licence (SPDX-License-Identifier: Apache-2.0)"
		bad=1
	fi
done < <(find Makefile meson.build meson_options.txt src test tools man deploy .ci -type f \
	\( -name '*.[ch]' -o -name meson.build -o -name '*.sh' -o -name '*.bash' -o -name '*.bats' \
	-o -name '*.py' -o -name '*.go' -o -path '.ci/*' -o -name Makefile \) 2>/dev/null)

mapfile -t headers < <(find src test -name '*.h' | LC_ALL=C sort)
for header in "${headers[@]}"; do
	# What forces a header in (banned.h) or expands a table several times says so itself.
	if ! grep -q '^#pragma once$' "$header" && ! grep -q 'Included several times' "$header"; then
		echo "$header: no #pragma once"
		bad=1
	fi
done

read -ra flags <<<"$(pkg-config --cflags libuv grpc_unsecure libprotobuf-c jansson libfyaml \
	libmicrohttpd libcurl sqlite3 2>/dev/null)"
flags+=(-std=gnu17 -D_GNU_SOURCE -DGPUSLICE_VERSION='"0"' -DTEST_SOURCE='""' -Isrc -Itest -Wall -Wextra -Werror)
flags+=(-Wno-unused-function -Wno-unused-const-variable)
while read -r dir; do
	flags+=("-I$dir")
done < <(find "$build" -name '*.pb-c.h' -printf '%h\n' 2>/dev/null | sort -u)
flags+=("-I$build/src") # headers that the build makes, by their layer: "container/loader/slots.h"
export cc
printf '%s\0' "${headers[@]}" | xargs -0 -I{} -P "$(nproc)" bash -c '
	header=$1 && shift
	if ! printf "#include \"%s\"\n" "${header#*/}" | "$cc" "$@" -fsyntax-only -x c - ; then
		echo "$header: does not compile alone"
		exit 1
	fi' _ {} "${flags[@]}" || bad=1
echo "${#headers[@]} headers"
exit $bad
