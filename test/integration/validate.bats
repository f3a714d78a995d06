#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# gpuslice validate on a simulated node: NVML is the simulator, CUDA a library in software.

bats_require_minimum_version 1.5.0
load lib
load cluster

setup_file() {
	stage_programs
}

setup() {
	node_setup p3.8xlarge
	OUT=$NODE_DIR/validations
	export OUTPUT_DIR=$OUT DISABLE_DEV_CHAR_SYMLINK_CREATION=true
	export GPUSLICE_CUDA=$GPUSLICE_BUILD/test/support/libfake-cuda.so
	unset COMPONENT CUDA_VISIBLE_DEVICES FAKE_CUDA
	[[ -e $GPUSLICE_CUDA ]]
}

teardown() {
	node_teardown
}

validate() {
	"$GPUSLICE" validate "$@"
}

# ready COMPONENT...: exactly these have a ready file.
ready() {
	local -a found=("$OUT"/*-ready)
	diff <(printf '%s\n' "${found[@]##*/}" | grep -v '^\*' | sort) <((($# == 0)) || printf '%s-ready\n' "$@" | sort)
}

# found COMPONENT JQ_FILTER: what its JSON file says.
found() {
	jq -e "$2" "$OUT/$1.json"
}

# make_dev DIR: the device nodes of this node's GPUs; skips where that is not allowed.
make_dev() {
	local i
	mkdir -p "$1"
	mknod "$1/nvidiactl" c 195 255 || skip "may not make device nodes"
	mknod "$1/nvidia-uvm" c 510 0
	mknod "$1/nvidia-uvm-tools" c 510 1
	for i in 0 1 2 3; do
		mknod "$1/nvidia$i" c 195 $i
	done
}

@test "all sensible components pass, leave their files, and skipped ones are reported" {
	run -0 --separate-stderr validate
	[[ $output == *'driver '*' condition '*'driver 580.159.04, 4 GPUs'* ]]
	[[ $output == *'toolkit '*' skipped '*'cdi '*' skipped '* ]]
	[[ $output == *'4 devices added vectors right'* ]]
	[[ $output == *'what to do: '* ]]
	ready driver cuda
	found driver '.code == "no-nvidia-smi" and .driverVersion == "580.159.04" and (.items | length) == 4'
	found cuda '.result == "pass" and [.items[] | .result == "pass"] == [true, true, true, true]'
	[[ $(jq -r .bootId "$OUT/cuda.json") == "$(cat /proc/sys/kernel/random/boot_id)" ]]
	run -0 --separate-stderr validate --json
	jq -e '[.components[].component] == ["driver", "toolkit", "cdi", "cuda", "plugin"]' <<<"$output"
}

@test "driver-ready can be sourced, and has the driver's root" {
	local host="$NODE_DIR/a host's root"
	mkdir -p "$host/usr/bin"
	validate driver --host-root-ctr-path "$host" --host-root / --driver-validation-skip-gpu-init=false
	run -0 sh -euc '. "$1" && printf "%s|" "$IS_HOST_DRIVER" "$NVIDIA_DRIVER_ROOT" "$DRIVER_ROOT_CTR_PATH" "$NVIDIA_DEV_ROOT" "$DEV_ROOT_CTR_PATH"' \
		sh "$OUT/driver-ready"
	[[ $output == "true|/|$host|/|$host|" ]]
}

@test "each argument error" {
	local row args want
	while IFS='|' read -r args want; do
		eval "run -2 validate $args"
		[[ $output == *"$want"* ]] || {
			echo "$args: $output"
			return 1
		}
	done <<-'EOF2'
		-c ''|invalid -c <component-name> flag: must not be empty string
		-c nonsense|invalid -c <component-name> flag value: nonsense
		-c plugin|invalid -n <node-name> flag: must not be empty string for plugin validation
		-c plugin -n node|invalid -ns <namespace> flag: must not be empty string for plugin validation
		-c cuda|invalid -ns <namespace> flag: must not be empty string for cuda validation
		-c mofed|component 'mofed' is not validated here: the network operator
		vfio-pci|component 'vfio-pci' is not validated here
		nonsense|unknown component 'nonsense'; there are driver, toolkit, cdi, cuda and plugin
		cuda cuda|component 'cuda' is given twice
		-c cuda driver|either -c or components
		--require a=b|--require: expected RESOURCE or RESOURCE=COUNT, found 'a=b'
		--watch 1ms|--watch: expected at least 1s
		--watch 1s --json|do not go together
		-s 0|--sleep-interval-seconds: expected 1 to
		--timeout 0s|--timeout: expected more than 0s
	EOF2
	ready
}

