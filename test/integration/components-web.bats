#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# components.bash: files of the web server that become wrong while the agent runs.

bats_require_minimum_version 1.5.0
load lib
load cluster
load components

setup_file() {
	stage_programs
}

@test "while it runs: a file of the web server that vanishes or becomes malformed is degraded at once" {
	local tls=$NODE_DIR/tls
	mkdir "$tls"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=gpuslice -days 2 \
		-keyout "$tls/tls.key" -out "$tls/tls.crt" 2>/dev/null
	printf 'secret\n' >"$NODE_DIR/token"
	printf 'tls_server_config:\n  cert_file: tls/tls.crt\n  key_file: tls/tls.key\n' >"$NODE_DIR/web.yaml"
	node_up 10 --metrics-token-file "$NODE_DIR/token" --web-config-file "$NODE_DIR/web.yaml"
	eventually 20 logged agent 'serving metrics'
	eventually 20 nothing_degraded
	becomes web-server "$NODE_DIR/token" "$BAD/empty" "$BAD/blank"
	becomes web-server "$tls/tls.crt" "$BAD/empty"
	becomes web-server "$tls/tls.key" "$BAD/binary"
	becomes web-server "$NODE_DIR/web.yaml" "$BAD/users.yaml"
	# a valid one that names others is not in use either
	printf '{}\n' | put "$NODE_DIR/web.yaml"
	eventually 30 degraded web-server 'a restart of the agent uses it'
}
