#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The agent on the real GPUs of this machine, with the stand-in kubelet: what the simulator cannot
# prove. Changes nothing on the card. Writes a transcript to standard output; exit 1 if a step
# differs. Never part of the default tests.
set -euo pipefail

usage() {
	cat <<-'EOF'
	Usage: test/gpu/run.sh STAGE

	STAGE is a staged install (build/stage) or a bundle (tools/bundle), whose libraries are used.
	EOF
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
esac
[[ $# -eq 1 ]] || { usage >&2; exit 2; }
# shellcheck source=test/gpu/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
use_stage "$1"
pids=()
export GPUSLICE_KUBELET_DIR=$tmp/kubelet GPUSLICE_RUN_DIR=$tmp/run
mkdir -p "$GPUSLICE_KUBELET_DIR/device-plugins" "$GPUSLICE_RUN_DIR"

finish() {
	local pid
	for pid in "${pids[@]-}"; do
		kill -TERM "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	rm -rf "$tmp"
}
trap finish EXIT

show() { printf '$ %s\n' "$*"; "$@" 2>&1 | sed 's/^/  /'; }

# within SECONDS COMMAND...: until it succeeds.
within() {
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

ask() { gpuslice status --json | python3 -c "import json,sys; s=json.load(sys.stdin); print($1)"; }
is() { [[ $(ask "$1") == "$2" ]]; }
until_is() { # WHAT EXPRESSION EXPECTED
	within 15 is "$2" "$3" || true
	expect "$1" "$3" "$(ask "$2")"
}

config() { # REPLICAS
	printf 'version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: %s}\n' \
		"$1" >"$tmp/config.yaml.new"
	mv "$tmp/config.yaml.new" "$tmp/config.yaml"
}

start_agent() {
	gpusliced --config-file "$tmp/config.yaml" >>"$tmp/agent.log" 2>&1 &
	agent=$!
	pids+=("$agent")
	within 20 gpuslice status || { sed 's/^/  /' "$tmp/agent.log"; exit 1; }
}

pods() { gpuslice kubelet get pods -o json | python3 -c '
import json, sys
pods = json.load(sys.stdin)["items"]
print(sum(p["status"]["phase"] == "Running" for p in pods), "running of", len(pods))'; }
pods_are() { [[ $(pods) == "$1" ]]; }
until_pods() {
	within 15 pods_are "$2" || true
	expect "$1" "$2" "$(pods)"
}

deployment() { # NAME REPLICAS
	cat <<-EOF
	apiVersion: apps/v1
	kind: Deployment
	metadata: {name: $1}
	spec:
	  replicas: $2
	  selector: {matchLabels: {app: $1}}
	  template:
	    metadata: {labels: {app: $1}}
	    spec:
	      containers:
	      - name: main
	        image: none
	        resources: {limits: {nvidia.com/gpu: 1}}
	EOF
}

heading "the machine"
show nvidia-smi -L
gpus=$(nvidia-smi -L | grep -c '^GPU ')
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode,mig.mode.current --format=csv,noheader

heading "agent on the real NVML, 10 slices a GPU"
config 10
gpuslice kubelet --kubelet-dir "$GPUSLICE_KUBELET_DIR" >"$tmp/kubelet.log" 2>&1 &
pids+=("$!")
within 10 test -S "$GPUSLICE_KUBELET_DIR/device-plugins/kubelet.sock"
start_agent
until_is "registered" "s['resources'][0]['state']" registered
expect "GPUs" "$gpus" "$(ask "len(s['gpus'])")"
expect "all healthy" True "$(ask "all(g['health'] == 'healthy' for g in s['gpus'])")"
expect "capacity" "$((gpus * 10))" "$(ask "s['resources'][0]['capacity']")"
expect "driver" "$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -1)" \
	"$(ask "s['nvml']['driverVersion']")"
expect "UUIDs as nvidia-smi shows them" "$(nvidia-smi --query-gpu=uuid --format=csv,noheader | paste -sd' ')" \
	"$(ask "' '.join(g['uuid'] for g in s['gpus'])")"
expect "memory as nvidia-smi shows it, MiB" \
	"$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -1)" \
	"$(ask "s['gpus'][0]['memoryTotalBytes'] >> 20")"
show gpuslice status

heading "pods"
deployment demo $((gpus * 10 + 1)) >"$tmp/demo.yaml"
show gpuslice kubelet apply -f "$tmp/demo.yaml"
until_pods "one more than there are slices" "$((gpus * 10)) running of $((gpus * 10 + 1))"
until_is "slices held" "s['resources'][0]['used']" $((gpus * 10))
pod=$(gpuslice kubelet get pods | awk '$0 ~ /Running/ { print $2 ~ /demo/ ? $2 : $1; exit }')
show gpuslice kubelet describe pod "$pod"

heading "config reload: 20 slices a GPU, then garbage, then 10 again"
config 20
until_is "capacity" "s['resources'][0]['capacity']" $((gpus * 20))
until_pods "the pending pod runs" "$((gpus * 10 + 1)) running of $((gpus * 10 + 1))"
echo 'sharing: [' >"$tmp/config.yaml"
until_is "refused, generation kept" "s['config']['lastError'] is not None and s['config']['generation']" 2
expect "capacity stays" "$((gpus * 20))" "$(ask "s['resources'][0]['capacity']")"
show gpuslice status
config 10
until_is "capacity" "s['resources'][0]['capacity']" $((gpus * 10))
until_is "no error any more" "s['config']['lastError']" None

heading "kill -9 of the NVML worker, of the agent; restart of the kubelet"
worker=$(pgrep -P "$agent" | head -1)
kill -9 "$worker"
sleep 0.3
until_is "GPUs healthy after the worker died" "all(g['health'] == 'healthy' for g in s['gpus'])" True
worker=$(pgrep -P "$agent" | head -1)
kill -9 "$agent"
wait "$agent" 2>/dev/null || true
gone() { ! kill -0 "$worker"; }
within 5 gone && worker=none
expect "the NVML worker ends with its agent" none "$worker"
start_agent
until_is "registered again" "s['resources'][0]['state']" registered
until_is "held slices known again" "s['resources'][0]['used']" $((gpus * 10))
show gpuslice kubelet restart
until_is "registered after the kubelet's restart" "s['resources'][0]['state']" registered

heading "the agent's log"
sed 's/^/  /' "$tmp/agent.log"
heading "result"
((failed)) && echo "a step differs" || echo "all steps as expected"
exit "$failed"
