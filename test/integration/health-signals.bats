#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What NVML reports of a GPU that answers (row remapping, ECC, retired pages, recovery action, driver mismatch), XIDs
# that are counted, and the Node's condition: each in status, metrics and Events, with the policies of the config.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p4d.24xlarge
	export GPUSLICE_METRICS_INTERVAL=1s
	unset KUBERNETES_SERVICE_HOST
	CONFIG=$NODE_DIR/config.yaml
	TYPE=AcceleratedHardwareReady
}

teardown() {
	node_teardown
}

# configured [HEALTH]: a config with these keys of health besides.
configured() {
	cat <<-EOF
		version: v1
		health:
		  cooldown: 1s
		  resetCooldown: 1s
		  maxCooldown: 1s
		  probeInterval: 200ms
		$(sed 's/^/  /' <<<"${1-}")
	EOF
}

# node_with [HEALTH]: kubelet, API server and agent. Each of 8 GPUs is one device.
node_with() {
	local i
	fake_api
	jq -n '{metadata: {name: "node-1", uid: "1"}}' | put "$API/nodes"
	configured "${1-}" >"$CONFIG"
	sim create
	for i in {1..2}; do sim fail "$i" retired-pages 0; done # as before Ampere
	kubelet && agent --config-file "$CONFIG" --metrics-listen 127.0.0.1:0 || return 1
	eventually 20 offers 8
	eventually 20 logged agent 'serving metrics'
	PORT=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")
}

metrics() {
	curl -sf "http://127.0.0.1:$PORT/metrics"
}

# sample VALUE GPU FAMILY [LABELS...]: the family has a sample with that value and these labels; "none": it has none.
sample() {
	local value=$1 gpu=$2 family=$3 lines label
	shift 3
	lines=$(metrics | grep "^$family{" | grep "gpu=\"$gpu\"") || true
	for label; do
		lines=$(grep -F -- "$label" <<<"$lines") || true
	done
	case $value in
	none) [[ -z $lines ]] ;;
	*) [[ $lines == *"} $value" || $lines == *"} $value "* ]] ;;
	esac || {
		echo "$family of GPU $gpu: '$lines', not $value"
		return 1
	}
}

# condition STATUS REASON [MESSAGE]: that of the Node.
condition() {
	jq -e --arg t "$TYPE" --arg s "$1" --arg r "$2" --arg m "${3-}" \
		'.status.conditions[]? | select(.type == $t)
		 | .status == $s and .reason == $r and (.message | contains($m))' "$API/nodes" >/dev/null
}

# Signal, key and value of the simulator, a part of its text.
SIGNALS="rowRemapFailed remapped_failure 1 could not be remapped
rowRemapPending remapped_pending 1 with the next GPU reset
retiredPagesPending retired_pending 1 with the next reboot
eccUncorrectedVolatile ecc_uncorrected_volatile 5 since the driver was loaded
eccUncorrectedAggregate ecc_uncorrected_aggregate 7 lifetime
gpuReset recovery_action 1 asks for a GPU reset
nodeReboot recovery_action 2 asks for a reboot of the node
drainP2P recovery_action 3 drained of peer-to-peer work
drainAndReset recovery_action 4 drained and reset"

# policies POLICY: one for all signals.
policies() {
	printf 'signals:\n'
	cut -d ' ' -f 1 <<<"$SIGNALS" | sed "s/.*/  &: $1/"
}

