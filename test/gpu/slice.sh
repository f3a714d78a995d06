#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The slice runtime on a real GPU: what the simulator cannot prove. Changes no setting of the card.
# Never part of the default tests.
# Parts are called by their names:
# shellcheck disable=SC2317
set -euo pipefail

usage() {
	cat <<-'EOF'
	Usage: test/gpu/slice.sh pack BUILD DIR
	       test/gpu/slice.sh DIR OUT [PART...]

	The first puts together in DIR what the second, turns.py and mps.py need, from the build directory
	BUILD: libraries, agent, tool, arbiter, test programs, the simulator. The second runs the parts
	(default: all that take one GPU) and writes OUT/results.txt, a line of key=value for each figure,
	and OUT/transcript.txt. Each part has its own time; a part that fails stops no other. Exit 1 if one
	failed.

	Parts: machine walk full smi view pytorch expandable decode loader nccl nccl2 jax cupy triton
	starts tenants child storm cut bench
	"sim" in place of the parts: a run of those that need no framework, on the simulated GPU.

	SLICE_SECONDS: of the storm (60) and of each tenant (20). CUT_SECONDS: of the cuts (120).
	EOF
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
GIB=$((1 << 30))

pack() { # BUILD DIR
	local build=$1 dir=$2 file
	mkdir -p "$dir"/{lib,bin/cut,deps,sim}
	cp -L "$build"/src/container/libgpuslice-{cuda,nvml}.so "$dir/lib/"
	cp -L "$build/src/node/agent/gpusliced" "$build/src/tools/cli/gpuslice" "$build/src/node/arbiter/gpuslice-arbiter" \
		"$build"/src/io/nvml/worker/gpuslice-nvml "$build"/src/node/agent/mps/gpuslice-mps "$dir/bin/"
	for file in cuda-walk cuda-storm cuda-cut cuda-bench cuda-hold cuda-feed cuda-burn cuda-latency cuda-launch cuda-mix cuda-mps nvml-look kernels.ptx; do
		cp -L "$build/test/cuda/$file" "$dir/bin/"
	done
	cp -L "$build/test/cuda/cut/libcuda.so.1" "$dir/bin/cut/"
	cp -L "$build/src/testbed/sim/cuda/libcuda.so.1" "$build/src/testbed/sim/nvml/libnvidia-ml.so.1" \
		"$build/src/testbed/sim/device/gpuslice-sim-gpu" "$build"/src/testbed/sim/mps/nvidia-cuda-mps-{control,server} "$dir/sim/"
	# The C library and its loader belong to the machine.
	ldd "$dir"/bin/gpuslice* "$dir"/bin/cuda-feed | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
		sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|ld-linux[^/]*)\.so' |
		xargs -r cp -L -t "$dir/deps"
	strip --strip-debug "$dir"/lib/*.so "$dir"/bin/cuda-* "$dir"/bin/nvml-look "$dir"/bin/gpuslice* \
		"$dir"/bin/cut/*.so.1 "$dir"/deps/* 2>/dev/null || true
	du -sh "$dir"
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
pack)
	[[ $# -eq 3 ]] || { usage >&2; exit 2; }
	pack "$2" "$3"
	exit 0
	;;
esac
[[ $# -ge 2 ]] || { usage >&2; exit 2; }
dir=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
shift 2
parts=("$@")
simulated=
if [[ ${parts[*]-} == sim ]]; then
	simulated=1
	parts=(machine walk full view starts child storm cut bench)
fi
[[ ${#parts[@]} -gt 0 ]] || parts=(machine walk full smi view pytorch expandable decode loader nccl jax cupy
	triton starts tenants child storm cut bench)
work=$(mktemp -d /tmp/gsslice.XXXXXX)
seconds=${SLICE_SECONDS-}
PRELOAD=$dir/lib/libgpuslice-cuda.so:$dir/lib/libgpuslice-nvml.so
failed=0
pids=()

finish() {
	local pid
	for pid in "${pids[@]-}"; do
		[[ -z $pid ]] || kill -TERM "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	# The daemon that is the simulated GPU.
	pgrep -f -- "--dir $work/sim" | xargs -r kill 2>/dev/null || true
	[[ -z ${made_preload-} ]] || rm -f /etc/ld.so.preload
	rm -rf "$work"
}
trap finish EXIT

note() { tee -a "$out/transcript.txt"; }
result() { printf '%s\n' "$*" | tee -a "$out/results.txt" | note; }

within() { # SECONDS COMMAND...
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# For programs that need the libraries of the bundle, which no framework should see.
own_libraries() { own=(env "LD_LIBRARY_PATH=$dir/deps${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"); }

value() { # KEY TEXT
	sed -nE "s/^(.* )?$1=([^ ]*).*/\2/p" <<<"$2" | tail -1
}

