#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The config file changes under a running agent, in every way that files change. What is offered
# follows, never dips, and a bad file changes nothing.

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

@test "edited in place, renamed over, linked elsewhere, removed and back" {
	node_up 2
	sharing 4 | rewrite "$CONFIG"
	eventually 10 offers 16
	sharing 5 | put "$CONFIG"
	eventually 10 offers 20
	mkdir "$NODE_DIR/a" "$NODE_DIR/b"
	sharing 6 >"$NODE_DIR/a/config.yaml"
	sharing 7 >"$NODE_DIR/b/config.yaml"
	ln -s a/config.yaml "$CONFIG.new" && mv -T "$CONFIG.new" "$CONFIG"
	eventually 10 offers 24
	sharing 3 | rewrite "$NODE_DIR/a/config.yaml" # what the link leads to
	eventually 10 offers 12
	ln -s b/config.yaml "$CONFIG.new" && mv -T "$CONFIG.new" "$CONFIG"
	eventually 10 offers 28
	rm "$CONFIG"
	eventually 10 status '.config.lastError.message | contains("No such file")'
	offers 28
	sharing 8 >"$NODE_DIR/c.yaml" && mv "$NODE_DIR/c.yaml" "$CONFIG"
	eventually 10 offers 32
	status '.config | .lastError == null and .generation == 7'
	[[ $(times agent 'config refused') == 1 ]] # the missing file
	never_below 8
}

@test "the file's directory is moved away, and another takes its place" {
	mkdir "$NODE_DIR/etc" "$NODE_DIR/etc.new"
	sharing 2 >"$NODE_DIR/etc/config.yaml"
	sharing 3 >"$NODE_DIR/etc.new/config.yaml"
	kubelet
	agent --config-file "$NODE_DIR/etc/config.yaml"
	eventually 20 offers 8
	mv "$NODE_DIR/etc" "$NODE_DIR/etc.old" && mv "$NODE_DIR/etc.new" "$NODE_DIR/etc"
	eventually 5 offers 12
	sharing 4 | rewrite "$NODE_DIR/etc/config.yaml" # seen in the new one, long before the slow look
	eventually 5 offers 16
	local n
	for n in 5 6; do # and with a time between in which there is none; more often than there are slow looks
		mkdir "$NODE_DIR/etc.$n" && sharing $n >"$NODE_DIR/etc.$n/config.yaml"
		mv "$NODE_DIR/etc" "$NODE_DIR/etc.before.$n"
		eventually 5 status '.config.lastError.message | contains("No such file")'
		mv "$NODE_DIR/etc.$n" "$NODE_DIR/etc"
		eventually 4 offers $((4 * n))
	done
}

@test "a file that is written slowly is read when it is whole" {
	node_up 10
	# The first line of the text is a good config by itself, with four devices.
	sharing 20 | rewrite_slowly "$CONFIG"
	eventually 10 offers 80
	never_below 40
	status '.config.generation == 2'
}

@test "SIGHUP reads the file again, and logs when nothing changed" {
	node_up 2
	kill -HUP "${PID[agent]}"
	eventually 10 logged agent 'config read again: no change'
	status '.config.generation == 1'
	never_below 8
	[[ $(message_counts | wc -l) == 1 ]] # nothing was sent again
}

# bad NAME PATTERN: the config becomes the link to $NODE_DIR/bad/NAME; it must be refused so.
bad() {
	cases=$((cases + 1))
	ln -s "bad/$1" "$CONFIG.new" && mv -T "$CONFIG.new" "$CONFIG"
	eventually 10 refused "$cases" || {
		echo "$1 was not refused"
		return 1
	}
	status '.config.lastError.message' | grep -E "$2"
	status '.config.generation == 1 and (.resources[0] | .capacity == 40 and .state == "registered")'
}

refused() {
	[[ $(times agent 'config refused') == "$1" ]]
}

