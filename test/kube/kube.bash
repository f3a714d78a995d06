# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Words for suites on a real Kubernetes; test/kube/README.md explains them. Load it after
# ../integration/lib, on a machine of its own (test/kube/run makes one).
#
# needs: 1.37 cri
#
#	$KUBE            the cluster's directory, a tmpfs: pki/, log/, run/, nodes/NAME/
#	10.1.0.1         the machine of the control plane; 10.0.0.1 the service `kubernetes`
#	10.1.0.2 ...     the nodes, in the order in which they were added

FIXTURES=$BATS_TEST_DIRNAME/../data/fixtures
KUBE_HERE=$BATS_TEST_DIRNAME
KUBE_VERSION=1.37 # of the control plane, and of kubelets unless a node names another
GPU=nvidia.com/gpu
SIM_DIR=/run/sim # of every node, as the node sees it

# kube_bin TARGET: where test/kube/build has put it.
kube_bin() {
	"$KUBE_HERE/build" --where "$1" | cut -d ' ' -f 2
}

# --- Processes. Each has a name, a log in $KUBE/log and a file with its PID in $KUBE/run. They
# outlive the shell that started them: the machine's first process adopts them.

# detached LOG COMMAND...: in the background with a session of its own; its PID is printed. What bats
# has open stays out of it, since bats waits for all who have it.
detached() {
	local log=$1 fd
	shift
	(
		cd "$KUBE/empty" || exit 1
		for fd in /proc/self/fd/*; do
			((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-"
		done
		exec setsid "$@" >"$log" 2>&1 </dev/null
	) >/dev/null &
	echo $!
	disown # no word from the shell when it is killed
}

# part_start NAME COMMAND...
part_start() {
	local name=$1
	shift
	[[ ! -e $KUBE/log/$name.log ]] || cat "$KUBE/log/$name.log" >>"$KUBE/log/$name.old.log"
	detached "$KUBE/log/$name.log" "$@" >"$KUBE/run/$name.pid"
}

part_runs() {
	kill -0 "$(cat "$KUBE/run/$1.pid" 2>/dev/null || echo 0x)" 2>/dev/null
}

part_gone() {
	! part_runs "$1"
}

# part_stop NAME [SIGNAL]: waits until it has ended.
part_stop() {
	part_runs "$1" || return 0
	kill "-${2-TERM}" "$(cat "$KUBE/run/$1.pid")" || true
	eventually 30 part_gone "$1"
}

# --- Certificates: one authority, and one pair for each who speaks to the API server.

pki_new() (
	cd "$KUBE/pki" || return 1
	openssl ecparam -genkey -name prime256v1 -noout -out sa.key
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -keyout ca.key \
		-out ca.crt -subj /CN=test-ca -addext keyUsage=critical,keyCertSign,digitalSignature 2>/dev/null
	pki_pair apiserver /CN=kube-apiserver "IP:10.0.0.1,IP:10.1.0.1,IP:127.0.0.1,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:localhost"
	pki_pair admin /O=system:masters/CN=admin
	kubeconfig_new admin "$KUBE/admin.kubeconfig"
)

# pki_pair NAME SUBJECT [ALTERNATIVE_NAMES]
pki_pair() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$KUBE/pki/$1.key" \
		-out "$KUBE/pki/$1.csr" -subj "$2" 2>/dev/null &&
		openssl x509 -req -in "$KUBE/pki/$1.csr" -CA "$KUBE/pki/ca.crt" -CAkey "$KUBE/pki/ca.key" \
			-CAcreateserial -days 30 -out "$KUBE/pki/$1.crt" \
			-extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s' "${3:+subjectAltName=$3}") 2>/dev/null
}

# kubeconfig_new NAME FILE: everything in one file, so that it can be used anywhere.
kubeconfig_new() {
	cat >"$2" <<-EOF
		apiVersion: v1
		kind: Config
		current-context: test
		clusters: [{name: test, cluster: {server: "https://10.0.0.1:443", certificate-authority-data: $(base64 -w0 "$KUBE/pki/ca.crt")}}]
		contexts: [{name: test, context: {cluster: test, user: me}}]
		users: [{name: me, user: {client-certificate-data: $(base64 -w0 "$KUBE/pki/$1.crt"), client-key-data: $(base64 -w0 "$KUBE/pki/$1.key")}}]
	EOF
}

# --- The control plane.

# cluster_up: etcd, API server, scheduler, controller-manager and an empty cluster.
cluster_up() {
	# The same for all, since each file has its own mounts; never removed, since that would take the
	# mount from another one that runs now.
	export KUBE=/run/gpuslice-kube KUBECONFIG=/run/gpuslice-kube/admin.kubeconfig
	mkdir -p "$KUBE"
	KUBE_BIN=$(kube_bin $KUBE_VERSION)
	PATH=$KUBE_BIN:$(kube_bin helm):$PATH
	export KUBE_BIN PATH
	stage_programs || return 1
	mount -t tmpfs -o mode=755 tmpfs "$KUBE" || return 1
	mkdir -p "$KUBE"/{pki,log,run,nodes,empty,layers} || return 1
	cp -r "$KUBE_HERE"/images/. "$KUBE/layers/"
	mkdir -p "$KUBE/layers/gpuslice/usr"
	cp -r "$STAGE"/. "$KUBE/layers/gpuslice/usr/"
	mkdir -p "$KUBE/layers/cuda-programs/usr/bin"
	cp "$GPUSLICE_BUILD"/test/cuda/{cuda-hold,cuda-mps,kernels.ptx,nvml-look} "$KUBE/layers/cuda-programs/usr/bin/"
	: >"$KUBE/deny"
	ip addr add 10.0.0.1/32 dev lo &&
		ip link add kube0 type bridge && ip addr add 10.1.0.1/16 dev kube0 && ip link set kube0 up || return 1
	pki_new || return 1
	etcd_start && api_start && managers_start || return 1
	eventually 30 kubectl get serviceaccount default || return 1
	kubectl apply -f - <<-'EOF'
		apiVersion: node.k8s.io/v1
		kind: RuntimeClass
		metadata: {name: nvidia}
		handler: nvidia
	EOF
}

etcd_start() {
	part_start etcd "$KUBE_BIN/etcd" --data-dir "$KUBE/etcd" --unsafe-no-fsync --log-level warn \
		--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380
}

# api_start [FLAG...]: and waits until it is ready.
# shellcheck disable=SC2120 # flags come from tests
api_start() {
	part_start apiserver "$KUBE_BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
		--bind-address=0.0.0.0 --secure-port=443 --advertise-address=10.1.0.1 \
		--tls-cert-file="$KUBE/pki/apiserver.crt" --tls-private-key-file="$KUBE/pki/apiserver.key" \
		--client-ca-file="$KUBE/pki/ca.crt" --requestheader-client-ca-file="$KUBE/pki/ca.crt" \
		--requestheader-allowed-names=front-proxy --cert-dir="$KUBE/pki" \
		--service-account-issuer=https://kubernetes.default.svc \
		--service-account-signing-key-file="$KUBE/pki/sa.key" --service-account-key-file="$KUBE/pki/sa.key" \
		--service-cluster-ip-range=10.0.0.0/24 --authorization-mode=Node,RBAC \
		--enable-admission-plugins=NodeRestriction --allow-privileged=true \
		--audit-log-path="$KUBE/log/audit.jsonl" --audit-policy-file="$KUBE_HERE/audit.yaml" \
		--kubelet-preferred-address-types=InternalIP --v=1 "$@" || return 1
	eventually 60 kubectl get --raw /readyz
}

# api_stop [SIGNAL]
# shellcheck disable=SC2120
api_stop() {
	part_stop apiserver "${1-KILL}"
}

managers_start() {
	part_start scheduler "$KUBE_BIN/kube-scheduler" --kubeconfig="$KUBECONFIG" --leader-elect=false \
		--authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
		--bind-address=127.0.0.1 --cert-dir="$KUBE/pki"
	part_start controller-manager "$KUBE_BIN/kube-controller-manager" --kubeconfig="$KUBECONFIG" \
		--authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
		--leader-elect=false --bind-address=127.0.0.1 --cert-dir="$KUBE/pki" \
		--root-ca-file="$KUBE/pki/ca.crt" --service-account-private-key-file="$KUBE/pki/sa.key" \
		--cluster-signing-cert-file="$KUBE/pki/ca.crt" --cluster-signing-key-file="$KUBE/pki/ca.key"
}

managers_stop() {
	part_stop scheduler KILL && part_stop controller-manager KILL
}

# etcd_wipe: the cluster forgets everything, nodes included; kubelets and agents run on.
etcd_wipe() {
	managers_stop && api_stop && part_stop etcd KILL || return 1
	rm -rf "$KUBE/etcd"
	etcd_start && api_start && managers_start &&
		eventually 30 kubectl get serviceaccount default
}

# cluster_down: everything ends. Without it the end of the file's machine does the same.
cluster_down() {
	local name
	[[ -n ${KUBE-} ]] || return 0
	for name in "$KUBE"/nodes/*/pid; do
		[[ ! -e $name ]] || kill -KILL "$(cat "$name")" 2>/dev/null || true
	done
	for name in "$KUBE"/run/*.pid; do
		kill -KILL "$(cat "$name")" 2>/dev/null || true
	done
	if [[ -n ${KEEP-} ]]; then
		mkdir -p "$KEEP/${BATS_TEST_FILENAME##*/}"
		cp -r "$KUBE/log" "$KEEP/${BATS_TEST_FILENAME##*/}/"
		for name in "$KUBE"/nodes/*/; do
			[[ ! -d $name/log ]] || cp -r "$name/log" "$KEEP/${BATS_TEST_FILENAME##*/}/$(basename "$name")"
		done
	fi
	umount -l "$KUBE"
}

