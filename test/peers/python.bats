#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Python programs of others on simulated nodes; python.sh installs them and says where (PEERS_PYTHON).

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/cluster
load ../integration/slice

HERE=$BATS_TEST_DIRNAME/python

setup_file() {
	stage_programs
}

teardown() {
	end_agent
	slice_node_teardown
}

# sim_devices: the GPUs as tools.py prints them, by the simulator's own account.
sim_devices() {
	"$GPUSLICE" sim show --json | jq -er '.gpus[] | "\(.uuid)"' | sort
}

seen_by() { # PATTERN: the UUIDs in the lines of tools.py that begin with it
	sed -n "s/^$1 uuid=\([^ ]*\).*/\1/p" <<<"$output" | sort
}

@test "nvitop and gpustat see the GPUs of a whole node" {
	slice_node_setup p3.8xlarge
	run -0 "$PEERS_PYTHON" "$HERE/tools.py"
	echo "$output"
	[[ $(seen_by gpu) == "$(sim_devices)" && $(seen_by gpustat) == "$(sim_devices)" ]]
	[[ $(grep -c '^gpu .* total=16384 ' <<<"$output") == 4 ]]
	[[ $output != *$'\n'mig* ]]
}

@test "nvitop and gpustat see a GPU and its MIG devices" {
	root_cuts
	slice_node_setup h100-1
	cut_gpu 0 on >/dev/null
	cut_gpu 0 9 14 19 >/dev/null
	run -0 "$PEERS_PYTHON" "$HERE/tools.py"
	echo "$output"
	[[ $(seen_by gpu) == "$(sim_devices)" && $(seen_by gpustat) == "$(sim_devices)" ]]
	[[ $(grep -c '^mig uuid=MIG-' <<<"$output") == 3 ]]
}

# scrape ACCEPT: /metrics as a client with this header gets it.
scrape() {
	curl -sSf -H "Accept: $1" "http://127.0.0.1:$PORT/metrics"
}

@test "a strict parser takes /metrics as OpenMetrics, and as text" {
	local text
	slice_node_setup h100-1
	PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	printf 'version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n' >"$NODE_DIR/config.yaml"
	kubelet
	GPUSLICE_METRICS_INTERVAL=1s agent --config-file "$NODE_DIR/config.yaml" --node-name node1 --price 27.52 \
		--metrics-listen "127.0.0.1:$PORT"
	eventually 20 offers 4
	text=$NODE_DIR/metrics
	eventually 20 has_metric DCGM_FI_DEV_GPU_TEMP
	scrape 'application/openmetrics-text; version=1.0.0; charset=utf-8' >"$text"
	tail -n 1 "$text" | grep -qx '# EOF'
	run -0 "$PEERS_PYTHON" "$HERE/openmetrics.py" openmetrics <"$text"
	echo "$output"
	[[ $output =~ families=([0-9]+)\ samples=([0-9]+) ]] && ((BASH_REMATCH[1] > 50))
	scrape 'text/plain; version=0.0.4' >"$text"
	run -0 "$PEERS_PYTHON" "$HERE/openmetrics.py" text <"$text"
	echo "$output"
}

# By hand, since the module proxy does not have dcgm-exporter: PEERS_COUNTERS=DIR with a checkout of it, or other counters
# files. Rows that are commented out count as well.
@test "every counters file of dcgm-exporter is taken" {
	local file
	[[ -n ${PEERS_COUNTERS-} ]] || skip "PEERS_COUNTERS is not set"
	slice_node_setup h100-1
	find "$PEERS_COUNTERS" -name '*.csv' | sort >"$NODE_DIR/files"
	[[ -s $NODE_DIR/files ]]
	while read -r file; do
		echo "$file"
		sed -E 's/^#[ ]*((DCGM|dcgm)_)/\1/' "$file" >"$NODE_DIR/counters.csv"
		PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
		GPUSLICE_METRICS_INTERVAL=1s agent --metrics-listen "127.0.0.1:$PORT" --metrics-collectors "$NODE_DIR/counters.csv"
		eventually 20 has_metric '\(DCGM\|dcgm\)_'
		end_agent
		! logged agent 'unknown DCGM field|expected'
	done <"$NODE_DIR/files"
}

has_metric() {
	scrape text/plain | grep -q "^$1"
}
