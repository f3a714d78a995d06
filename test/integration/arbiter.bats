#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The arbiter as a program: what it says, how it starts, restarts and ends, and that it stays small.
# How it treats processes is in test/unit/node/arbiter, with the kills.

bats_require_minimum_version 1.5.0
load lib

ID=0123456789abcdef0123456789abcdef
UUID=GPU-00112233-4455-6677-8899-aabbccddeeff

setup_file() {
	stage_programs
	export ARBITER=$STAGE/libexec/gpuslice/gpuslice-arbiter
}

setup() {
	node_setup
	SLICES=$NODE_DIR/state # of the arbiter
	mkdir -p "$SLICES/slices"
}

teardown() {
	node_teardown
}

# slice ID MEMORY: as the agent writes it.
slice() {
	mkdir -p "$SLICES/slices/$1"
	printf '{"version": 1, "id": "%s", "resource": "nvidia.com/gpu", "devices": ["%s::0"], "gpus": [{"uuid": "%s", "memory": %s}]}' \
		"$1" "$UUID" "$UUID" "$2" >"$SLICES/slices/$1/.new"
	mv "$SLICES/slices/$1/.new" "$SLICES/slices/$1/slice.json"
}

arbiter() {
	start arbiter "$ARBITER" --state-dir "$SLICES" --run-dir "$GPUSLICE_RUN_DIR"
	eventually 10 ask '{"op": "status"}' || {
		show_log arbiter
		return 1
	}
}

# ask LINE: sends it to the control socket and prints the answer.
ask() {
	python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode() + b"\n")
b = b""
while not b.endswith(b"\n"):
    part = s.recv(65536)
    if not part:
        sys.exit(1)
    b += part
print(b.decode(), end="")' "$GPUSLICE_RUN_DIR/arbiter.sock" "$1"
}

# is JQ: true of the status.
is() {
	ask '{"op": "status"}' | jq -e "$1"
}

@test "help, version and wrong options" {
	run -0 "$ARBITER" --help
	[[ $output == *--state-dir* && $output == *--run-dir* && $output == *--procfs* ]]
	run -0 "$ARBITER" --version
	[[ $output == gpuslice-arbiter* ]]
	run -1 "$ARBITER" --nonsense
	[[ $output == *nonsense* ]]
	run -1 "$ARBITER" more
	[[ $output == *"unexpected argument 'more'"* ]]
}

@test "slices come, change and go while it runs" {
	slice "$ID" 4294967296
	arbiter
	is ".slices | length == 1 and .[0].gpus[0].limit == 4294967296"
	[[ -S $SLICES/slices/$ID/socket && $(stat -c %a "$SLICES/slices/$ID/socket") == 666 ]]
	[[ $(stat -c %a "$GPUSLICE_RUN_DIR/arbiter.sock") == 600 ]]
	slice "$ID" 1073741824
	eventually 10 is '.slices[0].gpus[0].limit == 1073741824'
	slice fedcba98765432100123456789abcdef 1
	eventually 10 is '.slices | length == 2'
	rm -r "$SLICES/slices/fedcba98765432100123456789abcdef"
	eventually 15 is '.slices | length == 1'
}

@test "a wrong file keeps the old one, and its error names file and key" {
	slice "$ID" 4294967296
	arbiter
	slice "$ID" '"much"'
	eventually 10 is '.slices[0].error | test("slice.json: gpus\\[0\\].memory: expected bytes")'
	is '.slices[0].gpus[0].limit == 4294967296'
	grep 'slice refused, keeping what was in force' "$NODE_DIR/arbiter.log"
	slice "$ID" 5
	eventually 10 is '.slices[0].error == null and .slices[0].gpus[0].limit == 5'
}

@test "files that are no slices are left alone" {
	mkdir "$SLICES/slices/notes"
	printf x >"$SLICES/slices/file"
	slice "$ID" 4294967296
	arbiter
	is '.slices | length == 1'
	[[ ! -e $SLICES/slices/notes/socket ]]
}

@test "a deleted socket is served again" {
	slice "$ID" 4294967296
	arbiter
	rm "$SLICES/slices/$ID/socket"
	eventually 15 test -S "$SLICES/slices/$ID/socket"
}

@test "a long path of the state directory does no harm" {
	# shellcheck disable=SC2030 # of this test only
	SLICES=$NODE_DIR/$(printf 'd%.0s' {1..200})
	slice "$ID" 4294967296
	arbiter
	[[ -S $SLICES/slices/$ID/socket ]]
}

@test "kill -9 and start again; SIGTERM ends it cleanly; a second one is refused" {
	slice "$ID" 4294967296
	arbiter
	# shellcheck disable=SC2031
	run -1 "$ARBITER" --state-dir "$SLICES" --run-dir "$GPUSLICE_RUN_DIR"
	[[ $output == *"another arbiter has this directory"* ]]
	stop arbiter KILL || true
	arbiter
	is '.slices | length == 1'
	stop arbiter
	run ! grep -E '^[^ ]* (error|warn) ' "$NODE_DIR/arbiter.log"
}

# turns ID: a slice that takes turns, with the weight WEIGHT or 1.
turns() {
	mkdir -p "$SLICES/slices/$1"
	printf '{"version": 1, "id": "%s", "resource": "nvidia.com/gpu", "gpus": [{"uuid": "%s", "weight": %s}], "compute": "turns", "class": "batch"}' \
		"$1" "$UUID" "${WEIGHT:-1}" >"$SLICES/slices/$1/.new"
	mv "$SLICES/slices/$1/.new" "$SLICES/slices/$1/slice.json"
}

