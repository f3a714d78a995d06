# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for suites that install the chart; load it after kube.
# needs: helm

CHART=$BATS_TEST_DIRNAME/../../deploy/helm/gpuslice
NS=gpuslice # of the release; a suite may set another
CONFIG_LABEL=nvidia.com/device-plugin.config

# chart ACTION RELEASE [OPTION...]: `helm install` or `helm upgrade`. What every node of these clusters
# needs is where its PCI tree is, and the driver's list of capabilities.
chart() {
	local action=$1 release=$2
	shift 2
	helm "$action" "$release" "$CHART" --namespace "$NS" \
		--set "extraEnv[0].name=GPUSLICE_SYSFS,extraEnv[0].value=$SIM_DIR/sys" \
		--set "extraEnv[1].name=GPUSLICE_PROCFS,extraEnv[1].value=$SIM_DIR/proc" "$@"
}

# agents READY [DAEMONSET]: so many pods of the present template are ready, and there are no others.
agents() {
	kubectl get daemonset "${2-gpuslice}" -n "$NS" -o json | jq -e --argjson n "$1" '
		.metadata.generation as $g | .status
		| [.observedGeneration == $g, .desiredNumberScheduled, .currentNumberScheduled, .updatedNumberScheduled // 0, .numberReady]
		| if . == [true, $n, $n, $n, $n] then true else error("\(.)") end'
}

# agent_pod NODE: its name.
agent_pod() {
	kubectl get pods -n "$NS" -l app.kubernetes.io/name=gpuslice --field-selector "spec.nodeName=$1" -o json |
		jq -er '[.items[] | select(.metadata.deletionTimestamp == null)][0].metadata.name'
}

# agent_says NODE PATTERN: a line of its pod's log.
agent_says() {
	kubectl logs -n "$NS" "$(agent_pod "$1")" | grep -E -- "$2"
}

# has_label NODE KEY VALUE; null: it has none.
has_label() {
	local is
	is=$(kubectl get node "$1" -o json | jq -r --arg k "$2" '.metadata.labels[$k]')
	[[ $is == "$3" ]] || { echo "$2 is $is" && return 1; }
}

# gpus_watch NODE: from now on gpus_after NODE START COUNT can tell when, in seconds after START
# ($EPOCHREALTIME), the API server had so many allocatable GPUs.
gpus_watch() {
	# shellcheck disable=SC2016 # for the other shell
	part_start "gpus-$1" bash -c 'kubectl get node "$1" --watch -o jsonpath="{.status.allocatable.nvidia\.com/gpu}{\"\n\"}" |
		while read -r n; do echo "$EPOCHREALTIME $n"; done' bash "$1"
}

gpus_after() {
	awk -v start="$2" -v n="$3" '$1 >= start && $2 == n { printf "%.1f\n", $1 - start; found = 1; exit }
		END { exit !found }' "$KUBE/log/gpus-$1.log"
}

# figure TEXT: for whoever reads the test's output; nothing is asserted.
figure() {
	echo "# figure: $*" >&3
}

# For teardown(): the end of each agent's log, if the test has failed.
show_agents() {
	[[ -z ${BATS_TEST_COMPLETED-} ]] || return 0
	kubectl logs -n "$NS" -l app.kubernetes.io/name=gpuslice --prefix --tail 25 2>&1 | cut -c 1-300 || true
}
