#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Slices in real pods: programs of the driver API in containers, with what Allocate answered mounted, on a
# simulated H100 that four pods share. Each test goes on where the one before ended.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

CONFIG=/etc/gpuslice.yaml
MIB=1048576

setup_file() {
	cluster_up
	node_add gpu h100-1
	gpu_start gpu
	isolated equal | put_file gpu $CONFIG
	agent_start gpu --config-file $CONFIG --slice-keep 2s
	eventually 20 offers gpu 4
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

# isolated MEMORY [STRATEGY]: a config.
isolated() {
	cat <<-EOF_CONFIG
		version: v1
		flags: {plugin: {deviceListStrategy: [${2-envvar}], sharedDevicesAllocationPolicy: packed}}
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, isolation: {memory: $1}}]}}
	EOF_CONFIG
}

# cuda_pod NAME NODE [REPLICAS]: takes 1 GiB, and more when it is asked.
cuda_pod() {
	kubectl apply -f - <<-EOF_POD
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, labels: {app: cuda}}
		spec:
		  nodeSelector: {kubernetes.io/hostname: $2}
		  terminationGracePeriodSeconds: 1
		  containers:
		  - name: main
		    image: cuda-programs:1
		    command: [bash, -c, 'mkfifo /tmp/in; exec cuda-hold --bytes 1Gi --wait <>/tmp/in >/tmp/out 2>&1']
		    resources: {limits: {nvidia.com/gpu: ${3-1}}}
	EOF_POD
}

# in_pod NAME COMMAND...
in_pod() {
	local name=$1
	shift
	timeout 60 kubectl exec "$name" -- "$@"
}

# ask POD [WORD]: the next line of its program.
ask() {
	# shellcheck disable=SC2016 # for the other shell
	in_pod "$1" timeout 20 bash -c 'n=$(wc -l </tmp/out)
		echo "$1" >/tmp/in
		while (($(wc -l </tmp/out) <= n)); do sleep 0.05; done
		tail -n 1 /tmp/out' bash "${2-look}"
}

# value KEY TEXT: of key=value.
value() {
	sed -nE "s/^(.* )?$1=([^ ]*).*/\2/p" <<<"$2" | tail -n 1
}

# works POD: its program has memory.
works() {
	in_pod "$1" grep -q '^pid=.* last=0 ' /tmp/out
}

# shows POD BYTES: CUDA and NVML both say that this is all there is.
shows() {
	local out
	out=$(ask "$1")
	[[ $(value total "$out") == "$2" && $(value device_total "$out") == "$2" && $(value nvml_total "$out") == "$2" ]] ||
		{ echo "$out" && return 1; }
}

# of POD JQ_FILTER: of its slice in the agent's status.
of() {
	agent_status "${NODE-gpu}" ".slices.list[] | select(.holder.pod == \"$1\") | $2"
}

limit_of() {
	eventually 20 of "$1" .id # the kubelet is asked now and then who has what
	of "$1" '.gpus[0].limitBytes'
}

# uses POD JQ_CONDITION: of what its slice uses, in MiB.
uses() {
	of "$1" "(.gpus[0].usedBytes // -1) / $MIB | if $2 then true else error(\"\(.) MiB\") end"
}

slice_dirs() {
	node_exec gpu find /var/lib/gpuslice/slices -mindepth 1 -maxdepth 1 -name '[0-9a-f]*' -printf '%f\n' | sort
}

slice_count() {
	[[ $(slice_dirs | wc -l) == "$1" ]] || { slice_dirs && return 1; }
}

no_restarts() {
	kubectl get pods -l app=cuda -o json | jq -e 'all(.items[].status.containerStatuses[]; .restartCount == 0)'
}

restarted() {
	kubectl get pod "$1" -o json | jq -e '.status.containerStatuses[0] | .restartCount == 1 and .state.running != null'
}

arbiter_is_not() {
	agent_status gpu ".slices.arbiter | .state == \"up\" and .pid != $1"
}

