#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# One pod on a real container runtime: Debian's containerd and runc, an image made here.
# needs: containerd

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

# runtime_path: where containerd, its shim, ctr and runc are: installed, or as test/kube/build took
# them out of Debian's packages.
runtime_path() {
	local dir
	dir=$(kube_bin containerd)
	if command -v containerd >/dev/null && command -v runc >/dev/null; then
		printf '%s\n' "$PATH"
	elif [[ -x $dir/usr/bin/containerd && -x $dir/usr/sbin/runc ]]; then
		printf '%s:%s\n' "$dir/usr/bin" "$dir/usr/sbin"
	fi
}

setup_file() {
	local path
	path=$(runtime_path)
	[[ -n $path ]] || return 0
	compgen -G '/sys/fs/cgroup/*/k8s.io' >"$BATS_FILE_TMPDIR/cgroups" || true
	cluster_up
	node_make a p3.8xlarge
	node_stop a cri
	runtime_start "$path"
	kubelet_start a
	eventually 60 node_ready a
	agent_start a --pass-device-specs
	eventually 20 offers a 4
}

# Control groups are the machine's: what containerd made of them stays when it is killed.
teardown_file() {
	cluster_down
	[[ ! -e $BATS_FILE_TMPDIR/cgroups || -s $BATS_FILE_TMPDIR/cgroups ]] ||
		eventually 10 no_cgroups
}

no_cgroups() {
	find /sys/fs/cgroup -depth -type d -path '*/k8s.io*' -exec rmdir {} +
	! compgen -G '/sys/fs/cgroup/*/k8s.io'
}

setup() {
	[[ -n $(runtime_path) ]] || skip "no containerd and runc here, and none of Debian's packages"
}

teardown() {
	[[ -z ${KUBE-} ]] || show_logs
}

# image FILE: an archive with a shell and what it needs, under the names of two images.
image() {
	local dir=$BATS_FILE_TMPDIR/image program file sum
	mkdir -p "$dir/root"
	for program in /bin/bash /bin/ls /bin/sleep; do
		for file in "$program" $(ldd "$program" | grep -o '/[^ ]*'); do
			mkdir -p "$dir/root${file%/*}"
			cp -L "$file" "$dir/root$file"
		done
	done
	tar -C "$dir/root" -cf "$dir/layer.tar" .
	sum=$(sha256sum "$dir/layer.tar" | cut -d ' ' -f 1)
	cat >"$dir/config.json" <<-EOF
		{"architecture": "$(dpkg --print-architecture)", "os": "linux",
		 "config": {"Entrypoint": ["/bin/bash", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"]},
		 "rootfs": {"type": "layers", "diff_ids": ["sha256:$sum"]}}
	EOF
	cat >"$dir/manifest.json" <<-EOF
		[{"Config": "config.json", "Layers": ["layer.tar"],
		  "RepoTags": ["registry.k8s.io/pause:3.6", "test.local/shell:1"]}]
	EOF
	tar -C "$dir" -cf "$1" manifest.json config.json layer.tar
}

# runtime_start PATH: containerd in the place of the stand-in. Its network plug-in gives each pod
# a network with nothing in it.
runtime_start() {
	local plugin
	image "$KUBE/nodes/a/etc/image.tar"
	for plugin in loopback nothing; do
		put_file a "/opt/cni/bin/$plugin" <<-'EOF'
			#!/bin/sh
			[ "$CNI_COMMAND" = VERSION ] && echo '{"cniVersion": "0.4.0", "supportedVersions": ["0.3.1", "0.4.0"]}' && exit
			echo '{"cniVersion": "0.4.0", "interfaces": [{"name": "eth0", "sandbox": "'"$CNI_NETNS"'"}], "ips": [{"version": "4", "interface": 0, "address": "10.244.0.2/16"}]}'
		EOF
		node_exec a chmod 755 "/opt/cni/bin/$plugin"
	done
	put_file a /etc/cni/net.d/nothing.conf <<<'{"cniVersion": "0.4.0", "name": "nothing", "type": "nothing"}'
	put_file a /etc/containerd.toml <<-'EOF'
		version = 2
		root = "/run/containerd-root"
		[grpc]
		address = "/run/cri.sock"
		[plugins."io.containerd.grpc.v1.cri"]
		sandbox_image = "registry.k8s.io/pause:3.6"
		disable_apparmor = true
		restrict_oom_score_adj = true
		[plugins."io.containerd.grpc.v1.cri".containerd]
		snapshotter = "native"
	EOF
	node_start a containerd env "PATH=$1:/usr/sbin:/usr/bin:/sbin:/bin" containerd --config /etc/containerd.toml
	eventually 20 node_exec a env "PATH=$1:$PATH" ctr -a /run/cri.sock version
	node_exec a env "PATH=$1:$PATH" ctr -a /run/cri.sock -n k8s.io images import /etc/node/image.tar
}

@test "containerd and runc give a pod the device nodes that the agent names, and no other" {
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: real}
		spec:
		  containers:
		  - {name: main, image: "test.local/shell:1", imagePullPolicy: Never, resources: {limits: {nvidia.com/gpu: 1}}}
	EOF
	eventually 40 pod_is real Running
	kubectl get node a -o json | jq -e '.status.nodeInfo.containerRuntimeVersion | startswith("containerd://")'
	run kubectl exec real -- bash -c 'ls /dev/nvidia*; echo "$NVIDIA_VISIBLE_DEVICES"'
	echo "$output"
	((status == 0))
	[[ $(grep -c '^/dev/nvidia[0-9]$' <<<"$output") == 1 ]]
	grep -x /dev/nvidiactl <<<"$output"
	sim a show --json | jq -e --arg u "${lines[-1]}" 'any(.gpus[]; .uuid == $u)'
	eventually 20 agent_status a '.resources[0].used == 1'
}
