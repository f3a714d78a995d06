#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the agent shows of a node: who holds which part of which GPU, for how long and for how much, over restarts of the
# agent and while others are away.

bats_require_minimum_version 1.5.0
load lib
load cluster
load slice

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	export GPUSLICE_METRICS=true GPUSLICE_METRICS_INTERVAL=1s
}

teardown() {
	node_teardown
}

# view [JQ_FILTER]
view() {
	curl -sf --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/api/v1/node | jq -er "${1-.}"
}

# Sums of the view hold, to the nanosecond and the nano-unit.
adds_up() {
	view 'def sum: map(. // 0) | add // 0;
		[.gpus[].units[]] as $units | ($units | map(
		(.busyNs // 0) == ([.uses[].busyNs, .past.busyNs, .otherBusyNs] | sum)
		and .presentNs == ([.uses[].gpuNs, .past.gpuNs, .idleGpuNs] | sum)
		and (.costNano // 0) == ([.uses[].costNano, .past.costNano, .idleCostNano] | sum)) | all)
		and (.costNano // 0) == ([$units[].costNano, .otherCostNano] | sum)'
}

# uses LIVE [ENDED]: so many are listed.
uses() {
	view "[.gpus[].units[].uses[]] | (map(select(.live)) | length) == $1 and
		(map(select(.live | not)) | length) == ${2-0}"
}

# pod NAME [LIMITS]: one with a GPU of each kind.
pod() {
	k apply -f - <<-POD
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, namespace: see}
		spec:
		  containers:
		  - name: main
		    image: x
		    resources: {limits: {${2-nvidia.com/gpu: 1}}}
	POD
}

# The kubelet's checkpoint, which the stand-in does not write.
checkpoint() {
	k get pods -o json | jq -c '{Data: {PodDeviceEntries: [.items[] | .metadata.uid as $u | .gpuslice.grants[]
		| {PodUID: $u, ContainerName: .container, ResourceName: .resource, DeviceIDs: {"-1": .ids}, AllocResp: ""}],
		RegisteredDevices: {}}, Checksum: 1}' >"$GPUSLICE_KUBELET_DIR/device-plugins/kubelet_internal_checkpoint"
}

@test "a known type in an unknown region has a price, with the region that it is from" {
	agent --instance-type p5.48xlarge
	eventually 20 view '.priced and .region == null'
	view .priceSource | grep -E "^catalogue [0-9-]+, us-east-1 \(region unknown\)$"
	[[ $(logged agent " warn .*region of this node is not known" | wc -l) == 1 ]]
	end_agent
	agent --instance-type p5.48xlarge --region us-east-1
	eventually 20 view .priced
	view .priceSource | grep -E "^catalogue [0-9-]+$"
	end_agent
	agent --instance-type p5.48xlarge --region nowhere-1
	eventually 20 logged agent "no price of 'p5.48xlarge' in region 'nowhere-1'"
	eventually 20 view '.priced | not'
	end_agent
}

@test "pods that share a GPU by the fair-share scheduler have their share of its time and price" {
	node_up 4 --price 36
	eventually 5 view '.gpus | length == 4'
	pod one
	pod two 'nvidia.com/gpu: 2'
	eventually 5 uses 3
	eventually 5 view '[.gpus[].units[].uses[] | select(.pod == "two") | .share] | add == 500000'
	view '[.gpus[].units[].uses[] | select(.pod == "one")][0]
		| .share == 250000 and .mode == "time-slicing" and .namespace == "see" and .container == "main"'
	eventually 10 view '[.gpus[].units[].uses[] | select(.pod == "one")][0] | .heldNs > 2e9 and .costNano > 0'
	# A quarter of a GPU of four costs 0.0625 of 1 cent a second; each time it is accounted what is below a billionth
	# goes to the idle part, and that is more often where much happens.
	view '[.gpus[].units[].uses[] | select(.pod == "one")][0]
		| (.costNano / (.heldNs / 1e9)) as $s | $s > 624950 and $s < 625001'
	view '.priced and .currency == "USD" and .priceSource == "option"'
	adds_up
	k delete pod one -n see
	eventually 5 uses 2 1
	adds_up
}

@test "counters continue when the agent restarts, and those of other pods with the name start at 0" {
	local before after created_ns
	node_up 2 --price 36
	pod web-0
	eventually 5 uses 1
	checkpoint
	eventually 5 view '[.gpus[].units[].uses[]][0].uid | length > 0'
	eventually 10 view '[.gpus[].units[].uses[]][0].heldNs > 2e9'
	before=$(view '[.gpus[].units[].uses[]][0].heldNs')
	stop agent KILL || true
	agent --config-file "$CONFIG" --price 36
	eventually 10 uses 1
	after=$(view '[.gpus[].units[].uses[]][0].heldNs')
	((after >= before))
	adds_up
	view '.costNano > 0'
	k delete pod web-0 -n see
	created_ns=$(date +%s%N)
	pod web-0
	checkpoint
	eventually 5 uses 1 1
	eventually 5 view '[.gpus[].units[].uses[] | .uid] | unique | length == 2'
	# The time is at most that for which the pod exists, however long this takes.
	after=$(view '[.gpus[].units[].uses[] | select(.live)][0].heldNs')
	((after < $(date +%s%N) - created_ns))
	adds_up
}

@test "the rest is shown while the kubelet or NVML is unavailable" {
	node_up 2 --price 36
	pod one
	eventually 5 uses 1
	stop kubelet
	eventually 10 view '.holdersKnown == false and (.holdersError | length > 0)'
	uses 1
	adds_up
	kubelet
	eventually 15 offers 8
	eventually 20 view '.holdersKnown'
	adds_up
	sim fault nvml-init || sim fault lost 0 || true
	adds_up
}

@test "a pod that ends while the list of pods is missing is counted until the last list" {
	local held
	node_up 2 --price 36
	pod one
	eventually 5 uses 1
	eventually 10 metrics_series '^gpuslice_container_gpu_(held_seconds|cost)_total\{.*pod="one"'
	stop kubelet
	eventually 20 view '.holdersKnown == false'
	eventually 10 no_metrics_series '^gpuslice_container_gpu_(held_seconds|seconds|cost)_total|^gpuslice_gpu_(ended_seconds|ended_cost|cost)'
	held=$(view '[.gpus[].units[].uses[]][0].heldNs')
	kubelet
	eventually 20 view '.holdersKnown'
	eventually 20 uses 0 1
	view "[.gpus[].units[].uses[]][0].heldNs == $held"
	adds_up
}

@test "a pod that lives for a second is not lost" {
	GPUSLICE_METRICS_INTERVAL=5s node_up 4
	eventually 10 view '.gpus | length == 4'
	pod brief
	sleep 1
	k delete pod brief -n see
	eventually 8 uses 0 1
	view '[.gpus[].units[].uses[]][0] | .pod == "brief" and .heldNs > 5e8'
	adds_up
}

@test "MIG devices lie where they are, and have their part of the GPU and its price" {
	root_cuts
	node_setup p4d.24xlarge
	export GPUSLICE_PROCFS=$GPUSLICE_SIM_DIR/proc
	sim create >/dev/null
	cat >"$NODE_DIR/layouts.yaml" <<-EOF
		version: v1
		mig-configs:
		  mixed: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}}]
	EOF
	"$GPUSLICE" mig apply -f "$NODE_DIR/layouts.yaml" -c mixed >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	printf 'version: v1\nflags: {migStrategy: mixed}\n' >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG" --price 28.8
	eventually 10 view '[.gpus[0].units[] | .profile] | sort == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]'
	view '[.gpus[].units[] | select(.mig)] | (map(.part) | add) <= 1000000 and (map(.start != null) | all)'
	view '.gpus[0].units | map(select(.profile == "3g.20gb"))[0] | .size == 3 and .memorySize == 4 and .part == 428571'
	# None lies on another.
	view '[.gpus[0].units[] | range(.memoryStart; .memoryStart + .memorySize)] | length == (unique | length)'
	eventually 10 k get resources -o json
	eventually 10 offers 1 1 nvidia.com/mig-3g.20gb
	pod big 'nvidia.com/mig-3g.20gb: 1'
	eventually 5 view '[.gpus[0].units[].uses[]][0]
		| .pod == "big" and .mode == "exclusive" and .share == 428571 and .resource == "nvidia.com/mig-3g.20gb"'
	eventually 5 view '[.gpus[0].units[].uses[]][0].heldNs > 1e9'
	view '.gpus | length == 8'
	adds_up
}

