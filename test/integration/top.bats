#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice top: on a terminal, as text, and what it does when the agent is away.

bats_require_minimum_version 1.5.0
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup
	export LC_ALL=C.UTF-8 TERM=vt100
	answer mixed
}

teardown() {
	node_teardown
}

# answer KIND: what the agent says from now on (test/support/view-sample.h).
answer() {
	"$GPUSLICE_BUILD/test/support/view-sample-json" "$1" /api/v1/node >"$GPUSLICE_RUN_DIR/answer.new"
	mv "$GPUSLICE_RUN_DIR/answer.new" "$GPUSLICE_RUN_DIR/answer.json"
}

# fake_agent [TOKEN]
fake_agent() {
	rm -f "$GPUSLICE_RUN_DIR/gpusliced.sock"
	start fake python3 "$BATS_TEST_DIRNAME/fake-agent.py" "$GPUSLICE_RUN_DIR" "$@"
	eventually 20 test -S "$GPUSLICE_RUN_DIR/gpusliced.sock"
}

# at_terminal COLUMNSxLINES STEP...
at_terminal() {
	python3 "$BATS_TEST_DIRNAME/pty-screen.py" "$@" -- "$GPUSLICE" top --interval 500ms
}

@test "--once prints the golden screen, without escapes, as wide as COLUMNS" {
	fake_agent
	run -0 "$GPUSLICE" top --once
	[[ $output == "$(<"$BATS_TEST_DIRNAME/../data/top/mixed-120.txt")" ]]
	COLUMNS=200 run -0 "$GPUSLICE" top --once
	[[ $output == "$(<"$BATS_TEST_DIRNAME/../data/top/mixed-200.txt")" ]]
	[[ $output != *$'\e'* ]]
	# where there is no terminal it is the same
	COLUMNS=200 run -0 "$GPUSLICE" top
	[[ $output == "$(<"$BATS_TEST_DIRNAME/../data/top/mixed-200.txt")" ]]
	COLUMNS=140 run -0 "$GPUSLICE" top --once --show slices
	[[ $output == "$(<"$BATS_TEST_DIRNAME/../data/top/mixed-slices.txt")" ]]
}

@test "--json is the answer of the agent, --count is the number of answers" {
	local all
	fake_agent
	"$GPUSLICE" top --json >"$NODE_DIR/json"
	cmp "$NODE_DIR/json" "$GPUSLICE_RUN_DIR/answer.json"
	all=$("$GPUSLICE" top --json --count 3 --interval 500ms | jq -c .seq | wc -l)
	((all == 3))
	run -0 "$GPUSLICE" top --count 2 --interval 500ms
	(($(grep -c '^GPU  NAMESPACE' <<<"$output") == 2))
}

@test "sorting, filter and choice of rows are options as well" {
	local first
	fake_agent
	first=$("$GPUSLICE" top --once --sort memory | sed -n '/NAMESPACE/{n;p}')
	[[ $first == *experiment-*end-* ]]
	run -0 "$GPUSLICE" top --once --filter RESEARCH/pre --hide-idle
	[[ $output == *pretrain-1* && $output != *jupyter* ]]
	run -2 "$GPUSLICE" top --once --sort nonsense
	[[ $output == *"there is no column 'nonsense'"* ]]
	run -2 "$GPUSLICE" top --once --show gpus --sort turns
	[[ $output == *"there is no column 'turns' in the table of gpus"* ]]
	run -2 "$GPUSLICE" top --interval 1ms
	[[ $output == *"expected 500ms to 1h, found 1 ms"* ]]
}