@test "four pods run, and each has all that Allocate answers in its container, read-only" {
	local pod
	for pod in a b c d; do
		cuda_pod $pod gpu
	done
	eventually 60 pods 4 0 app=cuda
	for pod in a b c d; do
		eventually 20 works $pod
		in_pod $pod cat /run/gpuslice/slice/slice.json | jq -er .id
	done >"$BATS_FILE_TMPDIR/ids"
	sort "$BATS_FILE_TMPDIR/ids" >"$BATS_FILE_TMPDIR/slices"
	diff "$BATS_FILE_TMPDIR/slices" <(slice_dirs)
	[[ $(sort -u "$BATS_FILE_TMPDIR/slices" | wc -l) == 4 ]]
	# shellcheck disable=SC2016 # for the other shell
	[[ $(in_pod a sh -c 'ls $(cat /etc/ld.so.preload) | wc -l') == 2 ]]
	run ! in_pod a sh -c 'echo >/run/gpuslice/slice/x'
	run ! in_pod a sh -c 'echo >/etc/ld.so.preload'
	run ! in_pod a sh -c 'rm /usr/local/gpuslice/lib/libgpuslice-cuda.so'
	# A fifth waits: a slice is a replica, and nobody is put on one that is taken.
	cuda_pod e gpu
	eventually 20 waits_for nvidia.com/gpu
	kubectl delete pod e --wait=false
}

@test "total is a quarter of the GPU by CUDA, NVML and status, and NVML lists the pod's process only" {
	local pod out limit
	limit=$(limit_of a)
	((limit % (2 * MIB) == 0 && limit > 19 * 1024 * MIB && limit < 20 * 1024 * MIB))
	for pod in a b c d; do
		[[ $(limit_of $pod) == "$limit" ]]
		shows $pod "$limit"
	done
	out=$(in_pod b nvml-look)
	echo "$out"
	[[ $(value total "$out") == "$limit" && $(value processes "$out") == 1 ]]
	# 1 GiB and the context.
	(($(value used "$out") > 1024 * MIB && $(value used "$out") < 2048 * MIB))
	[[ $(in_pod b nvidia-smi | grep -c .) == 1 ]]
	# The node sees all four, and the whole card.
	out=$(node_exec gpu /opt/layers/cuda-programs/usr/bin/nvml-look)
	echo "$out"
	[[ $(value processes "$out") == 4 ]]
	(($(value total "$out") >= 4 * limit))
}

@test "status names pod, limit and what is used" {
	local limit
	limit=$(($(limit_of a) / MIB))
	eventually 10 uses a '. > 1024 and . < 2048'
	node_exec gpu gpuslice status >"$BATS_TEST_TMPDIR/status"
	cat "$BATS_TEST_TMPDIR/status"
	[[ $(grep -cE "^[0-9a-f]{8}  0 +$limit MiB +1[0-9]{3} MiB .* default/[abcd] \(main\)" "$BATS_TEST_TMPDIR/status") == 4 ]]
}

@test "at the limit it is error 2 for one pod, and its neighbours go on" {
	local out limit
	limit=$(limit_of a)
	out=$(in_pod a cuda-hold --until-full 256Mi)
	echo "$out"
	[[ $(value last "$out") == 2 && $(value total "$out") == "$limit" ]]
	(($(value free "$out") < 256 * MIB && $(value held "$out") < limit && $(value held "$out") > limit - 3072 * MIB))
	[[ $(value processes "$out") == 2 ]]
	# The arbiter has released its memory: else the next program meets the limit too early, and only for a moment.
	eventually 10 uses a '. < 2048'
	# While one is full, its first program gets nothing, and the neighbour does.
	in_pod a bash -c 'mkfifo /tmp/full; (cuda-hold --until-full 64Mi --wait <>/tmp/full >/tmp/full.out 2>&1 &)
		until grep -q last=2 /tmp/full.out; do sleep 0.05; done'
	[[ $(value last "$(ask a more)") == 2 ]]
	[[ $(value last "$(ask b more)") == 0 ]]
	[[ $(value held "$(ask b)") == $((2048 * MIB)) ]]
	eventually 10 uses a ". > $((limit / MIB)) - 256"
	in_pod a pkill -f until-full
	# All of it comes back.
	eventually 10 uses a '. < 2048'
	[[ $(value last "$(ask a more)") == 0 ]]
}