start_node() {
	if [[ $simulated ]]; then
		export GPUSLICE_SIM_NODE=h100-1 GPUSLICE_SIM_DIR=$work/sim GPUSLICE_SIM_GPU=$dir/sim/gpuslice-sim-gpu
		export LD_LIBRARY_PATH=$dir/sim
		driver=$dir/sim/libcuda.so.1
	else
		driver=$(ldconfig -p | awk '$1 == "libcuda.so.1" && /x86-64|AArch64/ { print $NF; exit }')
		[[ $driver ]] || driver=$(find / -xdev -name libcuda.so.1 -not -path "$dir/*" 2>/dev/null | head -1)
	fi
	export GPUSLICE_STATE_DIR=$work/state GPUSLICE_RUN_DIR=$work/run
	mkdir -p "$work/state/slices" "$work/run"
	chmod 755 "$work"
	own_libraries
	"${own[@]}" "$dir/bin/gpuslice-arbiter" >"$work/arbiter.log" 2>&1 &
	pids+=("$!")
	within 10 test -S "$work/run/arbiter.sock" || { cat "$work/arbiter.log"; exit 1; }
	"${own[@]}" "$dir/bin/cuda-feed" "$work/run/arbiter.sock" --again >"$work/feed.log" 2>&1 &
	pids+=("$!")
	machine=$("$dir/bin/nvml-look")
	uuid=$(value uuid "$(head -1 <<<"$machine")")
}

slice_dir() { printf '%s/state/slices/%032x' "$work" "'$1"; }

slice() { # NAME BYTES [UUID...]: of each GPU that is named, or of the first
	local at new=$work/new gpus="" one
	at=$(slice_dir "$1")
	mkdir -p "$new"
	for one in "${@:3}"; do
		gpus+=${gpus:+,}"{\"uuid\": \"$one\", \"memory\": $2}"
	done
	[[ $gpus ]] || gpus="{\"uuid\": \"$uuid\", \"memory\": $2}"
	printf '{"version": 1, "id": "%s", "resource": "nvidia.com/gpu", "devices": ["%s::%s"], "gpus": [%s],
		"unhooked": "report"}\n' "${at##*/}" "$uuid" "$1" "$gpus" >"$new/slice.json"
	if [[ -d $at ]]; then mv "$new/slice.json" "$at/"; else mv "$new" "$at"; fi
	within 5 test -S "$at/socket"
}

# in_slice NAME COMMAND...: as a container has it, by mounts, where that is allowed; else by variables.
mounts=
made_preload=
try_mounts() {
	unshare -m true 2>/dev/null || return 0
	# The places of the mounts must be there; a node that has them of its own keeps them.
	[[ ! -e /run/gpuslice ]] || return 0
	mounts=1
	# A mount needs a file to lie on.
	[[ -e /etc/ld.so.preload ]] || { : >/etc/ld.so.preload && made_preload=1; }
}
in_slice() {
	local at
	at=$(slice_dir "$1")
	shift
	if [[ $mounts ]]; then
		# shellcheck disable=SC2016
		unshare -m bash -c '
			mount --make-rprivate / && mount -t tmpfs tmpfs /run &&
			mkdir -p /run/gpuslice/slice && mount --bind "$1" /run/gpuslice/slice &&
			tr : "\n" <<<"$2" >/run/gpuslice/preload || exit 99
			mount --bind /run/gpuslice/preload /etc/ld.so.preload || exit 99
			shift 2
			exec "$@"' in_slice "$at" "$PRELOAD" "$@"
	else
		env LD_PRELOAD="$PRELOAD" GPUSLICE_SLICE_DIR="$at" "$@"
	fi
}