# For teardown(): the end of each log, if the test has failed.
show_logs() {
	local file
	[[ -z ${BATS_TEST_COMPLETED-} ]] || return 0
	kubectl get nodes,pods -A -o wide 2>&1 | tail -n 60 || true
	for file in "$KUBE"/log/apiserver.log "$KUBE"/nodes/*/log/*.log; do
		[[ -e $file ]] || continue
		echo "--- ${file#"$KUBE"/}"
		tail -n "${KUBE_LOG_LINES:-10}" "$file" | cut -c 1-400
	done
}

# --- Nodes. Each has a root, processes, a network address and simulated GPUs of its own.

node_dir() {
	printf '%s\n' "$KUBE/nodes/$1"
}

# node_exec NAME COMMAND...: on the node.
node_exec() {
	local pid
	pid=$(cat "$KUBE/nodes/$1/pid") || return 1
	shift
	nsenter -t "$pid" -m -n -p -u -i -r -w -- env -u KUBECONFIG "${NODE_ENV[@]}" "$@"
}
NODE_ENV=(PATH=/opt/gpuslice/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin NO_COLOR=1 "GPUSLICE_SIM_DIR=$SIM_DIR")

# node_start NAME PROCESS COMMAND...: in the background on the node, log in log/PROCESS.log.
node_start() {
	local node=$1 name=$2 dir=$KUBE/nodes/$1
	shift 2
	[[ ! -e $dir/log/$name.log ]] || cat "$dir/log/$name.log" >>"$dir/log/$name.old.log"
	node_exec "$node" bash -c 'name=$1; shift; mkdir -p /run/empty; cd /run/empty
		for fd in /proc/self/fd/*; do ((${fd##*/} < 3)) || eval "exec ${fd##*/}>&-"; done
		setsid "$@" >"/var/log/node/$name.log" 2>&1 </dev/null & echo $! >"/run/$name.pid"' \
		bash "$name" "$@"
}

