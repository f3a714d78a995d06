#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The arbiter as a program: what it says, how it starts, restarts and ends, and that it stays small.
# How it treats processes is in test/unit/arbiter, with the kills.

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

@test "what is no slice is left alone" {
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