@test "a bad file changes nothing, is one line in the log and is shown" {
	local cases=0 dir=$NODE_DIR/bad
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	mkdir -p "$dir/directory"
	mkfifo "$dir/fifo"
	: >"$dir/empty"
	printf '\n  \n\t\n' >"$dir/blank"
	printf 'version: v1\0' >"$dir/nul"
	printf 'version: v1\n# \xff\xfe\n' >"$dir/latin"
	head -c 4096 /dev/urandom >"$dir/binary"
	sharing 20 | head -c -6 >"$dir/truncated"
	{ sharing 20 && head -c 10000000 /dev/zero | tr '\0' '#'; } >"$dir/ten-megabytes"
	printf 'version: v2\n' >"$dir/version"
	printf 'version: v1\nsharing: [' >"$dir/open"
	sharing 20 | sed 's/replicas/replica/' >"$dir/unknown-key"
	sharing 20 | sed '1a flags: {deviceDiscoveryStrategy: tegra}' >"$dir/tegra"
	sharing 20000 >"$dir/too-many"
	{ printf 'version: v1\na0: &a0 [x, x]\n' && for i in {1..40}; do
		printf 'a%d: &a%d [*a%d, *a%d]\n' "$i" "$i" $((i - 1)) $((i - 1))
	done; } >"$dir/laughs"
	{ printf 'version: v1\nsharing: ' && head -c 900000 /dev/zero | tr '\0' '['; } >"$dir/deep"
	ln -s loop "$dir/loop"
	ln -s nowhere "$dir/dangling"
	ln -s /dev/zero "$dir/device"

	bad directory 'a directory'
	bad fifo 'something else'
	bad empty 'empty'
	bad nul ':1:'
	bad blank 'empty'
	bad latin 'UTF-8|:2:'
	bad binary 'config.yaml:[0-9]+:'
	bad truncated 'config.yaml:[0-9]+:'
	bad ten-megabytes 'larger than the limit'
	bad version 'unknown version: v2'
	bad open 'closing bracket'
	bad unknown-key "unknown key 'replica'"
	bad tegra 'not supported'
	bad too-many '80000'
	bad laughs 'config.yaml:[0-9]+:'
	bad deep 'config.yaml:[0-9]+:'
	bad loop 'symbolic links'
	bad device 'something else'
	bad dangling 'No such file'
	refused "$cases"
	pods 5
	offers 40

	sharing 11 | put "$CONFIG"
	eventually 10 offers 44
	status '.config.lastError == null'
	never_below 40
	[[ $(message_counts | wc -l) == 2 ]]
	k get resources -o json | jq -e '.counts.registrations == 1'
}

@test "a config that does not fit these GPUs is taken when they change" {
	node_up 2
	sharing 2 | sed 's/^health: {/&forgetAfter: 1310ms, /' | put "$CONFIG"
	eventually 10 status '.config.generation == 2'
	sharing 10001 | sed 's/^health: {/&forgetAfter: 1310ms, /' | put "$CONFIG"
	eventually 10 status '.config.lastError.message | contains("40004")'
	offers 8
	sim remove 3
	eventually 20 offers 30003
	status '.config | .lastError == null and .generation == 3'
	refused 1
}

@test "a file that may not be read is refused" {
	((EUID)) || skip "root may read everything"
	node_up 2
	sharing 3 >"$CONFIG.new" && chmod 0 "$CONFIG.new" && mv "$CONFIG.new" "$CONFIG"
	eventually 10 status '.config.lastError.message | contains("Permission denied")'
	chmod 600 "$CONFIG"
	eventually 10 offers 12
	never_below 8
}

@test "renameByDefault is switched on and off: pods keep running, no resource is without devices" {
	node_up 4
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	eventually 10 pods 5
	sharing 4 'renameByDefault: true' | put "$CONFIG"
	eventually 10 offers 16 16 nvidia.com/gpu.shared
	eventually 10 withdrawn $GPU
	pods 5
	sed "s|nvidia.com/gpu: 1|nvidia.com/gpu.shared: 1|; s/name: gpu-deployment/name: shared/" \
		"$FIXTURES/gpu-deployment.yaml" >"$NODE_DIR/shared.yaml"
	k apply -f "$NODE_DIR/shared.yaml"
	eventually 10 pods 6
	sharing 4 | put "$CONFIG"
	eventually 10 offers 16 16
	eventually 10 withdrawn nvidia.com/gpu.shared
	pods 6
	# All or, at the end of a name, nothing.
	[[ $(message_counts | sort -u | tr '\n' ' ') =~ ^(0 )?16\ $ ]]
	[[ $(message_counts nvidia.com/gpu.shared | sort -u | tr '\n' ' ') =~ ^(0 )?16\ $ ]]
}

# The kubelet has nothing to give of this resource any more.
withdrawn() {
	k get resources -o json | jq -e --arg r "$1" \
		'[.items[] | select(.name == $r) | .allocatable] | add // 0 | . == 0'
}

@test "fewer replicas than are allocated: pods continue, new ones are pending, nothing is allocated twice" {
	local before
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	scale 20
	eventually 10 pods 20
	before=$(held)
	sharing 2 | put "$CONFIG"
	eventually 10 offers 8
	pods 20
	scale 22
	eventually 10 pods 20 2
	[[ $(held) == "$before" ]]
	sharing 10 | put "$CONFIG"
	eventually 10 offers 40
	eventually 10 pods 22
	[[ -z $(comm -23 <(echo "$before") <(held)) ]]
	nothing_twice
	never_below 8
}

@test "hundreds of changes and SIGHUPs while pods come and go end in the last config" {
	local i
	node_up 10
	k apply -f "$FIXTURES/cifar10-train-deploy.yaml"
	for i in {1..100}; do
		sharing $((10 + i % 3)) | put "$CONFIG"
		kill -HUP "${PID[agent]}"
		((i % 10)) || scale $((i % 40))
	done
	scale 30
	sharing 12 | put "$CONFIG"
	eventually 10 offers 48
	eventually 10 pods 30
	nothing_twice
	never_below 40
	k get resources -o json | jq -e '.counts.registrations == 1'
	[[ $(times agent 'config refused') == 0 ]]
}