node_runs() {
	node_exec "$1" bash -c 'kill -0 "$(cat "/run/$1.pid")"' bash "$2" 2>/dev/null
}

node_gone() {
	! node_runs "$1" "$2"
}

# node_stop NAME PROCESS [SIGNAL]
node_stop() {
	node_runs "$1" "$2" || return 0
	node_exec "$1" bash -c 'kill "-$2" "$(cat "/run/$1.pid")"' bash "$2" "${3-TERM}"
	eventually 20 node_gone "$1" "$2"
}

# node_log NAME PROCESS PATTERN: a line like this is in its log, or in that of an earlier start.
node_log() {
	cat "$KUBE/nodes/$1/log/$2.log" "$KUBE/nodes/$1/log/$2.old.log" 2>/dev/null | grep -E -- "$3"
}

# node_add NAME MODEL [OPTION...]: a node of the simulator's model (none: without GPUs), Ready.
#	--kubelet 1.36       an older kubelet
#	--runtime runc       no NVIDIA toolkit in the default runtime (default: nvidia)
#	--label K=V, --taint K=V:EFFECT   given by the kubelet when it registers
node_add() {
	node_make "$@" && kubelet_start "$1" && eventually 60 node_ready "$1"
}

node_ready() {
	kubectl get node "$1" -o json | jq -e '.spec.taints // [] | all(.key != "node.kubernetes.io/not-ready")' &&
		node_condition "$1" Ready True
}