# fair_quarters: a config with four slices of each GPU that take turns.
fair_quarters() {
	CONFIG=$NODE_DIR/config.yaml
	cat >"$CONFIG" <<-EOF
		version: v1
		flags: {nvidiaDriverRoot: $GPUSLICE_SIM_DIR, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}}
		sharing:
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, replicas: 4, isolation: {memory: equal, compute: fair}}
	EOF
}

@test "a container in a slice has its limit, its weight and the slice's account" {
	sim create >/dev/null
	fair_quarters
	kubelet
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 16
	pod one
	eventually 10 view '[.gpus[].units[].uses[]][0]
		| .pod == "one" and .memoryLimit > 0 and .slice.compute == "fair" and .slice.weight == 1'
	eventually 10 view '[.gpus[].units[].uses[]][0] | .busyExact and .slice.timeKnown != false'
	adds_up
	end_agent
}

# slice_of POD FILTER: of the arbiter's account.
slice_of() {
	view "[.gpus[].units[].uses[] | select(.pod == \"$1\")][0].slice | $2"
}

# in_pod POD COMMAND...: as in a container of it; in place of the shell, so that to stop it stops the command.
in_pod() {
	local dir
	dir=$GPUSLICE_STATE_DIR/slices/$(slice_of "$1" .id)
	shift
	exec env LD_PRELOAD="$PRELOAD" GPUSLICE_SLICE_DIR="$dir" "$@"
}

