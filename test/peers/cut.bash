# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Simulated nodes with MIG for NVIDIA's programs: cutting them, and showing their files where those
# programs look. The node is that of GPUSLICE_SIM_NODE and GPUSLICE_SIM_DIR.

# cut_node GPUSLICE LAYOUTS NAME: as NAME of the file, or else of the built-in configs, says.
cut_node() {
	local -a from=(--builtin)
	[[ $3 == - ]] && return
	if grep -q "^  $3:" "$2"; then
		from=(-f "$2")
	fi
	"$1" mig apply "${from[@]}" -c "$3" --run-dir "$GPUSLICE_SIM_DIR.run" >"$GPUSLICE_SIM_DIR.cut" 2>&1 ||
		{ echo "$GPUSLICE_SIM_NODE cannot be cut to $3: $(tail -1 "$GPUSLICE_SIM_DIR.cut")" && return 1; }
}

# Whether there can be a mount namespace; 0 or 1, looked at once.
no_mounts=0
[[ $(id -u) == 0 ]] && unshare -m true 2>/dev/null || no_mounts=1
has_mounts() {
	return "$no_mounts"
}

# node_files GPUSLICE: makes the node, and its PCI devices as NVIDIA's library reads them, which have more
# files than simulated ones: nothing in those is of interest here.
node_files() {
	local device pci=$GPUSLICE_SIM_DIR.pci
	[[ ! -d $pci ]] || return 0
	"$1" sim create >/dev/null
	cp -rL "$GPUSLICE_SIM_DIR/sys/bus/pci/devices" "$pci"
	for device in "$pci"/*; do
		head -c 256 /dev/zero >"$device/config"
		printf '0x0000000000000000 0x0000000000000000 0x0000000000000000\n%.0s' {1..13} >"$device/resource"
	done
}

# device_nodes: character devices in place of the node's files in /dev, and the few of them that any
# program needs.
device_nodes() {
	local dev=$GPUSLICE_SIM_DIR.dev file n=0
	rm -rf "$dev"
	mkdir "$dev"
	while read -r file; do
		mkdir -p "$dev/${file%/*}"
		mknod "$dev/$file" c 195 "$((n++))"
	done < <(cd "$GPUSLICE_SIM_DIR/dev" && find . -type f)
	mknod -m 666 "$dev/null" c 1 3
	mknod -m 666 "$dev/zero" c 1 5
	mknod -m 666 "$dev/urandom" c 1 9
}

# on_node COMMAND...: with the node's PCI devices in /sys, its driver's files in /proc and, if device_nodes
# made them, its nodes in /dev and in its own dev. Without root it just runs: programs find no PCI devices then.
on_node() {
	if ! has_mounts; then
		${ON_NODE-} "$@"
		return
	fi
	# shellcheck disable=SC2016 # for the other shell
	${ON_NODE-} unshare -m sh -c 'dir=$1; shift
		mount --bind "$dir.pci" /sys/bus/pci/devices &&
		if [ -d "$dir/proc/driver" ]; then mount --bind "$dir/proc/driver" /proc/driver; fi &&
		if [ -d "$dir.dev" ]; then mount --bind "$dir.dev" "$dir/dev" && mount --bind "$dir.dev" /dev; fi &&
		exec "$@"' sh "$GPUSLICE_SIM_DIR" "$@"
}
