#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What the agent does through the API server, with the rights of a ServiceAccount and no more: the
# config by the node's label, labels, Events, the startup taint; and what it does without the server.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

TAINT=gpuslice.io/not-ready
CONFIG_LABEL=nvidia.com/device-plugin.config
PRODUCT=nvidia.com/gpu.product

setup_file() {
	cluster_up
	node_add a p3.8xlarge --taint "$TAINT=:NoSchedule" --label "$CONFIG_LABEL=two,nvidia.com/gpu.present=true"
	kubectl create namespace gpu
	kubectl create serviceaccount agent -n gpu
	roles
	configs two=2 three=3 four=4
	files two=2 three=3 four=4
	kubeconfig_for a agent gpu
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
}

# The rules that the agent needs, and no more: the last test takes them away one by one.
roles() {
	kubectl apply -f - <<-'YAML'
		apiVersion: rbac.authorization.k8s.io/v1
		kind: ClusterRole
		metadata: {name: agent}
		rules:
		- {apiGroups: [""], resources: [nodes], verbs: [list, watch, patch]}
		- {apiGroups: [""], resources: [events], verbs: [create, patch]}
		- {apiGroups: [""], resources: [nodes/status], verbs: [patch]}
		---
		apiVersion: rbac.authorization.k8s.io/v1
		kind: Role
		metadata: {name: agent, namespace: gpu}
		rules:
		- {apiGroups: [""], resources: [configmaps], resourceNames: [configs], verbs: [list, watch]}
		- {apiGroups: [nfd.k8s-sigs.io], resources: [nodefeatures], verbs: [get, create, update]}
		- {apiGroups: [""], resources: [pods], verbs: [get]}
	YAML
	kubectl create clusterrolebinding agent --clusterrole agent --serviceaccount gpu:agent
	kubectl create rolebinding agent -n gpu --role agent --serviceaccount gpu:agent
}

config() {
	printf 'version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: %s}\n' "$1"
}

