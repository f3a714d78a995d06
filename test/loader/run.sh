#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The loader matrix: programs reach the driver in every way they have, on several generations of the
# C library, with our libraries injected by /etc/ld.so.preload in a root of each. Prints TAP.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuslice/loader
cc=${CC:-gcc}
triplet=$(uname -m)-linux-gnu

usage() {
	cat <<-'EOT'
		usage: test/loader/run.sh CUDA.so NVML.so [GENERATION...]

		GENERATION: host (this machine's C library), a Debian suite (bullseye, bookworm, trixie,
		sid: fetched once by debootstrap into ~/.cache/gpuslice/loader), or musl (needs
		musl-gcc). Default: $GPUSLICE_LOADER, else host. Needs root, for chroot; without, and
		for what the network does not give, tests are skipped with the reason.
	EOT
}

n=0
failed=0

ok() {
	n=$((n + 1))
	echo "ok $n - $generation: $*"
}

not_ok() {
	n=$((n + 1))
	failed=$((failed + 1))
	echo "not ok $n - $generation: $1"
	printf '# expected: %s\n' "$2"
	printf '%s\n' "${3-}" | sed 's/^/# found:    /'
}

skip() {
	n=$((n + 1))
	echo "ok $n - $generation # SKIP $*"
}

# check NAME EXPECTED [VARIABLE=VALUE...] COMMAND...: runs it in the root with nothing else in its
# environment; all that it prints must be EXPECTED (a pattern).
check() {
	local name=$1 expected=$2 found
	shift 2
	found=$(chroot "$root" /t/bin/run "$@" 2>&1) || found+=" (status $?)"
	# shellcheck disable=SC2053 # a pattern
	if [[ $found == $expected ]]; then
		ok "$name"
	else
		not_ok "$name" "$expected" "$found"
	fi
}