# Nothing of the slice may be left in use.
clean() { # NAME
	local i text=""
	for i in $(seq 100); do
		text=$(in_slice "$1" "$dir/bin/nvml-look" | head -1)
		[[ $(value used "$text") != 0 ]] || { result "left slice=$1 used=0 tries=$i"; return 0; }
		sleep 0.1
	done
	result "left slice=$1 result=failed used=$(value used "$text")"
	return 1
}

python() { # SLICE or "" for none, PROGRAM [ARGUMENT...]
	local slice=$1 program=$2 place=()
	shift 2
	[[ -z $slice ]] || place=(in_slice "$slice")
	# cuBLAS takes another workspace, and another time, without this: bare programs have it too.
	(cd "$here/slice" && "${place[@]}" env CUBLAS_WORKSPACE_CONFIG=:4096:8 PYTHONDONTWRITEBYTECODE=1 \
		python3 "$program" "$@")
}

# last NAME COMMAND...: its last line of key=value becomes a result.
last() {
	local name=$1 text status=0
	shift
	text=$("$@" 2>&1) || status=$?
	printf '%s\n' "$text" | note >/dev/null
	grep -E '^[a-z-]+ (name|result)=|^neighbour ' <<<"$text" | while read -r line; do
		result "$name: $line"
	done
	((status == 0)) || { printf '%s\n' "$text" | tail -15; result "$name: result=failed status=$status"; }
	return "$status"
}

part_machine() {
	local line
	while read -r line; do result "machine: $line"; done <<<"$machine"
	result "machine: kernel=$(uname -r) libc=$(getconf GNU_LIBC_VERSION | tr ' ' -) cores=$(nproc) driver=$driver mounts=${mounts:-0}"
	[[ $simulated ]] || nvidia-smi --query-gpu=name,driver_version,compute_mode,mig.mode.current,persistence_mode,clocks.sm,temperature.gpu \
		--format=csv,noheader | while read -r line; do result "machine: smi=${line// /}"; done
}

part_walk() {
	slice w $((20 * GIB))
	last walk-bare "$dir/bin/cuda-walk"
	last walk-no-slice env LD_PRELOAD="$PRELOAD" "$dir/bin/cuda-walk"
	last walk in_slice w "$dir/bin/cuda-walk" --limit $((20 * GIB)) --verbose
	clean w
}

part_full() {
	local text
	slice f $((6 * GIB))
	text=$(in_slice f "$dir/bin/cuda-hold" --until-full 64Mi)
	result "full: $text"
	[[ $(value last "$text") == 2 && $(value total "$text") == $((6 * GIB)) &&
		$(value nvml_total "$text") == $((6 * GIB)) && $(value device_total "$text") == $((6 * GIB)) ]]
	# A context does not fit: also error 2.
	slice t $((64 << 20))
	text=$(in_slice t "$dir/bin/cuda-hold" --bytes 1Mi)
	result "full: tiny $text"
	[[ $(value last "$text") == 2 ]]
	clean f
	clean t
}

# The driver shows only the processes of the own PID namespace, as in a container.
pod() { # SLICE COMMAND...
	in_slice "$1" unshare --pid --fork --mount-proc "${@:2}"
}