@test "the limits of running pods follow the config: 20 %, and back" {
	local before after
	before=$(limit_of a)
	isolated 20% | put_file gpu $CONFIG
	eventually 10 of a ".gpus[0].limitBytes < $before"
	after=$(limit_of a)
	((after * 5 - before * 4 < 10 * MIB && before * 4 - after * 5 < 10 * MIB))
	eventually 10 shows a "$after"
	eventually 10 shows d "$after"
	[[ $(value last "$(in_pod d cuda-hold --until-full 256Mi)") == 2 ]]
	# Below what b has: that stays, and there is no more.
	isolated 1Gi | put_file gpu $CONFIG
	eventually 10 shows b $((1024 * MIB))
	[[ $(value last "$(ask b more)") == 2 && $(value held "$(ask b)") == $((2048 * MIB)) ]]
	node_exec gpu gpuslice status | grep -E 'default/b .*OVER ITS LIMIT'
	isolated equal | put_file gpu $CONFIG
	eventually 10 shows b "$before"
	[[ $(value last "$(ask b more)") == 0 ]]
	no_restarts
}

@test "kill -9 of the agent: pods are limited as before, and the next agent knows them" {
	local limit arbiter
	limit=$(limit_of a)
	arbiter=$(agent_status gpu .slices.arbiter.pid)
	node_stop gpu agent KILL
	[[ $(value last "$(ask c more)") == 0 ]]
	[[ $(value last "$(in_pod c cuda-hold --until-full 256Mi)") == 2 ]]
	shows c "$limit"
	agent_start gpu --config-file $CONFIG --slice-keep 2s
	eventually 20 agent_status gpu ".slices.arbiter | .state == \"up\" and .pid == $arbiter"
	eventually 20 uses c '. > 2048 and . < 4096'
	[[ $(value held "$(ask c)") == $((2048 * MIB)) ]]
	diff "$BATS_FILE_TMPDIR/slices" <(slice_dirs)
	no_restarts
}

@test "kill -9 of the arbiter: the next one knows what each pod has" {
	local arbiter limit
	limit=$(limit_of a)
	arbiter=$(agent_status gpu .slices.arbiter.pid)
	node_exec gpu kill -KILL "$arbiter"
	[[ $(value last "$(ask d more)") == 0 ]]
	eventually 20 arbiter_is_not "$arbiter"
	eventually 20 uses d '. > 2048 and . < 4096'
	shows d "$limit"
	[[ $(value last "$(in_pod d cuda-hold --until-full 256Mi)") == 2 ]]
	[[ $(value last "$(ask d more)") == 0 ]]
	no_restarts
}

@test "the kubelet restarts: pods keep their slices, and status their names" {
	local since
	since=$(registrations gpu)
	kubelet_stop gpu KILL
	kubelet_start gpu
	eventually 30 registered_since gpu "$since"
	eventually 30 pods 4 0 app=cuda
	eventually 20 of a '.gpus[0].usedBytes > 0'
	diff "$BATS_FILE_TMPDIR/slices" <(slice_dirs)
	# A kubelet refuses exec ("pod does not exist") until the API server has told it of its pods.
	eventually 30 in_pod a true
	[[ $(value last "$(ask a more)") == 0 ]]
	no_restarts
}

@test "a container that the kubelet starts anew has the slice of its first start" {
	local id limit pid
	limit=$(limit_of b)
	id=$(of b .id)
	# In the container NVML has the container's PIDs.
	[[ $(value pids "$(in_pod b nvml-look)") == 1:* ]]
	pid=$(of b '.processes[0] | select(.containerPid == 1) | .pid')
	node_exec gpu kill -KILL "$pid"
	eventually 60 restarted b
	eventually 20 works b
	eventually 20 of b "select(.id == \"$id\")" # the kubelet is asked now and then
	[[ $(in_pod b cat /run/gpuslice/slice/slice.json | jq -r .id) == "$id" ]]
	shows b "$limit"
	# What the first had has come back.
	eventually 10 uses b '. > 1024 and . < 2048'
}

