#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The agent where there is no API server, or one that does not answer; what it does with one is in
# test/kube. Nothing of the node waits for it, but the first choice of a config by label.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	unset KUBERNETES_SERVICE_HOST KUBECONFIG NODE_NAME
	CONFIGS=$NODE_DIR/configs
	mkdir "$CONFIGS"
	sharing 2 >"$CONFIGS/a"
	sharing 3 >"$CONFIGS/b"
}

teardown() {
	node_teardown
}

# dead_server: a kubeconfig whose server refuses connections.
dead_server() {
	cat >"$NODE_DIR/kubeconfig" <<-'EOF'
		apiVersion: v1
		kind: Config
		current-context: c
		clusters: [{name: c, cluster: {server: "https://127.0.0.1:9"}}]
		users: [{name: u, user: {token: t}}]
		contexts: [{name: c, context: {cluster: c, user: u}}]
	EOF
	export KUBECONFIG=$NODE_DIR/kubeconfig NODE_NAME=node-1
}

# registered_within MS: so long it took from the agent's first line to the registration, at most. A
# machine under load takes longer now and then.
registered_within() {
	local first last
	first=$(head -n 1 "$NODE_DIR/agent.log" | cut -d ' ' -f 1)
	last=$(logged agent 'registered with the kubelet' | sed -n '1s/ .*//p')
	(($(date -d "$last" +%s%3N) - $(date -d "$first" +%s%3N) <= $1))
}

@test "without an API server nothing is missing and nothing is logged" {
	kubelet
	sharing 2 >"$NODE_DIR/config.yaml"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 8
	status '.cluster.state == "off"'
	[[ $(times agent 'API') == 0 ]]
}

@test "features that need an API server are named when there is none, and the rest works" {
	kubelet
	agent --config-dir "$CONFIGS" --default-config a --labels node
	eventually 20 offers 8
	logged agent 'the API server is not used .*no pod, and --kubeconfig is not given.*labels on the node'
	status '.cluster.error.message | contains("--kubeconfig is not given")'
	stop agent
	agent --config-map gpu/configs
	eventually 10 status '.config.lastError.message | contains("configmap gpu/configs: no API server is known")'
	status '.resources == []'
	stop agent
	dead_server
	unset NODE_NAME
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 8
	logged agent 'the API server is not used .*give --node-name or NODE_NAME'
}