part_smi() {
	local holder query=(nvidia-smi "--format=csv,noheader,nounits")
	slice s $((8 * GIB))
	slice n $((8 * GIB))
	mkfifo "$work/smi.in"
	# shellcheck disable=SC2016
	pod n bash -c '"$1/bin/cuda-hold" --bytes 1Gi --wait <"$2/smi.in" >"$2/smi.out" &
		until [[ -s $2/smi.out ]]; do sleep 0.05; done
		nvidia-smi >"$2/smi.n"
		nvidia-smi --format=csv,noheader,nounits --query-compute-apps=pid,used_memory >"$2/smi.apps"
		touch "$2/smi.done"
		wait' _ "$dir" "$work" &
	holder=$!
	exec 7>"$work/smi.in"
	within 30 test -e "$work/smi.done"
	pod s nvidia-smi | note >/dev/null
	note <"$work/smi.n" >/dev/null
	result "smi: slice $(pod s "${query[@]}" --query-gpu=memory.total,memory.used,memory.free | tr -d ' ')"
	result "smi: slice apps=$(pod s "${query[@]}" --query-compute-apps=pid,used_memory | wc -l)"
	result "smi: neighbour apps=$(tr -d ' ' <"$work/smi.apps" | paste -sd ' ')"
	result "smi: slice in the node's PID namespace apps=$(in_slice s "${query[@]}" --query-compute-apps=pid | wc -l)"
	result "smi: node $("${query[@]}" --query-gpu=memory.total,memory.used | tr -d ' ')"
	[[ $(pod s "${query[@]}" --query-gpu=memory.total) == 8192 ]]
	[[ $(pod s "${query[@]}" --query-compute-apps=pid | wc -l) == 0 ]]
	[[ $(wc -l <"$work/smi.apps") == 1 ]]
	exec 7>&-
	wait "$holder"
	clean n
}

part_view() {
	slice v $((8 * GIB))
	result "view: bare $("$dir/bin/nvml-look" --time | head -1)"
	result "view: slice $(in_slice v "$dir/bin/nvml-look" --time --set | head -1)"
	[[ $(value set "$(in_slice v "$dir/bin/nvml-look" --set | head -1)") == 4 ]]
}

part_pytorch() { slice p $((10 * GIB)); last pytorch python p pytorch.py $((10 * GIB)); clean p; }
part_expandable() {
	slice p $((10 * GIB))
	PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True last expandable python p pytorch.py $((10 * GIB))
	PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync last malloc-async python p pytorch.py $((10 * GIB))
	clean p
}
part_decode() {
	slice d $((10 * GIB))
	local i
	for i in 1 2 3; do
		last "decode-bare" python "" decode.py 2000
		last "decode" python d decode.py 2000
	done
	clean d
}
part_loader() { slice l $((10 * GIB)); last loader python l loader.py; clean l; }
part_nccl() { slice c $((10 * GIB)); last nccl python c nccl.py 1; clean c; }
# A child made by fork that outlives its parent keeps the parent's memory in the driver: does the slice know?
part_child() {
	local text parent child
	slice k $((8 * GIB))
	mkfifo "$work/k.in"
	in_slice k "$dir/bin/cuda-hold" --bytes 4Gi --wait <"$work/k.in" >"$work/k.out" &
	exec 7>"$work/k.in"
	within 30 test -s "$work/k.out"
	echo fork >&7
	# shellcheck disable=SC2016
	within 30 bash -c '[[ $(wc -l <"$1") == 2 ]]' _ "$work/k.out"
	text=$(tail -1 "$work/k.out")
	parent=$(value pid "$text") child=$(value child "$text")
	kill -9 "$parent"
	exec 7>&-
	sleep 1
	text=$(in_slice k "$dir/bin/nvml-look" | head -1)
	result "child: parent=$parent is dead, used=$(value used "$text") driver=$(value pids "$("$dir/bin/nvml-look" | head -1)")"
	(($(value used "$text") > 4 * GIB))
	text=$(in_slice k "$dir/bin/cuda-hold" --bytes 4Gi)
	result "child: another 4 GiB last=$(value last "$text")"
	[[ $(value last "$text") == 2 ]]
	kill -9 "$child"
	clean k
	text=$(in_slice k "$dir/bin/cuda-hold" --bytes 4Gi)
	result "child: and after the child's end last=$(value last "$text")"
	[[ $(value last "$text") == 0 ]]
	clean k
}
part_nccl2() {
	local second
	second=$(value uuid "$(sed -n 2p <<<"$machine")")
	[[ $second ]] || { result "nccl2: result=skipped gpus=1"; return 0; }
	slice e $((10 * GIB)) "$uuid" "$second"
	last nccl2 python e nccl.py 2
	clean e
}
part_jax() { slice j $((10 * GIB)); last jax python j jax_fill.py $((10 * GIB)); clean j; }
part_cupy() { slice u $((10 * GIB)); last cupy python u cupy_fill.py $((10 * GIB)); clean u; }
part_triton() { slice r $((10 * GIB)); last triton python r triton_add.py; clean r; }

