#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# MPS in real pods of a node with two GPUs, four pods on each: the config changes on a live node, and daemon, server,
# clients and agent die. Programs run as another user than the daemon, in namespaces of their own. Each test goes on where
# the one before ended.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube
load chart

CONFIG=/etc/gpuslice.yaml
ROOT=/run/nvidia/mps
SMS=132 # of each GPU; a quarter of them for a client, in pairs: 32

setup_file() {
	cluster_up
	node_add gpu h200-2
	gpu_start gpu
	kubectl create serviceaccount agent
	kubectl create clusterrole agent --verb list,watch,create,patch --resource nodes,events
	kubectl create clusterrolebinding agent --clusterrole agent --serviceaccount default:agent
	kubeconfig_for gpu agent
	time_slicing | put_file gpu $CONFIG
	agent
	eventually 20 offers gpu 8
}

teardown_file() {
	cluster_down
}

teardown() {
	show_agents
	show_logs
}

time_slicing() {
	cat <<-'EOF'
		version: v1
		flags: {plugin: {sharedDevicesAllocationPolicy: packed}}
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
	EOF
}

# mps [LINE]: a config; the line stands in mps.
mps() {
	cat <<-EOF
		version: v1
		flags: {plugin: {sharedDevicesAllocationPolicy: packed}}
		sharing:
		  mps:
		    resources: [{name: nvidia.com/gpu, replicas: 4}]
		    ${1-}
	EOF
}

# agent: and waits for it; agent_at_once: does not.
agent() {
	agent_at_once
	eventually 20 agent_status gpu .
}

agent_at_once() {
	node_start gpu agent gpusliced --nvml /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 --sysfs $SIM_DIR/sys \
		--procfs $SIM_DIR/proc --config-file $CONFIG --kubeconfig /etc/agent/kubeconfig --node-name gpu
}

# client NAME [POLICY [MODE [NODE]]]: a pod of an unprivileged user; it has 1 GiB and runs kernels until one fails.
client() {
	kubectl apply -f - <<-EOF_POD
		apiVersion: v1
		kind: Pod
		metadata: {name: $1, labels: {app: client}}
		spec:
		  restartPolicy: ${2-Never}
		  nodeSelector: {kubernetes.io/hostname: ${4-gpu}}
		  terminationGracePeriodSeconds: 1
		  securityContext: {runAsUser: 12345, runAsGroup: 12345, runAsNonRoot: true}
		  containers:
		  - name: main
		    image: cuda-programs:1
		    command: [cuda-mps, ${3-hold}, "600"]
		    resources: {limits: {nvidia.com/gpu: 1}}
	EOF_POD
	eventually 30 pod_says "$1" '^ready 0'
}

# goes_on POD...: no kernel of it has failed, and it is the first program of its container.
goes_on() {
	local pod
	for pod; do
		kubectl get pod "$pod" -o json | jq -e '.status.containerStatuses[0] | .restartCount == 0 and .state.running != null'
		run ! pod_says "$pod" '^loop'
	done
}

# has POD SMS MPS: what CUDA shows it: multiprocessors, and whether it is under MPS.
has() {
	pod_says "$1" "^device sms $2 mps $3\$"
}

# variable POD NAME: of its program.
variable() {
	timeout 60 kubectl exec "$1" -- sh -c "tr '\\0' '\\n' </proc/1/environ" | sed -n "s/^$2=//p"
}

gone() {
	kubectl delete pod "$@"
}

# daemon JQ: of the daemon of the GPU with number $NUMBER (0), as the status says; key_of NUMBER: its directory.
daemon() {
	agent_status gpu "(.gpus[] | select(.index == ${NUMBER-0}) | .uuid) as \$u | .mps[] | select(.devices[0] == \$u) | $1"
}

is_ready() {
	agent_status gpu '[.mps[].state] == ["ready", "ready"]'
}

state_is() {
	[[ $(daemon .state) == "$1" ]]
}

clients_are() {
	[[ $(daemon '.clients | length') == "$1" ]]
}

# control_pids: of the control daemons that run on the node.
control_pids() {
	node_exec gpu pgrep -f 'mps-control -f' | sort
}

control_daemons() {
	[[ $(control_pids | grep -c .) == "$1" ]] || { node_exec gpu pgrep -af nvidia-cuda-mps && return 1; }
}

server_pid() {
	node_exec gpu pgrep -P "$(daemon .pid)" -f mps-server
}

# sim_mps FAULT...: of the simulated MPS programs from now on; none: they are sound.
sim_mps() {
	put_file gpu $SIM_DIR/mps-fault <<<"$*"
}

# told POD REASON PATTERN: `kubectl describe` shows this Warning; node_told TYPE REASON PATTERN: at the Node.
told() {
	kubectl describe pod "$1" | grep -E "^ *Warning +$2 .* gpusliced +.*$3"
}

node_told() {
	kubectl describe node gpu | grep -E "^ *$1 +$2 .* gpusliced +.*$3"
}

# what_is_left: files and sockets of MPS.
what_is_left() {
	node_exec gpu find $ROOT -mindepth 1 -printf '%y %P\n' | sort
}

