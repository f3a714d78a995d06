#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What is wrong with a secondary input of the agent (counters, tokens, certificates, prices, ports, directories, ...)
# never takes devices away: not at the start, not while it runs, not at the next start. The component is degraded and
# named, and recovers when its input does.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

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

# degraded NAME [REASON]: the component is, for a reason that matches.
degraded() {
	"$GPUSLICE" status --json | jq -e --arg n "$1" --arg r "${2-.}" \
		'.components[] | select(.name == $n and .degraded) | .reason | test($r)'
}

nothing_degraded() {
	"$GPUSLICE" status --json | jq -e '[.components[] | select(.degraded)] | length == 0'
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

@test "at the start: files that are missing, empty, malformed or too large" {
	local file
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	for file in missing empty binary large directory blank; do
		starts_with web-server --metrics-token-file "$BAD/$file"
		starts_with web-server --metrics-cert-file "$BAD/$file" --metrics-key-file "$BAD/$file"
		starts_with prices --price-file "$BAD/$file" --instance-type p3.8xlarge
	done
	for file in missing directory large binary yaml; do
		starts_with counters --metrics-collectors "$BAD/$file"
	done
	for file in empty blank unknown.csv comma.csv; do
		starts_with "" --metrics-collectors "$BAD/$file"
	done
	for file in missing directory binary yaml users.yaml; do
		starts_with web-server --web-config-file "$BAD/$file"
	done
	for file in missing directory binary yaml; do
		starts_with mig-manager --mig-manager --mig-gpu-clients-file "$BAD/$file"
	done
}

@test "at the start: options and variables with values that are none, addresses and directories that cannot be had" {
	local other
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	starts_with options --price much
	starts_with options --price 3 --currency dollars
	starts_with options --metrics-interval 2h
	starts_with options --labels somewhere
	starts_with options --configmap-data no:such:thing/
	starts_with options --devices x
	starts_with options --metrics-hostname-label me
	GPUSLICE_METRICS_INTERVAL=often starts_with options
	GPUSLICE_METRICS=perhaps starts_with options
	DCGM_EXPORTER_KUBERNETES=perhaps starts_with options
	GPUSLICE_SLICE_KEEP=long starts_with options
	GPUSLICE_MIG_MANAGER=perhaps starts_with options
	GPUSLICE_LOG_LEVEL=loud starts_with options
	GPUSLICE_LOG_FORMAT=xml starts_with options
	starts_with options --log-level loud
	starts_with options --log-format xml
	starts_with web-server --metrics-listen nonsense
	starts_with web-server --metrics-listen 192.0.2.1:9400
	starts_with health-tcp --listen nonsense
	starts_with health-tcp --listen 192.0.2.1:9401
	starts_with usage-records --ledger-dir "$BAD/blank"
	starts_with mig-manager --mig-manager --mig-config-default '*'
	starts_with mig-manager --mig-manager --mig-config-map x
	starts_with api-server --kubeconfig "$BAD/binary" --node-name n --labels node
	starts_with api-server --kubeconfig "$BAD/missing" --node-name n --labels node
	starts_with "" --cdi-dir "$BAD/blank"
	starts_with cdi --cdi-dir "$BAD/blank" --device-list-strategy envvar,cdi-cri
	cd "$NODE_DIR" && starts_with slices --state-dir relative
	start other "$GPUSLICED" --metrics-listen 127.0.0.1:0 --listen 127.0.0.1:0 --run-dir "$NODE_DIR/other-run" \
		--kubelet-socket "" --kubelet-dir "$NODE_DIR/other-kubelet" --state-dir "$NODE_DIR/other-state"
	eventually 20 logged other 'serving metrics'
	other=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/other.log")
	starts_with web-server --metrics-listen "127.0.0.1:$other"
	starts_with health-tcp --listen "127.0.0.1:$other"
	stop other
}

@test "at the start: labels whose file cannot be written" {
	CONFIG=$NODE_DIR/config.yaml
	{
		sharing 10
		printf 'flags: {gfd: {outputFile: "%s"}}\n' "$BAD/blank/labels"
	} >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG" --labels file
	eventually 20 degraded labels blank
	offers 40
	rm "$BAD/blank"
	eventually 60 nothing_degraded
}

@test "an input that is mended is used without a restart" {
	node_up 10 --metrics-token-file "$BAD/token" --metrics-collectors "$BAD/counters.csv" \
		--web-config-file "$BAD/web.yaml"
	eventually 10 degraded web-server web.yaml
	eventually 10 degraded counters counters.csv
	printf 'DCGM_FI_DEV_SM_CLOCK,gauge,b\n' >"$BAD/counters.csv"
	printf '{}\n' >"$BAD/web.yaml"
	eventually 30 degraded web-server token
	printf 'secret\n' >"$BAD/token"
	eventually 60 nothing_degraded
	offers 40
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

@test "while it runs: a file that vanishes or becomes malformed is degraded at once, not at the next start" {
	local tls=$NODE_DIR/tls
	mkdir "$tls"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=gpuslice -days 2 \
		-keyout "$tls/tls.key" -out "$tls/tls.crt" 2>/dev/null
	printf 'secret\n' >"$NODE_DIR/token"
	printf 'tls_server_config:\n  cert_file: tls/tls.crt\n  key_file: tls/tls.key\n' >"$NODE_DIR/web.yaml"
	printf 'DCGM_FI_DEV_SM_CLOCK,gauge,b\n' >"$NODE_DIR/counters.csv"
	printf 'version: gpuslice/prices/v1\ntypes:\n  mine: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 64,\n    memoryMiB: 99999, pricePerHour: {"*": 0.01}}\n' \
		>"$NODE_DIR/prices.yaml"
	printf 'version: v1\nsystemd-services: []\n' >"$NODE_DIR/services.yaml"
	node_up 10 --metrics-token-file "$NODE_DIR/token" --web-config-file "$NODE_DIR/web.yaml" \
		--metrics-collectors "$NODE_DIR/counters.csv" --price-file "$NODE_DIR/prices.yaml" \
		--instance-type p3.8xlarge --mig-manager --mig-gpu-clients-file "$NODE_DIR/services.yaml"
	eventually 20 logged agent 'serving metrics'
	eventually 20 nothing_degraded
	becomes web-server "$NODE_DIR/token" "$BAD/empty" "$BAD/blank"
	becomes web-server "$tls/tls.crt" "$BAD/empty"
	becomes web-server "$tls/tls.key" "$BAD/binary"
	becomes web-server "$NODE_DIR/web.yaml" "$BAD/users.yaml"
	becomes counters "$NODE_DIR/counters.csv" "$BAD/binary"
	becomes prices "$NODE_DIR/prices.yaml" "$BAD/yaml"
	becomes mig-manager "$NODE_DIR/services.yaml" "$BAD/yaml"
	# a valid one that names others is not in use either
	printf '{}\n' | put "$NODE_DIR/web.yaml"
	eventually 30 degraded web-server 'a restart of the agent uses it'
}

@test "while it runs: credentials of the API server that vanish or become malformed" {
	fake_api
	sed -i 's,user: {}},user: {tokenFile: token}},' "$NODE_DIR/kubeconfig"
	printf 'secret\n' >"$NODE_DIR/token"
	node_up 10
	eventually 20 status '.cluster.state == "in touch"'
	eventually 20 nothing_degraded
	becomes api-server "$NODE_DIR/token" "$BAD/empty"
	becomes api-server "$NODE_DIR/kubeconfig" "$BAD/yaml"
	status '.cluster.state == "in touch"'
}

@test "while it runs: usage records and the lock that are removed are made again" {
	local lock=$GPUSLICE_RUN_DIR/gpusliced.lock records
	node_up 10
	eventually 20 test -s "$lock"
	records=$(find "$NODE_DIR" -name ledger.db)
	[[ -s $records ]]
	rm "$lock" "$records"
	eventually 30 test -s "$lock"
	eventually 30 test -s "$records"
	eventually 30 nothing_degraded
	run -1 timeout 20 "$GPUSLICED" --config-file "$CONFIG"
	[[ $output == *"another gpusliced"* ]]
	offers 40
}

@test "the last valid config file survives an invalid one, a reboot, and both" {
	node_up 10
	end_agent
	rm -r "$GPUSLICE_RUN_DIR"
	put "$CONFIG" <<<'version: v2'
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	status '.config.lastError.message | test("unknown version")'
	end_agent
	rm "$CONFIG"
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	sharing 5 | put "$CONFIG"
	eventually 20 offers 20
	status '.config.lastError == null'
}

@test "a run directory that is a file: devices are there, and the rest when it is one" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	rm -rf "$GPUSLICE_RUN_DIR" && : >"$GPUSLICE_RUN_DIR"
	start agent "$GPUSLICED" --config-file "$CONFIG"
	eventually 20 offers 40
	logged agent 'component degraded.*run-directory'
	rm "$GPUSLICE_RUN_DIR"
	eventually 30 nothing_degraded
	# the lock is held then
	run -1 timeout 20 "$GPUSLICED" --config-file "$CONFIG"
	[[ $output == *"another gpusliced"* ]]
}

@test "the status socket comes back when the run directory is emptied" {
	node_up 10
	rm -r "$GPUSLICE_RUN_DIR"
	eventually 30 status .version
	offers 40
}
