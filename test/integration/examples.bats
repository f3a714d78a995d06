#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Examples that are more than one file: examples/two-models, on the simulator. How the two talk is a unit test.
load lib
load cluster
load mps

TWO=$BATS_TEST_DIRNAME/../../examples/two-models

setup_file() {
	stage_programs
}

setup() {
	mps_node_setup h100-1
	export GPUSLICE_SIM_GPU=$STAGE/libexec/gpuslice/gpuslice-sim-gpu
}

teardown() {
	mps_node_teardown
}

@test "two-models: the config is good on nodes with one GPU and with several, and both pods come onto one" {
	local node
	for node in h100-1 p4d.24xlarge; do
		run "$GPUSLICE" config check --node "$node" "$TWO/config.yaml"
		echo "$output"
		[[ $status -eq 0 && $output == *" 0 bad, 0 warnings"* && $output != *"note: "* ]]
		[[ $output == *"nvidia.com/gpu "*" mps "* ]]
	done
}

# What the pod security level "restricted" asks for, and that script and manifests belong together.
@test "two-models: the manifests are those of pods without rights" {
	command -v kubectl >/dev/null || skip "no kubectl here"
	python3 -c 'import yaml' || skip "no python3-yaml here"
	kubectl kustomize "$TWO" >"$BATS_TEST_TMPDIR/all.yaml"
	python3 - "$BATS_TEST_TMPDIR/all.yaml" "$TWO/two-models.py" <<-'EOT'
		import sys, yaml
		docs = list(yaml.safe_load_all(open(sys.argv[1])))
		maps = {d["metadata"]["name"]: d["data"] for d in docs if d["kind"] == "ConfigMap"}
		assert all(d["metadata"].get("namespace", "two-models") == "two-models" for d in docs)
		services = {d["metadata"]["name"]: d["spec"]["selector"] for d in docs if d["kind"] == "Service"}
		pods = {d["metadata"]["name"]: d["spec"]["template"] for d in docs if d["kind"] == "Deployment"}
		assert set(pods) == set(services) == {"ada", "ben"}
		users = set()
		for name, other in (("ada", "ben"), ("ben", "ada")):
		    spec, (container,) = pods[name]["spec"], pods[name]["spec"]["containers"]
		    assert services[name].items() <= pods[name]["metadata"]["labels"].items()
		    assert not services[name].items() <= pods[other]["metadata"]["labels"].items()
		    assert f"--peer=http://{other}:8080" in container["args"] and f"--name={name}" in container["args"]
		    assert not {"hostIPC", "hostPID", "hostNetwork"} & set(spec)
		    assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
		    users.add(spec["securityContext"]["runAsUser"])
		    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
		                                            "capabilities": {"drop": ["ALL"]}}
		    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
		    assert all(set(v) <= {"name", "configMap", "emptyDir"} for v in spec["volumes"])
		    (script,) = [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v]
		    assert maps[script]["two-models.py"] == open(sys.argv[2]).read()
		assert len(users) == 2 and 0 not in users
	EOT
}

@test "two-models: on a node both pods are under one MPS daemon, half of the GPU each" {
	! grep -qE '__[at]san_init' "$LD_LIBRARY_PATH/libcuda.so.1" || skip "an interpreter without the sanitizer"
	local pod where
	sed "s,^version: v1,&\nflags: {mpsRoot: $MPS_ROOT\, nvidiaDriverRoot: $GPUSLICE_SIM_DIR\, plugin: {containerDriverRoot: $GPUSLICE_SIM_DIR}},; /^flags:/,/sharedDevices/d" \
		"$TWO/config.yaml" >"$CONFIG"
	cat "$CONFIG"
	mps_up 2
	awk 'BEGIN { RS = ORS = "---\n" } !/kind: Service/' "$TWO/models.yaml" >"$BATS_TEST_TMPDIR/deployments.yaml"
	k apply -f "$BATS_TEST_TMPDIR/deployments.yaml" >&2
	eventually 10 both_granted
	for pod in $(pods_of_models); do
		[[ $(env_of "$pod" CUDA_MPS_PIPE_DIRECTORY) == /mps/nvidia.com/gpu/pipe ]]
		where=$(in_pod "$pod" python3 "$TWO/two-models.py" --where)
		echo "$where"
		# A slice is where /run/gpuslice/slice is; here it is a variable that says it.
		[[ $where == *" 66 multiprocessors, under MPS"* && $where == *" 40538 MiB, "* ]]
	done
}

pods_of_models() {
	k get pods -o json | jq -r '.items[].metadata.name'
}

both_granted() {
	local pod n=0
	for pod in $(pods_of_models); do
		granted "$pod" || return 1
		n=$((n + 1))
	done
	((n == 2))
}

@test "two-models: --mps has a daemon of its own, and leaves nothing behind" {
	! grep -qE '__[at]san_init' "$LD_LIBRARY_PATH/libcuda.so.1" || skip "an interpreter without the sanitizer"
	export PATH=$STAGE/lib/gpuslice/sim:$PATH GPUSLICE_SIM_DIR
	run env TMPDIR="$BATS_TEST_TMPDIR" python3 - "$TWO/two-models.py" <<-'EOT'
		import importlib.util, os, subprocess, sys
		sys.dont_write_bytecode = True
		spec = importlib.util.spec_from_file_location("two_models", sys.argv[1])
		two = importlib.util.module_from_spec(spec)
		spec.loader.exec_module(two)
		def where(env):
		    print(subprocess.run([sys.executable, sys.argv[1], "--where"], env=env, text=True, stdout=subprocess.PIPE).stdout)
		with two.private_mps() as env:
		    where(env)
		where(env)
		print("left" if os.path.exists(env["CUDA_MPS_PIPE_DIRECTORY"]) else "clean")
	EOT
	echo "$output"
	[[ $status -eq 0 && $output == *" 66 multiprocessors, under MPS"*" NOT under MPS, though "*clean ]]
	[[ $(leftovers) != *nvidia-cuda-mps* ]]
}
