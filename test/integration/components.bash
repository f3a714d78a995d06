# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What is wrong with a secondary input of the agent (counters, tokens, certificates, prices, ports, directories, ...)
# never takes devices away: not at the start, not while it runs, not at the next start. The component is degraded and
# named, and recovers when its input does.

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_METRICS_INTERVAL=1s
	BAD=$NODE_DIR/bad
	mkdir -p "$BAD/directory"
	: >"$BAD/empty"
	printf 'a b\n' >"$BAD/blank"
	printf '\0\xff\xfe{[' >"$BAD/binary"
	printf 'x: [\n' >"$BAD/yaml"
	head -c 2000000 /dev/zero | tr '\0' 'x' >"$BAD/large"
	printf 'DCGM_FI_DEV_NO_SUCH_FIELD,gauge,a\nDCGM_FI_DEV_SM_CLOCK,gauge,b\n' >"$BAD/unknown.csv"
	printf 'DCGM_FI_DEV_GPU_TEMP,gauge,a,\nDCGM_FI_DEV_SM_CLOCK,gauge,b\n' >"$BAD/comma.csv"
	printf 'basic_auth_users: {a: b}\n' >"$BAD/users.yaml"
}

teardown() {
	node_teardown
}

# starts_with COMPONENT OPTION...: all devices are there although the component is degraded ("": none is).
starts_with() {
	local component=$1
	shift
	echo "# $*"
	agent --config-file "$CONFIG" "$@" || return 1
	eventually 20 offers 40 || return 1
	if [[ -n $component ]]; then
		eventually 10 degraded "$component" || return 1
	fi
	end_agent
}

# becomes COMPONENT FILE: a file that vanishes, and one that is malformed, while the agent runs. The component is
# degraded at once, says that the last valid one is in use, and works again when the file is as it was.
becomes() {
	local component=$1 file=$2 wrong
	echo "# $1: $2"
	cp -p "$file" "$NODE_DIR/kept"
	for wrong in missing "${@:3}"; do
		if [[ $wrong == missing ]]; then
			rm "$file"
		else
			put "$file" <"$wrong"
		fi
		eventually 30 degraded "$component" "$(basename "$file").*the last valid one is in use; a restart would "
		offers 40
		put "$file" <"$NODE_DIR/kept"
		eventually 30 nothing_degraded
	done
}
