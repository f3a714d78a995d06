#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a kubelet, a scheduler and an API server do with our devices, case by case. The same cases
# run on the stand-in kubelet (here, without Kubernetes) and on the real ones (test/kube/parity.bats
# is this file): what holds on one holds on the other. parity.bash beside this file has the words.

bats_require_minimum_version 1.5.0
load parity

GPU=nvidia.com/gpu

# The scheduler's texts: others have what is wanted; nobody could make room.
TAKEN="0/1 nodes are available: 1 %s. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
NEVER="0/1 nodes are available: 1 %s. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."

# soon COMMAND...: a cluster has as long as it takes under load.
soon() {
	eventually 30 "$@"
}

# config REPLICAS [LINE...]: lines are added to timeSlicing.
config() {
	local replicas=$1
	shift
	cat <<-EOF
		version: v1
		health: {cooldown: 1s, resetCooldown: 1s, maxCooldown: 1s, probes: 2, probeInterval: 200ms}
	EOF
	((replicas > 1)) || return 0
	printf 'sharing:\n  timeSlicing:\n'
	((!$#)) || printf '    %s\n' "$@"
	printf '    resources:\n    - name: nvidia.com/gpu\n      replicas: %d\n' "$replicas"
}

# pod NAME SPEC: applies a pod; SPEC is YAML in flow style, of any number of lines.
pod() {
	printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: %s\n' "$1" "$(tr -s '\n\t' ' ' <<<"$2")" | api apply -f -
}

# limits N [RESOURCE]
limits() {
	printf 'resources: {limits: {%s: %s}}' "${2-$GPU}" "$1"
}

# gpu_pod NAME [N [RESOURCE]]
gpu_pod() {
	pod "$1" "{terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, $(limits "${2-1}" "${3-$GPU}")}]}"
}

# deployment NAME REPLICAS [GPUS [RESOURCE]]
deployment() {
	api apply -f - <<-EOF
		apiVersion: apps/v1
		kind: Deployment
		metadata: {name: $1}
		spec:
		  replicas: $2
		  selector: {matchLabels: {app: $1}}
		  template:
		    metadata: {labels: {app: $1}}
		    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, $(limits "${3-1}" "${4-$GPU}")}]}
	EOF
}

scale() {
	api scale "deployment/$1" --replicas "$2"
}

# offers CAPACITY [ALLOCATABLE [RESOURCE]]: the node's status says so.
offers() {
	api get nodes -o json | jq -e --arg r "${3-$GPU}" --arg c "$1" --arg a "${2-$1}" \
		'.items[0].status | [.capacity[$r], .allocatable[$r]] as $is | if $is == [$c, $a] then true else error("\($is)") end'
}

# pods JQ_FILTER: of the list of pods that are not being deleted.
pods() {
	api get pods -o json | jq -er "[.items[] | select(.metadata.deletionTimestamp == null)] | $1"
}

