# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# NVIDIA's nvidia-mig-parted, unmodified, on the simulated node of GPUSLICE_SIM_NODE and
# GPUSLICE_SIM_DIR. It looks for GPUs in /sys and for the driver in /proc/modules (all that it reads there), so it runs in a
# mount namespace of its own with the node's files there. Needs root.

# mig_parted_build ROOT BIN: from the Go module proxy, once.
mig_parted_build() {
	[[ -x $2/nvidia-mig-parted ]] && return
	PATH=$PATH:/usr/local/go/bin
	command -v go >/dev/null || exit 77
	(cd "$1/test/peers/mig" && go build -ldflags \
		"-s -w '-extldflags=-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files'" \
		-o "$2/" github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted)
}

# mig_parted_node DIR: the files that it reads of the node, in DIR. A PCI device has more of them than
# the simulated node, but nothing in them is of interest here.
mig_parted_node() {
	local device
	rm -rf "$1"
	mkdir -p "$1"
	cp -r "${GPUSLICE_SIM_DIR:?}/sys/bus/pci/devices" "$1/devices"
	for device in "$1"/devices/*; do
		head -c 256 /dev/zero >"$device/config"
		printf '0x0000000000000000 0x0000000000000000 0x0000000000000000\n%.0s' {1..13} >"$device/resource"
	done
	mkdir "$1/proc"
	echo 'nvidia 1 0 - Live 0x0000000000000000 (POE)' >"$1/proc/modules"
}

# mig_parted BIN DIR ARGUMENT...
mig_parted() {
	local bin=$1 dir=$2
	shift 2
	# shellcheck disable=SC2016 # for the other shell
	unshare -m sh -c 'mount --bind "$1/devices" /sys/bus/pci/devices && mount --bind "$1/proc" /proc &&
		shift && exec "$@"' sh "$dir" "$bin/nvidia-mig-parted" "$@"
}