@test "keys choose, sort, filter and scroll; q puts the terminal back" {
	fake_agent
	at_terminal 120x40 see:jupyter-amelie 'see:1-16 of 16 containers' \
		key:g 'see:12 GPUs' 'see:1c.3g.20gb' \
		key:l 'see:slices' see:free key:i 'see:hidden' unsee:free key:i \
		key:p 'see:of 16 containers' key:ssss 'see:by received' key:r 'see:by received reversed' \
		key:/chat 'see:filter: chat_' unsee:jupyter see:chat-0 'key:\n' 'see:filter chat' \
		'key:/zzz' 'see:no containers that match' 'key:\e' see:chat-0 \
		'key:?' 'see:times that it was let onto the GPU' key:x see:chat-0 \
		key:+ 'see:every 1s' \
		key:q end:0
	at_terminal 80x24 'see:1-9 of 16' 'key:\eOB\eOB' 'see:3-11 of 16' 'key:\eOA' 'see:2-10 of 16' key:q end:0
}

@test "the picture follows the agent and the size of the terminal" {
	fake_agent
	export -f answer
	at_terminal 120x40 see:jupyter-amelie 'do:answer one' unsee:jupyter-amelie see:llama-fin \
		'key: ' see:paused 'do:answer mixed' 'key: ' unsee:paused see:jupyter-amelie \
		size:40x10 'see:1-6 of 16' see:ccccc size:100x30 see:NAMESPACE key:q end:0
}

@test "Ctrl-C and signals put the terminal back" {
	fake_agent
	at_terminal 80x24 see:jupyter $'key:\003' end:0
	at_terminal 80x24 see:jupyter signal:TERM end:143
}

@test "a lost agent is shown with its date, its figures stay, and the requests continue" {
	fake_agent
	at_terminal 200x30 see:jupyter \
		"do:touch $GPUSLICE_RUN_DIR/away" 'see:STALE since' see:jupyter \
		"do:rm $GPUSLICE_RUN_DIR/away" unsee:STALE see:jupyter \
		"do:echo 503 >$GPUSLICE_RUN_DIR/answer.status" 'see:with status 503: not [2J now' \
		"do:rm $GPUSLICE_RUN_DIR/answer.status" unsee:STALE \
		"do:echo '{\"gpus\":1}' >$GPUSLICE_RUN_DIR/answer.json" 'see:gpus: expected a list' see:jupyter \
		key:q end:0
}

@test "without an agent the screen waits for one, and --once reports that" {
	at_terminal 80x24 'see:NO ANSWER since' 'key:g' key:q end:0
	run "$GPUSLICE" top --once
	((status != 0))
	[[ $output == "gpuslice top: no agent answers; is gpusliced running, with this --run-dir?: connect to "* ]]
}

@test "--url asks the web server, with the token of a file" {
	local url
	fake_agent s3cret
	eventually 20 test -s "$GPUSLICE_RUN_DIR/port"
	url=http://127.0.0.1:$(<"$GPUSLICE_RUN_DIR/port")
	run "$GPUSLICE" top --once --url "$url"
	((status != 0))
	[[ $output == *"status 401: a bearer token is wanted" ]]
	printf 's3cret\n' >"$NODE_DIR/token"
	run -0 "$GPUSLICE" top --once --url "$url/" --token-file "$NODE_DIR/token"
	[[ $output == *jupyter-amelie* ]]
	: >"$NODE_DIR/token"
	run -2 "$GPUSLICE" top --once --url "$url" --token-file "$NODE_DIR/token"
	[[ $output == *"is empty" ]]
	run -2 "$GPUSLICE" top --once --token-file "$NODE_DIR/token"
	run -2 "$GPUSLICE" top --once --url ftp://x
	[[ $output == *"expected http://HOST:PORT or https://HOST:PORT"* ]]
}

@test "colours only where the terminal has them and NO_COLOR is not set" {
	fake_agent
	unset NO_COLOR
	TERM=xterm-256color at_terminal 120x40 'raw:healthy' 'raw:\e[31m' key:q end:0
	TERM=vt100 at_terminal 120x40 see:healthy 'noraw:\e[31m' key:q end:0
	export NO_COLOR=1
	TERM=xterm-256color at_terminal 120x40 'raw:healthy' 'noraw:\e[31m' key:q end:0
	TERM=no-such-terminal run -1 python3 "$BATS_TEST_DIRNAME/pty-screen.py" 80x24 "see:terminal 'no-such-terminal' is not known" end:0 -- "$GPUSLICE" top
}