# Empty pipe directories, as containers may name them, and the directories they lie in.
nothing_is_left() {
	local left
	left=$(what_is_left | grep -vE '^d [^/]+(/pipe)?$') || return 0
	echo "$left"
	return 1
}

modes_are() {
	[[ $(sim gpu show --json | jq -c '[.gpus[] | .keys.compute_mode // .compute_mode // 0]') == "[$1,$1]" ]]
}

# restarted POD: once or more, and it has worked since.
restarted() {
	kubectl get pod "$1" -o json | jq -e '.status.containerStatuses[0] | .restartCount >= 1 and .state.running != null'
	pod_says "$1" '^ready 0'
}

@test "from time-slicing to MPS: new pods of any user are clients, the one that ran goes on" {
	client old
	has old $SMS 0
	mps | put_file gpu $CONFIG
	eventually 20 is_ready
	eventually 20 offers gpu 8
	control_daemons 2
	client a
	has a 32 1
	[[ $(variable a CUDA_MPS_PIPE_DIRECTORY) == /mps/nvidia.com/gpu/pipe ]]
	[[ $(variable a CUDA_MPS_ACTIVE_THREAD_PERCENTAGE) == 25 ]]
	[[ $(kubectl exec a -- stat -c %u /proc/1) == 12345 ]]
	eventually 10 clients_are 1
	goes_on old
	[[ $(variable a NVIDIA_VISIBLE_DEVICES) == "$(variable old NVIDIA_VISIBLE_DEVICES)" ]]
	gone old
}

@test "kill -9 of the server: Node and both pods are told, devices come back, new pods work" {
	client b
	has b 32 1
	eventually 10 clients_are 2
	sim_mps slow-server=3000
	node_exec gpu kill -KILL "$(server_pid)"
	eventually 10 offers gpu 8 4
	sim_mps
	eventually 20 told a MPSServerDied 'the MPS server of its GPU died: process [0-9]+ \(cuda-mps\) has lost'
	told b MPSServerDied 'the MPS server of its GPU died'
	node_told Warning MPSServerDied 'and its 2 clients with it'
	eventually 20 pod_says a '^loop 806 '
	eventually 20 offers gpu 8
	eventually 10 node_told Normal MPSRecovered 'has a new server'
	[[ $(daemon .serverDeaths) == 1 ]]
	gone a b
	client c
	has c 32 1
}

@test "kill -9 of the control daemon: the same, with the reason in the status; the other GPU is not concerned" {
	local pid other
	client d
	eventually 10 clients_are 2
	pid=$(daemon .pid)
	other=$(NUMBER=1 daemon .pid)
	sim_mps no-start
	node_exec gpu kill -KILL "$pid"
	eventually 10 offers gpu 8 4
	eventually 20 node_told Warning MPSDaemonDown 'the MPS control daemon ended by signal 9 \(Killed\)'
	node_exec gpu gpuslice status >"$BATS_TEST_TMPDIR/status"
	cat "$BATS_TEST_TMPDIR/status"
	grep -E '^0 +(down|starting) .* (Cannot start|the MPS control daemon)' "$BATS_TEST_TMPDIR/status"
	grep -E '^1 +ready ' "$BATS_TEST_TMPDIR/status"
	told c MPSDaemonDied 'the MPS control daemon ended: process [0-9]+ \(cuda-mps\) has lost'
	told d MPSDaemonDied 'the MPS control daemon ended'
	sim_mps
	eventually 30 offers gpu 8
	eventually 10 node_told Normal MPSDaemonUp 'is ready again'
	[[ $(daemon .pid) != "$pid" && $(NUMBER=1 daemon .pid) == "$other" ]]
	control_daemons 2
	gone c d
}

@test "a client faults: all of its GPU are told with who is known, and come back by themselves" {
	client always Always
	client once
	client silent Never idle # does not see that its context is gone
	eventually 10 clients_are 3
	sim gpu cuda-fault 0 700
	eventually 10 offers gpu 8 4
	eventually 20 told always MPSClientFault 'a fatal fault of an MPS client on its GPU: process .* of the 3'
	told silent MPSClientFault 'process [0-9]+ \(cuda-mps\) has lost its GPU work'
	node_told Warning MPSClientFault 'a fatal fault ended all 3 MPS clients of GPU-.*(MPS names cuda-mps of pod default/|MPS does not name who)'
	pod_says once '^loop 7[0-9][0-9] '
	# MPS takes nobody until all that were hit are gone.
	agent_status gpu '[.resources[].slices[] | select(.healthy | not) | .reason | contains("a fatal fault of one client")] | length == 4 and all'
	gone silent once
	eventually 20 offers gpu 8
	eventually 40 restarted always
	eventually 10 node_told Normal MPSRecovered 'all that the fault hit have ended'
	has always 32 1
	[[ $(daemon .faults) == 1 ]]
	# Once more, and nobody is there to see it.
	client silent Never idle
	node_stop gpu agent KILL
	sim gpu cuda-fault 0 700
	eventually 10 node_exec gpu grep -q 'sticky error' $ROOT/"$(variable silent NVIDIA_VISIBLE_DEVICES)"/log/mps.log
	agent
	eventually 10 offers gpu 8 4
	eventually 10 told silent MPSClientFault 'has lost its GPU work; who it was is not known'
	gone always silent
	eventually 20 offers gpu 8
}