# running_are RUNNING [PENDING [FAILED]]
running_are() {
	pods "[([\"Running\", \"Pending\", \"Failed\"][]) as \$x | [.[] | select(.status.phase == \$x)] | length]
		| if . == [$1, ${2-0}, ${3-0}] then true else error(\"running, pending, failed: \(.)\") end"
}

# waiting_says TEXT WHY: each pod that is not scheduled says exactly this, with WHY in place of %s.
waiting_says() {
	local texts wanted=${1/'%s'/$2}
	texts=$(pods 'map(select(.status.phase == "Pending") | .status.conditions[]?
		| select(.type == "PodScheduled" and .status == "False") | .message) | unique | .[]') || return 1
	[[ $texts == "$wanted" ]] || {
		printf 'says:   %s\nwanted: %s\n' "$texts" "$wanted"
		return 1
	}
}

# refused TEXT...: the manifest on standard input is refused, with these texts.
refused() {
	local out text
	if out=$(api apply -f - 2>&1); then
		echo "taken: $out"
		return 1
	fi
	for text; do
		[[ $out == *"$text"* ]] || {
			printf 'says:   %s\nwanted: %s\n' "$out" "$text"
			return 1
		}
	done
}

# No device is with two containers.
nothing_twice() {
	[[ -z $(grants | cut -d ' ' -f 3,4 | sort | uniq -d) ]]
}

# per_gpu: how many devices of each GPU are held, one line for each GPU that has any.
per_gpu() {
	grants | cut -d ' ' -f 4 | sed 's/::.*//' | sort | uniq -c | awk '{ print $1 }'
}

@test "four GPUs: four pods run, the fifth is pending with a reason" {
	begin < <(config 1)
	soon offers 4
	deployment d 5
	soon running_are 4 1
	soon waiting_says "$TAKEN" "Insufficient $GPU"
	nothing_twice
	[[ $(grants | wc -l) == 4 ]]
	soon agent_says '.resources[0].used == 4'
}

@test "the config makes forty: pending pods run, running ones keep their devices; a scale-down frees some" {
	local before
	begin < <(config 1)
	soon offers 4
	deployment d 5
	soon running_are 4 1
	before=$(grants)
	config 10 | configure
	soon offers 40
	soon running_are 5
	scale d 20
	soon running_are 20
	[[ -z $(comm -23 <(echo "$before") <(grants)) ]]
	scale d 3
	soon running_are 3
	soon eval '(($(grants | wc -l) == 3))'
	scale d 41
	soon running_are 40 1
	soon waiting_says "$TAKEN" "Insufficient $GPU"
	nothing_twice
}

@test "fewer replicas than are allocated: pods continue, new ones are pending until enough have ended" {
	begin < <(config 4)
	soon offers 16
	deployment d 12
	soon running_are 12
	config 2 | configure
	soon offers 8
	running_are 12
	gpu_pod more
	soon waiting_says "$TAKEN" "Insufficient $GPU"
	scale d 8
	soon running_are 8 1
	scale d 6
	soon running_are 7
	nothing_twice
}

@test "a resource that gets another name: the old one is 0, the new one is there" {
	begin < <(config 4)
	soon offers 16
	gpu_pod old
	soon running_are 1
	config 4 'renameByDefault: true' | configure
	soon offers 16 16 $GPU.shared
	soon offers 0
	running_are 1
	gpu_pod late
	soon waiting_says "$NEVER" "Insufficient $GPU"
	gpu_pod new 1 $GPU.shared
	soon running_are 2 1
	[[ $(given new main NVIDIA_VISIBLE_DEVICES) == GPU-* ]]
}

@test "the agent ends, by a signal or killed: nothing is allocatable, capacity stays, pods continue" {
	local signal n=1
	begin < <(config 4)
	soon offers 16
	gpu_pod a
	soon running_are 1
	for signal in TERM KILL; do
		agent_off $signal
		soon offers 16 0
		running_are $n
		gpu_pod "late-${signal,,}"
		soon waiting_says "$NEVER" "Insufficient $GPU"
		agent_on
		soon offers 16
		soon running_are $((++n))
	done
	nothing_twice
}

@test "the kubelet restarts: pods keep running with their devices, and no other pod gets those" {
	local signal before
	begin < <(config 2)
	soon offers 8
	deployment d 5
	soon running_are 5
	before=$(grants)
	for signal in TERM KILL; do
		kubelet_off $signal
		soon agent_says '.resources[0].state != "registered"'
		offers 8
		running_are 5
		kubelet_on
		soon agent_says '.resources[0].state == "registered"'
		soon offers 8
		running_are 5
		[[ $(grants) == "$before" ]]
	done
	scale d 8
	soon running_are 8
	[[ -z $(comm -23 <(echo "$before") <(grants)) ]]
	nothing_twice
}

@test "the kubelet restarts without the agent: all is 0 until it registers again" {
	begin < <(config 2)
	soon offers 8
	deployment d 3
	soon running_are 3
	agent_off
	soon offers 8 0
	kubelet_off
	kubelet_on
	soon offers 0
	running_are 3
	agent_on
	soon offers 8
	running_are 3
	scale d 8
	soon running_are 8
	nothing_twice
}

@test "a GPU becomes unhealthy: its replicas are not allocatable, pods keep theirs; it recovers" {
	begin < <(config 4)
	soon offers 16
	deployment d 8
	soon running_are 8
	sim_gpu lose 1
	soon offers 16 12
	running_are 8
	# Two slices of the sick GPU are held and count as used: 12 - 8 are left.
	scale d 13
	soon running_are 12 1
	soon waiting_says "$TAKEN" "Insufficient $GPU"
	sim_gpu return 1
	soon offers 16
	soon running_are 13
	nothing_twice
}

@test "the plugin's wish is followed: pods are spread over the GPUs" {
	begin < <(config 4)
	soon offers 16
	deployment d 4
	soon running_are 4
	[[ $(per_gpu) == $'1\n1\n1\n1' ]]
	scale d 8
	soon running_are 8
	[[ $(per_gpu) == $'2\n2\n2\n2' ]]
}

@test "Allocate refuses: the pod has failed with a reason, its Deployment creates others" {
	local text='Allocate failed due to rpc error: code = Unknown desc = .*, which is unexpected'
	begin < <(config 4 'failRequestsGreaterThanOne: true')
	soon offers 16
	gpu_pod two 2
	soon running_are 0 0 1
	pods '.[0].status.reason' | grep -x UnexpectedAdmissionError
	pods '.[0].status.message' | grep -xE "Pod was rejected: $text"
	soon eval 'events | grep -xE "two UnexpectedAdmissionError $text"'
	[[ -z $(grants) ]]
	api delete pod/two
	deployment d 1 2
	soon pods '(map(select(.status.phase == "Failed")) | length) >= 2'
	config 4 | configure
	soon pods 'any(.status.phase == "Running")'
	pods '(map(select(.status.phase == "Running")) | length) == 1'
	[[ $(grants | wc -l) == 2 ]]
}

@test "a pod that was bound while the kubelet was down is refused: the devices are not registered yet" {
	begin < <(config 4)
	soon offers 16
	agent_off
	soon offers 16 0
	agent_on
	soon offers 16
	kubelet_off
	gpu_pod early
	soon pods '.[0].spec.nodeName'
	agent_off
	kubelet_on
	soon running_are 0 0 1
	pods '.[0].status.reason' | grep -x UnexpectedAdmissionError
	pods '.[0].status.message' | grep -x "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices $GPU, which is unexpected"
}

@test "refusals of the API server, and their texts" {
	local at="spec.containers[0].resources"
	begin < <(config 1)
	bad() {
		printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: [{name: main, image: any, resources: %s}]}\n' "$1" |
			refused 'Pod "bad" is invalid:' "$2"
	}
	bad '{limits: {nvidia.com/gpu: 500m}}' "$at.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer"
	bad '{limits: {nvidia.com/gpu: 2.5}}' "$at.limits[nvidia.com/gpu]: Invalid value: \"2500m\": must be an integer"
	bad '{limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}' "$at.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of 2"
	bad '{requests: {nvidia.com/gpu: 1}}' "$at.limits: Required value: Limit must be set for non overcommitable resources"
	bad '{limits: {nvidia.com/gpu: -1}}' "$at.limits[nvidia.com/gpu]: Invalid value: \"-1\": must be greater than or equal to 0"
	bad '{limits: {gpu: 1}}' "$at.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified"
	bad '{limits: {nvidia.com/_gpu: 1}}' "$at.limits[nvidia.com/_gpu]: Invalid value: \"nvidia.com/_gpu\": doesn't follow extended resource name standard"
	printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: [{name: main, image: any, %s}]}\n' "$(limits half)" |
		refused "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)\$'"
	pods 'length == 0'
}

