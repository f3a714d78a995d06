# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The words of parity.bats on the stand-in kubelet. test/kube/parity.bash has the same words for a
# real Kubernetes.

load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	CONFIG=$NODE_DIR/config.yaml
}

teardown() {
	node_teardown
}

# models WHAT: does it? The stand-in says no to what docs/stand-in.md lists.
models() {
	[[ $1 != ending ]]
}

# begin [TAINT]: kubelet and agent are up; the config is standard input.
begin() {
	cat >"$CONFIG"
	kubelet ${1:+--register-with-taints "$1"}
	agent_on
}

# configure: standard input is the agent's new config.
configure() {
	put "$CONFIG"
}

# api VERB...: as kubectl has it, in the namespace `default`.
api() {
	"$GPUSLICE" kubelet "$@" -n default
}

label() {
	k label "$1"
}

agent_on() {
	agent --config-file "$CONFIG"
}

# agent_off [SIGNAL]
agent_off() {
	stop agent "${1-TERM}" || (($? == 137))
}

# kubelet_off [SIGNAL], kubelet_on
kubelet_off() {
	if [[ ${1-} == KILL ]]; then
		k restart --killed --down 1h
	else
		k restart --down 1h
	fi
}

kubelet_on() {
	k restart
}

# agent_says JQ_FILTER
agent_says() {
	status "$1"
}

# grants: "pod container resource id", as the kubelet's books have them.
grants() {
	k get pods -o json | jq -r '.items[] | .metadata.name as $pod | .gpuslice.grants[]
		| "\($pod) \(.container) \(.resource) \(.ids[])"' | sort
}

# given POD CONTAINER NAME: a variable of the environment that the container sees.
given() {
	k get pods -o json | jq -er --arg p "$1" --arg c "$2" --arg n "$3" \
		'.items[] | select(.metadata.name == $p) | .gpuslice.env[$c][$n]'
}

# events: "pod reason message".
events() {
	k get pods -o json | jq -r '.items[] | .metadata.name as $pod | .gpuslice.events[]
		| "\($pod) \(.reason) \(.message)"'
}

# sim_gpu ACTION...: `gpuslice sim`.
sim_gpu() {
	sim "$@"
}
