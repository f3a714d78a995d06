#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A real Prometheus scrapes the agent of a simulated node: whole, cut by MIG and shared GPUs, with programs in
# slices. Needs what `tools/setup prom` installs, and root for MIG.

bats_require_minimum_version 1.5.0
load ../integration/lib
load ../integration/cluster
load ../integration/slice

HERE=$BATS_TEST_DIRNAME
GRAFANA=$HERE/../../deploy/grafana

setup_file() {
	stage_programs
}

setup() {
	command -v prometheus >/dev/null || skip "no prometheus (tools/setup prom)"
	root_cuts
	slice_node_setup h100-1
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc GPUSLICE_SYSFS=$GPUSLICE_SIM_DIR/sys
	# GPU 0 is shared, 1 is cut, 2 is whole, 3 will be lost.
	sim add >/dev/null && sim add >/dev/null && sim add >/dev/null
	cut_gpu 1 on >/dev/null && cut_gpu 1 14 19 >/dev/null
}

teardown() {
	stop burn1 || true
	stop burn2 || true
	end_agent
	slice_node_teardown
}

free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

config() {
	cat <<-EOF
		version: v1
		flags:
		  migStrategy: mixed
		  nvidiaDriverRoot: $GPUSLICE_SIM_DIR
		  plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}
		sharing:
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, rename: nvidia.com/gpu.shared, replicas: 4, devices: [0], isolation: {memory: equal, compute: fair}}
	EOF
}

# pod NAMESPACE NAME RESOURCE
pod() {
	k apply -f - >/dev/null <<-EOF
		{apiVersion: v1, kind: Pod, metadata: {name: $2, namespace: $1}, spec: {restartPolicy: Never, containers: [
		{name: main, image: x, resources: {limits: {$3: 1}}}]}}
	EOF
}

# The server, as the chart's PodMonitor has it: the target's own pod, namespace and container do not get in the way.
prometheus_up() {
	cat >"$NODE_DIR/prometheus.yaml" <<-EOF
		global: {scrape_interval: 1s, evaluation_interval: 1s}
		rule_files: ['$GRAFANA/rules.yaml']
		scrape_configs:
		- job_name: gpuslice
		  honor_labels: true
		  static_configs: [{targets: ['127.0.0.1:$AGENT_PORT'], labels: {namespace: gpuslice, pod: gpuslice-x, container: gpusliced}}]
		  relabel_configs: [{action: labeldrop, regex: pod|container|namespace}]
		- job_name: self
		  static_configs: [{targets: ['127.0.0.1:$PROM_PORT']}]
	EOF
	start prometheus prometheus --config.file="$NODE_DIR/prometheus.yaml" --storage.tsdb.path="$NODE_DIR/tsdb" \
		--web.listen-address="127.0.0.1:$PROM_PORT" --log.level=warn
	eventually 20 curl -sf "$PROM/-/ready"
}

# is QUERY: has an answer now.
is() {
	local answer
	answer=$(curl -sfG "$PROM/api/v1/query" --data-urlencode "query=$1") &&
		jq -e '.data.result | length > 0' <<<"$answer" || {
		echo "no answer: $1"
		return 1
	}
}

is_not() {
	! is "$@" >/dev/null
}

alert_is() {
	curl -sf "$PROM/api/v1/alerts" |
		jq -e --arg n "$1" --arg s "$2" '.data.alerts | any(.labels.alertname == $n and .state == $s)'
}

no_alerts() {
	curl -sf "$PROM/api/v1/alerts" | jq -e '[.data.alerts[].labels.alertname] | if . == [] then true else error("\(.)") end'
}

rules_are_well() {
	curl -sf "$PROM/api/v1/rules" | jq -e '[.data.groups[].rules[]]
		| length > 20 and (map(select(.health != "ok") | "\(.name): \(.health) \(.lastError)")
		| if . == [] then true else error("\(.)") end)'
}

# in_pod DIR COMMAND...: in the slice of this directory, with its GPU alone; in place of the shell. Of a node with MIG
# devices CUDA would take one of those.
in_pod() {
	local dir=$1 uuid
	uuid=$(jq -er '.gpus[0].uuid' "$dir/slice.json")
	shift
	exec env LD_PRELOAD="$PRELOAD" GPUSLICE_SLICE_DIR="$dir" CUDA_VISIBLE_DEVICES="$uuid" "$@"
}