# configs NAME=REPLICAS...: the ConfigMap; files NAME=REPLICAS...: the same as a directory of the node.
configs() {
	local pair
	local -a args=()
	for pair; do
		args+=("--from-literal=${pair%%=*}=$(config "${pair#*=}")")
	done
	kubectl create configmap configs -n gpu "${args[@]}" --dry-run=client -o yaml | kubectl apply -f -
}

files() {
	local pair
	for pair; do
		config "${pair#*=}" | put_file a "/etc/configs/${pair%%=*}"
	done
}

api_agent() {
	agent_start a --kubeconfig /etc/agent/kubeconfig --node-name a --namespace gpu "$@"
}

# label NAME: of the config; - takes it away.
label() {
	if [[ $1 == - ]]; then
		kubectl label node a "$CONFIG_LABEL-"
	else
		kubectl label node a --overwrite "$CONFIG_LABEL=$1"
	fi
}

node_label() {
	[[ $(kubectl get node a -o json | jq -r --arg k "$1" '.metadata.labels[$k]') == "$2" ]]
}

# event TYPE REASON PATTERN: as `kubectl describe node` finds it.
event() {
	kubectl describe node a | grep -E "^ *$1 +$2 .* gpusliced +.*$3"
}

chosen() {
	agent_status a ".config | .entry == \"$1\" and .chosenBy == \"$2\" and .lastError == null"
}

tainted() {
	kubectl get node a -o json | jq -e --arg k "$TAINT" 'any(.spec.taints[]?; .key == $k)'
}

not_tainted() {
	! tainted
}

in_touch() {
	agent_status a '.cluster.state == "in touch"'
}

# degraded COMPONENT PATTERN: for a reason that matches; works COMPONENT.
degraded() {
	agent_status a "any(.components[]; .name == \"$1\" and .degraded and (.reason | test(\"$2\")))"
}

works() {
	agent_status a "any(.components[]; .name == \"$1\" and (.degraded | not))"
}

@test "the label's config is the first that is offered, and then the taint goes" {
	tainted
	kubectl taint node a other=1:NoSchedule
	api_agent --config-dir /etc/configs --default-config four --labels node
	eventually 20 offers a 8
	chosen two 'node label'
	eventually 10 not_tainted
	kubectl get node a -o json | jq -e 'any(.spec.taints[]; .key == "other")'
	kubectl taint node a other-
	[[ $(node_log a agent 'config applied' | wc -l) == 1 ]]
	run ! node_log a agent 'label of this node is not known'
}

@test "labels are there, those of others stay, and what is not true any more goes" {
	eventually 10 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	node_label nvidia.com/gpu.count 4
	node_label nvidia.com/gpu.replicas 2
	node_label nvidia.com/gpu.present true
	local stamp
	stamp=$(kubectl get node a -o json | jq -r '.metadata.labels["nvidia.com/gfd.timestamp"]')
	kubectl label node a nvidia.com/old=x nvidia.com/not-ours=x
	kubectl annotate node a --overwrite "gpuslice.io/labels=$(kubectl get node a -o json | jq -r '.metadata.annotations["gpuslice.io/labels"]'),nvidia.com/old"
	eventually 10 node_label nvidia.com/old null
	node_label nvidia.com/not-ours x
	node_stop a agent
	api_agent --config-dir /etc/configs --default-config four --labels node
	eventually 10 agent_status a '.cluster.labels.written'
	[[ $(kubectl get node a -o json | jq -r '.metadata.labels["nvidia.com/gfd.timestamp"]') == "$stamp" ]]
	[[ $(grep -c 'labels written' "$KUBE/nodes/a/log/agent.log") == 0 ]]
}

@test "another label is another config, and no label the default" {
	label three
	eventually 10 offers a 12
	label -
	eventually 10 offers a 16
	chosen four default
	label four # the same config, by another choice
	eventually 10 chosen four 'node label'
	label -
	eventually 10 chosen four default
	files four=5
	eventually 10 offers a 20
	files four=4
	label two
	eventually 10 offers a 8
	eventually 10 node_label nvidia.com/gpu.replicas 2
}

@test "a label that means nothing is an Event, and so is what is good again" {
	label nonsense
	eventually 10 event Warning ConfigNotFound 'specified config nonsense does not exist'
	offers a 8
	agent_status a '.config.lastError.message | startswith("specified config nonsense does not exist (from the node label)")'
	files bad=x
	label bad
	eventually 10 event Warning ConfigInvalid '/etc/configs/bad'
	offers a 8
	label two
	eventually 10 event Normal ConfigApplied 'two is good again'
	node_exec a rm /etc/configs/bad
	eventually 5 chosen two 'node label'
}

@test "the same event again is counted" {
	label nowhere
	eventually 10 event_count ConfigNotFound nowhere 1
	files other=2 # another list of names is no news
	eventually 10 agent_status a '.config.lastError.message | contains("other")'
	node_exec a rm /etc/configs/other
	eventually 10 agent_status a '.config.lastError.message | contains("other") | not'
	label two
	eventually 10 chosen two 'node label'
	label nowhere
	eventually 10 event_count ConfigNotFound nowhere 2
	label two
	eventually 10 chosen two 'node label'
}

# event_count REASON WORD COUNT: there is one such Event, and it counts so many times.
event_count() {
	kubectl get events -n default -o json | jq -e --arg r "$1" --arg w "$2" --argjson n "$3" \
		'[.items[] | select(.reason == $r and .source.component == "gpusliced" and (.message | contains($w))) | .count] == [$n]'
}

@test "who changes our labels is put right, ever more slowly" {
	local i start=$SECONDS
	kubectl label node a "$PRODUCT-"
	eventually 10 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	for ((i = 0; i < 4; i++)); do
		kubectl label node a --overwrite "$PRODUCT=mine"
		eventually 30 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	done
	((SECONDS - start >= 8))
	eventually 10 event Warning LabelConflict 'keeps changing'
}

@test "a GPU that is lost is an Event" {
	sim a lose 1
	eventually 20 event Warning GPUUnhealthy 'GPU 1 '
	sim a return 1
	eventually 90 event Normal GPUHealthy 'GPU 1 '
	eventually 20 offers a 8
}

@test "the API server is away for a minute: files and pods go on, and all is made up for" {
	local start=$SECONDS
	api_stop
	eventually 60 agent_status a '.cluster.state == "away"'
	files two=3
	eventually 10 agent_status a '.resources[0].capacity == 12'
	node_exec a gpuslice status | grep 'API server away'
	[[ $(node_exec a curl -s --unix-socket /run/gpuslice/gpusliced.sock http://x/readyz) == ok ]]
	# Started without the server, it goes on with what it had.
	node_stop a agent KILL
	api_agent --config-dir /etc/configs --default-config four --labels node
	eventually 5 agent_status a '.resources[0].capacity == 12'
	node_log a agent 'using the config of the last run'
	((SECONDS - start >= 60)) || sleep $((60 - (SECONDS - start)))
	eventually 20 offers_here 12
	api_start
	eventually 60 in_touch
	eventually 20 offers a 12
	chosen two 'node label'
	eventually 20 node_label nvidia.com/gpu.replicas 3
	files two=2
	# The agent offers as many as before the server went: a kubelet compares with the last Node that it
	# read, and its own watch returns in its own time.
	eventually 90 offers a 8
}

# offers_here CAPACITY: asked of the agent, as nobody else can be.
offers_here() {
	agent_status a ".resources[0] | .capacity == $1 and .state == \"registered\""
}

@test "the token is replaced and the old one refused: the agent goes on with the new one" {
	token_new a /etc/agent/token agent gpu
	sleep 11 # so long the API server may take the old one from its cache
	kubectl label node a "$PRODUCT-"
	eventually 30 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	eventually 5 in_touch
	eventually 5 agent_status a '.cluster.labels | .written and .error == null'
	# The file of the token vanishes: the agent continues with the token that it has, and reports that a restart would not.
	node_exec a mv /etc/agent/token /etc/agent/token.away
	eventually 30 degraded api-server 'a restart would not use the API server'
	offers a 8
	in_touch
	node_exec a mv /etc/agent/token.away /etc/agent/token
	eventually 30 works api-server
	eventually 10 event Normal ComponentRecovered 'api-server'
}

@test "without the server and without memory it waits a little, then takes the default" {
	node_stop a agent
	api_stop
	node_exec a rm -r /run/gpuslice /var/lib/gpuslice/config/last.json
	api_agent --config-dir /etc/configs --default-config four --labels node
	agent_status a '(.resources | length) == 0 and (.config.waiting | contains("label of this node"))'
	eventually 20 chosen four default
	node_log a agent 'label of this node is not known'
	api_start
	eventually 60 chosen two 'node label'
	eventually 90 offers a 8 # as above
}

@test "the Node is deleted and comes back: the config stays, labels and taint are seen to" {
	kubelet_stop a
	kubectl delete node a
	eventually 10 agent_status a '.cluster.nodeState == "absent"'
	agent_status a '.resources[0].capacity == 8'
	kubelet_start a
	eventually 60 node_ready a
	eventually 20 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	eventually 20 not_tainted
	eventually 20 offers a 8
}

@test "everything is forgotten by the cluster: all comes back" {
	etcd_wipe
	kubectl create namespace gpu
	kubectl create serviceaccount agent -n gpu
	roles
	configs two=2 three=3 four=4
	kubelet_stop a && kubelet_start a
	eventually 60 node_ready a
	rm -f "$KUBE/run/token.gpu.agent"
	token_new a /etc/agent/token agent gpu # the old account's token is worth nothing now
	eventually 90 in_touch
	eventually 30 node_label "$PRODUCT" Tesla-V100-SXM2-16GB-SHARED
	eventually 20 not_tainted
	eventually 20 offers a 8
}

@test "the ConfigMap is read through the API, and its deletion changes nothing" {
	node_stop a agent
	api_agent --config-map configs
	eventually 20 agent_status a '.config.file == "configmap gpu/configs#two"'
	eventually 20 offers a 8
	configs two=5 three=3
	eventually 10 offers a 20
	label three
	eventually 10 offers a 12
	kubectl delete configmap configs -n gpu
	eventually 10 agent_status a '.config.lastError.message | contains("there is no configmap gpu/configs")'
	eventually 10 event Warning ConfigNotFound 'there is no configmap'
	offers a 12
	node_stop a agent
	api_agent --config-map configs
	eventually 10 offers a 12
	configs two=2 three=4
	eventually 20 offers a 16
	label two
	eventually 10 offers a 8
}

@test "a NodeFeature object has the labels, once the cluster knows such objects" {
	node_stop a agent
	api_agent --config-map configs --labels nfd
	eventually 20 agent_status a '.cluster.labels.error.message | contains("does not know NodeFeature objects")'
	node_stop a agent
	define_nodefeatures
	api_agent --config-map configs --labels nfd
	eventually 20 feature '.spec.labels["nvidia.com/gpu.replicas"] == "2"'
	feature '.metadata.labels["nfd.node.kubernetes.io/node-name"] == "a" and .spec.features == {flags: {}, attributes: {}, instances: {}}'
	label three
	eventually 20 feature '.spec.labels["nvidia.com/gpu.replicas"] == "4"'
	local version
	version=$(feature .metadata.resourceVersion)
	node_stop a agent
	api_agent --config-map configs --labels nfd
	eventually 10 agent_status a '.cluster.labels.written'
	[[ $(feature .metadata.resourceVersion) == "$version" ]]
}

@test "the DaemonSet and the pod own the NodeFeature object" {
	node_stop a agent
	kubectl apply -n gpu -f - <<-'YAML'
		apiVersion: apps/v1
		kind: DaemonSet
		metadata: {name: gpuslice}
		spec:
		  selector: {matchLabels: {app: x}}
		  template:
		    metadata: {labels: {app: x}}
		    spec:
		      tolerations: [{operator: Exists}]
		      containers: [{name: main, image: any, command: [sleep, "1000"]}]
	YAML
	local pod uid
	eventually 30 kubectl wait -n gpu --for=condition=Ready pod -l app=x --timeout=1s
	pod=$(kubectl get pod -n gpu -l app=x -o jsonpath='{.items[0].metadata.name}')
	uid=$(kubectl get pod -n gpu "$pod" -o jsonpath='{.metadata.uid}')
	api_agent --config-map configs --labels nfd --pod-name "$pod"
	eventually 20 feature ".metadata.ownerReferences | map(.kind) == [\"DaemonSet\", \"Pod\"] and .[0].controller and .[1].uid == \"$uid\""
	eventually 10 agent_status a '.cluster.labels.written and .cluster.labels.error == null'
}

feature() {
	kubectl get nodefeature nvidia-features-for-a -n gpu -o json | jq -er "$1"
}

# may RULES...: replaces the verbs of rules: "clusterrole 0 list,watch", with the agent ended before.
may() {
	local kind rule verbs
	node_stop a agent
	while [[ $# -gt 0 ]]; do
		read -r kind rule verbs <<<"$1"
		kubectl patch "$kind" agent -n gpu --type json \
			-p "[{\"op\": \"replace\", \"path\": \"/rules/$rule/verbs\", \"value\": $(jq -Rc 'split(",")' <<<"$verbs")}]" || return 1
		shift
	done
}

# says KEY TEXT: the error of this part of the status.
says() {
	agent_status a ".$1.message | contains(\"$2\")"
}

@test "each verb of each rule is needed" {
	may 'clusterrole 0 list,watch'
	kubectl label node a "$PRODUCT-"
	api_agent --config-map configs --labels node
	eventually 20 says cluster.labels.error 'cannot patch resource'
	eventually 10 degraded labels 'cannot patch resource'
	eventually 20 offers a 16
	may 'clusterrole 0 list,patch'
	api_agent --config-map configs --labels node
	eventually 20 says cluster.error 'cannot watch resource'
	may 'clusterrole 0 watch,patch'
	api_agent --config-map configs --labels node
	eventually 20 says cluster.error 'cannot list resource'
	may 'clusterrole 0 list,watch,patch' 'clusterrole 2 get'
	api_agent --config-map configs --labels node
	eventually 20 says cluster.nodeCondition.error 'cannot patch resource \"nodes/status\"'
	eventually 10 degraded node-condition 'cannot patch resource'
	eventually 20 works labels
	eventually 20 offers a 16
	may 'clusterrole 2 patch' 'clusterrole 1 patch'
	api_agent --config-map configs --labels node
	eventually 20 in_touch
	eventually 20 works node-condition
	label nonsense
	eventually 20 says cluster.events.error 'cannot create resource'
	may 'clusterrole 1 create'
	api_agent --config-map configs
	label three
	eventually 10 chosen three 'node label'
	label nonsense
	eventually 10 event Warning ConfigNotFound nonsense
	label three
	eventually 10 chosen three 'node label'
	label nonsense
	eventually 20 says cluster.events.error 'cannot patch resource'
	label three
	may 'clusterrole 1 create,patch' 'role 0 watch'
	node_exec a rm -f /var/lib/gpuslice/config/last.json
	api_agent --config-map configs
	eventually 20 says config.sourceError 'cannot list resource'
	eventually 40 says config.lastError 'cannot list resource'
	may 'role 0 list,watch' 'role 1 create,update'
	api_agent --config-map configs --labels nfd
	eventually 20 says cluster.labels.error 'cannot get resource'
	may 'role 1 get,create'
	kubectl patch nodefeature nvidia-features-for-a -n gpu --type json -p '[{"op": "remove", "path": "/spec/labels"}]'
	api_agent --config-map configs --labels nfd
	eventually 20 says cluster.labels.error 'cannot update resource'
	may 'role 1 get,update'
	bash -euo pipefail -c "$(page_command labels 'kubectl --namespace gpuslice get nodefeatures' | sed 's/namespace gpuslice/namespace gpu/g')"
	run ! feature .
	api_agent --config-map configs --labels nfd
	eventually 20 says cluster.labels.error 'cannot create resource'
	may 'role 1 get,create,update' 'role 2 list'
	api_agent --config-map configs --labels nfd --pod-name nobody
	eventually 20 node_log a agent 'will have no owner.*cannot get resource'
	eventually 20 feature .spec.labels
}