# The root of a generation; sets `root`. 1: cannot be had, and the reason was printed.
host_root() {
	local file
	root=$work/host
	mkdir -p "$root"/{etc,tmp,sbin}
	for file in $(ldd /bin/sh /usr/bin/env | grep -oE '/[^ ]+\.so[^ ]*' | sort -u) \
		/lib*/*-linux-gnu/{libc.so.6,libdl.so.2,libpthread.so.0,libm.so.6,ld-linux-*.so.*} /sbin/ldconfig; do
		mkdir -p "$root${file%/*}"
		cp -L "$file" "$root$file"
	done
	sysroot=()
}

suite_root() {
	local suite=$1 part=$cache/$1.part deb link
	root=$cache/$suite
	# A native compiler looks for start files beside itself first, whatever the sysroot.
	sysroot=("--sysroot=$root" "-B$root/usr/lib/$triplet/" "-L$root/usr/lib/$triplet")
	[[ ! -e $root/done ]] || return 0
	command -v debootstrap >/dev/null || { skip "needs debootstrap" && return 1; }
	mkdir -p "$cache"
	rm -rf "$part" "$root"
	if ! debootstrap --foreign --variant=minbase --include=libc6-dev "$suite" "$part" \
		"${GPUSLICE_DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$part.log" 2>&1; then
		skip "debootstrap could not fetch it: $(tail -n 1 "$part.log")"
		rm -rf "$part"
		return 1
	fi
	# Unpacked is enough: nothing is configured, and what the compiler needs is unpacked too.
	for deb in "$part"/var/cache/apt/archives/{libc6-dev,libcrypt-dev,linux-libc-dev}_*.deb; do
		[[ ! -e $deb ]] || dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$part" --keep-directory-symlink
	done
	# Links with absolute targets lead the linker, which is outside, to this machine's files.
	find "$part/usr/lib" "$part/usr/lib64" -type l -lname '/*' 2>/dev/null | while read -r link; do
		ln -sfr "$part$(readlink "$link")" "$link"
	done
	rm -rf "$part"/var/cache/apt/archives "$part"/usr/share/{doc,locale,man}
	touch "$part/done"
	mv "$part" "$root"
}

# compile OUTPUT SOURCE OPTION...
compile() {
	local out=$1 source=$2
	shift 2
	mkdir -p "${out%/*}"
	"$cc" "${sysroot[@]}" -O1 -w -D_GNU_SOURCE -o "$out" "$here/$source" "$@"
}

driver() {
	local dir=$1 origin=$2
	shift 2
	compile "$dir/libcuda.so.1" fake-driver.c -shared -fPIC -Wl,-Bsymbolic \
		-Wl,-soname,libcuda.so.1 -DORIGIN="$origin" "$@" -ldl
}

build() {
	local t=$root/t
	rm -rf "$t"
	mkdir -p "$t"/{ours,copy,lib/near}
	cp "$cuda" "$t/ours/libgpuslice-cuda.so"
	cp "$nvml" "$t/ours/libgpuslice-nvml.so"
	cp "$cuda" "$t/copy/libcuda.so.1"
	driver "$t/driver" 1
	driver "$t/compat" 2
	driver "$t/elsewhere" 4
	driver "$t/reenter" 5 -DREENTER
	driver "$t/many" 6 -DMANY
	mkdir -p "$t/not-elf" && echo "not a library" >"$t/not-elf/libcuda.so.1"
	cp "$t/driver/libcuda.so.1" "$t/driver/libcuda.so.580.1"
	ln -s libcuda.so.1 "$t/driver/libcuda.so"
	compile "$t/driver/libnvidia-ml.so.1" fake-driver.c -shared -fPIC -Wl,-Bsymbolic \
		-Wl,-soname,libnvidia-ml.so.1 -DORIGIN=1 -DNVML
	compile "$t/lib/near/libneighbour.so" inside.c -shared -fPIC -DNEIGHBOUR
	# shellcheck disable=SC2016 # the loader's $ORIGIN
	compile "$t/lib/libinside.so" inside.c -shared -fPIC -Wl,-rpath,'$ORIGIN/near' -ldl
	compile "$t/lib/libinside-needed.so" inside.c -shared -fPIC -DNEEDED \
		"$t/driver/libcuda.so.1" -ldl
	compile "$t/bin/client" client.c -ldl -lpthread
	compile "$t/bin/client-needed" client.c -DNEEDED "$t/driver/libcuda.so.1" -ldl -lpthread
	compile "$t/bin/client-lazy" client.c -DNEEDED "$t/driver/libcuda.so.1" -ldl -lpthread \
		-Wl,-z,lazy -no-pie
	compile "$t/bin/client-static" client.c -static -ldl -lpthread || rm -f "$t/bin/client-static"
	"$cc" -static -O1 -o "$t/bin/run" "$here/run.c"
	cp "$t/bin/client" "$t/bin/client-setuid"
	chmod 4755 "$t/bin/client-setuid"
	echo /t/driver >"$root/etc/ld.so.conf"
	chroot "$root" /sbin/ldconfig
}

with_preload() {
	printf '%s\n' "$@" >"$root/etc/ld.so.preload"
}

# What is caught, what is not, and that nothing else changes. docs/slice-runtime.md has the same rows.
matrix() {
	local c=/t/bin/client absent="real libcuda.so.1: cannot open shared object file: No such file or directory"
	rm -f "$root/etc/ld.so.preload"
	check "without us: the tests' programs reach the driver" "real 1 4711" $c dlopen libcuda.so.1

	with_preload /t/ours/libgpuslice-cuda.so /t/ours/libgpuslice-nvml.so
	check "a program without CUDA is as ever" nothing $c nothing
	check "NEEDED libcuda.so.1" "ours 1 -" /t/bin/client-needed needed
	check "NEEDED, bound at first call, not PIE" "ours 1 -" /t/bin/client-lazy needed
	check "dlopen and dlsym" "ours 1 4711" $c dlopen libcuda.so.1
	check "dlopen without version" "ours 1 4711" $c dlopen libcuda.so
	check "dlopen with full version" "ours 1 4711" $c dlopen libcuda.so.580.1
	check "dlopen of a path is ours in front of that file" "ours 4 4711" $c dlopen /t/elsewhere/libcuda.so.1
	check "dlopen of a path to a copy of ours finds the driver" "ours 1 4711" $c dlopen /t/copy/libcuda.so.1
	check "dlopen of a path that is not there fails as without us" \
		"failed: dlopen: /t/nowhere/libcuda.so.1: cannot open shared object file: No such file or directory (status 1)" \
		$c dlopen /t/nowhere/libcuda.so.1
	check "dlopen of another library" "failed: dlopen: libcudart.so.12: cannot open shared object file: No such file or directory (status 1)" \
		$c dlopen libcudart.so.12
	check "dlopen with RTLD_NOLOAD, before and after" "not loaded ours 1 4711" $c noload libcuda.so.1
	check "dlopen and dlclose a thousand times" "ours 1 4711" $c again
	check "NVML by dlopen" "ours 1 4711" $c dlopen libnvidia-ml.so.1
	check "NVML without version" "ours 1 4711" $c dlopen libnvidia-ml.so
	check "NVML by path" "ours 1 4711" $c dlopen /t/driver/libnvidia-ml.so.1
	check "RTLD_DEFAULT; names of a newer driver only once it is loaded" "ours 1 -" $c default
	check "RTLD_NEXT" "ours 1 -" $c next
	check "all names of a newer driver are found, those of a newer list are not" "64 4712 ours none" $c names libcuda.so.1
	check "arguments arrive in all registers" "0 0" $c arguments
	check "cuGetProcAddress of both kinds" "ours ours 0 0 ours 1 0 ours 1 0 real 500 1 none 1" $c procaddr
	check "RTLD_DEEPBIND, a library with NEEDED" "ours 1" $c deepbind /t/lib/libinside-needed.so call -
	check "RTLD_DEEPBIND, dlopen in it" "ours 1" $c deepbind /t/lib/libinside.so dlopen libcuda.so.1
	check "dlmopen of the driver in a namespace" "ours 1 *" $c dlmopen libcuda.so.1
	check "dlmopen of a library with NEEDED: not caught" "real 1" $c dlmopen /t/lib/libinside-needed.so call -
	check "dlmopen of a library that opens the driver: not caught" "real 1" $c dlmopen /t/lib/libinside.so dlopen libcuda.so.1
	check "RTLD_DEEPBIND, dlopen of a path in it: not caught" "real 4" \
		$c deepbind /t/lib/libinside.so dlopen /t/elsewhere/libcuda.so.1
	check "a caller's own search path still counts" found $c inside /t/lib/libinside.so dlopen libneighbour.so
	check "fork before the driver is loaded" "ours 1 4711" $c fork
	check "fork after it is loaded" "ours 1 4711" $c fork libcuda.so.1
	check "fork while it is loaded" "0 bad" $c fork-race
	check "posix_spawn without environment" "ours 1 4711" $c spawn $c dlopen libcuda.so.1
	check "vfork and exec without environment" "ours 1 4711" $c vfork $c dlopen libcuda.so.1
	check "exec" "ours 1 4711" $c exec $c dlopen libcuda.so.1
	check "setuid" "ours 1 4711" UID=nobody /t/bin/client-setuid dlopen libcuda.so.1
	check "16 threads look names up while the driver is loaded" "0 bad" $c race
	check "LD_LIBRARY_PATH goes before the cache" "ours 2 4711" LD_LIBRARY_PATH=/t/nowhere:/t/compat $c dlopen libcuda.so.1
	check "LD_LIBRARY_PATH with a copy of ours and with no library" "ours 2 4711" \
		LD_LIBRARY_PATH=/t/copy:/t/not-elf:/t/compat $c dlopen libcuda.so.1
	check "a driver that uses itself while it is loaded" "ours 5 4711" LD_LIBRARY_PATH=/t/reenter $c dlopen libcuda.so.1
	check "a driver that does so, loaded by a call" "ours 5 -" LD_LIBRARY_PATH=/t/reenter /t/bin/client-needed needed
	check "a driver with more new names than there is room for" \
		"gpuslice: libcuda.so.1 of the driver has * names more than there is room for*ours 6 *" \
		LD_LIBRARY_PATH=/t/many $c dlopen libcuda.so.1
	if [[ -e $root/t/bin/client-static ]]; then
		check "a static program: not caught" "real 1 4711" /t/bin/client-static dlopen libcuda.so.1
	else
		skip "a static program: the compiler's own library is too new for this C library"
	fi

	with_preload /t/ours/libgpuslice-nvml.so /t/ours/libgpuslice-cuda.so
	check "the other order: CUDA" "ours 1 4711" $c dlopen libcuda.so
	check "the other order: NVML" "ours 1 4711" $c dlopen libnvidia-ml.so
	check "the other order: the caller's search path" found $c inside /t/lib/libinside.so dlopen libneighbour.so
	with_preload /t/ours/libgpuslice-nvml.so
	check "only NVML: CUDA is the driver's" "real 1 4711" $c dlopen libcuda.so.1

	with_preload /t/ours/libgpuslice-cuda.so /t/ours/libgpuslice-nvml.so
	mv "$root/t/driver" "$root/t/no-driver"
	check "no driver: dlopen fails as without us" "failed: dlopen: $absent (status 1)" $c dlopen libcuda.so.1
	check "no driver: NEEDED answers 100, with a warning" \
		"gpuslice: libcuda.so.1 of the driver is not found*ours -100 -" /t/bin/client-needed needed
	mkdir -p "$root/usr/local/nvidia/lib64"
	cp "$root/t/compat/libcuda.so.1" "$root/usr/local/nvidia/lib64"
	check "a driver where container images have it" "ours 2 4711" $c dlopen libcuda.so.1
	rm -rf "$root/usr/local/nvidia"
	mv "$root/t/no-driver" "$root/t/driver"
	rm -f "$root/etc/ld.so.preload"
}

# musl's loader does not know /etc/ld.so.preload: nothing of ours is there, and nothing breaks.
musl() {
	command -v musl-gcc >/dev/null || { skip "needs musl-gcc" && return; }
	local t
	root=$work/musl t=$work/musl/t cc=musl-gcc sysroot=()
	mkdir -p "$t"/{bin,ours} "$root"/{lib,etc}
	cp -L /lib/ld-musl-*.so.1 "$root/lib"
	cp "$cuda" "$t/ours/libgpuslice-cuda.so"
	compile "$t/driver/libcuda.so.1" fake-driver.c -shared -fPIC -Wl,-soname,libcuda.so.1 -DORIGIN=1
	compile "$t/bin/client" client.c
	gcc -static -O1 -o "$t/bin/run" "$here/run.c"
	with_preload /t/ours/libgpuslice-cuda.so
	check "a program without CUDA is as ever" nothing /t/bin/client nothing
	check "dlopen: not caught" "real 1 4711" LD_LIBRARY_PATH=/t/driver /t/bin/client dlopen libcuda.so.1
}

main() {
	local status
	[[ ${1-} != --help ]] || { usage && return 0; }
	[[ $# -ge 2 ]] || { usage >&2 && return 2; }
	cuda=$(realpath "$1") nvml=$(realpath "$2")
	shift 2
	# shellcheck disable=SC2206 # a list of words
	[[ $# -gt 0 ]] || set -- ${GPUSLICE_LOADER:-host}
	generation=all
	if [[ $(id -u) != 0 ]]; then
		skip "needs root, for chroot"
		echo "1..$n"
		return 0
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	for generation; do
		case $generation in
		musl) (musl; echo "$n $failed" >"$work/count") && read -r n failed <"$work/count" ;;
		*)
			if [[ $generation == host ]]; then host_root; else suite_root "$generation"; fi || continue
			# The build is not in the condition, because `set -e` would not hold in it.
			set +e
			(set -e && build) >"$work/log" 2>&1
			status=$?
			set -e
			if [[ $status != 0 ]]; then
				not_ok "the programs compile" "" "$(tail -n 20 "$work/log")"
				continue
			fi
			matrix
			;;
		esac
	done
	echo "1..$n"
	[[ $failed == 0 ]]
}

main "$@"