@test "NVIDIA's form: one component by flag or variable" {
	validate -c cuda -ns gpu-operator -o "$OUT"
	ready cuda
	COMPONENT=driver NODE_NAME=n OPERATOR_NAMESPACE=ns WITH_WAIT=true CLEANUP_ALL=true validate
	ready driver
	COMPONENT=cuda OPERATOR_NAMESPACE=ns WITH_WORKLOAD=false FAKE_CUDA=fail=cuInit:100 validate
	ready cuda driver
	found cuda '.code == "no-workload"'
}

@test "each trouble of the driver has a code, and takes the ready file back" {
	local row
	validate driver
	ready driver
	for row in unload:driver-not-loaded mismatch:driver-mismatch no-permission:no-permission; do
		sim driver "${row%:*}"
		stderr=
		run -1 --separate-stderr validate driver cuda
		[[ $stderr == 'error validating driver: nvml'* ]]
		ready
		found driver ".code == \"${row#*:}\" and (.advice | length) > 20"
		sim driver load
	done
	run -1 env GPUSLICE_NVML=/nonexistent "$GPUSLICE" validate driver
	found driver '.code == "library-missing" and .driverVersion == null'
	sim lose 2
	run -1 validate driver
	found driver '.code == "gpu-fault" and .items[2].result == "fail" and .items[1].result == "pass"'
	sim return 2
	sim hang 1 forever
	run -1 timeout 30 "$GPUSLICE" validate driver --timeout 300ms
	found driver '.code == "driver-hangs" and .items[1].code == "driver-hangs"'
	ready
	sim hang 1 off
	validate driver
	ready driver
}

@test "the node's nvidia-smi is run as the node would" {
	local host=$NODE_DIR/host file
	mkdir -p "$host/usr/bin"
	printf '#!/bin/sh\nexit 0\n' >"$host/usr/bin/nvidia-smi"
	chmod +x "$host/usr/bin/nvidia-smi"
	run -1 validate driver --host-root-ctr-path "$host"
	if ((EUID)); then
		found driver '.code == "no-chroot"'
		return
	fi
	# In the node's root there is no shell to run it.
	found driver '.code == "nvidia-smi-fails" and (.text | contains("/usr/bin/nvidia-smi"))'
	ready
	for file in /bin/sh $(ldd /bin/sh | grep -o '/[^ ]*'); do
		install -D "$file" "$host$file"
	done
	validate driver --host-root-ctr-path "$host"
	found driver '.code == "ok"'
	printf '#!/bin/sh\n[ -e /mark ] || { echo not here; exit 3; }\n' >"$host/usr/bin/nvidia-smi"
	run -1 validate driver --host-root-ctr-path "$host"
	found driver '.text | endswith("status 3: not here")'
	touch "$host/mark"
	validate driver --host-root-ctr-path "$host" --driver-validation-skip-gpu-init
	ready driver
}

@test "a driver container: library, nvidia-smi and its own description" {
	local root=$NODE_DIR/driver lib=usr/lib64/libnvidia-ml.so.1
	mkdir -p "$root/usr/lib64" "$root/usr/bin" "$NODE_DIR/host" "$OUT"
	# Any library does, as it is only put before nvidia-smi; that of a sanitizer's build cannot be.
	cc -shared -x c -o "$root/$lib" - <<<'int unused;'
	printf '#!/bin/sh\necho "no such luck"; exit 6\n' >"$root/usr/bin/nvidia-smi"
	chmod +x "$root/usr/bin/nvidia-smi"
	local -a args=(driver --host-root-ctr-path "$NODE_DIR/host" --driver-install-dir-ctr-path "$root")
	run -1 validate "${args[@]}"
	found driver '.code == "nvidia-smi-fails" and (.text | endswith("status 6: no such luck"))'
	printf '#!/bin/sh\n' >"$root/usr/bin/nvidia-smi"
	validate "${args[@]}"
	grep -qx 'IS_HOST_DRIVER=false' "$OUT/driver-ready"
	grep -qx 'NVIDIA_DRIVER_ROOT=/run/nvidia/driver' "$OUT/driver-ready"
	grep -qx "DRIVER_ROOT_CTR_PATH=$root" "$OUT/driver-ready"
	echo 'GDRCOPY_ENABLED: true' >"$OUT/.driver-ctr-ready"
	run -1 validate "${args[@]}"
	found driver '.code == "module-missing" and (.text | contains("gdrdrv"))'
	[[ -e $OUT/.driver-ctr-ready ]]
}

