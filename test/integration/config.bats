#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice config check: what people and their CI see.
load lib

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	cd "$BATS_TEST_DIRNAME/../data/fixtures"
}

@test "config check shows what a node would offer" {
	run "$GPUSLICE" config check --node p3.2xlarge time-slicing-config.yaml
	[ "$status" -eq 0 ]
	[[ $output == *"1 x Tesla V100"* ]]
	[[ $output == *"#p3.2xlarge: good"*"nvidia.com/gpu "*" 4 "*"time-slicing"* ]]
	[[ $output == *"2 good, 0 bad, 0 warnings"* ]]
}

@test "config check reports that the product of a GPU is unknown" {
	"$GPUSLICE" sim create >/dev/null
	"$GPUSLICE" sim fail 2 name UNKNOWN
	run "$GPUSLICE" config check time-slicing-config.yaml
	[[ $output == *"Node: 2 x Tesla V100-SXM2-16GB, 1 x unknown, 1 x Tesla V100-SXM2-16GB, driver "* ]]
}

@test "config check shows how much memory a replica gets, and where that is too little" {
	cat >"$BATS_TEST_TMPDIR/s.yaml" <<-'EOF'
		version: v1
		sharing:
		  timeSlicing:
		    resources:
		    - {name: nvidia.com/gpu, devices: [0, 1], replicas: 4, isolation: {memory: equal}}
		    - {name: nvidia.com/gpu, devices: [2], replicas: 40, isolation: {memory: equal}}
		    - {name: nvidia.com/gpu, devices: [3], replicas: 2, rename: nvidia.com/open, isolation: {unhooked: stop}}
	EOF
	run "$GPUSLICE" config check --node p3.8xlarge "$BATS_TEST_TMPDIR/s.yaml"
	[ "$status" -eq 0 ]
	[[ $output == *"MEMORY EACH"*"nvidia.com/gpu "*"398 MiB to 3984 MiB"*"nvidia.com/open "*"time-slicing  -"* ]]
	[[ $output == *"(line 6): a replica of GPU 2 has 398 MiB, and a program needs 600 MiB"* ]]
	[[ $output == *"s.yaml:7:"*"isolation.unhooked: has no effect without isolation.memory"* ]]
	run "$GPUSLICE" config check --json --node p3.8xlarge "$BATS_TEST_TMPDIR/s.yaml"
	jq -e '.configs[0].offers | map([.memoryMinBytes, .memoryMaxBytes]) == [[417333248, 4177526784], [null, null]]' <<<"$output"
}

@test "config check reads all files and points at each mistake" {
	printf 'kind: ConfigMap\ndata:\n  any: |\n    version: v2\n' >"$BATS_TEST_TMPDIR/a.yaml"
	printf 'flags: {migStrategi: none}\n' >"$BATS_TEST_TMPDIR/b.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/a.yaml" "$BATS_TEST_TMPDIR/b.yaml" time-slicing-config.yaml
	[ "$status" -eq 2 ]
	[[ $output == *"a.yaml#any:4:14: version: unknown version: v2"* ]]
	[[ $output == *"b.yaml:1:9: flags: unknown key 'migStrategi'; did you mean 'migStrategy'?"* ]]
	[[ $output == *"2 good, 2 bad"* ]]
}

@test "config check reads the values file of a chart, and reports where the config is if it has none" {
	printf 'config:\n  map:\n    default: |-\n      version: v1\n      sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\ngfd: {enabled: true}\n' >"$BATS_TEST_TMPDIR/v.yaml"
	run "$GPUSLICE" config check --node g5.xlarge "$BATS_TEST_TMPDIR/v.yaml"
	[ "$status" -eq 0 ]
	[[ $output == *"v.yaml:3:5: values of a Helm chart: the configs below config.map are checked"*"v.yaml#default: good"* ]]
	printf 'config: {name: mine}\nnfd: {enabled: true}\n' >"$BATS_TEST_TMPDIR/v.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/v.yaml"
	[ "$status" -eq 2 ]
	[[ $output == *"v.yaml:1:16: this is a values file"*"kubectl get configmap mine -o yaml"* ]]
}

@test "config check reports how many units of memory a container needs, and suggests the intended name" {
	printf 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 15360, isolation: {memory: equal}}]}}\n' >"$BATS_TEST_TMPDIR/u.yaml"
	run "$GPUSLICE" config check --node g5.xlarge "$BATS_TEST_TMPDIR/u.yaml"
	[[ $output == *"15360  time-slicing  < 2 MiB"*"a container must request at least 409 replicas"* ]]
	output=$("$GPUSLICE" config check --json --node g5.xlarge "$BATS_TEST_TMPDIR/u.yaml")
	jq -e '.configs[0].offers[0].memoryMinBytes == null' <<<"$output"
	printf 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu.shared, replicas: 4}]}}\n' >"$BATS_TEST_TMPDIR/u.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/u.yaml"
	[[ $output == *"u.yaml:1:44: sharing.timeSlicing.resources[0].name: has no effect"*"did you mean 'nvidia.com/gpu'?"* ]]
}

