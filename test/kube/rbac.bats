#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The rights that the chart gives: all that the agent asks for and no more. Each rule is used, each is
# missed when it is taken away, and the admission policy keeps a token to its own node.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

ACCOUNT=system:serviceaccount:$NS:gpuslice
PRODUCT=nvidia.com/gpu.product
TAINT=gpuslice.io/not-ready
FEATURE=nvidia-features-for-a

setup_file() {
	cluster_up
	node_add a p3.8xlarge --taint "$TAINT=:NoSchedule" --label "nvidia.com/gpu.present=true,$CONFIG_LABEL=two"
	node_add b none
	kubectl create namespace $NS
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# release ACTION TWO [OPTION...]: entries for two (or another number) and three replicas.
release() {
	local action=$1 two=$2 sharing
	shift 2
	sharing() { printf 'version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %s}]}}' "$1"; }
	chart "$action" gpuslice --set configViaAPI=true,config.default=two \
		--set-file "config.map.two=$(sharing "$two" >"$BATS_TEST_TMPDIR/two" && echo "$BATS_TEST_TMPDIR/two")" \
		--set-file "config.map.three=$(sharing 3 >"$BATS_TEST_TMPDIR/three" && echo "$BATS_TEST_TMPDIR/three")" "$@"
}

# answers FROM TO: "RESOURCE VERB" of each of the agent's requests with such a status.
answers() {
	jq -r --arg u $ACCOUNT --argjson from "$1" --argjson to "$2" 'select(.user.username == $u)
		| select(.responseStatus.code >= $from and .responseStatus.code <= $to)
		| "\(if .objectRef.resource then [.objectRef.resource, .objectRef.subresource // empty] | join("/") else .requestURI end) \(.verb)"' "$KUBE/log/audit.jsonl" | sort -u
}

# granted: the same of the rules.
granted() {
	kubectl get clusterrole,role gpuslice -n $NS -o json --ignore-not-found |
		jq -r '.items[].rules[] | .resources[] as $r | .verbs[] | "\($r) \(.)"' | sort -u
}

label() {
	kubectl label node a --overwrite "$CONFIG_LABEL=$1"
}

# event REASON COUNT: of the agent, about an entry that is not there.
event() {
	kubectl get events -n default -o json | jq -e --arg r "$1" --argjson n "$2" \
		'[.items[] | select(.reason == $r and .source.component == "gpusliced" and (.message | contains("nonsense"))).count] == [$n]'
}

tainted() {
	kubectl get node a -o json | jq -e --arg k $TAINT 'any(.spec.taints[]?; .key == $k)'
}

not_tainted() {
	! tainted
}

good_again() {
	label two
	eventually 20 agent_status a '.config.lastError == null'
}

# nonsense_twice: the second time is counted at the Event of the first.
nonsense_twice() {
	label nonsense
	eventually 20 agent_status a '.config.lastError.message'
	good_again
	label nonsense
}

# may VERB RESOURCE yes|no
may() {
	[[ $(kubectl auth can-i "$1" "$2" -n $NS --as $ACCOUNT 2>/dev/null) == "$3" ]]
}

# without ROLE RESOURCE VERB: takes it away.
without() {
	kubectl get "$1" gpuslice -n $NS -o json >"$BATS_TEST_TMPDIR/role.json"
	jq --arg r "$2" --arg v "$3" '.rules |= [.[] | if .resources == [$r] then .verbs -= [$v] else . end | select(.verbs != [])]' \
		"$BATS_TEST_TMPDIR/role.json" | kubectl replace -f -
	[[ $2 != configmaps ]] || set -- "$1" configmaps/gpuslice-configs "$3"
	eventually 10 may "$3" "$2" no
}

# with_all: gives it back.
with_all() {
	jq 'del(.metadata.resourceVersion)' "$BATS_TEST_TMPDIR/role.json" | kubectl replace -f -
}

# another_agent: the pod is replaced.
another_agent() {
	kubectl delete pod -n $NS "$(agent_pod a)" --grace-period=2 --timeout 30s
	eventually 30 agent_status a .
}

# misses ROLE RESOURCE VERB FILTER COMMAND...: without this right the status says so after the command.
# What is denied is not asked for again for a minute, so another agent goes on.
misses() {
	local role=$1 resource=$2 verb=$3 filter=$4
	shift 4
	without "$role" "$resource" "$verb"
	"$@"
	eventually 30 agent_status a "$filter | contains(\"cannot $verb resource \\\"$resource\\\"\")"
	answers 403 403 | grep -x "$resource $verb"
	with_all
	another_agent
	eventually 20 agent_status a '.cluster | .state == "in touch" and .labels.error == null'
}

# as_agent TOKEN METHOD PATH [TYPE BODY]: prints the status and the answer.
as_agent() {
	curl -sS --cacert "$KUBE/pki/ca.crt" -w '%{http_code}\n' -H "Authorization: Bearer $1" -X "$2" "https://10.0.0.1$3" \
		${4:+-H "Content-Type: $4" -d "$5"}
}

patch_node() {
	as_agent "$TOKEN" PATCH "/api/v1/nodes/$1" application/merge-patch+json "$2"
}

# patch_status NODE STATUS: a strategic merge patch of this status.
patch_status() {
	as_agent "$TOKEN" PATCH "/api/v1/nodes/$1/status" application/strategic-merge-patch+json "{\"status\": $2}"
}

# condition TYPE: "STATUS REASON" of Node a.
condition() {
	kubectl get node a -o json | jq -r --arg t "$1" '.status.conditions[] | select(.type == $t) | "\(.status) \(.reason)"'
}

@test "with these rights nothing is denied, and each is used" {
	release install 2
	eventually 60 agents 1
	eventually 20 offers a 8
	eventually 20 not_tainted
	eventually 20 has_label a $PRODUCT Tesla-V100-SXM2-16GB-SHARED
	label three
	eventually 20 offers a 12
	label nonsense
	eventually 20 event ConfigNotFound 1
	release upgrade 4
	label two
	eventually 20 offers a 16
	label nonsense
	eventually 20 event ConfigNotFound 2
	label two
	[[ $(condition AcceleratedHardwareReady) == "True GPUsReady" ]]
	agents 1
	[[ -z $(answers 400 599) ]]
	diff <(answers 200 299) <(granted)
	granted | grep -x 'nodes patch' # the comparison is one of something
}

@test "without a right to the Node, its labels, its taint or Events, the status says so" {
	misses clusterrole nodes list .cluster.error.message another_agent
	misses clusterrole nodes watch .cluster.error.message another_agent
	misses clusterrole nodes patch .cluster.labels.error.message kubectl label node a "$PRODUCT-"
	eventually 20 has_label a $PRODUCT Tesla-V100-SXM2-16GB-SHARED
	misses clusterrole nodes patch .cluster.startupTaint.error.message kubectl taint node a "$TAINT=:NoSchedule"
	eventually 20 not_tainted
	kubectl delete events --all -n default
	misses clusterrole events create .cluster.events.error.message label nonsense
	eventually 20 event ConfigNotFound 1 # the new agent finds it as well
	good_again
	misses clusterrole events patch .cluster.events.error.message nonsense_twice
	good_again
	eventually 20 offers a 16 # the agent has begun anew several times
}

@test "without a right to the ConfigMap, the status says so, and the last config stays" {
	misses role configmaps list .config.sourceError.message another_agent
	misses role configmaps watch .config.sourceError.message another_agent
	eventually 20 offers a 16
	release upgrade 5
	eventually 20 offers a 20
}

@test "the rights reach no other ConfigMap, no Secret and no pod" {
	may list configmaps no
	may list configmaps/another no
	eventually 5 may list configmaps/gpuslice-configs yes
	may get secrets no
	may list pods no
	may delete nodes no
	may update nodes no
	run kubectl auth can-i update nodes --subresource=status --as $ACCOUNT
	[[ ${lines[-1]} == no ]]
}

@test "the agent's token may change its own Node, and there labels and its taint only" {
	TOKEN=$(kubectl exec -n $NS "$(agent_pod a)" -- cat /var/run/secrets/kubernetes.io/serviceaccount/token)
	[[ $(patch_node a '{"metadata": {"labels": {"example.com/x": "1"}}}') == *200 ]]
	run patch_node b '{"metadata": {"labels": {"example.com/x": "1"}}}'
	[[ $output == *"the agent on node 'a' may not write for node 'b'"*422 ]]
	run patch_node a '{"spec": {"unschedulable": true}}'
	[[ $output == *"may not cordon or uncordon"*422 ]]
	run patch_node a '{"spec": {"taints": [{"key": "example.com/x", "effect": "NoSchedule"}]}}'
	[[ $output == *"change no other"*422 ]]
	kubectl taint node a example.com/theirs=:NoSchedule
	run patch_node a '{"spec": {"taints": []}}'
	[[ $output == *"change no other"*422 ]]
	kubectl taint node a example.com/theirs-
	# The agent may write one condition of the status only, that of its own Node.
	run patch_status a '{"conditions": [{"type": "Ready", "status": "False", "reason": "x"}]}'
	[[ $output == *"may write its condition, and change no other"*422 ]]
	run patch_status a '{"capacity": {"nvidia.com/gpu": "1000"}}'
	[[ $output == *"nothing of the node's status but its condition"*422 ]]
	run patch_status b '{"conditions": [{"type": "AcceleratedHardwareReady", "status": "False", "reason": "x"}]}'
	[[ $output == *"the agent on node 'a' may not write for node 'b'"*422 ]]
	# A token that is not of a pod says no node.
	TOKEN=$(kubectl create token gpuslice -n $NS)
	run patch_node a '{"metadata": {"labels": {"example.com/x": "2"}}}'
	[[ $output == *"the agent on node '' may not write for node 'a'"*422 ]]
	# Others are not concerned.
	kubectl label node b example.com/x=1
}

@test "labels by NFD: nothing is denied, each right is used, and missed" {
	define_nodefeatures
	local denied
	denied=$(answers 403 403)
	release upgrade 2 --set labels.output=nfd
	eventually 60 agents 1
	eventually 20 feature '.spec.labels["nvidia.com/gpu.replicas"] == "2"'
	feature '[.metadata.ownerReferences[].kind] == ["DaemonSet", "Pod"]'
	label three
	eventually 20 feature '.spec.labels["nvidia.com/gpu.replicas"] == "3"'
	[[ $(answers 403 403) == "$denied" ]]
	[[ -z $(comm -13 <(answers 200 299) <(granted)) ]]
	misses role nodefeatures update .cluster.labels.error.message label two
	eventually 20 feature '.spec.labels["nvidia.com/gpu.replicas"] == "2"'
	misses role nodefeatures get .cluster.labels.error.message another_agent
	kubectl delete nodefeature $FEATURE -n $NS
	misses role nodefeatures create .cluster.labels.error.message another_agent
	# Without an owner the object would outlive the release: the log says so.
	without role pods get
	another_agent
	eventually 20 feature '.metadata | has("ownerReferences") | not'
	agent_says a 'will have no owner.*cannot get resource .*pods'
	with_all
	another_agent
	eventually 20 feature '.metadata | has("ownerReferences")'
}

feature() {
	kubectl get nodefeature $FEATURE -n $NS -o json | jq -er "$1"
}

@test "the agent's token may write no NodeFeature of another node" {
	TOKEN=$(kubectl exec -n $NS "$(agent_pod a)" -- cat /var/run/secrets/kubernetes.io/serviceaccount/token)
	run as_agent "$TOKEN" POST /apis/nfd.k8s-sigs.io/v1alpha1/namespaces/$NS/nodefeatures application/json \
		'{"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeature", "metadata": {"name": "x", "labels": {"nfd.node.kubernetes.io/node-name": "b"}}}'
	[[ $output == *"the agent on node 'a' may not write for node 'b'"*422 ]]
}

@test "uninstalled, the NodeFeature goes with its owner" {
	helm uninstall gpuslice -n $NS --wait --timeout 60s
	eventually 60 eval '! kubectl get nodefeature $FEATURE -n $NS'
}
