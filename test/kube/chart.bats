#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The life of a release of the chart: installed, changed, rolled back, taken away; the agent's pods
# killed, their kubelet restarted. Pods that hold GPUs notice nothing of all this.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

setup_file() {
	cluster_up
	node_add a p3.8xlarge --label nvidia.com/gpu.present=true
	node_add b p3.2xlarge --label nvidia.com/gpu.present=true
	node_add plain none
	kubectl create namespace $NS
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# values REPLICAS: of one entry for all nodes.
values() {
	cat >"$BATS_FILE_TMPDIR/values.yaml" <<-EOF
		config:
		  map:
		    any: |-
		      version: v1
		      sharing:
		        timeSlicing:
		          resources:
		          - name: nvidia.com/gpu
		            replicas: $1
	EOF
	printf '%s\n' "$BATS_FILE_TMPDIR/values.yaml"
}

# users N: a Deployment of pods with one GPU each, which stay for the whole file.
users() {
	kubectl apply -f - <<-EOF
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: users}
		spec:
		  replicas: $1
		  selector: {matchLabels: {app: users}}
		  template:
		    metadata: {labels: {app: users}}
		    spec:
		      terminationGracePeriodSeconds: 1
		      containers:
		      - {name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}
	EOF
	eventually 60 pods "$1" 0 app=users
}

# same_users: those of the first call, none restarted.
same_users() {
	local now=$BATS_FILE_TMPDIR/users.now first=$BATS_FILE_TMPDIR/users
	kubectl get pods -l app=users -o json |
		jq -r '.items[] | [.metadata.uid, .status.phase, .status.containerStatuses[0].containerID, .status.containerStatuses[0].restartCount] | @tsv' |
		sort >"$now"
	[[ -e $first ]] || cp "$now" "$first"
	diff "$first" "$now"
}

# serves: a new pod gets a GPU.
serves() {
	run_pod new any 'exit 0' "resources: {limits: {$GPU: 1}}"
	eventually 30 pod_is new Succeeded
	kubectl delete pod new --force --grace-period=0
}

# nothing_but NAMES KINDS [OPTION...]: these objects are there, and no others.
nothing_but() {
	local names=$1 have
	shift
	have=$(kubectl get "$@" -o name)
	[[ $have == "$names" ]] || { echo "$have" && return 1; }
}

# instances: which pods of the agent there are.
instances() {
	kubectl get pods -n $NS -l app.kubernetes.io/name=gpuslice -o json | jq -r '.items[].metadata.uid' | sort
}

# restarts NODE COUNT: of the agent's container there.
restarts() {
	kubectl get pod -n $NS "$(agent_pod "$1")" -o json |
		jq -e --argjson n "$2" '.status.containerStatuses[0] | .ready and .restartCount == $n'
}

# not_ready NODE: the agent's container there.
not_ready() {
	kubectl get pod -n $NS "$(agent_pod "$1")" -o json | jq -e '.status.containerStatuses[0].ready == false'
}

@test "the namespace default is refused, and one that is restricted says so" {
	NS=default run -1 chart install gpuslice
	[[ $output == *'refusing to install into the namespace "default"'* ]]
	kubectl create namespace strict
	kubectl label namespace strict pod-security.kubernetes.io/enforce=baseline
	NS=strict chart install strict
	eventually 20 eval 'kubectl get events -n strict | grep "violates PodSecurity.*hostPath"'
	# With the label that the chart's page names, the same release gets its pods.
	kubectl label namespace strict --overwrite pod-security.kubernetes.io/enforce=privileged
	eventually 60 eval 'NS=strict agents 2 strict-gpuslice'
	helm uninstall strict -n strict --wait --timeout 60s
	eventually 30 nothing_but '' pods -n strict
	kubectl delete namespace strict --wait=false
}

@test "installed: a ready pod on each node with GPUs, and on no other" {
	local replicas
	replicas=$(values 2)
	chart install gpuslice -f "$replicas" --set podMonitor.enabled=true
	eventually 60 agents 2
	eventually 20 offers a 8
	eventually 20 offers b 2
	run ! agent_pod plain
	# The cluster has no such API, so there is no PodMonitor, and the release is good without.
	helm get manifest gpuslice -n $NS | grep DaemonSet
	run ! eval 'helm get manifest gpuslice -n $NS | grep PodMonitor'
	[[ $(helm get notes gpuslice -n $NS) == *"no PodMonitor was made"* ]]
	users 9
	same_users
}

@test "what the page says to look at is there" {
	kubectl -n $NS exec daemonset/gpuslice -- gpuslice status | grep nvidia.com/gpu
	kubectl get nodes -o custom-columns='NODE:.metadata.name,GPUS:.status.allocatable.nvidia\.com/gpu' | grep -E '^a +8$'
	[[ $(curl -s "http://$(cat "$KUBE/nodes/a/ip"):9401/healthz") == ok ]]
	[[ $(curl -s "http://$(cat "$KUBE/nodes/a/ip"):9401/readyz") == ok ]]
	[[ $(curl -s "http://$(cat "$KUBE/nodes/a/ip"):9400/metrics") == *'gpuslice_build_info{node="a"'* ]]
}

@test "another config changes no pod" {
	local before replicas
	before=$(instances)
	replicas=$(values 3)
	chart upgrade gpuslice -f "$replicas"
	eventually 60 offers a 12
	eventually 60 offers b 3
	[[ $(instances) == "$before" ]]
	restarts a 0
	same_users
}