@test "kill -9 of the agent, also while a daemon is being started: clients go on, and one daemon for each GPU" {
	local ms pid
	client e
	pid=$(daemon .pid)
	node_stop gpu agent KILL
	for ms in 0 50 150 400; do
		agent_at_once
		sleep "$(printf '0.%03d' $ms)"
		node_stop gpu agent KILL
	done
	agent
	eventually 10 is_ready
	eventually 10 clients_are 1
	[[ $(daemon .pid) == "$pid" ]]
	for ms in 0 200 230 260 300 350 500; do
		node_exec gpu kill -KILL "$(NUMBER=1 daemon .pid)"
		sleep "$(printf '0.%03d' $ms)"
		node_stop gpu agent KILL
		agent
		eventually 20 is_ready
		control_daemons 2
	done
	diff <(control_pids) <(agent_status gpu '.mps[].pid' | sort)
	[[ $(daemon .pid) == "$pid" ]]
	goes_on e
	eventually 20 offers gpu 8
	client f
	has f 32 1
	gone f
}

@test "back to time-slicing: the client goes on, its daemon quits after it, and nothing is left" {
	eventually 10 clients_are 1
	time_slicing | put_file gpu $CONFIG
	eventually 10 state_is draining
	eventually 10 control_daemons 1
	client g
	has g $SMS 0
	[[ -z $(variable g CUDA_MPS_PIPE_DIRECTORY) ]]
	goes_on e
	run ! nothing_is_left
	gone e
	eventually 20 control_daemons 0
	eventually 10 nothing_is_left
	[[ $(what_is_left | grep -c '/pipe$') == 2 ]]
	goes_on g
	offers gpu 8
}

@test "compute mode: set while MPS is configured, and as it was after each change back, whenever the agent is killed" {
	local ms
	modes_are 0
	mps 'computeMode: exclusive' | put_file gpu $CONFIG
	# One program runs beside MPS, so that no server can start: nobody is given that GPU, until it has ended.
	eventually 20 offers gpu 8 4
	eventually 10 node_told Warning MPSDaemonDown 'the MPS server ended at its start: .*no other program may use'
	goes_on g
	gone g
	eventually 40 is_ready
	eventually 10 offers gpu 8
	modes_are 3
	client h
	has h 32 1
	gone h
	time_slicing | put_file gpu $CONFIG
	eventually 20 modes_are 0
	mps 'computeMode: exclusive' | put_file gpu $CONFIG
	eventually 20 is_ready
	modes_are 3
	node_stop gpu agent KILL
	time_slicing | put_file gpu $CONFIG
	modes_are 3
	agent
	eventually 20 modes_are 0
	# On the way there and on the way back.
	for ms in 20 60 120 200 300; do
		mps 'computeMode: exclusive' | put_file gpu $CONFIG
		sleep "$(printf '0.%03d' $ms)"
		node_stop gpu agent KILL
		agent_at_once
		sleep "$(printf '0.%03d' $((500 - ms)))"
		time_slicing | put_file gpu $CONFIG
		sleep "$(printf '0.%03d' $ms)"
		node_stop gpu agent KILL
		agent
	done
	eventually 20 modes_are 0
	eventually 20 control_daemons 0
	eventually 10 nothing_is_left
	eventually 10 offers gpu 8
}

# values: all that the chart is told.
values() {
	cat >"$BATS_FILE_TMPDIR/values.yaml" <<-EOF_VALUES
		config:
		  map:
		    any: |-
		$(mps | sed 's/^/      /')
	EOF_VALUES
	printf '%s\n' "$BATS_FILE_TMPDIR/values.yaml"
}

chart_is_ready() {
	agent_status chart '[.mps[].state] == ["ready"]'
}

@test "by the chart: nothing but MPS in its config; the agent's pod is killed, and programs come back" {
	local pod logs
	node_add chart h100-1 --label nvidia.com/gpu.present=true
	gpu_start chart
	kubectl create namespace "$NS"
	chart install gpuslice -f "$(values)"
	eventually 60 agents 1
	eventually 20 offers chart 4
	client k Always hold chart
	has k 32 1
	# The daemon is in its container, and ends with that; clients are told by CUDA. The log is of the first program: a
	# second that finds no daemon yet may end too, and only the last one's log is kept.
	kubectl logs --follow k >"$BATS_TEST_TMPDIR/first" 3>&- &
	logs=$!
	pod=$(agent_pod chart)
	kubectl delete pod -n "$NS" "$pod" --grace-period=0 --force
	eventually 60 agents 1
	eventually 20 chart_is_ready
	eventually 60 restarted k
	wait "$logs"
	grep -E '^loop 806 ' "$BATS_TEST_TMPDIR/first"
	eventually 20 offers chart 4
	client l Never hold chart
	has l 32 1
}