@test "by default: faults that need a repair make a GPU unhealthy, others are a warning" {
	local name key value text
	node_with
	while read -r name key value text; do
		echo "# $name"
		sim set 1 "$key" "$value"
		case $name in
		eccUncorrectedAggregate)
			eventually 10 sample 7 1 gpuslice_gpu_health_signal 'signal="eccUncorrectedAggregate",policy="ignore"'
			health_is 1 healthy
			status '.gpus[1].warning == "" and .gpus[1].signals.eccUncorrectedAggregate == 7'
			;;
		rowRemapPending | retiredPagesPending | eccUncorrectedVolatile)
			eventually 10 status ".gpus[1].warning | contains(\"$text\")"
			health_is 1 healthy
			offers 8
			eventually 10 sample "$value" 1 gpuslice_gpu_health_signal "signal=\"$name\",policy=\"warning\""
			sample 1 1 gpuslice_gpu_health_warning_info "$text"
			eventually 10 said GPUWarning "$text"
			"$GPUSLICE" status | grep -F "warning: " | grep -F "$text"
			;;
		*)
			eventually 10 offers 8 7
			status ".gpus[1].reason | contains(\"$text\")"
			eventually 10 sample 1 1 gpuslice_gpu_health_signal "signal=\"$name\",policy=\"unhealthy\""
			eventually 10 sample 0 1 gpuslice_gpu_healthy
			eventually 10 said GPUUnhealthy "$text"
			;;
		esac
		sim set 1 "$key" 0
		eventually 10 offers 8
		eventually 10 status '.gpus[1].warning == "" and .gpus[1].health == "healthy"'
		eventually 10 sample 0 1 gpuslice_gpu_health_signal "signal=\"$name\""
	done <<<"$SIGNALS"
	# Nobody else was touched.
	status '[.gpus[] | select(.index != 1) | .health == "healthy" and .warning == ""] | all'
}

@test "a GPU that does not answer keeps its faults; the rest is unknown" {
	local code
	node_with
	eventually 10 status '.gpus[1].signals.rowRemapFailed == 0'
	sim set 0 remapped_failure 1
	eventually 10 offers 8 7
	for code in GPU_IS_LOST TIMEOUT UNKNOWN; do
		sim fail 0 field-values "$code"
		sim fail 1 field-values "$code"
		eventually 10 status '.gpus[1].signals.rowRemapFailed == null and .gpus[1].signals.gpuReset == null'
		status '.gpus[0].signals | .rowRemapFailed == 1 and .rowRemapPending == null and .nodeReboot == null'
		health_is 0 unhealthy
		eventually 10 sample 1 0 gpuslice_gpu_health_signal 'signal="rowRemapFailed"'
		eventually 10 sample none 0 gpuslice_gpu_health_signal 'signal="rowRemapPending"'
		eventually 10 sample none 1 gpuslice_gpu_health_signal 'signal="rowRemapFailed"'
	done
	# A restart of the agent does not make the GPU healthy either.
	again
	status '.gpus[0] | .health == "unhealthy" and .signals.rowRemapFailed == 1'
	health_is 1 healthy
	sim set 0 remapped_failure 0
	sim fail 0 field-values 0
	eventually 20 status '.gpus[0].health == "healthy" and .gpus[0].signals.rowRemapFailed == 0'
}

@test "each policy is obeyed, also by a reload" {
	local name key value text policy
	node_with "$(policies ignore)"
	while read -r name key value text; do
		sim set 2 "$key" "$value"
		eventually 10 status ".gpus[2].signals.$name > 0"
		health_is 2 healthy
		status '.gpus[2].warning == ""'
		[[ $key == recovery_action ]] || sim set 2 "$key" 0
	done <<<"$SIGNALS"
	sim set 2 recovery_action 0
	sim set 2 ecc_uncorrected_aggregate 1
	eventually 10 status '.gpus[2].signals.eccUncorrectedAggregate == 1'
	configured "$(policies warning)" | put "$CONFIG"
	eventually 10 status '.gpus[2].warning | contains("lifetime")'
	health_is 2 healthy
	configured "$(policies unhealthy)" | put "$CONFIG"
	eventually 10 offers 8 7
	status '.gpus[2].warning == "" and (.gpus[2].reason | contains("lifetime"))'
	configured "$(policies ignore)" | put "$CONFIG"
	eventually 10 offers 8
}