@test "device nodes and the links in /dev/char" {
	local host=$NODE_DIR/host
	unset DISABLE_DEV_CHAR_SYMLINK_CREATION
	run -1 validate driver --host-root-ctr-path "$host"
	found driver '.code == "device-node-missing"'
	make_dev "$host/dev"
	validate driver --host-root-ctr-path "$host"
	[[ $(readlink "$host/dev/char/195:255") == /dev/nvidiactl ]]
	[[ $(readlink "$host/dev/char/195:3") == /dev/nvidia3 ]]
	run -1 validate driver --host-root-ctr-path "$host" --dev-char-dir /proc/self
	found driver '.code == "dev-char-links" and (.advice | contains("--disable-dev-char"))'
	validate driver --host-root-ctr-path "$host" --dev-char-dir /proc/self --disable-dev-char-symlink-creation
}

@test "toolkit: the library and the device nodes of this container" {
	make_dev "$NODE_DIR/own/dev"
	validate toolkit --own-root "$NODE_DIR/own"
	ready toolkit
	rm "$NODE_DIR/own/dev/nvidia2"
	run -1 validate toolkit --own-root "$NODE_DIR/own"
	found toolkit '.code == "device-not-injected" and (.text | endswith("nvidia2'"'"'"))'
	run -1 env GPUSLICE_NVML= "$GPUSLICE" validate toolkit
	found toolkit '.code == "not-injected" and (.advice | contains("runtimeClassName"))'
	ready
}

@test "CDI specs name the GPUs that are here" {
	local uuid
	mkdir "$NODE_DIR/cdi"
	run -1 validate cdi --cdi-dirs "$NODE_DIR/cdi"
	found cdi '.code == "cdi-no-spec"'
	sim show --json | jq '{cdiVersion: "0.5.0", kind: "nvidia.com/gpu", devices: [.gpus[] | {name: .uuid, containerEdits: {}}]}' \
		>"$NODE_DIR/cdi/gpuslice.json"
	echo 'not ours: [' >"$NODE_DIR/cdi/other.yaml"
	validate cdi --cdi-dirs "$NODE_DIR/cdi"
	ready cdi
	sim add
	run -1 validate cdi --cdi-dirs "$NODE_DIR/cdi"
	found cdi '.code == "cdi-stale-spec" and .items[4].result == "fail"'
	echo '{' >"$NODE_DIR/cdi/nvidia.json"
	run -1 validate cdi --cdi-dirs "$NODE_DIR/cdi"
	found cdi '.code == "cdi-bad-spec" and (.text | contains("nvidia.json:"))'
}

