#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# components.bash: secondary inputs that are wrong when the agent starts.

bats_require_minimum_version 1.5.0
load lib
load cluster
load components

setup_file() {
	stage_programs
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