node_condition() {
	[[ $(kubectl get node "$1" -o "jsonpath={.status.conditions[?(@.type=='$2')].status}") == "$3" ]]
}

node_make() {
	local name=$1 model=$2 kubelet=$KUBE_VERSION runtime=nvidia labels='' taints='' dir=$KUBE/nodes/$1 number ip
	shift 2
	while [[ $# -gt 0 ]]; do
		case $1 in
		--kubelet) kubelet=$2 ;;
		--runtime) runtime=$2 ;;
		--label) labels+=${labels:+,}$2 ;;
		--taint) taints+=${taints:+,}$2 ;;
		*) echo "node_add: no option '$1'" && return 1 ;;
		esac
		shift 2
	done
	number=$(($(cat "$KUBE/nodes/count" 2>/dev/null || echo 1) + 1))
	echo "$number" >"$KUBE/nodes/count"
	ip=10.1.0.$number
	mkdir -p "$dir"/{log,etc}
	printf '%s\n' "$model" >"$dir/model"
	pki_pair "$name" "/O=system:nodes/CN=system:node:$name" "IP:$ip,DNS:$name" || return 1
	kubeconfig_new "$name" "$dir/etc/kubelet.kubeconfig"
	cp "$KUBE/pki/$name.key" "$KUBE/pki/$name.crt" "$KUBE/pki/ca.crt" "$dir/etc/"
	kubelet_config "$name" >"$dir/etc/kubelet.yaml"
	printf '%s\n' "--node-ip=$ip" "--node-labels=$labels" "--register-with-taints=$taints" >"$dir/etc/flags"
	rm -f "$dir/ready"
	detached "$dir/log/init.log" unshare --mount --net --pid --uts --ipc --fork --kill-child \
		"$KUBE_HERE/node-init" "$name" "$dir" "$(kube_bin "$kubelet"):/opt/kubelet" \
		"$(kube_bin cri):/opt/cri" "$STAGE:/opt/gpuslice" "$GPUSLICE_BUILD/test/support:/opt/gpuslice-test" \
		"$KUBE/layers:/opt/layers" \
		"$dir/log:/var/log/node" "$dir/etc:/etc/node" >"$dir/unshare"
	eventually 20 test -s "$dir/ready" || { cat "$dir/log/init.log" && return 1; }
	pgrep -P "$(cat "$dir/unshare")" >"$dir/pid"
	ip link add "kube$number" type veth peer name eth0 netns "$(cat "$dir/pid")" &&
		ip link set "kube$number" master kube0 up &&
		node_exec "$name" sh -c "ip link set lo up && ip addr add $ip/16 dev eth0 && ip link set eth0 up && ip route add default via 10.1.0.1" || return 1
	[[ $model == none ]] || node_gpus "$name" "$model" || return 1
	printf '%s\n' "$runtime" >"$dir/runtime"
	printf '%s\n' "$ip" >"$dir/ip"
	cri_start "$name"
}