@test "a container's own variable of the same name comes after the plugin's and wins" {
	begin < <(config 4)
	soon offers 16
	pod own "{containers: [{name: main, image: any, env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}], $(limits 1)},
		{name: other, image: any, env: [{name: NVIDIA, value: void}], $(limits 1)}]}"
	soon running_are 1
	[[ $(given own main NVIDIA_VISIBLE_DEVICES) == void ]]
	[[ $(given own other NVIDIA_VISIBLE_DEVICES) == GPU-* ]]
}

@test "two resources on one node are counted apart; the text names what is short" {
	begin < <(config 4 | sed '$a\      devices: [0, 1]\n      rename: nvidia.com/gpu.shared')
	soon offers 2
	soon offers 8 8 $GPU.shared
	deployment whole 2
	deployment slice 8 1 $GPU.shared
	soon running_are 10
	gpu_pod more 1 $GPU.shared
	soon waiting_says "$TAKEN" "Insufficient $GPU.shared"
	api delete pod/more
	pod both "{containers: [{name: main, image: any, resources: {limits: {$GPU.shared: 1, $GPU: 1}}}]}"
	soon waiting_says "$TAKEN" "Insufficient $GPU, 1 Insufficient $GPU.shared"
	[[ $(grants | cut -d ' ' -f 3 | sort | uniq -c | awk '{ print $1, $2 }') == $'2 nvidia.com/gpu\n8 nvidia.com/gpu.shared' ]]
}

