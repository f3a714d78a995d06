#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The cluster itself, on which every other suite relies: that pods are real processes with what the
# kubelet ordered for them and no more, and that the words that break things do break them.

bats_require_minimum_version 1.5.0
load ../integration/lib
load kube

setup_file() {
	cluster_up
	node_add a p3.8xlarge --label example.com/made=by-kubelet
}

teardown_file() {
	cluster_down
}

teardown() {
	show_logs
	kubectl delete pods --all --force --grace-period=0 >/dev/null 2>&1 || true
}

# in_pod NAME SCRIPT [OVERRIDE]: runs it to its end, successfully.
in_pod() {
	run_pod "$1" any "set -ex; $2" "${3-}" && eventually 30 pod_ended "$1" && pod_is "$1" Succeeded || {
		kubectl logs "$1"
		return 1
	}
}

pod_ended() {
	pod_is "$1" Succeeded || pod_is "$1" Failed
}

restarted() {
	(($(kubectl get pod "$1" -o json | jq '.status.containerStatuses[0].restartCount') >= $2))
}

@test "versions are those that the modules pin" {
	[[ $(kubectl version -o json | jq -r .serverVersion.gitVersion) == "v$KUBE_VERSION."* ]]
	kubectl get node a -o json | jq -e --arg v "v$KUBE_VERSION." '.status.nodeInfo.kubeletVersion | startswith($v)'
	kubectl get node a -o json | jq -e '.metadata.labels["example.com/made"] == "by-kubelet"'
}

@test "a container has processes, mounts and a root of its own, and its exit code is seen" {
	in_pod alone '
		[[ $(ls -d /proc/[0-9]* | wc -l) -le 4 ]]
		[[ $HOSTNAME == alone && $(hostname) == alone ]]
		touch /only-here && [[ ! -e /etc/node && ! -e /dev/nvidia0 ]]'
	[[ ! -e /only-here ]]
	run ! node_exec a test -e /only-here
	run_pod fails any 'echo on stderr >&2; exit 7'
	eventually 20 pod_is fails Failed
	[[ $(kubectl get pod fails -o json | jq '.status.containerStatuses[0].state.terminated.exitCode') == 7 ]]
	eventually 5 pod_says fails 'on stderr'
}

@test "a container that ends is started again, with back-off" {
	kubectl run ends --image=any --command -- sh -c 'exit 1'
	eventually 20 restarted ends 1
}

@test "exec and probes run inside the container" {
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: probed}
		spec:
		  terminationGracePeriodSeconds: 1
		  containers:
		  - name: main
		    image: any
		    command: [sh, -c, "sleep 1; touch /ready; sleep 1000"]
		    readinessProbe: {exec: {command: [test, -e, /ready]}, periodSeconds: 1}
	EOF
	kubectl wait --for=condition=Ready pod/probed --timeout=30s
	[[ $(kubectl exec probed -- sh -c 'ls /ready; hostname') == $'/ready\nprobed' ]]
	run -3 kubectl exec probed -- sh -c 'exit 3'
}

@test "a pod speaks to the API server with its token, and may do what its role says" {
	kubectl create clusterrole reader --verb=get --resource=nodes
	kubectl create clusterrolebinding reader --clusterrole=reader --serviceaccount=default:default
	in_pod client '
		cd /var/run/secrets/kubernetes.io/serviceaccount
		ask() {
			curl -sS --cacert ca.crt -H "Authorization: Bearer $(cat token)" -o /dev/null -w "%{http_code}\n" \
				"https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT$1"
		}
		[[ $(ask /api/v1/nodes/a) == 200 && $(ask /api/v1/nodes) == 403 ]]'
}