@test "unreadable signals are unknown: no value, no sample, and not healthy by accident" {
	node_with
	eventually 10 sample 0 3 gpuslice_gpu_health_signal 'signal="rowRemapFailed"'
	sim fail 3 remapped-rows NOT_SUPPORTED
	eventually 10 status '.gpus[3].signals.rowRemapFailed == null and .gpus[3].signals.gpuReset == 0'
	eventually 10 sample none 3 gpuslice_gpu_health_signal 'signal="rowRemapFailed"'
	health_is 3 healthy
	sim fail 3 remapped-rows 0
	sim set 3 remapped_failure 1
	eventually 10 offers 8 7
	# Raised, and not to be read any more: it stays raised.
	sim fail 3 remapped-rows NOT_SUPPORTED
	eventually 10 status '.gpus[3].signals.rowRemapPending == null'
	offers 8 7
	status '.gpus[3].signals.rowRemapFailed == 1'
	sim fail 3 field-values NOT_SUPPORTED
	eventually 10 status '.gpus[3].signals.eccUncorrectedVolatile == null'
	offers 8 7
	sim fail 3 field-values 0
	sim fail 3 remapped-rows 0
	sim set 3 remapped_failure 0
	eventually 10 offers 8
	# The driver and NVML cannot say whether a reset is due: the agent invents no 0.
	sim fail 4 field-values NOT_SUPPORTED
	eventually 10 sample none 4 gpuslice_gpu_reset_required
	sample none 4 gpuslice_gpu_health_signal 'signal="rowRemapFailed"'
	sample none 4 gpuslice_gpu_health_signal 'signal="gpuReset"'
	sample 1 4 gpuslice_gpu_healthy
}

@test "a pending repair of the memory requires a reset, and a reboot ends it" {
	node_with
	eventually 10 sample 0 0 gpuslice_gpu_reset_required
	sim set 0 remapped_pending 1
	eventually 10 sample 1 0 gpuslice_gpu_reset_required
	offers 8
	sim set 0 retired_pending 1
	sim set 0 recovery_action 2
	eventually 10 offers 8 7
	sim reboot
	eventually 20 offers 8
	status '.gpus[0].warning == "" and .gpus[0].signals.rowRemapPending == 0'
}

@test "a driver upgraded under the running agent is detected, although its own session continues" {
	node_with
	eventually 20 status '.gpus[0].signals.driverMismatch == 0'
	sim driver mismatch
	eventually 20 offers 8 0
	status '.gpus[0].reason | contains("does not fit the loaded kernel module")'
	status '.nvml.state == "up"'
	eventually 10 sample 1 0 gpuslice_gpu_health_signal 'signal="driverMismatch"'
	eventually 10 said GPUUnhealthy "does not fit the loaded kernel module"
	eventually 10 condition False DriverLibraryMismatch
	sim driver load
	eventually 20 offers 8
	eventually 10 condition True GPUsReady
}

@test "a driver upgraded before the agent's start is the Node's condition, too" {
	fake_api
	jq -n '{metadata: {name: "node-1", uid: "1"}}' | put "$API/nodes"
	configured >"$CONFIG"
	sim create
	sim driver mismatch
	kubelet
	agent --config-file "$CONFIG"
	eventually 20 condition False DriverLibraryMismatch "does not fit the loaded kernel module"
	status '.nvml.state == "down"'
	sim driver load
	eventually 30 offers 8
	eventually 10 condition True GPUsReady
	status '.gpus[0].signals.driverMismatch == 0'
}

@test "XID rules: a warning, then unhealthy, at the GPU that had them alone" {
	local i
	node_with 'xidRules:
- {xids: [31, 13], count: 2, within: 1h, policy: warning}
- {xids: [31], count: 3, within: 1h}'
	sim xid 5 31
	eventually 10 status '.gpus[5].xids == 1'
	logged agent 'XID reported.*xid=31 .*action="counted by health.xidRules"'
	health_is 5 healthy
	status '.gpus[5].warning == ""'
	sim xid 5 13
	eventually 10 status '.gpus[5].warning | contains("XID 13 (graphics engine exception), 2 within 1h")'
	eventually 10 said GPUWarning "XID 13"
	eventually 10 sample 1 5 gpuslice_gpu_health_warning_info "XID 13"
	health_is 5 healthy
	sim xid 5 31
	eventually 10 status '.gpus[5].xids == 3'
	health_is 5 healthy
	for ((i = 0; i < 3; i++)); do sim xid 6 13; done
	sim xid 5 31
	eventually 10 said GPUUnhealthy "XID 31 (GPU memory page fault), 3 within 1h"
	eventually 20 offers 8 # and it comes back
	# A program's errors never ask for a repair of the node.
	condition True GPUsReady
	health_is 6 healthy
}

# again: the agent, killed and started once more.
again() {
	stop agent KILL || true
	agent --config-file "$CONFIG" --metrics-listen 127.0.0.1:0
	eventually 20 status '.gpus | length == 8'
}