# peaks BYTES: of pod one, so much or more in the view and in the status, which say the same.
peaks() {
	local peak
	peak=$(view "[.gpus[].units[].uses[] | select(.pod == \"one\")][0].memoryPeak | select(. >= $1)")
	"$GPUSLICE" status --json | jq -e ".slices.list[] | select(.holder.pod == \"one\") | .gpus[0].peakBytes == $peak"
}

refusals_listed() {
	"$GPUSLICE" status --json | jq -e '[.slices.list[].gpus[].refusals] | sort == [0, 2]'
}

@test "refusals by the limit, revoked quanta and the peak are kept over restarts of the arbiter" {
	local arbiter expired taken
	slice_node_setup h100-1
	fair_quarters
	kubelet
	agent --config-file "$CONFIG" --procfs "$GPUSLICE_SIM_DIR/proc" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 4
	pod one
	pod two
	eventually 10 slice_of one '.refusals == 0 and .revocations == 0'
	eventually 10 slice_of two '.refusals == 0'
	# More than the limit, for which the arbiter is not even asked, and one that does not fit any more.
	run -0 in_pod one "$PROGRAMS/cuda-hold" --bytes 60Gi
	[[ $output == *" last=2 "* ]]
	run -0 in_pod one "$PROGRAMS/cuda-hold" --until-full 1Gi
	[[ $output == *" last=2 "* ]]
	eventually 5 slice_of one '.refusals == 2'
	eventually 5 peaks 4294967296
	start burn1 in_pod one "$PROGRAMS/cuda-burn" --work 100000 --depth 16 --seconds 0
	eventually 20 slice_of one '.launches > 100'
	slice_of one '.revocations == 0'
	start burn2 in_pod two "$PROGRAMS/cuda-burn" --work 100000 --depth 16 --seconds 0
	eventually 20 slice_of one '.revocations > 5'
	eventually 20 slice_of two '.revocations > 5'
	eventually 20 slice_of one '.quantaExpired > 5'
	taken=$(slice_of one .revocations)
	expired=$(slice_of one .quantaExpired)
	run -0 "$GPUSLICE" status --slices
	[[ $output == *'QUANTA  EXPIRED'* ]]
	arbiter=$("$GPUSLICE" status --json | jq -er .slices.arbiter.pid)
	kill -9 "$arbiter"
	eventually 20 slice_of one ".revocations > $taken + 5"
	eventually 20 slice_of one ".quantaExpired > $expired + 5"
	# Neither pod has an account until the next arbiter runs.
	eventually 5 slice_of one '.refusals == 2'
	eventually 5 slice_of two '.refusals == 0'
	eventually 20 refusals_listed
	eventually 5 peaks 4294967296
	stop burn1
	stop burn2
	end_agent
	slice_node_teardown
}

# metrics_series GREP: a line of /metrics has it.
metrics_series() {
	local port
	port=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
	curl -sf "http://127.0.0.1:$port/metrics" | grep -E -- "$1"
}

no_metrics_series() {
	! metrics_series "$1" >/dev/null
}