@test "user, capabilities and a read-only root hold" {
	kubectl apply -f - <<-'EOF'
		apiVersion: v1
		kind: Pod
		metadata: {name: limited}
		spec:
		  restartPolicy: Never
		  volumes: [{name: v, emptyDir: {}}]
		  containers:
		  - name: main
		    image: any
		    command:
		    - bash
		    - -c
		    - |
		      set -ex
		      [[ $(id -u):$(id -g) == 1000:2000 ]]
		      grep -q "^CapEff:.0000000000000000$" /proc/self/status
		      grep -q "^CapBnd:.0000000000000000$" /proc/self/status
		      grep -q "^NoNewPrivs:.1$" /proc/self/status
		      if touch /x; then exit 1; fi
		      touch /mine/x
		    volumeMounts: [{name: v, mountPath: /mine}]
		    securityContext:
		      runAsUser: 1000
		      runAsGroup: 2000
		      readOnlyRootFilesystem: true
		      allowPrivilegeEscalation: false
		      capabilities: {drop: [ALL]}
	EOF
	eventually 20 pod_is limited Succeeded
	in_pod usual '[[ $(sed -n "s/^CapEff:.//p" /proc/self/status) == 00000000a80425fb ]]'
	in_pod mighty "[[ -c /dev/nvidia0 ]] && grep -q '^CapEff:.$(sed -n 's/^CapBnd:.//p' /proc/self/status)' /proc/self/status" \
		'securityContext: {privileged: true}'
}

@test "the toolkit gives the GPUs that the environment names, and only where it is" {
	local uuid
	uuid=$(sim a show --json | jq -r '.gpus[2].uuid')
	in_pod one '[[ $(nvidia-smi) == /dev/nvidia2 && -c /dev/nvidiactl && -e /usr/lib/x86_64-linux-gnu/libcuda.so.1 ]]' \
		"env: [{name: NVIDIA_VISIBLE_DEVICES, value: $uuid}]"
	in_pod none '[[ ! -e /dev/nvidiactl && ! -e /usr/bin/nvidia-smi ]]'
	run_pod wrong any true 'env: [{name: NVIDIA_VISIBLE_DEVICES, value: GPU-nobody}]'
	eventually 20 eval 'kubectl get events | grep "GPU-nobody: unknown device"'
}

@test "an image that cannot be pulled backs off, and runs when it can" {
	image_deny a 'bad/*'
	kubectl run bad --image=bad/image:1
	eventually 20 eval 'kubectl get pod bad | grep -E "ErrImagePull|ImagePullBackOff"'
	image_deny a
	eventually 40 pod_is bad Running
}

@test "without its kubelet a pod runs on; without power it does not" {
	local seconds=1$$ process # on the host it has another number, and its duration tells it from others
	kubectl run stays --image=any --command -- sleep $seconds
	eventually 20 pod_is stays Running
	eventually 10 pgrep -x -f "sleep $seconds"
	process=$(pgrep -x -f "sleep $seconds")
	kubelet_stop a KILL
	[[ -e /proc/$process ]]
	kubelet_start a
	eventually 20 grep "SyncLoop ADD" "$KUBE/nodes/a/log/kubelet.log" # of this start
	[[ $(kubectl get pod stays -o json | jq '.status.containerStatuses[0].restartCount') == 0 ]]
	node_off a
	# The new machine's kubelet may start the pod anew; this process is gone.
	eventually 10 test ! -e "/proc/$process"
	kubectl delete node a
	node_add a p3.2xlarge
}

@test "a token that is replaced is refused" {
	local answer="curl -sS --cacert $KUBE/pki/ca.crt -o /dev/null -w %{http_code} https://10.0.0.1/version"
	token_new a /run/token default
	node_exec a cat /run/token >"$BATS_TEST_TMPDIR/old"
	answers() { [[ $($answer -H "Authorization: Bearer $(cat "$1")") == "$2" ]]; }
	answers "$BATS_TEST_TMPDIR/old" 200
	token_new a /run/token default
	node_exec a cat /run/token >"$BATS_TEST_TMPDIR/new"
	answers "$BATS_TEST_TMPDIR/new" 200
	eventually 20 answers "$BATS_TEST_TMPDIR/old" 401
}

@test "the API server comes back, and an etcd that forgot everything is a new cluster" {
	api_stop
	run ! kubectl get nodes
	api_start
	eventually 10 kubectl get node a
	etcd_wipe
	[[ -z $(kubectl get nodes -o name) ]]
	kubelet_stop a && kubelet_start a
	eventually 30 node_ready a
}