@test "config check reports a share that is too small for a program also where all shares exceed the GPU" {
	printf 'sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 200, isolation: {memory: 512Mi}}]}}\n' >"$BATS_TEST_TMPDIR/u.yaml"
	run "$GPUSLICE" config check --node h100-1 "$BATS_TEST_TMPDIR/u.yaml"
	[[ $output == *"the memory limits of all replicas of GPU 0 come to 102400 MiB, and it has 81079 MiB"* ]]
	[[ $output == *"a replica of GPU 0 has 512 MiB, and a program needs 600 MiB for its first CUDA context"* ]]
	printf 'sharing: {slices: [{name: gpu, profiles: [{name: a, memory: 79Gi, count: 1}, {name: b, memory: 256Mi, count: 2}]}]}\n' >"$BATS_TEST_TMPDIR/u.yaml"
	run "$GPUSLICE" config check --node h100-1 "$BATS_TEST_TMPDIR/u.yaml"
	[[ $output == *"does not fit on GPU 0: it needs 256 MiB, and 183 MiB are left"* ]]
	[[ $output == *"a slice of GPU 0 has 256 MiB, and a program needs 600 MiB for its first CUDA context"* ]]
}

@test "config check reports all errors of a config" {
	printf 'flags: {migStrategi: none}\nsharing:\n  timeSlicing:\n    resources: [{name: gpu, replicas: 1}]\n' >"$BATS_TEST_TMPDIR/a.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/a.yaml"
	[ "$status" -eq 2 ]
	[[ $output == *"a.yaml:1:9: flags: unknown key"*"a.yaml:4:39: sharing.timeSlicing.resources[0].replicas: number of replicas must be >= 2"* ]]
	[[ $output == *"0 good, 1 bad"* ]]
	output=$("$GPUSLICE" config check --json "$BATS_TEST_TMPDIR/a.yaml" 2>/dev/null) || [ $? -eq 2 ]
	jq -e '.configs[0].error | (.text | contains("migStrategi")) and (.more | length == 1 and (.[0] | contains("replicas: number")))' <<<"$output"
	seq -f 'key%g: 1' 100 >"$BATS_TEST_TMPDIR/a.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/a.yaml"
	[[ $(grep -c "unknown key" <<<"$output") == 20 && $output == *"the first 20 mistakes; there may be more"* ]]
}

@test "config check refuses unsupported settings with a status of their own" {
	printf 'flags:\n  deviceDiscoveryStrategy: tegra\n' >"$BATS_TEST_TMPDIR/t.yaml"
	run "$GPUSLICE" config check "$BATS_TEST_TMPDIR/t.yaml"
	[ "$status" -eq 6 ]
	[[ $output == *"t.yaml:2:28: flags.deviceDiscoveryStrategy: Tegra GPUs are not supported"* ]]
}

@test "config check shows the settings of each replica under MPS" {
	cat >"$BATS_TEST_TMPDIR/m.yaml" <<-'EOF'
		sharing:
		  mps:
		    resources:
		    - {name: gpu, replicas: 4, devices: [0]}
		    - {name: gpu, rename: fast, replicas: 4, devices: [1], isolation: {memory: equal, compute: fair, class: latency}}
		    - {name: gpu, rename: many, replicas: 49, devices: [2]}
		  timeSlicing:
		    resources:
		    - {name: gpu, replicas: 10, devices: [1, 3]}
	EOF
	run "$GPUSLICE" config check --node p3.8xlarge "$BATS_TEST_TMPDIR/m.yaml"
	echo "$output"
	[ "$status" -eq 0 ]
	grep -qE '^  nvidia.com/gpu +14 +2 +4 to 10  mps, time-slicing  4096 MiB to - +25% of the SMs$' <<<"$output"
	grep -qE '^  nvidia.com/fast +4 +1 +4  mps +3984 MiB +50% of the SMs, latency$' <<<"$output"
	grep -qE '^  nvidia.com/many .* -, 49 of them unhealthy$' <<<"$output"
	[[ $output == *"(line 9): GPU 1 is shared by sharing.mps, and not time-sliced too"* ]]
	[[ $output == *"unhealthy, invalid device maximum allowed replicas exceeded: 49 > 16"* ]]
	output=$("$GPUSLICE" config check --json --node p3.8xlarge "$BATS_TEST_TMPDIR/m.yaml")
	jq -e '.configs[0].offers | map({(.name): .mps}) | add == {
		"nvidia.com/fast": {percentMin: 50, percentMax: 50, latency: true},
		"nvidia.com/gpu": {percentMin: 25, percentMax: 25, latency: false},
		"nvidia.com/many": null}' <<<"$output"
}

# What a file is says what is in it, not a list: one with a ConfigMap or the keys of a config is for checking, any
# other one is pods that ask for GPUs.
@test "config check takes every config of examples/" {
	local file configs=0
	for file in "$BATS_TEST_DIRNAME"/../../examples/*.yaml; do
		run "$GPUSLICE" config check --node p3.8xlarge "$file"
		echo "$output"
		if grep -qE '^kind: ConfigMap|^ *(version|sharing|flags):' "$file"; then
			[[ $status -eq 0 && $output == *" 0 bad, 0 warnings"* && $output != *"note: "* ]]
			configs=$((configs + 1))
		else
			[[ $output == *": expected a config (version: v1) or a ConfigMap with one, found "* ]]
			grep -q '^kind: ' "$file" && grep -q '^ *nvidia.com/gpu.*: ' "$file"
		fi
	done
	((configs > 0))
}

@test "config check works without a GPU" {
	run env -u GPUSLICE_SIM_NODE GPUSLICE_NVML= "$GPUSLICE" config check nvidia-device-plugin.yaml
	[ "$status" -eq 0 ]
	[[ $output == *"1 good, 0 bad"* ]]
}

@test "config check prints JSON" {
	run "$GPUSLICE" config check --json - < nvidia-device-plugin.yaml
	[ "$status" -eq 0 ]
	python3 -c 'import json, sys
c = json.loads(sys.argv[1])["configs"][0]
assert c["good"] and c["offers"][0]["devices"] == 40, c
assert c["config"]["sharing"]["timeSlicing"]["resources"][0]["replicas"] == 10' "$output"
}