# tenant ID: a process of the slice with quanta. The process reports each line of its input, "BUSY WANTS", and with
# "+N" counts N launches; "again" registers again with its page.
tenant() {
	python3 -c '
import array, mmap, os, socket, struct, sys, time
path = sys.argv[1]
page = fd = None
def hello():
    global page, fd
    for _ in range(2000):
        try:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.connect(path)
            body = struct.pack("<6I32s", 1, 1, 1, 4 | (2 if page else 0), os.getpid(), 0, b"tenant")
            with_fd = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if page else []
            s.sendmsg([body], with_fd)
            data, anc, _, _ = s.recvmsg(4096, socket.CMSG_SPACE(4))
            if data:
                break
        except OSError:
            pass
        time.sleep(0.01)
    status = struct.unpack("<4I", data[:16])[3]
    if anc:
        fd = struct.unpack("i", anc[0][2][:4])[0]
        page = mmap.mmap(fd, 8192)
    print("status", status, flush=True)
    return s
s = hello()
for line in sys.stdin:
    if line.startswith("again"):
        s = hello()
    elif line.startswith("+"):
        n, = struct.unpack_from("<Q", page, 64 + 128)
        struct.pack_into("<Q", page, 64 + 128, n + int(line))
    else:
        busy, wants = map(int, line.split())
        gate, = struct.unpack_from("<I", page, 64)
        s.send(struct.pack("<6IQ", 9, 0, 0, gate >> 8, busy, wants, 0))
    print("done", flush=True)' "$SLICES/slices/$1/socket"
}

@test "usage accounts survive kill -9, and a process registers again with its page" {
	turns "$ID"
	arbiter
	mkfifo "$NODE_DIR/in"
	tenant "$ID" <"$NODE_DIR/in" >"$NODE_DIR/out" 3>&- &
	PID["tenant"]=$!
	exec 7>"$NODE_DIR/in"
	eventually 10 grep -q 'status 0' "$NODE_DIR/out"
	echo '0 1' >&7
	echo '+5' >&7
	eventually 10 is '.slices[0].gpus[0] | .turn and .launches == 5 and .charged_ns > 0 and .weight == 1'
	WEIGHT=7 turns "$ID"
	eventually 10 is '.slices[0].gpus[0].weight == 7'
	charged=$(ask '{"op": "status"}' | jq '.slices[0].gpus[0].charged_ns')
	stop arbiter KILL || true
	echo '+5' >&7
	arbiter 7>&- # or the end of the tenant's input would not be seen
	is ".slices[0].gpus[0] | .launches == 5 and .charged_ns >= $charged and .turns == 1"
	is ".gpus[0].busy_ns >= $charged"
	echo again >&7
	eventually 10 is '.slices[0].gpus[0].launches == 10'
	[[ $(grep -c 'status 0' "$NODE_DIR/out") == 2 ]]
	exec 7>&-
	wait "${PID["tenant"]}"
	unset "PID[tenant]"
	eventually 10 is '.slices[0].processes == []'
	is ".slices[0].gpus[0] | .launches == 10 and .charged_ns >= $charged"
}

@test "work that does not end loses the quantum, and is logged once when it begins and ends" {
	local other=fedcba98765432100123456789abcdef
	turns "$ID"
	turns "$other"
	arbiter
	mkfifo "$NODE_DIR/in" "$NODE_DIR/in2"
	tenant "$ID" <"$NODE_DIR/in" >"$NODE_DIR/out" 3>&- &
	PID["tenant"]=$!
	tenant "$other" <"$NODE_DIR/in2" >"$NODE_DIR/out2" 3>&- &
	PID["other"]=$!
	exec 7>"$NODE_DIR/in" 8>"$NODE_DIR/in2"
	eventually 10 grep -q 'status 0' "$NODE_DIR/out"
	eventually 10 grep -q 'status 0' "$NODE_DIR/out2"
	echo '0 1' >&7
	eventually 10 is ".slices[] | select(.id == \"$ID\").gpus[0].turn"
	echo '0 1' >&8
	eventually 10 is ".slices[] | select(.id == \"$other\").gpus[0].turn"
	is "[.slices[].gpus[0].stuck] == [false, false]"
	eventually 20 is ".slices[] | select(.id == \"$ID\").gpus[0].stuck"
	is ".slices[] | select(.id == \"$other\").gpus[0] | .turn and (.stuck | not)"
	[[ $(grep -c 'does not end' "$NODE_DIR/arbiter.log") == 1 ]]
	echo '0 0' >&7
	eventually 10 is "[.slices[].gpus[0].stuck] == [false, false]"
	eventually 10 grep -q 'work on a GPU that did not end is over' "$NODE_DIR/arbiter.log"
	exec 7>&- 8>&-
	wait "${PID["tenant"]}" "${PID["other"]}"
	unset "PID[tenant]" "PID[other]"
}

@test "it is small and idle" {
	local i before after
	for ((i = 0; i < 200; i++)); do
		slice "$(printf '%032x' "$i")" 1073741824
	done
	arbiter
	is '.slices | length == 200'
	(($(awk '/^RssAnon/ {print $2}' "/proc/${PID[arbiter]}/status") < 4096)) ||
		[[ ${GPUSLICE_PATIENCE:-1} != 1 ]] # a sanitizer's build is larger
	before=$(awk '{print $14 + $15}' "/proc/${PID[arbiter]}/stat")
	sleep 3
	after=$(awk '{print $14 + $15}' "/proc/${PID[arbiter]}/stat")
	((after - before <= 3)) # hundredths of a second
}