@test "a server that does not answer delays nothing but the choice by label" {
	local start
	dead_server
	kubelet
	for start in {1..5}; do # who waits for the server does so each time
		agent --config-file "$CONFIGS/a"
		eventually 20 logged agent 'registered with the kubelet'
		! registered_within $((200 * ${GPUSLICE_PATIENCE:-1})) || break
		echo "start $start was slow"
		stop agent
	done
	running agent
	eventually 20 offers 8
	eventually 10 status '.cluster.state == "away" and (.cluster.error.message | contains("127.0.0.1:9"))'
	run "$GPUSLICE" status
	[[ $output == *"node node-1, API server away: "* ]]
	[[ $(curl -s --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/readyz) == ok ]]
	stop agent
	# By label: ten seconds of refused connections, then the default.
	agent --config-dir "$CONFIGS" --default-config b
	status '.config.decided == false and .resources == [] and (.config.waiting | contains("label of this node"))'
	[[ $(curl -s --unix-socket "$GPUSLICE_RUN_DIR/gpusliced.sock" http://x/readyz) == "config: waiting for"* ]]
	eventually 20 offers 12
	status '.config.chosenBy == "default"'
	stop agent
	# The next start goes on with it at once.
	agent --config-dir "$CONFIGS" --default-config b
	logged agent 'using the config of the last run'
	eventually 6 offers 12
	[[ $(times agent 'not known') == 0 ]]
	sharing 5 >"$CONFIGS/b.new" && mv "$CONFIGS/b.new" "$CONFIGS/b"
	eventually 10 offers 20
}

# node UID [ENTRY]: our Node, with the label of that entry.
node() {
	jq -n --arg uid "$1" --arg entry "${2-}" '{metadata: {name: "node-1", uid: $uid, labels:
		(if $entry == "" then {} else {"nvidia.com/device-plugin.config": $entry} end)}}' | put "$API/nodes"
}

new_nodes() {
	[[ $(times agent 'the Node is a new one, waiting for its label') == "$1" ]]
}

chosen() {
	status ".config | .entry == \"$1\" and .chosenBy == \"$2\" and .lastError == null"
}

@test "with --config-map no default is active before the Node's label is known" {
	fake_api
	kubelet
	jq -n --rawfile a "$CONFIGS/a" --rawfile b "$CONFIGS/b" \
		'{metadata: {name: "configs", uid: "1"}, data: {a: $a, b: $b}}' | put "$API/configmaps"
	: >"$API/nodes.fail"
	agent --config-map gpu/configs --default-config b
	# The time is over, and the ConfigMap is there.
	eventually 20 status '.config.lastError.message | contains("waiting for the label")'
	status '.config.decided == false and .resources == [] and .config.sourceError == null'
	node 1 a
	rm "$API/nodes.fail"
	eventually 40 chosen a 'node label'
	eventually 5 offers 8
	status '.config.generation == 1'
}

# map TEXT: the ConfigMap, of which the entry a has that text.
map() {
	jq -n --arg a "$1" '{metadata: {name: "configs", uid: "1"}, data: {a: $a}}' | put "$API/configmaps"
}

@test "an entry of the ConfigMap that was emptied replaces nothing, at once or at a restart" {
	local text
	fake_api
	kubelet
	node 1 a
	map "$(<"$CONFIGS/a")"
	agent --config-map gpu/configs
	eventually 20 chosen a 'node label'
	eventually 10 offers 8
	for text in '' '# nothing' null; do
		map "$text"
		eventually 10 status '.config.lastError.message | test("configs#a. is empty: expected a config")'
		stop agent
		agent --config-map gpu/configs
		eventually 10 status '.config.lastError.message | test("configs#a. is empty: expected a config")'
		eventually 10 offers 8
		map "$(<"$CONFIGS/a")"
		eventually 10 chosen a 'node label'
	done
	never_below 8
}

@test "without a Node the default is taken after a while; a new Node has time to get its label" {
	fake_api
	kubelet
	agent --config-dir "$CONFIGS" --default-config b
	eventually 20 chosen b default
	node 1 a
	eventually 10 chosen a 'node label'
	eventually 5 offers 8
	rm "$API/nodes"
	eventually 10 status '.cluster.nodeState == "absent"'
	node 2
	eventually 10 new_nodes 1
	node 2 b
	eventually 10 chosen b 'node label'
	never_below 8
}

@test "a choice that cannot be kept does not leave the one before; it is kept when it can be" {
	local kept=$GPUSLICE_STATE_DIR/config/last.json
	fake_api
	kubelet
	node 1 a
	tiny "$GPUSLICE_STATE_DIR" size=64k
	agent --config-dir "$CONFIGS" --default-config b
	eventually 10 chosen a 'node label'
	eventually 10 jq -e '.entry == "a"' "$kept"
	head -c 65536 /dev/zero >"$GPUSLICE_STATE_DIR/fill" 2>/dev/null || true
	node 1 b
	eventually 10 chosen b 'node label'
	eventually 10 logged agent 'not kept .*No space left'
	# Gone, or the new one already: the old one's place may be enough for the next attempt.
	[[ ! -e $kept ]] || jq -e '.entry == "b"' "$kept"
	eventually 10 degraded kept-config 'last.json.*No space left on device; a restart finds no config to fall back on$'
	"$GPUSLICE" status | grep -F 'DEGRADED  kept-config: '
	rm "$GPUSLICE_STATE_DIR/fill"
	eventually 15 jq -e '.entry == "b" and .node == "1"' "$kept"
	[[ $(times agent 'is not kept') == 1 ]]
	eventually 10 nothing_degraded
}

@test "a config file that cannot be kept is a degraded component until it can be" {
	fake_api
	kubelet
	node 1
	sharing 2 >"$NODE_DIR/config.yaml"
	mkdir "$GPUSLICE_STATE_DIR"
	: >"$GPUSLICE_STATE_DIR/config"
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 20 offers 8
	eventually 10 degraded kept-config 'state/config/.*; a restart finds no config to fall back on$'
	eventually 10 said ComponentDegraded kept-config
	rm "$GPUSLICE_STATE_DIR/config"
	eventually 20 nothing_degraded
	jq -e '.text | test("replicas: 2")' "$GPUSLICE_STATE_DIR/config/last.json"
	eventually 10 said ComponentRecovered kept-config
}

@test "a startup taint that the API server does not let go is a degraded component until it does" {
	fake_api
	kubelet
	echo 400 >"$API/taints.fail"
	jq -n '{metadata: {name: "node-1", uid: "1"}, spec: {taints: [{key: "gpuslice.io/not-ready", effect: "NoSchedule"}]}}' |
		put "$API/nodes"
	agent --config-file "$CONFIGS/a"
	eventually 20 offers 8
	eventually 10 degraded startup-taint 'HTTP 400|400'
	eventually 10 said ComponentDegraded startup-taint
	rm "$API/taints.fail"
	eventually 40 jq -e '.spec.taints == []' "$API/nodes"
	eventually 10 nothing_degraded
	eventually 10 said ComponentRecovered startup-taint
}

@test "an invalid kubeconfig is named, and the node continues" {
	kubelet
	echo 'kind: Config' >"$NODE_DIR/kubeconfig"
	NODE_NAME=n KUBECONFIG=$NODE_DIR/kubeconfig agent --config-file "$CONFIGS/a"
	eventually 20 offers 8
	logged agent "the API server is not used .*$NODE_DIR/kubeconfig"
}

@test "a kubeconfig that comes later, or is mended, is used then" {
	kubelet
	export NODE_NAME=node-1 KUBECONFIG=$NODE_DIR/kubeconfig
	agent --config-file "$CONFIGS/a"
	eventually 20 offers 8
	eventually 10 logged agent "not used yet, looking for it again .*$KUBECONFIG"
	status '.cluster.state == "starting" and (.cluster.error.message | contains("kubeconfig"))'
	echo 'kind: Config' >"$KUBECONFIG"
	eventually 10 status '.cluster.error.message | contains("current-context")'
	dead_server
	eventually 10 status '.cluster.state == "away" and (.cluster.error.message | contains("127.0.0.1:9"))'
	eventually 10 logged agent 'no touch with the API server, trying again .*127.0.0.1:9'
	[[ $(times agent 'not used yet') == 1 ]]
}

@test "a namespace that is none is ignored" {
	local name
	for name in Gpu a/b -x "$(printf 'a%.0s' {1..64})"; do
		agent --namespace "$name"
		logged agent 'option ignored.*--namespace: expected the name of a namespace'
		stop agent
	done
}

label_is() {
	[[ $(sed -n "s|^$1=||p" "$NODE_DIR/features.d/gfd") == "$2" ]]
}

@test "labels go to a feature file, follow the config, and go with the agent" {
	local config=$NODE_DIR/config.yaml file=$NODE_DIR/features.d/gfd stamp
	labelled() {
		sharing "$1"
		printf 'flags: {gfd: {outputFile: %s}}\n' "$file"
	}
	kubelet
	labelled 2 >"$config"
	agent --config-file "$config" --labels file
	eventually 10 label_is nvidia.com/gpu.replicas 2
	label_is nvidia.com/gpu.count 4
	label_is nvidia.com/gpu.product Tesla-V100-SXM2-16GB-SHARED
	[[ $(stat -c %a "$file") == 644 && $(ls -A "$NODE_DIR/features.d") == gfd ]]
	stamp=$(sed -n 's|^nvidia.com/gfd.timestamp=||p' "$file")
	[[ $stamp =~ ^[0-9]{10}$ ]]
	labelled 3 | put "$config"
	eventually 10 label_is nvidia.com/gpu.replicas 3
	# Killed, it leaves the file; the next one has nothing to write.
	stop agent KILL || true
	sleep 1.1
	agent --config-file "$config" --labels file
	eventually 10 status .cluster.labels.written
	label_is nvidia.com/gfd.timestamp "$stamp"
	# Without a driver what was true stays.
	sim driver unload
	eventually 20 status '.nvml.state == "down"'
	label_is nvidia.com/gpu.replicas 3
	sim driver load
	stop agent
	[[ ! -e $file ]]
}