@test "an init container's device is used again by a container; each container has its own" {
	begin < <(config 1)
	soon offers 4
	pod p "{initContainers: [{name: first, image: any, command: [\"true\"], $(limits 1)}],
		containers: [{name: a, image: any, $(limits 1)}, {name: b, image: any, $(limits 1)}]}"
	soon running_are 1
	[[ $(grants | cut -d ' ' -f 4 | sort -u | wc -l) == 2 ]]
	[[ $(grants | grep -v ' first ' | cut -d ' ' -f 4 | sort -u | wc -l) == 2 ]]
	[[ $(given p a NVIDIA_VISIBLE_DEVICES) != "$(given p b NVIDIA_VISIBLE_DEVICES)" ]]
	[[ $(given p first NVIDIA_VISIBLE_DEVICES) == "$(given p a NVIDIA_VISIBLE_DEVICES)" ]]
	soon agent_says '.resources[0].used == 2'
	gpu_pod rest 2
	soon running_are 2
	gpu_pod none
	soon waiting_says "$TAKEN" "Insufficient $GPU"
}

@test "taints, tolerations and node selectors: pods that are refused have a reason" {
	begin nvidia.com/gpu=present:NoSchedule < <(config 1)
	soon offers 4
	gpu_pod plain
	soon waiting_says "$NEVER" "node(s) had untolerated taint(s)"
	api delete pod/plain
	pod picky "{tolerations: [{key: nvidia.com/gpu, operator: Exists}], nodeSelector: {example.com/a: b},
		containers: [{name: main, image: any, $(limits 1)}]}"
	soon waiting_says "$NEVER" "node(s) didn't match Pod's node affinity/selector"
	label example.com/a=b
	soon running_are 1
	label example.com/a-
	running_are 1
}

@test "a pod that is deleted gives its device back, but not before its container has ended" {
	begin < <(config 1)
	soon offers 4
	deployment d 3
	pod slow "{terminationGracePeriodSeconds: 12, containers: [{name: main, image: any, $(limits 1),
		command: [bash, -c, \"trap '' TERM; while :; do sleep 1; done\"]}]}"
	soon running_are 4
	gpu_pod next
	soon waiting_says "$TAKEN" "Insufficient $GPU"
	if models ending; then
		api delete pod/slow --wait=false
		sleep 2
		running_are 3 1
		waiting_says "$TAKEN" "Insufficient $GPU"
		[[ $(grants | wc -l) == 4 ]]
	else
		api delete pod/slow
	fi
	soon running_are 4
	nothing_twice
	soon agent_says '.resources[0].used == 4'
}