@test "every query of the dashboards answers, and those of dcgm-exporter's" {
	local dir n=0
	AGENT_PORT=$(free_port) PROM_PORT=$(free_port)
	PROM=http://127.0.0.1:$PROM_PORT
	config >"$NODE_DIR/config.yaml"
	kubelet
	GPUSLICE_METRICS_INTERVAL=1s agent --config-file "$NODE_DIR/config.yaml" --node-name node1 --price 27.52 \
		--metrics-listen "127.0.0.1:$AGENT_PORT"
	eventually 20 offers 4 4 nvidia.com/gpu.shared
	eventually 20 offers 2
	eventually 20 offers 1 1 nvidia.com/mig-1g.10gb
	pod team-a train nvidia.com/gpu.shared
	pod team-b serve nvidia.com/gpu.shared
	pod team-b notebook nvidia.com/mig-1g.10gb
	pod team-a whole nvidia.com/gpu
	eventually 10 pods 4
	for dir in "$GPUSLICE_STATE_DIR"/slices/[0-9a-f]*; do
		start "burn$((++n))" in_pod "$dir" "$PROGRAMS/cuda-burn" --work 1000000 --depth 16 --seconds 0 --window-ms 1000
	done
	((n == 2))
	prometheus_up
	eventually 20 is 'up{job="gpuslice"} == 1'
	eventually 20 is 'rate(gpuslice_container_turns_total{pod="train"}[10s]) > 0'
	eventually 10 rules_are_well
	# Nothing is wrong with this node but its idle money.
	eventually 5 alert_is GpusliceIdleMoney pending
	[[ $(curl -sf "$PROM/api/v1/alerts" | jq '.data.alerts | length') == 1 ]]
	# Both want all of the GPU, and one of them more memory than its slice has; $dir is the last one's.
	eventually 10 is 'count(rate(gpuslice_container_revocations_total[10s]) > 0) == 2'
	(in_pod "$dir" "$PROGRAMS/cuda-hold" --bytes 60Gi)
	eventually 10 is 'sum(gpuslice_container_memory_refusals_total) == 1'
	eventually 10 alert_is GpusliceMemoryRefused firing
	sim xid 0 13
	eventually 10 is 'gpuslice_gpu_xid_errors_total{xid="13"} == 1'
	sim xid 0 13
	sim lose 3
	eventually 10 alert_is GpusliceGpuUnhealthy pending
	eventually 10 alert_is GpusliceXidErrors firing

	python3 "$HERE/queries.py" "$PROM" "$HERE/needs.txt" "$GRAFANA/gpuslice-node.json" \
		"$GRAFANA/gpuslice-cluster.json" "$HERE/dcgm-queries.txt"

	# In the eyes of Prometheus too the parts add up, and nothing came twice.
	is '(sum by (UUID, GPU_I_ID) (gpuslice_container_gpu_busy_seconds_total) + on (UUID, GPU_I_ID) sum by (UUID, GPU_I_ID)
		(gpuslice_gpu_ended_busy_seconds_total + gpuslice_gpu_other_busy_seconds_total))
		- on (UUID, GPU_I_ID) sum by (UUID, GPU_I_ID) (gpuslice_gpu_busy_seconds_total) < 0.000001'
	is 'abs(sum(gpuslice_gpu_cost_total) + sum(gpuslice_node_other_cost_total) - sum(gpuslice_node_cost_total)) < 0.000001'
	eventually 10 is 'abs(sum(DCGM_FI_DEV_GPU_UTIL{gpu="0", pod!=""}) - sum(DCGM_FI_DEV_GPU_UTIL{gpu="0", pod=""})) <= 10'
	is 'count(count by (__name__, gpu, GPU_I_ID) ({__name__=~"DCGM_FI_DEV_POWER_USAGE|DCGM_FI_DEV_GPU_TEMP"})) == 6'
	is 'prometheus_target_scrapes_sample_duplicate_timestamp_total == 0'
	is 'prometheus_target_scrapes_sample_out_of_order_total == 0'
	is 'prometheus_rule_evaluation_failures_total == 0'
	[[ $(times prometheus 'level=(warn|error)') == 0 ]]

	# The agent goes, and is missed.
	stop agent
	eventually 10 alert_is GpusliceAgentDown pending
}