@test "clock events and pairs of GPUs are asked for while the counters file has the row" {
	export DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE=600000
	sim create >/dev/null
	sim set 1 clock_reasons 68 >/dev/null
	printf 'DCGM_EXP_CLOCK_EVENTS_COUNT, gauge, looks\nDCGM_FI_DEV_GPU_TEMP, gauge, C\n' >"$NODE_DIR/counters.csv"
	agent --metrics-listen 127.0.0.1:0 --metrics-collectors "$NODE_DIR/counters.csv"
	eventually 10 metrics_series \
		'^DCGM_EXP_CLOCK_EVENTS_COUNT\{gpu="1",.*clock_event="hw_thermal",window_size_in_ms="600000"\} ([2-9]|[0-9]{2,})$'
	metrics_series '^DCGM_EXP_CLOCK_EVENTS_COUNT\{gpu="1",.*clock_event="power_cap"'
	metrics_series '^DCGM_EXP_CLOCK_EVENTS_COUNT\{gpu="0",.*clock_event="gpu_idle"'
	run ! metrics_series '^DCGM_EXP_CLOCK_EVENTS_COUNT\{gpu="1",.*clock_event="gpu_idle"'
	run ! metrics_series '^DCGM_FI_DEV_CLOCK'
	run ! metrics_series '^DCGM_EXP_P2P'
	# Rows that come later are asked for then.
	printf 'DCGM_EXP_P2P_STATUS, gauge, reach\n' >"$NODE_DIR/new.csv"
	mv "$NODE_DIR/new.csv" "$NODE_DIR/counters.csv"
	eventually 10 metrics_series '^DCGM_EXP_P2P_STATUS\{gpu="3",.*link_status="OK",peer_gpu="0"\} 0$'
	run ! metrics_series '^DCGM_EXP_CLOCK'
	run ! grep -E 'CLOCK_EVENTS.*(left out|no effect)' "$NODE_DIR/agent.log"
}

# api_pods PODS: what the API server has, as JSON; [NAMESPACE/NAME/LABEL=VALUE ...].
api_pods() {
	printf '%s\n' "$@" | jq -nR '[inputs | capture("(?<ns>.*?)/(?<name>.*?)/(?<key>.*)=(?<value>.*)")
		| {metadata: {namespace: .ns, name: .name, uid: "u", labels: {(.key): .value, "build-id": "7"}}}]' >"$API/pods.new"
	mv "$API/pods.new" "$API/pods"
}

@test "labels of pods are on their series, and stay while the API server is unavailable" {
	fake_api
	echo '{"metadata": {"name": "node-1", "uid": "n"}}' >"$API/nodes"
	api_pods see/one/app.kubernetes.io/name=chat
	export DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS=true
	export DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX='^app\.,[oops'
	sim create >/dev/null
	kubelet
	agent --metrics-listen 127.0.0.1:0
	logged agent "pattern '\[oops' is not understood"
	eventually 10 offers 4
	pod one
	eventually 20 metrics_series '^DCGM_FI_DEV_GPU_TEMP\{.*app_kubernetes_io_name="chat",container="main",namespace="see",pod="one"\}'
	run ! metrics_series 'build_id'
	touch "$API/pods.fail"
	pod two
	eventually 20 metrics_series '^DCGM_FI_DEV_GPU_TEMP\{.*pod="two"\}'
	eventually 10 logged agent 'labels of pods are not read'
	metrics_series '^DCGM_FI_DEV_GPU_TEMP\{.*app_kubernetes_io_name="chat",container="main",namespace="see",pod="one"\}'
	api_pods see/one/app.kubernetes.io/name=chat see/two/app.x=y
	rm "$API/pods.fail"
	eventually 30 metrics_series '^DCGM_FI_DEV_GPU_TEMP\{.*app_x="y",container="main",namespace="see",pod="two"\}'
	end_agent
}

# counters_map TEXT: the ConfigMap with the counters.
counters_map() {
	jq -n --arg text "$1" '{metadata: {name: "counters", namespace: "gpu", uid: "c"}, data: {metrics: $text}}' >"$API/map.new"
	mv "$API/map.new" "$API/configmaps"
}

