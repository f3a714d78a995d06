# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for tests of the MIG manager. Load it after lib and cluster; $MANAGER has its options.

# manager_setup: a node with an API server and a tool that both only pretend.
manager_setup() {
	node_setup p3.8xlarge
	unset KUBERNETES_SERVICE_HOST KUBECONFIG NODE_NAME
	export FAKE_MIG=$NODE_DIR/mig GPUSLICE_TOOL=$BATS_TEST_DIRNAME/fake-mig
	mkdir "$FAKE_MIG" "$NODE_DIR/host"
	MANAGER=(--mig-manager --mig-strategy mixed --host-root-mount "$NODE_DIR/host")
	fake_api
}

# at_once COMMAND...: no patch of the agent comes between what it reads and what it writes.
at_once() {
	(
		flock 9
		"$@"
	) 9>"$API/lock"
}

# node [KEY=VALUE...]: our Node, with these labels alone.
node() {
	printf '%s\n' "$@" | jq -R . | jq -s '{metadata: {name: "node-1", uid: "1", labels:
		([.[] | select(. != "") | capture("^(?<key>[^=]*)=(?<value>.*)$")] | from_entries)}}' | put "$API/nodes"
}

# label KEY=VALUE, or KEY-
label() {
	at_once relabel "$1"
}

relabel() {
	local filter='.metadata.labels[$k] = $v'
	[[ $1 == *=* ]] || filter='del(.metadata.labels[$k])'
	jq --arg k "${1%%[=-]}" --arg v "${1#*=}" "$filter" "$API/nodes" >/dev/null || return 1
	if [[ $1 == *=* ]]; then
		jq --arg k "${1%%=*}" --arg v "${1#*=}" '.metadata.labels[$k] = $v' "$API/nodes" | put "$API/nodes"
	else
		jq --arg k "${1%-}" 'del(.metadata.labels[$k])' "$API/nodes" | put "$API/nodes"
	fi
}

label_is() {
	# Most looks come too early.
	[[ $(<"$API/nodes") == *"\"${2-}\""* || -z ${2-} ]] &&
		jq -e --arg k "$1" --arg v "${2-}" '(.metadata.labels[$k] // "") == $v' "$API/nodes"
}

state_is() {
	label_is nvidia.com/mig.config.state "$1"
}

reason_has() {
	jq -e --arg v "$1" '.metadata.annotations["gpuslice.io/mig.config.reason"] | contains($v)' "$API/nodes"
}

# states_were STATE...: these and no other, in order.
states_were() {
	[[ $(states) == "$* " ]] || {
		echo "the states were: $(states)"
		return 1
	}
}

states() {
	jq -r '.metadata.labels["nvidia.com/mig.config.state"]? // empty' "$API/patches" | uniq | tr '\n' ' '
}

calls() {
	grep -c "^$1" "$FAKE_MIG/calls" || true
}

event_has() {
	jq -e --arg r "$1" --arg m "${2-}" 'select(.reason == $r and (.message | contains($m)))' "$API/events"
}

# manager [OPTION...]: kubelet and agent in touch; the fake tool knows the GPUs.
manager() {
	[[ ! -v FAKE_MIG || -e $FAKE_MIG/uuids ]] || sim show --json | jq -r '.gpus[].uuid' >"$FAKE_MIG/uuids"
	[[ -n ${PID[kubelet]-} ]] || kubelet
	agent "${MANAGER[@]}" "$@"
}

# offered DEVICES [RESOURCE]: so many are registered now, as is promised before "success"; the kubelet,
# which asks for the list then, has them in a moment.
offered() {
	status "any(.resources[]; .name == \"${2-$GPU}\" and .capacity == $1 and .state == \"registered\")" &&
		eventually 5 offers "$1" "$1" "${2-$GPU}"
}

# pods_of CLIENT [NAMESPACE/NAME]: one pod that the deploy label of this client keeps here.
pods_of() {
	local pod=${2-gpu-operator/pod-1}
	jq -n --arg k "nvidia.com/gpu.deploy.$1" --arg ns "${pod%/*}" --arg name "${pod#*/}" \
		'[{metadata: {namespace: $ns, name: $name, labels: {}}, spec: {nodeSelector: {($k): "true"}}}]' | put "$API/pods"
}

# behave dry|apply: the tool answers so, as standard input says.
behave() {
	put "$FAKE_MIG/$1"
}

# fails_and_recovers PATTERN: whatever goes wrong, at whichever point, all is put back.
fails_and_recovers() {
	eventually 40 state_is failed
	reason_has "$1"
	states_were pending failed
	eventually 5 label_is nvidia.com/gpu.deploy.dcgm true
	eventually 10 offers 4
	eventually 5 event_has MigConfigFailed "$1"
	rm -f "$FAKE_MIG/apply" "$FAKE_MIG/dry"
	label nvidia.com/mig.config=b
	eventually 10 state_is success
	label_is nvidia.com/gpu.deploy.dcgm true
}

no_tool() {
	! leftovers | grep 'fake-mi[g]'
}