@test "counted XIDs and cool-downs outlive the agent, not a reboot" {
	local kept=$GPUSLICE_STATE_DIR/health.json
	node_with 'xidRules:
- {xids: [31], count: 3, within: 1h}'
	sed -i 's/ooldown: 1s/ooldown: 1h/' "$CONFIG"
	again
	[[ ! -e $kept ]] # there was no trouble
	sim xid 5 31
	sim xid 5 31
	sim xid 6 48
	eventually 10 jq -e '.devices | length == 2 and (map(.counted[0].atNs | length) | add) == 2' "$kept"
	again
	status '.gpus[6] | .health == "unhealthy" and (.reason | contains("XID 48"))'
	health_is 5 healthy
	sim xid 5 31
	eventually 10 said GPUUnhealthy "XID 31 (GPU memory page fault), 3 within 1h"
	# A file that is malformed is ignored, whatever it has.
	stop agent KILL || true
	sed -i 's/"troubleNs": [0-9]*/"troubleNs": 9000000000000000000/' "$kept"
	agent --config-file "$CONFIG" --metrics-listen 127.0.0.1:0
	eventually 20 offers 8
	eventually 10 status '.components[] | select(.name == "kept-health") | .degraded and (.reason | contains("health.json") and contains("have passed"))'
	# One of another boot is, too, without a word.
	sim xid 6 48
	eventually 10 offers 8 7
	eventually 10 jq -e '.devices | length == 1' "$kept"
	status '.components[] | select(.name == "kept-health") | .degraded | not'
	stop agent KILL || true
	sed -i 's/"boot": "[^"]*"/"boot": "1"/' "$kept"
	agent --config-file "$CONFIG" --metrics-listen 127.0.0.1:0
	eventually 20 offers 8
	status '.components[] | select(.name == "kept-health") | .degraded | not'
}

@test "the config is checked: refusals with their place" {
	configured 'xidRules: [{xids: [31], count: 3}]' >"$CONFIG"
	run -2 "$GPUSLICE" config check "$CONFIG"
	[[ $output == *"config.yaml:7:14: health.xidRules[0].within: expected a duration such as 10m, found nothing"* ]]
	configured 'signals: {rowRemapFailed: sick}' >"$CONFIG"
	run -2 "$GPUSLICE" config check "$CONFIG"
	[[ $output == *"health.signals.rowRemapFailed: expected ignore, warning or unhealthy, found 'sick'"* ]]
	configured 'signals: {rowRemapFailed: warning}
xidRules: [{xids: [31], count: 3, within: 10m, policy: warning}]' >"$CONFIG"
	"$GPUSLICE" config check "$CONFIG"
}

@test "the Node's condition follows faults that need a repair, and nothing else" {
	node_with
	eventually 10 condition True GPUsReady "gpuslice: no GPU needs a repair"
	status ".cluster.nodeCondition | .type == \"$TYPE\" and .status == \"True\""
	sim set 1 remapped_pending 1 # a warning
	sim xid 2 13                 # a program's
	eventually 10 status '.gpus[1].warning != "" and .gpus[2].xids == 1'
	sim set 0 remapped_failure 1
	eventually 10 condition False RowRemapFailed "gpuslice: GPU 0 (GPU-"
	sim xid 3 79
	sim lose 3
	eventually 10 condition False RowRemapFailed "; and 1 more"
	sim set 0 remapped_failure 0
	eventually 20 condition False NvidiaXID79Error "gpuslice: GPU 3 "
	sim return 3
	eventually 20 condition True GPUsReady
	# Each change is one patch, and the transition time is that of the status.
	jq -se 'map(.status.conditions[0].status) | unique == ["False", "True"]' "$API/status-patches"
	jq -se '[.[].status.conditions[0] | select(.status == "False") | .lastTransitionTime] | unique | length == 1' \
		"$API/status-patches"
}