@test "counters come from a ConfigMap, else from the file" {
	fake_api
	echo '{"metadata": {"name": "node-1", "uid": "n"}}' >"$API/nodes"
	sim create >/dev/null
	echo 'DCGM_FI_DEV_POWER_USAGE, gauge, W' >"$NODE_DIR/counters.csv"
	agent --metrics-listen 127.0.0.1:0 -f "$NODE_DIR/counters.csv" -m gpu:counters
	eventually 10 logged agent 'counters of the ConfigMap not read, using the file .*there is no configmap gpu/counters'
	eventually 10 metrics_series '^DCGM_FI_DEV_POWER_USAGE'
	counters_map 'DCGM_FI_DEV_GPU_TEMP, gauge, C'
	eventually 10 metrics_series '^DCGM_FI_DEV_GPU_TEMP'
	run ! metrics_series '^DCGM_FI_DEV_POWER_USAGE'
	# A row that is invalid is left out alone; a server that is down changes nothing.
	counters_map $'DCGM_FI_NO, gauge, C\nDCGM_FI_DEV_GPU_TEMP, gauge, C'
	eventually 10 logged agent "configmap gpu/counters:1: 'DCGM_FI_NO' is left out"
	touch "$API/configmaps.fail"
	metrics_series '^DCGM_FI_DEV_GPU_TEMP'
	rm "$API/configmaps.fail" "$API/configmaps"
	eventually 20 metrics_series '^DCGM_FI_DEV_POWER_USAGE'
	run ! metrics_series '^DCGM_FI_DEV_GPU_TEMP'
	end_agent
	agent -m counters
	eventually 10 logged agent "'counters'"
	"$GPUSLICE" status | grep "DEGRADED  options: --configmap-data: expected NAMESPACE:NAME or none, found 'counters'"
}

@test "without an API server the counters are those of the file, and the agent logs that" {
	unset KUBERNETES_SERVICE_HOST KUBECONFIG NODE_NAME
	sim create >/dev/null
	echo 'DCGM_FI_DEV_POWER_USAGE, gauge, W' >"$NODE_DIR/counters.csv"
	agent --metrics-listen 127.0.0.1:0 -f "$NODE_DIR/counters.csv" -m gpu:counters
	eventually 10 metrics_series '^DCGM_FI_DEV_POWER_USAGE'
	logged agent 'counters of the ConfigMap not read, using the file .*this is no pod'
}

# web_server_is REASON: the component is degraded for it, and nothing is served in its place.
web_server_is() {
	"$GPUSLICE" status | grep "^DEGRADED  web-server: $1" && run ! logged agent 'serving metrics'
}

@test "exporter-toolkit's file has certificate and key, and is refused for unsupported settings" {
	local port
	mkdir "$NODE_DIR/web"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
		-addext subjectAltName=DNS:localhost -keyout "$NODE_DIR/web/tls.key" -out "$NODE_DIR/web/tls.crt" 2>/dev/null
	printf 'tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n' >"$NODE_DIR/web/config.yml"
	export DCGM_EXPORTER_WEB_CONFIG_FILE=$NODE_DIR/web/config.yml
	sim create >/dev/null
	agent --metrics-listen 127.0.0.1:0
	eventually 10 logged agent 'serving metrics'
	port=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
	eventually 10 curl -sf --cacert "$NODE_DIR/web/tls.crt" --resolve "localhost:$port:127.0.0.1" "https://localhost:$port/metrics"
	run ! curl -sf "http://127.0.0.1:$port/metrics"
	end_agent
	agent --metrics-listen 127.0.0.1:0 --metrics-cert-file x
	eventually 10 web_server_is "--web-config-file: '$NODE_DIR/web/config.yml' has a certificate, and so has --metrics-cert-file"
	end_agent
	printf 'basic_auth_users:\n  me: $2y$10$x\n' >"$NODE_DIR/web/config.yml"
	agent --metrics-listen 127.0.0.1:0
	eventually 10 web_server_is "--web-config-file: $NODE_DIR/web/config.yml:2:3: basic_auth_users: .*use --metrics-token-file"
	run ! logged agent '[$]2y'
}

# --- what nobody has measured is unknown, not 0 ---

top_has() {
	run -0 "$GPUSLICE" top --once
	[[ $output == *"$1"* ]]
}