# node_gpus NAME MODEL: what an installed driver is on a machine: device nodes, libraries, programs. Opened,
# the device nodes fail: there is no kernel module. The library finds the simulated node by its
# variables and directory, which stand for that module and are the same in every container.
node_gpus() {
	local minor version
	# The seed: no two nodes have the same GPUs.
	node_exec "$1" gpuslice sim create "$2" --seed "$(cksum <<<"$1" | cut -d ' ' -f 1)" >/dev/null || return 1
	version=$(node_exec "$1" gpuslice sim show --json | jq -r .driver_version)
	for minor in $(node_exec "$1" gpuslice sim show --json | jq '.gpus[].minor'); do
		node_exec "$1" mknod -m 666 "/dev/nvidia$minor" c 195 "$minor" || return 1
	done
	node_exec "$1" bash -c '
		set -e
		mknod -m 666 /dev/nvidiactl c 195 255
		mknod -m 666 /dev/nvidia-modeset c 195 254
		mknod -m 666 /dev/nvidia-uvm c 511 0
		mknod -m 666 /dev/nvidia-uvm-tools c 511 1
		cd /usr/lib/x86_64-linux-gnu
		cp -L /opt/gpuslice/lib/gpuslice/sim/libnvidia-ml.so.1 "libnvidia-ml.so.$1"
		cp -L /opt/gpuslice/lib/gpuslice/sim/libcuda.so.1 "libcuda.so.$1"
		ln -sf "libnvidia-ml.so.$1" libnvidia-ml.so.1
		ln -sf "libcuda.so.$1" libcuda.so.1
		cp /opt/gpuslice-test/nvidia-smi /usr/bin/
		cp /opt/gpuslice/lib/gpuslice/sim/nvidia-cuda-mps-{control,server} /usr/bin/' bash "$version" || return 1
	node_capabilities "$1"
}

# node_capabilities NAME: the device nodes of all MIG instances that its GPUs can have.
node_capabilities() {
	node_exec "$1" gpuslice sim show --json | jq -e 'any(.gpus[]; .mig_capable == 1)' >/dev/null || return 0
	node_exec "$1" python3 -c '
import os, stat, sys
os.makedirs("/dev/nvidia-caps", exist_ok=True)
for line in open(sys.argv[1] + "/proc/driver/nvidia-caps/mig-minors"):
    key, minor = line.split()
    gpu = key.split("/")[0]
    if gpu in ("config", "monitor") or os.path.exists(gpu.replace("gpu", "/dev/nvidia", 1)):
        os.mknod(f"/dev/nvidia-caps/nvidia-cap{minor}", stat.S_IFCHR | 0o444, os.makedev(236, int(minor)))
' "$SIM_DIR"
}

# gpu_start NAME [OPTION...]: from now on programs can do work on the node's GPUs. Without this the first one would start
# the daemon that is them, in its own container, and the node's processes would have the PIDs of that.
gpu_start() {
	local node=$1
	shift
	node_start "$node" gpu /opt/gpuslice/libexec/gpuslice/gpuslice-sim-gpu --dir "$SIM_DIR" --idle-ms 3600000 "$@"
	eventually 10 node_exec "$node" test -S "$SIM_DIR/cuda.sock"
	node_exec "$node" chmod -R a+rwX "$SIM_DIR" # a driver is there for all users
}

# sim NAME ACTION...: `gpuslice sim` on the node.
sim() {
	local node=$1
	shift
	node_exec "$node" gpuslice sim "$@"
}

cri_start() {
	local dir=$KUBE/nodes/$1
	node_start "$1" cri /opt/cri/cri serve --listen /run/cri.sock --state /run/cri \
		--record /var/log/node/record.jsonl --images /opt/layers/table --layers /opt/layers \
		--root /.image --deny /etc/node/deny --ip "$(cat "$dir/ip")" --default-runtime "$(cat "$dir/runtime")" \
		--gpuslice /opt/gpuslice/bin/gpuslice --env "GPUSLICE_SIM_DIR=$SIM_DIR" \
		--env GPUSLICE_SIM_DEV=/dev --mount "$SIM_DIR"
	eventually 10 node_exec "$1" test -S /run/cri.sock
}