@test "a condition of another agent is not taken back, a patch that is forbidden takes no GPU" {
	fake_api
	jq -n --arg t "$TYPE" '{metadata: {name: "node-1", uid: "1"}, status: {conditions: [
		{type: "Ready", status: "True", reason: "KubeletReady", message: ""},
		{type: $t, status: "False", reason: "NvidiaXID48Error", message: "XID 48"}]}}' | put "$API/nodes"
	: >"$API/status.forbidden"
	configured >"$CONFIG"
	kubelet
	agent --config-file "$CONFIG"
	eventually 20 offers 8
	eventually 10 status '.cluster.nodeCondition.reason == "NvidiaXID48Error"'
	condition False NvidiaXID48Error
	# The owner sets the condition to True, and a repair is needed: the agent writes its own, once it may.
	jq --arg t "$TYPE" '.status.conditions[1] |= (.status = "True" | .reason = "Fine" | .message = "well")' \
		"$API/nodes" | put "$API/nodes"
	eventually 10 status '.cluster.nodeCondition.reason == "Fine"'
	sim set 7 remapped_failure 1
	eventually 10 status '.components[] | select(.name == "node-condition") | .degraded and (.reason | contains("forbidden"))'
	eventually 10 said ComponentDegraded node-condition
	offers 8 7
	condition True Fine
	[[ ! -e $API/status-patches ]]
}

@test "the condition's type is the operator's, none is written where it is off, the kubelet's are refused" {
	local type
	for type in '' Ready 'a b' MemoryPressure; do
		fake_api
		jq -n '{metadata: {name: "node-1", uid: "1"}}' | put "$API/nodes"
		configured >"$CONFIG"
		kubelet
		agent --config-file "$CONFIG" --node-condition "$type"
		eventually 20 offers 8
		sim set 0 remapped_failure 1
		eventually 10 offers 8 7
		eventually 10 said GPUUnhealthy "could not be remapped"
		[[ ! -e $API/status-patches ]]
		if [[ -n $type ]]; then
			status '.components[] | select(.name == "options") | .degraded and (.reason | contains("--node-condition"))'
		fi
		sim set 0 remapped_failure 0
		stop agent && stop kubelet && stop api
		rm -r "$API"
	done
	TYPE=GpusliceReady
	fake_api
	jq -n '{metadata: {name: "node-1", uid: "1"}}' | put "$API/nodes"
	kubelet
	agent --config-file "$CONFIG" --node-condition "$TYPE"
	eventually 20 condition True GPUsReady
}

# degraded_xids: the component names GPU 1.
degraded_xids() {
	status '.components[] | select(.name == "xid-events") | .degraded and (.reason | contains("XIDs of GPU 1 are not seen"))'
}

# An XID of before the wait for events is over is not seen.
xid_is_counted() {
	sim xid 1 31 && status '.gpus[1].xids > 0'
}

node_json() {
	curl -sf "http://127.0.0.1:$PORT/api/v1/node"
}

@test "XIDs of a GPU without NVML events are unknown, not 0, and one warning says so" {
	fake_api
	jq -n '{metadata: {name: "node-1", uid: "1"}}' | put "$API/nodes"
	configured >"$CONFIG"
	sim create
	sim fail 1 events NOT_SUPPORTED
	kubelet && agent --config-file "$CONFIG" --metrics-listen 127.0.0.1:0
	eventually 20 offers 8
	eventually 20 logged agent 'serving metrics'
	PORT=$(sed -n 's/.*serving metrics.*port=\([0-9]*\).*/\1/p' "$NODE_DIR/agent.log")

	eventually 10 degraded_xids
	status '.gpus[0].xids == 0 and .gpus[1].xids == null and .gpus[1].lastXid == null and .gpus[1].health == "healthy"'
	run -0 "$GPUSLICE" status
	[[ $output == *"DEGRADED  xid-events: XIDs of GPU 1 are not seen"* ]]
	[[ $(grep -cE '^1 .* healthy +- +GPU-' <<<"$output") == 1 ]]
	node_json | jq -e '.gpus[0].xidCount == 0 and .gpus[0].xids == [] and .gpus[1].xidCount == null and .gpus[1].xids == null'
	[[ $(times agent 'component degraded.*component=xid-events') == 1 ]]

	# Events that come back are seen again, and reported as such.
	sim fail 1 events SUCCESS
	eventually 10 status '.gpus[1].xids == 0 and (.components[] | select(.name == "xid-events") | .degraded | not)'
	eventually 15 xid_is_counted
}
