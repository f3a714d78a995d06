#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Named configs in a directory, as the kubelet mounts a ConfigMap, without an API server: the
# default and the fallbacks choose. What is offered follows the chosen config alone.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	CONFIGS=$NODE_DIR/configs
}

teardown() {
	node_teardown
}

# volume NAME=REPLICAS...: makes $CONFIGS the volume of a ConfigMap with these configs, or swaps its
# content, as the kubelet does: links to files of a directory that one rename replaces.
volume() {
	local pair new
	mkdir -p "$CONFIGS"
	new=$(mktemp -d "$CONFIGS/..2026_XXXXXX")
	chmod 755 "$new"
	for pair; do
		sharing "${pair#*=}" >"$new/${pair%%=*}"
	done
	data "$new"
}

# data DIR: the kubelet's steps from there.
data() {
	local name old
	old=$(readlink "$CONFIGS/..data" || true)
	ln -s "${1##*/}" "$CONFIGS/..data_tmp"
	mv -T "$CONFIGS/..data_tmp" "$CONFIGS/..data"
	for name in "$1"/*; do
		[[ -L $CONFIGS/${name##*/} ]] || ln -s "..data/${name##*/}" "$CONFIGS/${name##*/}"
	done
	for name in "$CONFIGS"/*; do
		[[ -e $name ]] || rm "$name"
	done
	[[ -z $old ]] || rm -r "${CONFIGS:?}/$old"
}

chosen() {
	status ".config | .entry == \"$1\" and .chosenBy == \"$2\" and .lastError == null"
}

refused_with() {
	status '.config.lastError.message' | grep -E -- "$1"
}

@test "the default is used, and its new content; other configs are not read" {
	volume a=2 b=3
	kubelet
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 8
	chosen a default
	volume a=2 b=5
	volume a=4 b=5
	eventually 10 offers 16
	status '.config.generation == 2'
	volume a=4 b=6 c=7
	kill -HUP "${PID[agent]}"
	eventually 10 logged agent 'config read again: no change'
	offers 16
	status '.config.generation == 2'
	[[ $(times agent 'config refused') == 0 ]]
	never_below 8
}

@test "the fallbacks are the config named default, then the only one" {
	volume only=2
	kubelet
	agent --config-dir "$CONFIGS"
	eventually 20 offers 8
	chosen only 'fallback single'
	volume only=2 default=3
	eventually 10 offers 12
	chosen default 'fallback named'
	volume default=3 other=4 # no swap of what is in force
	eventually 10 chosen default 'fallback named'
	volume other=5
	eventually 10 offers 20
	chosen other 'fallback single'
	never_below 8
}

@test "the fallback empty offers whole GPUs" {
	volume a=2 b=3
	kubelet
	FALLBACK_STRATEGIES=named,empty agent --config-dir "$CONFIGS"
	eventually 20 offers 4
	chosen "" 'fallback empty'
}

@test "a directory that comes late is waited for, with nothing offered" {
	kubelet
	agent --config-dir "$CONFIGS" --default-config a
	eventually 10 refused_with '^error getting list of configuration files: open .*No such file'
	eventually 10 status '(.gpus | length) == 4'
	status '(.resources | length) == 0 and .config.decided == false'
	run "$GPUSLICE" status
	[[ $output == *"nothing is offered"* ]]
	# At once: while it is empty that is another error.
	CONFIGS=$CONFIGS.new volume a=2
	mv "$CONFIGS.new" "$CONFIGS"
	eventually 10 offers 8
	chosen a default
	[[ $(times agent 'config refused') == 1 ]]
}

@test "an invalid config keeps the active one, and is logged once" {
	volume a=2 b=3
	kubelet
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 8
	volume b=3
	eventually 10 refused_with '^specified config a does not exist \(from the default\); there are b$'
	volume
	eventually 10 refused_with '^no configuration files available$'
	mv "$CONFIGS" "$CONFIGS.away"
	eventually 15 refused_with '^error getting list of configuration files'
	mv "$CONFIGS.away" "$CONFIGS"
	eventually 15 refused_with '^no configuration files available$'
	mkdir "$CONFIGS/..2026_bad" && echo 'version: v2' >"$CONFIGS/..2026_bad/a"
	data "$CONFIGS/..2026_bad"
	eventually 10 refused_with "^$CONFIGS/a:1:10: version: unknown version: v2"
	offers 8
	status '.config.generation == 1'
	volume a=2
	eventually 10 chosen a default
	volume a=4
	eventually 10 offers 16
	[[ $(times agent 'config refused') == 5 ]]
	[[ $(times agent 'config is good again') == 1 ]]
	never_below 8
}

@test "files that are edited in place are read when they are whole" {
	mkdir "$CONFIGS"
	sharing 10 >"$CONFIGS/a"
	mkdir "$CONFIGS/folder"
	kubelet
	agent --config-dir "$CONFIGS/"
	eventually 20 offers 40
	chosen a 'fallback single'
	# The first line of the text is a good config by itself, with four devices.
	sharing 20 | rewrite_slowly "$CONFIGS/a"
	eventually 10 offers 80
	status '.config.generation == 2'
	: >"$CONFIGS/a"
	eventually 10 refused_with "'$CONFIGS/a' is empty"
	offers 80
	never_below 40
}

@test "a file with a writer that never stops is read all the same" {
	mkdir "$CONFIGS"
	sharing 10 >"$CONFIGS/a"
	kubelet
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 40
	start writer bash -c 'while echo x >"$1"; do sleep 0.1; done' - "$CONFIGS/noise"
	sharing 20 | put "$CONFIGS/a"
	eventually 5 offers 80
	stop writer KILL || true
}

@test "CONFIG_FILE of a chart yields to its directory, options exclude each other" {
	volume a=2
	kubelet
	CONFIG_FILE=/config/config.yaml CONFIG_FILE_SRCDIR=$CONFIGS DEFAULT_CONFIG=a agent
	eventually 20 offers 8
	logged agent 'CONFIG_FILE is not used, since CONFIG_FILE_SRCDIR is given'
	stop agent
	run "$GPUSLICED" --config-dir "$CONFIGS" --config-file /config/config.yaml
	((status == 1))
	[[ $output == *"--config-dir and --config-file: only one can be given"* ]]
	run "$GPUSLICED" --config-dir "$CONFIGS" --fallback-strategies single,first
	((status == 1))
	[[ $output == *"unknown fallback strategy: first"* ]]
}

@test "with the fallback empty whole GPUs are offered until there are entries, and not again after" {
	volume
	kubelet
	agent --config-dir "$CONFIGS" --fallback-strategies named,single,empty
	eventually 10 offers 4
	chosen '' 'fallback empty'
	stop agent
	agent --config-dir "$CONFIGS" --fallback-strategies named,single,empty
	eventually 10 offers 4
	status '.config.lastError == null'
	volume a=2
	eventually 10 offers 8
	volume
	eventually 10 refused_with '^no configuration files available$'
	offers 8
}

@test "without an API server, too, the last valid config is in force where the directory has none" {
	volume a=2
	kubelet
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 8
	for text in '' 'version: v2'; do
		stop agent
		echo "$text" >"$NODE_DIR/text"
		mkdir "$CONFIGS/..bad" && cp "$NODE_DIR/text" "$CONFIGS/..bad/a"
		data "$CONFIGS/..bad"
		agent --config-dir "$CONFIGS" --default-config a
		eventually 20 offers 8
		status '.config.lastError.message | test("is empty|unknown version")'
		volume a=2
		eventually 10 status '.config.lastError == null'
	done
	stop agent
	rm -r "$CONFIGS"
	agent --config-dir "$CONFIGS" --default-config a
	eventually 20 offers 8
	status '.config.lastError.message | test("No such file")'
	# What was chosen by then does not outlast a choice.
	volume b=3
	stop agent
	agent --config-dir "$CONFIGS" --default-config b
	eventually 20 offers 12
}