@test "slices go after their pods, and one of two replicas has twice the memory" {
	local limit
	limit=$(limit_of a)
	kubectl delete pod c d
	# The kubelet's checkpoint names slices of pods that are gone until it next gives devices away.
	cuda_pod two gpu 2
	eventually 30 pod_is two Running
	eventually 40 slice_count 3
	eventually 20 works two
	shows two $((2 * limit))
	eventually 20 of two '.devices | length == 2'
	[[ $(of two .id | wc -l) == 1 ]]
	[[ $(value last "$(in_pod two cuda-hold --until-full 512Mi)") == 2 ]]
	kubectl delete pod a b two
	[[ $(value processes "$(node_exec gpu /opt/layers/cuda-programs/usr/bin/nvml-look)") == 0 ]]
	cuda_pod last gpu
	eventually 30 pod_is last Running
	eventually 40 slice_count 1
	eventually 20 of last .id
	[[ $(of last .id) == "$(slice_dirs)" ]]
}

@test "through CDI on a node without NVIDIA's toolkit it is the same" {
	local NODE=cdi limit
	node_add cdi h100-1 --runtime runc
	gpu_start cdi
	isolated 10Gi cdi-cri | put_file cdi $CONFIG
	agent_start cdi --config-file $CONFIG
	eventually 20 offers cdi 4
	cuda_pod one cdi
	eventually 30 pod_is one Running
	record cdi 'select(.pod == "one") | .cdi | length == 1'
	eventually 20 works one
	limit=$(limit_of one)
	[[ $limit == $((10240 * MIB)) ]]
	shows one "$limit"
	[[ $(value last "$(in_pod one cuda-hold --until-full 256Mi)") == 2 ]]
	eventually 10 uses one '. > 1024 and . < 2048'
}

# values MEMORY: all that the chart is told.
values() {
	cat >"$BATS_FILE_TMPDIR/values.yaml" <<-EOF_VALUES
		config:
		  map:
		    any: |-
		$(isolated "$1" | sed 's/^/      /')
	EOF_VALUES
	printf '%s\n' "$BATS_FILE_TMPDIR/values.yaml"
}

@test "by the chart: nothing but isolation in its config; the agent's pod is killed, the limit changed" {
	local NODE=chart limit pod arbiter
	node_add chart h100-1 --label nvidia.com/gpu.present=true
	gpu_start chart
	kubectl create namespace "$NS"
	chart install gpuslice -f "$(values equal)"
	eventually 60 agents 1
	eventually 20 offers chart 4
	cuda_pod pod chart
	eventually 30 pod_is pod Running
	eventually 20 works pod
	limit=$(limit_of pod)
	shows pod "$limit"
	eventually 10 uses pod '. > 1024 and . < 2048'
	# The agent's container ends, and with it the arbiter, as with every real runtime.
	pod=$(agent_pod chart) arbiter=$(agent_status chart .slices.arbiter.pid)
	kubectl delete pod -n "$NS" "$pod" --grace-period=0 --force
	eventually 60 agents 1
	eventually 20 agent_status chart ".slices.arbiter | .state == \"up\" and .pid != $arbiter"
	eventually 20 uses pod '. > 1024 and . < 2048'
	[[ $(value last "$(ask pod more)") == 0 ]]
	shows pod "$limit"
	chart upgrade gpuslice -f "$(values 10Gi)"
	eventually 90 shows pod $((10240 * MIB))
	eventually 60 agents 1
	[[ $(value last "$(in_pod pod cuda-hold --until-full 256Mi)") == 2 ]]
	kubectl get pod pod -o json | jq -e '.status.containerStatuses[0].restartCount == 0'
}