@test "CUDA: one bad GPU does not hide the others" {
	local uuid row bad
	local -a limit
	sim create
	uuid=$(sim show --json | jq -r '.gpus[1].uuid')
	for row in "hang=cuLaunchKernel:$uuid driver-hangs" "crash=cuMemAlloc_v2:$uuid driver-crashed" \
		"wrong=$uuid cuda-wrong-result" "lazy=$uuid cuda-wrong-result" "hide=$uuid cuda-gpu-not-seen" \
		"fail=cuDevicePrimaryCtxRetain:2:$uuid cuda-out-of-memory" \
		"fail=cuModuleLoadData:222:$uuid cuda-jit" "fail=cuCtxSynchronize:719:$uuid cuda-error"; do
		limit=() # for what hangs alone: to start a process takes longer than that on a loaded machine
		[[ $row != hang=* ]] || limit=(--timeout 1s)
		run -1 env FAKE_CUDA="${row% *}" "$GPUSLICE" validate cuda "${limit[@]}"
		found cuda ".code == \"${row##* }\" and [.items[] | .result == \"pass\"] == [true, false, true, true]"
	done
	# A kernel that writes nothing has a text of its own: it may be a driver that computes none.
	run -1 env FAKE_CUDA="lazy=$uuid" "$GPUSLICE" validate cuda
	found cuda '(.items[1].text | contains("50000 of 50000 sums are wrong, as the kernel wrote none") and contains("its driver computes no kernels")) and (.advice | contains("simulated GPU"))'
	run -1 env FAKE_CUDA="wrong=$uuid" "$GPUSLICE" validate cuda
	found cuda '.items[1].text | contains("1 of 50000 sums are wrong")'
	for row in fail=cuInit:100:cuda-no-device fail=cuInit:803:cuda-mismatch fail=cuInit:802:cuda-system-not-ready hang=cuInit:driver-hangs; do
		bad=${row##*:}
		limit=()
		[[ $row != hang=* ]] || limit=(--timeout 100ms)
		run -1 env FAKE_CUDA="${row%:*}" "$GPUSLICE" validate cuda "${limit[@]}"
		found cuda "(.code == \"$bad\" or .code == \"cuda-gpu-not-seen\") and ([.items[].result] | index(\"pass\")) == null"
	done
	run -1 env GPUSLICE_CUDA=/nonexistent "$GPUSLICE" validate cuda
	found cuda '.code == "cuda-library-missing"'
	ready
}

@test "CUDA: a configured choice, and a node without NVML" {
	sim create
	CUDA_VISIBLE_DEVICES=$(sim show --json | jq -r '.gpus[2].uuid') validate cuda
	found cuda '(.items | length) == 1'
	GPUSLICE_NVML=/nonexistent FAKE_CUDA_COUNT=3 validate cuda
	found cuda '(.items | length) == 3'
	run -1 env GPUSLICE_NVML=/nonexistent FAKE_CUDA_COUNT=0 "$GPUSLICE" validate cuda
	found cuda '.code == "cuda-no-device"'
}

@test "MIG devices: each is tried, has to be in a spec, and counts as offered" {
	export GPUSLICE_SIM_NODE=p4d.24xlarge
	local procfs=$GPUSLICE_SIM_DIR/proc uuid
	sim create
	for gpu in 0 1 2 3 4 5 6 7; do
		cut_gpu $gpu on
	done
	# to CUDA a GPU in MIG mode is no device
	FAKE_CUDA=$(sim show --json | jq -r '[.gpus[] | "hide=" + .uuid] | join(" ")')
	export FAKE_CUDA
	validate cuda
	found cuda '.code == "no-compute-device" and ([.items[].result] | all(. == "condition"))'
	cut_gpu 5 19 9
	validate cuda --procfs "$procfs"
	found cuda '.code == "no-compute-device" and (.text | startswith("2 devices added vectors right; 7 GPUs"))
		and (.items[8:] | map(.name[:4] + .result) == ["MIG-pass", "MIG-pass"])'
	uuid=$(jq -r '.items[9].name' "$OUT/cuda.json")
	run -1 env FAKE_CUDA="$FAKE_CUDA fail=cuCtxSynchronize:719:$uuid" "$GPUSLICE" validate cuda
	found cuda '.code == "cuda-error" and .items[9].result == "fail" and .items[8].result == "pass"'
	mkdir "$NODE_DIR/cdi"
	"$GPUSLICE" cdi generate --driver-root-ctr-path "$GPUSLICE_SIM_DIR" --procfs "$procfs" -o "$NODE_DIR/cdi/nvidia.json"
	validate cdi --cdi-dirs "$NODE_DIR/cdi" --procfs "$procfs"
	found cdi '.code == "ok" and (.text | endswith("and every GPU and MIG device is named"))'
	cut_gpu 5 14
	run -1 validate cdi --cdi-dirs "$NODE_DIR/cdi" --procfs "$procfs"
	found cdi '.code == "cdi-stale-spec" and (.text | startswith("no CDI spec names MIG device 5:"))
		and ([.items[8:][].result] | sort == ["fail", "pass", "pass"])'
	CONFIG=$NODE_DIR/config.yaml
	sharing 2 | sed '1a flags: {migStrategy: mixed}' >"$CONFIG"
	kubelet && agent --config-file "$CONFIG" --procfs "$procfs"
	eventually 20 offers 1 1 nvidia.com/mig-2g.10gb
	validate plugin --require nvidia.com/mig-2g.10gb=1,nvidia.com/mig-1g.5gb
	found plugin '.code == "ok" and (.items | length) == 3'
	run -1 validate plugin --require nvidia.com/mig-1g.5gb=2
}

@test "plugin: resources that the agent has registered, by any name" {
	node_up 4
	validate plugin --require nvidia.com/gpu=16
	found plugin '.code == "ok" and .items[0].name == "nvidia.com/gpu"'
	run -1 validate plugin --require nvidia.com/gpu=17
	found plugin '.code == "too-few-devices" and (.text | contains("16 healthy devices, expected at least 17"))'
	run -1 validate plugin --require nvidia.com/mig-1g.5gb
	ready
	sharing 2 | sed '$!b; a\      rename: example.com/v100' | sed 's/rename: example.com.*/rename: gpu.slice/' | put "$CONFIG"
	eventually 10 offers 8 8 nvidia.com/gpu.slice
	validate plugin --require nvidia.com/gpu.slice=8
	sim lose 2
	eventually 10 offers 8 6 nvidia.com/gpu.slice
	validate plugin
	found plugin '.result == "condition" and .code == "unhealthy-devices"'
}

@test "plugin: without an agent nothing is there, or the kubelet is asked" {
	run -1 validate plugin
	found plugin '.code == "no-plugin" and (.advice | contains("gpusliced"))'
	node_up 4
	validate plugin --run-dir "$NODE_DIR/none" --require nvidia.com/gpu=16
	found plugin '.code == "kubelet-only" and .items[0].detail == "16 of 16 devices healthy"'
}

@test "with wait it continues until it passes, and reports what it waits for" {
	sim create
	sim driver unload
	start wait "$GPUSLICE" validate driver --with-wait -s 1
	eventually 5 logged wait 'driver: waiting: driver-not-loaded: nvmlInit'
	running wait
	ready
	sim driver load
	eventually 10 not_running wait
	ready driver
	stop wait
	# A change in a directory that matters wakes it long before the interval is over.
	start wait "$GPUSLICE" validate plugin --with-wait -s 600
	eventually 5 logged wait 'plugin: waiting: no-plugin'
	node_up 2
	eventually 15 not_running wait
	ready driver plugin
	# The command ends when it gets a signal.
	sim driver unload
	start wait "$GPUSLICE" validate driver --with-wait -s 600
	eventually 5 logged wait 'driver: waiting'
	kill -TERM "${PID[wait]}"
	eventually 5 not_running wait
	stop wait || (($? == 1))
}

# newer FILE TIME: it has been written since.
newer() {
	[[ $(stat -c %y "$1") != "$2" ]]
}

@test "a watcher removes files that are no longer valid, and creates them again" {
	node_up 2
	# The kubelet's plugin check comes first, so that CUDA's process is started beside gRPC's threads.
	start watch "$GPUSLICE" validate plugin driver cuda --run-dir "$NODE_DIR/none" --watch 1s --watch-failures 2
	eventually 10 ready driver cuda plugin
	eventually 10 newer "$OUT/cuda.json" "$(stat -c %y "$OUT/cuda.json")" # the second round
	stop kubelet
	eventually 10 ready driver cuda
	logged watch 'plugin: fails \(2 of 2\): no-plugin'
	kubelet
	eventually 10 ready driver cuda plugin
	sim driver unload
	eventually 10 logged watch 'driver: fails \(1 of 2\): driver-not-loaded'
	eventually 20 ready # the agent, too, has no GPU left to offer
	logged watch 'driver: is not ready any more'
	logged watch 'cuda: fails \(2 of 2\): driver-not-loaded'
	found driver '.result == "fail"'
	sim driver load
	eventually 30 ready driver cuda plugin
	kill -TERM "${PID[watch]}"
	eventually 5 not_running watch
	stop watch
	ready
}

@test "a directory that cannot be written is a failure with advice" {
	run -1 validate driver -o /proc/nowhere
	[[ $output == *output-dir*'what to do: mount a writable directory'* ]]
	# A clean-up before changes nothing about that. The one that is left out may have an older file.
	local clean
	for clean in '' -r; do
		run -1 --separate-stderr validate driver cuda $clean -o "$GPUSLICE"
		[[ $output == *'driver '*' output-dir '*'Not a directory'*'cuda '*' output-dir '* ]]
	done
	run -0 validate driver -o ''
	[[ ! -e $OUT ]]
}

@test "files that an earlier failure skips are no longer valid" {
	validate driver cuda
	touch "$OUT/toolkit-ready" # of another container: it makes no sense in this one
	sim driver unload
	run -1 validate
	ready toolkit
	[[ -e $OUT/driver.json && ! -e $OUT/cuda.json ]]
	rm "$OUT/toolkit-ready"
	# A watcher that goes takes only what is its own along.
	sim driver load
	validate driver cuda
	touch "$OUT/toolkit-ready"
	sim driver unload
	start watch "$GPUSLICE" validate --watch 60s
	eventually 10 logged watch 'cuda: skipped: driver failed first'
	ready toolkit
	kill -TERM "${PID[watch]}"
	stop watch
	ready toolkit
	[[ ! -e $OUT/driver.json ]]
}

@test "a watcher that cannot write takes a pass back all the same, and writes later" {
	sim create
	start watch "$GPUSLICE" validate driver --watch 1s --watch-failures 2
	eventually 10 ready driver
	# No file can take the place of a directory. Moved there at once, for it writes all the time.
	mkdir "$OUT/full"
	eventually 5 put_in_the_way
	sim driver unload
	eventually 10 logged watch 'driver: fails \(2 of 2\): driver-not-loaded'
	eventually 5 ready
	eventually 10 logged watch "driver: .*Is a directory"
	rmdir "$OUT/driver.json"
	eventually 10 found driver '.code == "driver-not-loaded"'
	ready
	stop watch
}

@test "a watcher reports a pass that it cannot write, and writes it later" {
	sim create
	start watch "$GPUSLICE" validate driver --watch 1s --watch-failures 2
	eventually 10 ready driver
	mkdir "$OUT/full"
	eventually 5 put_in_the_way
	eventually 10 logged watch "driver: .*Is a directory"
	rmdir "$OUT/driver.json"
	eventually 10 logged watch "driver: passes"
	found driver '.result != "fail"'
	[[ $(times watch "driver: passes") == 1 ]]
	[[ $(times watch "Is a directory") == 1 ]]
	stop watch
}

put_in_the_way() {
	rm -f "$OUT/driver.json"
	mv -T "$OUT/full" "$OUT/driver.json"
}

# children NAME: of the program there is a process of CUDA's.
children() {
	CHILD=$(pgrep -P "${PID[$1]}" -f cuda) && [[ -n $CHILD ]]
}

@test "a signal ends it while the driver hangs, and no ready file stays" {
	local status
	sim create
	FAKE_CUDA=hang=cuInit start watch "$GPUSLICE" validate driver cuda --watch 60s
	eventually 10 ready driver
	eventually 10 children watch
	children watch
	kill -TERM "${PID[watch]}"
	eventually 5 not_running watch
	stop watch
	ready
	[[ ! -e $OUT/driver.json ]]
	eventually 5 gone "$CHILD"
	# Waiting, it leaves what has passed.
	FAKE_CUDA=hang=cuInit start wait "$GPUSLICE" validate driver cuda --with-wait
	eventually 10 children wait
	kill -INT "${PID[wait]}"
	eventually 5 not_running wait
	status=0
	stop wait || status=$?
	((status == 1))
	logged wait 'interrupted while a component was validated'
	ready driver
	# NVML's process is another one.
	sim hang 1 forever
	start watch "$GPUSLICE" validate driver --watch 60s --timeout 60s
	eventually 10 ready
	kill -TERM "${PID[watch]}"
	eventually 5 not_running watch
	stop watch
}

gone() {
	! kill -0 "$1"
}
