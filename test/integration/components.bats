#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# components.bash: the run directory, the status socket, and the config over invalid files and reboots.

bats_require_minimum_version 1.5.0
load lib
load cluster
load components

setup_file() {
	stage_programs
}

@test "the last valid config file survives an invalid one, a reboot, and both" {
	node_up 10
	end_agent
	rm -r "$GPUSLICE_RUN_DIR"
	put "$CONFIG" <<<'version: v2'
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	status '.config.lastError.message | test("unknown version")'
	end_agent
	rm "$CONFIG"
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	sharing 5 | put "$CONFIG"
	eventually 20 offers 20
	status '.config.lastError == null'
}

@test "a config file that was emptied does not replace the last valid one, at a restart or a reboot" {
	local text
	node_up 10
	for text in '' ' \n\t\n' '# sharing:\n' '\xef\xbb\xbf' 'null\n' '---\n' '{}'; do
		end_agent
		rm -r "$GPUSLICE_RUN_DIR"
		printf '%b' "$text" | put "$CONFIG"
		agent --config-file "$CONFIG"
		eventually 20 offers 40
		status '.config.lastError.message | test("is empty: expected a config")'
		jq -e '.text | test("replicas: 10")' "$GPUSLICE_STATE_DIR/config/last.json"
	done
	sharing 5 | put "$CONFIG"
	eventually 20 offers 20
	echo '# nothing' | put "$CONFIG"
	eventually 20 status '.config.lastError.message | test("is empty: expected a config")'
	echo 'version: v1' | put "$CONFIG"
	eventually 20 offers 4
	# Where there was never another, it is no error, whenever.
	end_agent
	rm -r "$GPUSLICE_STATE_DIR"
	: >"$CONFIG"
	for text in first second; do
		agent --config-file "$CONFIG"
		eventually 20 offers 4
		status '.config.lastError == null'
		end_agent
	done
}

@test "a config that is impossible on this node does not replace the last valid one at a restart" {
	node_up 10
	end_agent
	sharing 20000 | put "$CONFIG"
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	status '.config.lastError.message | test("80000")'
	never_below 40
	# Another restart is no other.
	end_agent
	agent --config-file "$CONFIG"
	eventually 20 offers 40
	sharing 5 | put "$CONFIG"
	eventually 20 offers 20
	status '.config.lastError == null'
	end_agent
	mkdir "$NODE_DIR/configs"
	sharing 5 >"$NODE_DIR/configs/a"
	agent --config-dir "$NODE_DIR/configs"
	eventually 20 offers 20
	eventually 20 jq -e '.entry == "a"' "$GPUSLICE_STATE_DIR/config/last.json"
	end_agent
	sharing 20000 | put "$NODE_DIR/configs/a"
	agent --config-dir "$NODE_DIR/configs"
	eventually 20 offers 20
	status '.config.lastError.message | test("80000")'
}

@test "a run directory that is a file: devices are there, and the rest when it is one" {
	CONFIG=$NODE_DIR/config.yaml
	sharing 10 >"$CONFIG"
	kubelet
	rm -rf "$GPUSLICE_RUN_DIR" && : >"$GPUSLICE_RUN_DIR"
	start agent "$GPUSLICED" --config-file "$CONFIG"
	eventually 20 offers 40
	logged agent 'component degraded.*run-directory'
	rm "$GPUSLICE_RUN_DIR"
	eventually 30 nothing_degraded
	# the lock is held then
	run -1 timeout 20 "$GPUSLICED" --config-file "$CONFIG"
	[[ $output == *"another gpusliced"* ]]
}

@test "invalid UTF-8 in a reason is replaced, and the reason is shown" {
	node_up 10 --price-file "$NODE_DIR/"$'pr\xe9is \xc3\xa9.yaml' --web-config-file "$NODE_DIR/"$'w\xff.yaml'
	eventually 20 degraded prices '/pr\?is é.yaml'
	eventually 20 degraded web-server '/w\?.yaml'
	"$GPUSLICE" status | grep -F 'pr?is é.yaml'
	echo $'version: v1\n# \xff' | put "$CONFIG"
	eventually 20 status '.config.lastError.message | test("UTF-8|:2:")'
	offers 40
}

@test "the status socket comes back when the run directory is emptied" {
	node_up 10
	rm -r "$GPUSLICE_RUN_DIR"
	eventually 30 status .version
	offers 40
}