@test "nothing is idle before the first list of pods" {
	sim create >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 >"$CONFIG"
	agent --config-file "$CONFIG" --price 36 --metrics-opencost
	eventually 20 view '.seq > 3 and (.gpus | length) == 4 and .holdersKnown == false and .costNano > 0'
	view '.costNano == .otherCostNano and ([.gpus[].units[] | .presentNs, .idleGpuNs, .costNano, .idleCostNano, .held]
		| length == 20 and all(. == null))'
	eventually 10 metrics_series '^node_gpu_count\{.*\} 4$'
	run ! metrics_series '^gpuslice_gpu_(idle_|seconds|cost)'
	run ! metrics_series '^gpuslice_slices_(idle|held)'
	top_has "containers are not known: the kubelet has not answered"
	[[ $output != *"no containers"* ]]
	"$GPUSLICE" cost --ledger "$GPUSLICE_STATE_DIR/ledger.db" --from 1h --output json |
		jq -e '[.rows[] | select(.idle)] | length == 0'
	# A kubelet that comes is believed, and from then on it is counted.
	kubelet
	eventually 20 view '.holdersKnown and ([.gpus[].units[] | .idleGpuNs > 0 and .idleCostNano > 0] | all)'
	adds_up
	eventually 10 metrics_series '^gpuslice_gpu_idle_seconds_total\{'
	top_has "no containers"
}

@test "the GPUs are not counted while NVML has never answered" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG" --nvml "$NODE_DIR/missing.so" --metrics-opencost
	eventually 20 view '.seq > 2 and .nvmlUp == false'
	eventually 10 metrics_series '^gpuslice_nvml_up\{.*\} 0$'
	run ! metrics_series '^node_gpu_count'
	top_has "GPUs are not known: NVML has not answered"
	run -0 "$GPUSLICE" status
	[[ $output == *"GPUs      unknown: NVML has not answered"* && $output != *"No GPUs"* ]]
}

measured() {
	view ".gpus[0].units[0] | (.busy == null) == $1 and (.memoryUsed == null) == $1"
}

@test "figures that NVML refused are known again two intervals after it answers again" {
	local answered
	sim create >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 >"$CONFIG"
	sim fail 0 memory NOT_SUPPORTED
	sim fail 0 utilization NOT_SUPPORTED
	kubelet
	agent --config-file "$CONFIG"
	# First it has never answered, then it has.
	for answered in never once; do
		sim fail 0 memory NOT_SUPPORTED
		sim fail 0 utilization NOT_SUPPORTED
		eventually 20 view '.seq > 3'
		eventually 20 measured true
		sim fail 0 memory SUCCESS
		sim fail 0 utilization SUCCESS
		eventually 5 measured false
	done
	# A GPU without MIG lies in no slices.
	view '[.gpus[].units[] | .start, .size, .memoryStart, .memorySize] | length == 16 and all(. == null)'
}

@test "idle replicas are the healthy and free ones, with any allocation" {
	local gpu
	node_up 2
	pod one
	eventually 5 uses 1
	eventually 10 metrics_series '^gpuslice_slices_idle\{.*\} 7$'
	gpu=$(view '.gpus[] | select(any(.units[].uses[]; .live)) | .index')
	sim lose "$gpu"
	eventually 20 metrics_series '^gpuslice_slices_allocatable\{.*\} 6$'
	eventually 10 metrics_series '^gpuslice_slices_idle\{.*\} 6$'
}

@test "figures grow old where NVML has no new ones" {
	sim create >/dev/null
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG"
	eventually 20 view '.gpus[0] | .sample != null and .sampleAgeNs != null'
	sim lose 0
	eventually 20 view '.gpus[0] | .sample == null and .sampleAgeNs > 2000000000'
	eventually 10 metrics_series '^gpuslice_gpu_sample_age_seconds\{.*gpu="0".*\} ([2-9]|[1-9][0-9])'
	eventually 10 view '.gpus[1].sampleAgeNs < 2000000000'
}

# Every arbiter hangs from its start on, until FREEZER ends.
freeze_arbiters() {
	local pid
	while :; do
		for pid in $(arbiters); do
			kill -STOP "$pid" 2>/dev/null || true
		done
		sleep 0.01
	done
}

@test "the peak of a slice whose arbiter has never answered is unknown" {
	local pid
	sim create >/dev/null
	fair_quarters
	kubelet
	freeze_arbiters 3>&- &
	FREEZER=$!
	agent --config-file "$CONFIG" --sysfs "$GPUSLICE_SIM_DIR/sys"
	eventually 20 offers 16
	pod one
	eventually 10 view '[.gpus[].units[].uses[]][0] | .live and .slice != null'
	eventually 10 view '[.gpus[].units[].uses[]][0] | .memoryUsed == 0 and .memoryPeak == null'
	eventually 10 metrics_series '^gpuslice_container_memory_used_bytes\{.*pod="one"'
	run ! metrics_series '^gpuslice_container_memory_peak_bytes'
	kill "$FREEZER"
	stop agent
	for pid in $(arbiters); do
		kill -KILL "$pid"
	done
}
