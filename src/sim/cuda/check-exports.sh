#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check-exports.sh LIBRARY NAMES: the simulated libcuda exports exactly the names of the list, has the
# vendor's SONAME and needs nothing but libc, so that any program and any image can load it.
set -eu
export LC_ALL=C

library=$1
names=$2
fail=0

# What debuggers look at.
variables='cudbgApiClientPid cudbgApiClientRevision cudbgAttachHandlerAvailable
cudbgDebuggerCapabilities cudbgDebuggerInitialized cudbgDetachSuspendedDevicesMask
cudbgEnableIntegratedMemcheck cudbgEnableLaunchBlocking cudbgEnablePreemptionDebugging
cudbgInjectionPath cudbgIpcFlag cudbgReportDriverApiErrorFlags cudbgReportedDriverApiErrorCode
cudbgReportedDriverApiErrorFuncNameAddr cudbgReportedDriverApiErrorFuncNameSize
cudbgReportedDriverApiErrorNameAddr cudbgReportedDriverApiErrorNameSize
cudbgReportedDriverApiErrorSource cudbgReportedDriverApiErrorStringAddr
cudbgReportedDriverApiErrorStringSize cudbgReportedDriverInternalErrorCode
cudbgResumeForAttachDetach cudbgRpcEnabled cudbgSessionId cudbgUseExternalDebugger'

exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
listed=$({
	awk '!/^#/ && NF { print $1 }' "$names"
	printf '%s\n' "$variables" | tr ' ' '\n'
} | sort)
if [ "$exported" != "$listed" ]; then
	echo "exports differ from $names (<: only exported, >: only listed):"
	one=$(mktemp)
	two=$(mktemp)
	printf '%s\n' "$exported" >"$one"
	printf '%s\n' "$listed" >"$two"
	diff "$one" "$two" || true
	rm -f "$one" "$two"
	fail=1
fi

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
if [ "$soname" != libcuda.so.1 ]; then
	echo "SONAME: expected libcuda.so.1, found '$soname'"
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
