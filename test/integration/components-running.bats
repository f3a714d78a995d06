#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# components.bash: secondary inputs that become wrong, or are mended, while the agent runs.

bats_require_minimum_version 1.5.0
load lib
load cluster
load components

setup_file() {
	stage_programs
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

@test "while it runs: a file that vanishes or becomes malformed is degraded at once, not at the next start" {
	printf 'DCGM_FI_DEV_SM_CLOCK,gauge,b\n' >"$NODE_DIR/counters.csv"
	printf 'version: gpuslice/prices/v1\ntypes:\n  mine: {gpu: L4, gpus: 1, gpuMemoryMiB: 22888, vcpus: 64,\n    memoryMiB: 99999, pricePerHour: {"*": 0.01}}\n' \
		>"$NODE_DIR/prices.yaml"
	printf 'version: v1\nsystemd-services: []\n' >"$NODE_DIR/services.yaml"
	node_up 10 --metrics-collectors "$NODE_DIR/counters.csv" --price-file "$NODE_DIR/prices.yaml" \
		--instance-type p3.8xlarge --mig-manager --mig-gpu-clients-file "$NODE_DIR/services.yaml"
	eventually 20 logged agent 'serving metrics'
	eventually 20 nothing_degraded
	becomes counters "$NODE_DIR/counters.csv" "$BAD/binary"
	becomes prices "$NODE_DIR/prices.yaml" "$BAD/yaml"
	becomes mig-manager "$NODE_DIR/services.yaml" "$BAD/yaml"
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
