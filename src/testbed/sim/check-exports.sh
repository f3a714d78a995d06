#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-exports.sh LIBRARY SONAME NAMES...: a simulated library of the vendor's exports exactly the names of
# the lists, has that SONAME and needs nothing but libc, so that any program and any image can load it.
set -eu
export LC_ALL=C

library=$1
expected=$2
shift 2
fail=0

exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
listed=$(awk '!/^#/ && NF { print $1 }' "$@" | sort)
if [ "$exported" != "$listed" ]; then
	echo "exports differ from $* (<: only exported, >: only listed):"
	one=$(mktemp)
	two=$(mktemp)
	printf '%s\n' "$exported" >"$one"
	printf '%s\n' "$listed" >"$two"
	diff "$one" "$two" || true
	rm -f "$one" "$two"
	fail=1
fi

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if [ "$soname" != "$expected" ]; then
	echo "SONAME: expected $expected, found '$soname'"
	fail=1
fi

# Sanitizer builds need their runtime; nothing else may come in.
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
	case $needed in
	libc.so.* | libpthread.so.* | ld-linux*) ;;
	libasan.so.* | libubsan.so.* | libtsan.so.* | libm.so.* | libdl.so.* | libgcc_s.so.*)
		readelf -d "$library" | grep -q 'lib[atu][a-z]*san' || {
			echo "needs $needed"
			fail=1
		} ;;
	*)
		echo "needs $needed"
		fail=1
		;;
	esac
done
exit $fail