@test "another value restarts the agents one after the other, and users run on" {
	local before
	before=$(instances)
	gpus_watch a
	chart upgrade gpuslice -f "$BATS_FILE_TMPDIR/values.yaml" --set logLevel=debug
	eventually 90 agents 2
	[[ -z $(comm -12 <(instances) <(echo "$before")) ]]
	eventually 20 offers a 12
	eventually 20 offers b 3
	same_users
	serves
}

@test "rolled back, the first config is in force again" {
	helm rollback gpuslice 1 -n $NS
	eventually 90 agents 2
	eventually 60 offers a 8
	eventually 60 offers b 2
	same_users
}

@test "an upgrade that is refused changes nothing" {
	local before
	before=$(instances)
	run -1 chart upgrade gpuslice --set migStrategy=both
	[[ $output == *"value must be one of 'none', 'single', 'mixed'"* ]]
	run -1 chart upgrade gpuslice --set config.name=x --set config.map.a='version: v1'
	[[ $output == *"config.name and config.map are both set"* ]]
	[[ $(instances) == "$before" ]]
	[[ $(helm status gpuslice -n $NS -o json | jq -r .info.status) == deployed ]]
}

# Helm refuses what it can see. This text shares by time-slicing as before, so that no pod changes (hostPID), and what is wrong in it
# is between two of its values.
@test "a text that is no config is refused by helm or by the agents, which go on with what they have" {
	local before
	before=$(instances)
	run -1 chart upgrade gpuslice --set-string 'config.map.any=version: v2'
	[[ $output == *'config.map.any: version: expected v1; found "v2"'* ]]
	values 4 >/dev/null
	echo '      health: {cooldown: 2h, maxCooldown: 1h}' >>"$BATS_FILE_TMPDIR/values.yaml"
	chart upgrade gpuslice -f "$BATS_FILE_TMPDIR/values.yaml"
	eventually 60 agent_status a '.config.lastError.message | contains("health.maxCooldown: expected a duration that is not shorter than cooldown")'
	eventually 10 eval "kubectl describe node a | grep 'ConfigInvalid.*health.maxCooldown: expected'"
	offers a 8
	eventually 60 agents 2
	[[ $(instances) == "$before" ]]
	same_users
	helm rollback gpuslice 1 -n $NS
	eventually 60 agent_status a '.config.lastError == null'
	[[ $(instances) == "$before" ]]
}

@test "killed, the agent is there again, and who holds a GPU does not notice" {
	local pid
	pid=$(node_exec a pgrep -x gpusliced)
	node_exec a kill -KILL "$pid"
	eventually 30 restarts a 1
	eventually 20 offers a 8
	same_users
	serves
}

@test "an agent that hangs is not ready" {
	local pid
	pid=$(node_exec b pgrep -x gpusliced)
	node_exec b kill -STOP "$pid"
	# At the worst 5 s until the next probe, three that take their 5 s each, and the kubelet's word of
	# it; its liveness probe would end it after 45 s at the soonest.
	GPUSLICE_PATIENCE=1 eventually 40 not_ready b
	same_users
}

@test "a lost driver makes it unready, and nothing restarts it" {
	sim a driver unload
	eventually 60 not_ready a
	sim a driver load
	eventually 60 restarts a 1
	eventually 20 offers a 8
	same_users
}

@test "the kubelet restarts: the agent registers again, and all pods run on" {
	local before
	before=$(instances)
	kubelet_stop a KILL
	kubelet_start a
	eventually 60 node_ready a
	eventually 30 offers a 8
	[[ $(instances) == "$before" ]]
	eventually 10 restarts a 1
	eventually 10 same_users # a new kubelet checks each pod again
}

@test "the one that hangs has been restarted by its liveness probe" {
	eventually 120 restarts b 1
	eventually 20 offers b 2
	same_users
}

@test "uninstalled: nothing is left but what the agent wrote on its nodes" {
	helm uninstall gpuslice -n $NS --wait --timeout 60s
	eventually 20 offers a 8 0
	# Helm waits for the DaemonSet, but not for its pods.
	eventually 30 nothing_but $'configmap/kube-root-ca.crt\nserviceaccount/default' \
		all,configmaps,secrets,roles,rolebindings,serviceaccounts -n $NS
	run ! eval 'kubectl get clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings -o name | grep gpuslice'
	has_label a nvidia.com/gpu.product Tesla-V100-SXM2-16GB-SHARED
	kubectl get node a -o json | jq -e '.metadata.annotations | has("gpuslice.io/labels")'
	[[ $(node_exec a ls -A /var/lib/kubelet/device-plugins) == $'kubelet.sock\nkubelet_internal_checkpoint' ]]
	same_users
	# The command of docs/labels.md takes the labels away.
	bash -euo pipefail -c "$(page_command labels 'for node in')"
	run ! eval 'kubectl get nodes -o yaml | grep gpuslice.io/labels'
	kubectl get node a -o json | jq -e '[.metadata.labels | keys[] | select(startswith("nvidia.com/"))] == ["nvidia.com/gpu.present"]'
}

@test "installed again, all is as before" {
	chart install gpuslice -f "$(values 2)"
	eventually 60 agents 2
	eventually 20 offers a 8
	same_users
	serves
}
