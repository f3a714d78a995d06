# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The words of parity.bats on a real Kubernetes, one node for all cases. They are explained in
# ../integration/parity.bash, which has them for the stand-in kubelet. KUBELET=1.36 in the
# environment is an older kubelet.

load ../integration/lib
load kube

NODE=node
CONFIG=/etc/gpuslice/config.yaml

setup_file() {
	cluster_up
	node_add $NODE p3.8xlarge --kubelet "${KUBELET-$KUBE_VERSION}"
}

teardown_file() {
	cluster_down
}

# The node is as it was for the next case.
teardown() {
	local gpu
	show_logs
	kubectl delete deployments --all --wait=false >/dev/null
	kubectl delete pods --all --force --grace-period=0 --wait=false >/dev/null 2>&1
	agent_off TERM
	node_runs $NODE kubelet || kubelet_start $NODE
	kubectl patch node $NODE --type=json -p '[{"op": "remove", "path": "/spec/taints"}]' >/dev/null 2>&1 || true
	for gpu in 0 1 2 3; do
		sim $NODE reset $gpu
	done
	eventually 20 no_pods
}

no_pods() {
	[[ -z $(kubectl get pods -o name) ]]
}

models() {
	true
}

begin() {
	configure
	[[ -z ${1-} ]] || kubectl taint node $NODE "$1"
	agent_on
}

configure() {
	put_file $NODE $CONFIG
}

api() {
	kubectl "$@" -n default
}

label() {
	kubectl label node $NODE "$1"
}

# Registered: what the Node says may still be about the agent before.
agent_on() {
	agent_start $NODE --config-file $CONFIG &&
		eventually 20 agent_status $NODE '(.resources | length) > 0 and all(.resources[]; .state == "registered")'
}

agent_off() {
	node_stop $NODE agent "${1-TERM}"
}

kubelet_off() {
	kubelet_stop $NODE "${1-TERM}"
}

kubelet_on() {
	kubelet_start $NODE
}

agent_says() {
	agent_status $NODE "$1"
}

grants() {
	local names
	names=$(kubectl get pods -o json | jq -c '[.items[] | {(.metadata.uid): .metadata.name}] | add // {}')
	node_exec $NODE cat /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint |
		jq -r --argjson names "$names" '.Data.PodDeviceEntries[]? | select($names[.PodUID])
			| "\($names[.PodUID]) \(.ContainerName) \(.ResourceName) \(.DeviceIDs[][])"' | sort
}

given() {
	record $NODE "select(.pod == \"$1\" and .container == \"$2\") | [.env[] | select(.name == \"$3\") | .value][-1] | select(.)"
}

events() {
	kubectl get events -o json | jq -r '.items[] | "\(.involvedObject.name) \(.reason) \(.message)"'
}

sim_gpu() {
	sim $NODE "$@"
}