# image_deny NAME PATTERN: from now on the node cannot pull such images; `image_deny NAME` ends it.
image_deny() {
	printf '%s\n' "${2-}" >"$KUBE/nodes/$1/etc/deny"
}

kubelet_config() {
	cat <<-EOF
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/cri.sock
		cgroupsPerQOS: false
		enforceNodeAllocatable: []
		failSwapOn: false
		failCgroupV1: false
		localStorageCapacityIsolation: false
		makeIPTablesUtilChains: false
		resolvConf: ""
		readOnlyPort: 0
		authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
		authorization: {mode: AlwaysAllow}
		tlsCertFile: /etc/node/$1.crt
		tlsPrivateKeyFile: /etc/node/$1.key
		clusterDNS: [10.0.0.10]
		clusterDomain: cluster.local
		staticPodPath: /etc/kubernetes/manifests
		syncFrequency: ${KUBELET_SYNC:-10s}
		nodeStatusUpdateFrequency: ${KUBELET_STATUS:-1s}
		serializeImagePulls: false
		registryPullQPS: 0
		imageGCHighThresholdPercent: 100
		evictionHard: {memory.available: "1Mi"}
	EOF
}

# kubelet_start NAME, kubelet_stop NAME [SIGNAL]; pods run on without it.
kubelet_start() {
	local -a flags
	mapfile -t flags <"$KUBE/nodes/$1/etc/flags"
	node_start "$1" kubelet /opt/kubelet/kubelet --config=/etc/node/kubelet.yaml \
		--kubeconfig=/etc/node/kubelet.kubeconfig --cert-dir=/var/lib/kubelet/pki --v=2 "${flags[@]}"
}

kubelet_stop() {
	node_stop "$1" kubelet "${2-TERM}"
}

# node_off NAME: the power fails. Its object stays; node_add makes another machine of the name.
node_off() {
	kill -KILL "$(cat "$KUBE/nodes/$1/pid")"
}

# --- What tests ask.

# offers NODE CAPACITY [ALLOCATABLE [RESOURCE]]: as the API server has it.
offers() {
	kubectl get node "$1" -o json | jq -e --arg r "${4-$GPU}" --arg c "$2" --arg a "${3-$2}" \
		'.status | [.capacity[$r], .allocatable[$r]] as $is | if $is == [$c, $a] then true else error("\($is)") end'
}

# pods RUNNING [PENDING [SELECTOR]]: so many, in all namespaces; pods that are ending do not count.
pods() {
	kubectl get pods -A -l "${3-}" -o json | jq -e --argjson want "[$1, ${2-0}]" \
		'[.items[] | select(.metadata.deletionTimestamp == null)
			| if .status.phase == "Running" and all(.status.containerStatuses[]?; .state.running) then "Running" else .status.phase end] as $p
		 | [["Running", "Pending"][] as $x | [$p[] | select(. == $x)] | length] as $n
		 | if $n == $want then true else error("running, pending: \($n)") end'
}

# waits_for WHAT [NAMESPACE]: a pod's event says that the scheduler finds too little of it.
waits_for() {
	kubectl get events -n "${2-default}" -o json | jq -e --arg m "Insufficient $1" \
		'any(.items[]; .reason == "FailedScheduling" and (.message | contains($m)))'
}

# record NODE [JQ_FILTER]: the CreateContainer requests that the node's runtime got.
record() {
	jq -er "${2-.}" "$KUBE/nodes/$1/log/record.jsonl"
}

# agent_start NAME [OPTION...]: gpusliced directly on the node, not from a pod.
agent_start() {
	local node=$1
	shift
	node_start "$node" agent gpusliced --nvml /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 \
		--sysfs "$SIM_DIR/sys" --procfs "$SIM_DIR/proc" "$@"
	eventually 20 agent_status "$node" .
}

# agent_status NODE [JQ_FILTER]
agent_status() {
	node_exec "$1" gpuslice status --json | jq -er "${2-.}"
}

