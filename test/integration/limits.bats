#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# At the limits and one beyond: many GPUs, many slices, long paths, peers that talk nonsense.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
}

teardown() {
	node_teardown
}

# gpus N: a node file with N GPUs on two NUMA nodes.
gpus() {
	local i
	printf 'version: v1\nproduct: V100-SXM2-16GB\ncount: %d\ngpus:\n' "$1"
	for ((i = 0; i < $1; i++)); do
		printf -- '- {index: %d, numa_node: %d}\n' "$i" $((i % 2))
	done
}

@test "256 GPUs with 156 slices each work; one slice more on each is refused" {
	gpus 256 >"$NODE_DIR/big.yaml"
	export GPUSLICE_SIM_NODE=$NODE_DIR/big.yaml
	node_up 156 --sysfs "$GPUSLICE_SIM_DIR/sys"
	offers 39936
	k get resources -o json | jq -e '[.items[0].devices[].numaNode] | unique == [0, 1]'
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	scale 60
	eventually 60 pods 60
	nothing_twice
	[[ $(held | cut -d ' ' -f 2 | sed 's/::.*//' | sort -u | wc -l) == 60 ]] # distributed
	sim xid 200 48
	eventually 10 told 39780
	eventually 15 offers 39936
	sharing 157 | put "$CONFIG"
	eventually 10 status '.config.lastError.message | contains("40192") and contains("40000")'
	"$GPUSLICE" status | grep -E "^$GPU .* 39936 "
	never_below 39780
}

@test "one GPU with 40000 slices works, 40001 are refused at their place in the file" {
	node_setup p3.2xlarge
	node_up 40000
	sharing 40001 | put "$CONFIG"
	eventually 10 status '.config.lastError.message | test("config.yaml:[0-9]+:17: .*<= 40000.*found 40001")'
	offers 40000
	run "$GPUSLICE" config check "$CONFIG"
	((status == 5))
}

@test "directories whose sockets have too long a path are refused with the limit" {
	local long
	long=$NODE_DIR/with-$(printf 'x%.0s' {1..100})
	run timeout 20 "$GPUSLICED" --kubelet-dir "$long"
	((status == 1))
	[[ $output == *"--kubelet-dir"*"$long/device-plugins/kubelet.sock"*107* ]]
	# Nobody reaches its status then, and the devices are there all the same.
	start agent "$GPUSLICED" --run-dir "$long"
	eventually 20 logged agent "component degraded.*status-socket.*$long/gpusliced.sock.*107"
	stop agent
	run "$GPUSLICE" status --run-dir "$long"
	((status != 0))
	[[ $output == *"$long/gpusliced.sock"*107* ]]
	run timeout 20 "$GPUSLICE" kubelet --kubelet-dir "$long"
	((status != 0))
	[[ $output == *107* ]]
}

@test "a resource whose socket has too long a path is reported, the other resources serve" {
	local fill name
	fill=$((107 - ${#NODE_DIR} - 50))
	((fill > 0)) || skip "the directory for tests has too long a name itself"
	GPUSLICE_KUBELET_DIR=$NODE_DIR/$(printf "%0${fill}d" 0)
	name=$(printf 'x%.0s' {1..50})
	kubelet
	printf 'version: v1\nresources:\n  gpus:\n  - {pattern: "*A100*", name: gpu}\n  - {pattern: "*", name: %s}\n' \
		"$name" >"$NODE_DIR/config.yaml"
	sim create
	sim add A100-SXM4-40GB
	agent --config-file "$NODE_DIR/config.yaml"
	eventually 10 offers 1
	status ".resources[] | select(.name == \"nvidia.com/$name\") | .state == \"waiting\" and (.reason | contains(\"107\"))"
}

# server COMMAND: answers every connection to the agent's socket with the command's output.
server() {
	start server python3 -c '
import socket, subprocess, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(8)
while True:
    c, _ = s.accept()
    p = subprocess.Popen(sys.argv[2], shell=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        c.settimeout(1)
        c.recv(65536)
        while data := p.stdout.read(65536):
            c.sendall(data)
    except OSError:
        pass
    p.kill()
    p.wait()
    c.close()
' "$GPUSLICE_RUN_DIR/gpusliced.sock" "$1"
	eventually 10 test -S "$GPUSLICE_RUN_DIR/gpusliced.sock"
}

@test "the status command refuses answers that are none" {
	local case head='printf "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"'
	for case in 'head -c 3000 /dev/urandom' 'true' 'echo hello' \
		"$head; head -c 3000 /dev/urandom" "$head; echo '{'" "$head; echo '[1, 2]'" "$head; echo '{}'" \
		"$head; echo '{\"gpus\": 3, \"resources\": {\"a\": []}, \"config\": 7}'" \
		"$head; exec cat /dev/zero" "printf 'HTTP/1.1 500 Oops\r\n\r\nno'" \
		"printf 'HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{'"; do
		server "$case"
		run timeout 30 "$GPUSLICE" status
		((status > 0 && status < 124)) || {
			echo "$case: status $status: $output"
			return 1
		}
		[[ $output == 'gpuslice status: '* && ${#output} -lt 600 ]] || {
			echo "$case: $output"
			return 1
		}
		stop server || true
		rm "$GPUSLICE_RUN_DIR/gpusliced.sock"
	done
}

@test "few descriptors: more are taken where that is allowed, else a word and the end; none left on the way" {
	local status=0
	(ulimit -Sn 20 && exec "$GPUSLICED") >"$NODE_DIR/soft.log" 2>&1 &
	PID["soft"]=$!
	eventually 20 test -S "$GPUSLICE_RUN_DIR/gpusliced.sock"
	(($(awk '/open files/ { print $4 }' "/proc/${PID["soft"]}/limits") > 20))
	stop soft
	(ulimit -n 20 && exec "$GPUSLICED") >"$NODE_DIR/hard.log" 2>&1 || status=$?
	((status == 1))
	grep 'at least 48 file descriptors must be free; RLIMIT_NOFILE (ulimit -n) is 20' "$NODE_DIR/hard.log"
	# The kubelet comes again and again while there are none to spare.
	node_up 2
	prlimit --pid "${PID[agent]}" --nofile="$(open_descriptors):$(ulimit -Hn)"
	stop kubelet
	kubelet
	eventually 20 logged agent 'not registered with the kubelet, trying again'
	running agent
	prlimit --pid "${PID[agent]}" --nofile="$(ulimit -Hn):$(ulimit -Hn)"
	eventually 40 offers 8 8
}

open_descriptors() {
	find "/proc/${PID[agent]}/fd" -mindepth 1 | wc -l
}