part_starts() {
	slice x $((8 * GIB))
	last starts "$dir/bin/cuda-bench" --preload "$PRELOAD" --slice "$(slice_dir x)" --rounds 5 --starts 1,300
	clean x
}

part_tenants() {
	local half=$((40 * 1000 * 1000 * 1000)) t=${seconds:-20} round other
	slice g "$half"
	slice h "$half"
	for round in 1 2 3; do
		for other in quiet greedy; do
			python g tenant.py "$other" $((t + 15)) >"$work/other.out" 2>&1 &
			local pid=$!
			sleep 8
			last "tenants round=$round beside=$other" python h tenant.py work "$t"
			wait "$pid" || { cat "$work/other.out"; return 1; }
			result "tenants round=$round neighbour: $(grep '^tenant-' "$work/other.out")"
		done
	done
	clean g
	clean h
}

part_storm() {
	slice o $((20 * GIB))
	slice q $((4 * GIB))
	last storm "$dir/bin/cuda-storm" --preload "$PRELOAD" --slice "$(slice_dir o)" \
		--limit $((20 * GIB)) --processes 8 --threads 8 --seconds "${seconds:-60}" --neighbour "$(slice_dir q)"
	clean o
}

part_cut() {
	slice k $((4 * GIB))
	# Spread over the whole walk: a run takes seconds on a real GPU.
	last cut "$dir/bin/cuda-cut" --preload "$PRELOAD" --slice "$(slice_dir k)" --driver "$driver" \
		--shim "$dir/bin/cut" --seconds "${CUT_SECONDS-120}" --every "${CUT_EVERY-41}" -- \
		"$dir/bin/cuda-walk" --limit $((4 * GIB))
	clean k
}

part_bench() {
	slice y $((20 * GIB))
	last bench "$dir/bin/cuda-bench" --preload "$PRELOAD" --slice "$(slice_dir y)" --rounds "${BENCH_ROUNDS-9}"
	clean y
}

# Seconds that a part may take; the rest: 120.
declare -A time_of=([storm]=$((${seconds:-60} + 140)) [cut]=240 [bench]=240 [tenants]=300 [starts]=200 [decode]=240 [loader]=200)

start_node
try_mounts
: >"$out/results.txt"
: >"$out/transcript.txt"
for part in "${parts[@]}"; do
	declare -F "part_$part" >/dev/null || { result "$part: result=unknown"; failed=1; continue; }
	printf '\n== %s\n' "$part" | note
	begin=$SECONDS
	# A process group of its own, so that what a part leaves goes with it.
	status=0
	set -m
	(set +m -e; "part_$part") >>"$out/transcript.txt" 2>&1 &
	pid=$!
	set +m
	while kill -0 "$pid" 2>/dev/null && ((SECONDS - begin < ${time_of[$part]-120})); do sleep 0.2; done
	if kill -0 "$pid" 2>/dev/null; then
		result "$part: result=failed reason=timeout"
	fi
	kill -KILL -- "-$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || status=$?
	((status == 0)) || failed=1
	result "part=$part status=$status seconds=$((SECONDS - begin))"
done
cat "$work/feed.log" "$work/arbiter.log" >>"$out/transcript.txt" 2>/dev/null || true
exit "$failed"
