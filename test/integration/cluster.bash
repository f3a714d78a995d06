# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for tests that have an agent and the stand-in kubelet on one node. Load it after lib.

FIXTURES=$BATS_TEST_DIRNAME/../data/fixtures
GPU=nvidia.com/gpu
DEPLOYMENT=tensorflow-cifar10-deployment # of cifar10-train-deploy.yaml

# The stand-in's client, which speaks as kubectl does.
k() {
	"$GPUSLICE" kubelet "$@"
}

sim() {
	"$GPUSLICE" sim "$@"
}

# sharing REPLICAS [LINE...]: a config; lines are added to timeSlicing. A GPU that was unhealthy may
# come back a little after $COOLDOWN seconds, long enough for a test to see that it was.
COOLDOWN=$((1 + ${GPUSLICE_PATIENCE:-1}))

sharing() {
	local replicas=$1 wait=${COOLDOWN}s
	shift
	cat <<-EOF
		version: v1
		health: {cooldown: $wait, resetCooldown: $wait, maxCooldown: $wait, probes: 2, probeInterval: 200ms}
		sharing:
		  timeSlicing:
	EOF
	((!$#)) || printf '    %s\n' "$@"
	cat <<-EOF
		    resources:
		    - name: nvidia.com/gpu
		      replicas: $replicas
	EOF
}

# put FILE: replaces it by standard input in one step.
put() {
	cat >"$1.new" && mv -T "$1.new" "$1"
}

# rewrite FILE: puts standard input into the file itself, by one write. A loaded machine may take long
# between two, and the agent would read the first half.
rewrite() {
	local text
	text=$(cat)
	printf '%s\n' "$text" >"$1"
}

# rewrite_slowly FILE: the config of standard input, so that its first line is there alone for a moment.
# Nothing is started in between that could make the moment a long one.
rewrite_slowly() {
	local first rest moment
	IFS= read -r first
	rest=$(cat)
	exec {moment}<> <(:)
	{
		printf '%s\n' "$first"
		read -rt 0.05 -u "$moment" || true
		printf '%s\n' "$rest"
	} >"$1"
	exec {moment}>&-
}

# node_up REPLICAS [OPTION...]: kubelet and agent with a config file in $CONFIG, both in touch.
node_up() {
	local replicas=$1 gpus
	shift
	CONFIG=$NODE_DIR/config.yaml
	sharing "$replicas" >"$CONFIG"
	gpus=$(sim show --json | jq '.gpus | length') || return 1
	kubelet && agent --config-file "$CONFIG" "$@" || return 1
	eventually 20 offers $((gpus * replicas))
}

# offers DEVICES [HEALTHY [RESOURCE]]: this is what the kubelet would tell the API server now.
offers() {
	k get resources -o json | jq -e --arg r "${3-$GPU}" --argjson c "$1" --argjson a "${2-$1}" \
		'[.items[] | select(.name == $r) | .capacity, .allocatable] == [$c, $a]'
}

# pods RUNNING [PENDING [FAILED]]
pods() {
	k get pods -o json | jq -e --argjson want "[$1, ${2-0}, ${3-0}]" \
		'[.items[].status.phase] as $p
		 | [["Running", "Pending", "Failed"][] as $x | [$p[] | select(. == $x)] | length] as $n
		 | if $n == $want then true else error("running, pending, failed: \($n)") end'
}

scale() {
	k scale "deployment/${2-$DEPLOYMENT}" -n "${3-gpu-demo}" --replicas "$1"
}

# held: "uid id id..." of each running pod, sorted.
held() {
	k get pods -o json | jq -r '.items[] | select(.status.phase == "Running")
		| "\(.metadata.uid) \([.gpuslice.grants[].ids[]] | sort | join(" "))"' | sort
}

# No device is with two running pods.
nothing_twice() {
	local twice
	twice=$(held | cut -d ' ' -f 2- | tr ' ' '\n' | sort | uniq -d)
	[[ -z $twice ]] || {
		echo "held twice: $twice"
		return 1
	}
}

# message_counts [RESOURCE]: how many healthy devices each ListAndWatch message had, over all logs.
message_counts() {
	sed -n "s|.*device list resource=${1-$GPU} devices=[0-9]* healthy=||p" \
		"$NODE_DIR"/kubelet*.log
}

# told HEALTHY [RESOURCE]: a message said that so many devices are healthy.
told() {
	message_counts "${2-$GPU}" | grep -x "$1"
}

# never_below N [RESOURCE]: no message had fewer healthy devices.
never_below() {
	local count seen=0
	for count in $(message_counts "${2-$GPU}"); do
		seen=1
		((count >= $1)) || {
			echo "a message had $count healthy devices: $(message_counts "${2-$GPU}" | tr '\n' ' ')"
			return 1
		}
	done
	((seen))
}

# times NAME PATTERN: how many lines of its log match.
times() {
	grep -cE -- "$2" "$NODE_DIR/$1.log" || true
}

# health_is GPU STATE [PATTERN]: the agent's word on it, and the reason.
health_is() {
	status ".gpus[] | select(.index == $1) | [.health, .reason] | @tsv" | grep -E "^$2	.*${3-}"
}

# The NVML workers of this test.
workers() {
	leftovers | grep '[ /]*gpuslice-nvm[l]' | cut -d ' ' -f 1
}

workers_are() {
	[[ $(workers | wc -l) == "$1" ]] || {
		leftovers
		return 1
	}
}

# tidy: what is in the directories is what belongs to the programs that run, and no more.
tidy() {
	local -a plugins run
	plugins=("$GPUSLICE_KUBELET_DIR"/device-plugins/.[!.]* "$GPUSLICE_KUBELET_DIR"/device-plugins/*.sock)
	run=("$GPUSLICE_RUN_DIR"/.[!.]* "$GPUSLICE_RUN_DIR"/*)
	diff <(printf '%s\n' "${plugins[@]##*/}" "${run[@]##*/}" | grep -v '^\.\[' | sort) \
		<(printf '%s\n' kubelet.sock nvidia-gpu.sock gpusliced.lock gpusliced.sock | sort)
}

# fake_api: an API server whose objects are the files of $API.
fake_api() {
	API=$NODE_DIR/api
	mkdir "$API"
	start api python3 "$BATS_TEST_DIRNAME/fake-api.py" "$API"
	eventually 10 test -s "$API/port"
	cat >"$NODE_DIR/kubeconfig" <<-EOF
		apiVersion: v1
		kind: Config
		current-context: c
		clusters: [{name: c, cluster: {server: "http://127.0.0.1:$(<"$API/port")"}}]
		users: [{name: u, user: {}}]
		contexts: [{name: c, context: {cluster: c, user: u}}]
	EOF
	export KUBECONFIG=$NODE_DIR/kubeconfig NODE_NAME=node-1
}

# said REASON PART: an Event of that reason has a message with the part.
said() {
	jq -se --arg r "$1" --arg m "$2" 'any(.[]; .reason == $r and (.message | contains($m)))' "$API/events" >/dev/null
}

# degraded NAME [REASON]: the component is, for a reason that matches.
degraded() {
	"$GPUSLICE" status --json | jq -e --arg n "$1" --arg r "${2-.}" \
		'.components[] | select(.name == $n and .degraded) | .reason | test($r)'
}

nothing_degraded() {
	"$GPUSLICE" status --json | jq -e '[.components[] | select(.degraded)] | length == 0'
}