# registrations NODE: how often this agent has registered; registered_since NODE COUNT: more often. After
# a kubelet's restart the Node says for a while what the kubelet before said.
registrations() {
	node_exec "$1" grep -c 'info registered with the kubelet' /var/log/node/agent.log
}

registered_since() {
	(($(registrations "$1") > $2))
}

# put_file NODE FILE: standard input replaces it in one step.
put_file() {
	node_exec "$1" sh -c 'mkdir -p "${1%/*}" && cat >"$1.new" && mv -T "$1.new" "$1"' sh "$2"
}

# token_new NODE FILE SERVICE_ACCOUNT [NAMESPACE]: a token in a file of the node; the one that an
# earlier call gave for this account is refused from now on (at most 10 s later).
token_new() {
	local account=$3 ns=${4-default} old new
	old=$(cat "$KUBE/run/token.$ns.$account" 2>/dev/null || true)
	new=token-$account-$(date +%s%N)
	kubectl create secret generic "$new" -n "$ns" >/dev/null &&
		kubectl create token "$account" -n "$ns" --bound-object-kind Secret --bound-object-name "$new" |
		put_file "$1" "$2" || return 1
	printf '%s\n' "$new" >"$KUBE/run/token.$ns.$account"
	[[ -z $old ]] || kubectl delete secret "$old" -n "$ns" >/dev/null
}

# kubeconfig_for NODE ACCOUNT [NAMESPACE]: /etc/agent/kubeconfig on the node, with a token of that service account.
kubeconfig_for() {
	token_new "$1" /etc/agent/token "$2" "${3-default}" &&
		put_file "$1" /etc/agent/kubeconfig <<-YAML
			apiVersion: v1
			kind: Config
			current-context: test
			clusters: [{name: test, cluster: {server: "https://10.0.0.1:443", certificate-authority: /etc/node/ca.crt}}]
			contexts: [{name: test, context: {cluster: test, user: me}}]
			users: [{name: me, user: {tokenFile: token}}]
		YAML
}

# define_nodefeatures: makes the API server know the NodeFeature objects of node feature discovery.
define_nodefeatures() {
	kubectl apply -f - <<-'YAML'
		apiVersion: apiextensions.k8s.io/v1
		kind: CustomResourceDefinition
		metadata: {name: nodefeatures.nfd.k8s-sigs.io}
		spec:
		  group: nfd.k8s-sigs.io
		  scope: Namespaced
		  names: {kind: NodeFeature, plural: nodefeatures, singular: nodefeature, listKind: NodeFeatureList}
		  versions:
		  - name: v1alpha1
		    served: true
		    storage: true
		    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
	YAML
	kubectl wait --for=condition=Established crd/nodefeatures.nfd.k8s-sigs.io
}

# page_command PAGE START: the block of code in docs/PAGE.md whose first line begins with START.
page_command() {
	local page=$BATS_TEST_DIRNAME/../../docs/$1.md
	awk -v start="$2" '/^```/ { on = 0 } before ~ /^```/ && index($0, start) == 1 { on = 1 } on { print } { before = $0 }' \
		"$page" | grep . || { echo "no command '$2' in $page" && return 1; }
}

# run_pod NAME IMAGE SCRIPT [OVERRIDE]: a pod whose container runs the script once; OVERRIDE is YAML
# (flow style) of further keys of the container.
run_pod() {
	kubectl apply -f - <<-EOF
		apiVersion: v1
		kind: Pod
		metadata: {name: "$1"}
		spec:
		  restartPolicy: Never
		  terminationGracePeriodSeconds: 1
		  tolerations: [{operator: Exists}]
		  containers:
		  - {name: main, image: "$2", command: [bash, -c, $(jq -Rs . <<<"$3")]${4:+, $4}}
	EOF
}

# pod_is NAME PHASE
pod_is() {
	local phase
	phase=$(kubectl get pod "$1" -o jsonpath='{.status.phase}')
	[[ $phase == "$2" ]] || { echo "$phase" && return 1; }
}

# pod_says NAME PATTERN: a line of its log.
pod_says() {
	kubectl logs "$1" | grep -E -- "$2"
}
