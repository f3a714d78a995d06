#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Helm chart: lint, what it renders for many values, what it refuses, rights by feature, its README,
# and the plain manifests made from it. Needs no cluster.
set -euo pipefail

usage() {
	cat <<-'EOT'
		usage: tools/check-chart.sh

		Takes the helm of $HELM, of PATH, or of the cache of test/kube; without one it exits with 77. Needs gojq
		and python3-yaml.
	EOT
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
esac
cd "$(dirname "$0")/.."
chart=deploy/helm/gpuslice
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0 checks=0

find_helm() {
	local cache=${GPUSLICE_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuslice/kube} found
	if [[ -n ${HELM-} ]]; then
		echo "$HELM"
	elif command -v helm; then
		:
	else
		for found in "$cache"/helm*/helm .cache/kube/helm*/helm; do
			[[ ! -x $found ]] || { realpath "$found" && return; }
		done
	fi
}

helm=$(find_helm)
if [[ -z $helm ]]; then
	echo "no helm here: set HELM, or let \`make kube-test\` build it"
	exit 77
fi
for need in gojq python3; do
	command -v "$need" >/dev/null || { echo "no $need here" && exit 77; }
done
python3 -c 'import yaml' 2>/dev/null || { echo "no python3-yaml here" && exit 77; }

fail() {
	printf 'FAILED: %s\n' "$*"
	bad=$((bad + 1))
}

# A cluster of a fixed version, so that the result does not depend on helm's idea of one.
render() { "$helm" template gpuslice "$chart" --namespace gpuslice --kube-version 1.37.0 "$@" 2>"$work/stderr"; }

# Kubernetes' YAML as one JSON list.
to_json() {
	python3 -c 'import json, sys, yaml
json.dump([d for d in yaml.safe_load_all(sys.stdin) if d], sys.stdout)'
}

# accepts WHAT JQ_EXPRESSION HELM_ARGUMENT...: renders, and the expression is true of the list of objects.
# The functions below save words in it.
jq_prelude='
def kind($k): .[] | select(.kind == $k);
def pod: kind("DaemonSet").spec.template.spec;
def agent: pod.containers[0];
def env($n): [agent.env[] | select(.name == $n) | .value // "from a field"] | if length == 1 then .[0] else "\(length) of \($n)" end;
def no_env($n): [agent.env[] | select(.name == $n)] == [];
def mount($n): agent.volumeMounts[] | select(.name == $n);
def volume($n): pod.volumes[] | select(.name == $n);
def volumes: [pod.volumes[].name] | sort;
def rules($k): [.[] | select(.kind == $k) | .rules[] | "\(.resources | join(",")): \(.verbs | join(","))"];
def kinds: [.[].kind] | unique;
def caps: agent.securityContext | [(.privileged // false), ((.capabilities.add // []) | join(","))];
'

accepts() {
	local what=$1 expression=$2 verdict
	shift 2
	checks=$((checks + 1))
	if ! render "$@" >"$work/out.yaml"; then
		fail "$what: helm refuses: $(head -n 5 "$work/stderr")"
		return
	fi
	to_json <"$work/out.yaml" >"$work/out.json" || { fail "$what: what helm renders is no YAML"; return; }
	verdict=$(gojq -r "$jq_prelude $expression" "$work/out.json" 2>&1) || true
	[[ $verdict == true ]] || fail "$what: not true ($verdict): $expression"
}

# refuses TEXT HELM_ARGUMENT...: helm ends with an error that has the text.
refuses() {
	local text=$1
	shift
	checks=$((checks + 1))
	if render "$@" >/dev/null; then
		fail "accepted, though it should say '$text': $*"
	elif ! grep -qF -- "$text" "$work/stderr"; then
		fail "the refusal of '$*' lacks '$text': $(cat "$work/stderr")"
	fi
}

# notes TEXT HELM_ARGUMENT...: what helm says after an install has the text, "!TEXT" has it not. `helm template` leaves the
# notes out, so a copy of the chart has them as an object.
notes() {
	local text=$1 not=
	shift
	checks=$((checks + 1))
	[[ $text != '!'* ]] || { not=1 && text=${text#!}; }
	if [[ ! -d $work/with-notes ]]; then
		cp -r "$chart" "$work/with-notes"
		mv "$work/with-notes/templates/NOTES.txt" "$work/with-notes/"
		echo '{kind: ConfigMap, apiVersion: v1, metadata: {name: notes}, data: {notes: {{ tpl (.Files.Get "NOTES.txt") . | toJson }}}}' \
			>"$work/with-notes/templates/notes.yaml"
	fi
	"$helm" template gpuslice "$work/with-notes" --namespace gpuslice --kube-version 1.37.0 --show-only templates/notes.yaml "$@" \
		>"$work/notes" 2>"$work/stderr" || { fail "notes of '$*': helm refuses: $(head -n 5 "$work/stderr")" && return; }
	if grep -qF -- "$text" "$work/notes"; then
		[[ -z $not ]] || fail "the notes of '$*' have '$text'"
	else
		[[ -n $not ]] || fail "the notes of '$*' lack '$text': $(cat "$work/notes")"
	fi
}

check_lint() {
	checks=$((checks + 1))
	"$helm" lint --strict --namespace gpuslice "$chart" >"$work/lint" 2>&1 || fail "helm lint: $(cat "$work/lint")"
	local version
	version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
	grep -qx "appVersion: \"$version\"" "$chart/Chart.yaml" || fail "Chart.yaml: appVersion is not meson.build's $version"
	grep -q "image.version=\"$version\"" deploy/image/Containerfile || fail "Containerfile: its version is not $version"
}

# Values files, as a user has them.
write_values() {
	# The default values of NVIDIA's chart, by name and value.
	cat >"$work/nvidia.yaml" <<-'EOT'
		config: {name: "", map: {}, default: "", fallbackStrategies: [named, single]}
		compatWithCPUManager: null
		migStrategy: null
		failOnInitError: null
		deviceListStrategy: null
		deviceIDStrategy: null
		nvidiaDriverRoot: null
		nvidiaDevRoot: null
		gdrcopyEnabled: null
		gdsEnabled: null
		mofedEnabled: null
		deviceDiscoveryStrategy: null
		nameOverride: ""
		fullnameOverride: ""
		namespaceOverride: ""
		selectorLabelsOverride: {}
		componentSelectorLabels: {enabled: false}
		allowDefaultNamespace: false
		imagePullSecrets: []
		image: {repository: nvcr.io/nvidia/k8s-device-plugin, pullPolicy: IfNotPresent, tag: ""}
		updateStrategy: {type: RollingUpdate}
		podAnnotations: {}
		podSecurityContext: {}
		securityContext: {}
		resources: {}
		nodeSelector: {}
		tolerations:
		- {key: CriticalAddonsOnly, operator: Exists}
		- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
		priorityClassName: system-node-critical
		runtimeClassName: null
		devicePlugin:
		  enabled: true
		  containers: {main: {env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}, {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}]}}
		gfd:
		  enabled: false
		  nameOverride: gpu-feature-discovery
		  namespaceOverride: ""
		  noTimestamp: null
		  sleepInterval: null
		  securityContext: {privileged: true}
		nfd:
		  nameOverride: node-feature-discovery
		  master: {config: {extraLabelNs: [nvidia.com]}}
		  worker: {config: {sources: {pci: {deviceClassWhitelist: ["02", "03"]}}}}
		mps: {root: /run/nvidia/mps, enableHostPID: true}
		cdi: {nvidiaHookPath: null, featureFlags: null}
	EOT
	# What files for NVIDIA's charts of 0.7 to 0.20 have besides, the GPU feature discovery of 0.12 to 0.14 included.
	cat >"$work/nvidia-old.yaml" <<-'EOT'
		legacyDaemonsetAPI: false
		failOnInitError: "true"
		gdsEnabled: "false"
		devicePlugin: {mode: plugin}
		gfd:
		  enabled: true
		  runtimeClassName: nvidia
		  legacyDaemonsetAPI: true
		  migStrategy: none
		  failOnInitError: true
		  fullnameOverride: gfd
		  selectorLabelsOverride: {a: b}
		  allowDefaultNamespace: true
		  imagePullSecrets: [{name: x}]
		  image: {repository: nvcr.io/nvidia/gpu-feature-discovery, tag: v0.8.2, pullPolicy: Always}
		  updateStrategy: {type: RollingUpdate}
		  podAnnotations: {a: b}
		  podSecurityContext: {runAsUser: 0}
		  resources: {limits: {memory: 128Mi}}
		  priorityClassName: system-node-critical
		  nodeSelector: {feature.node.kubernetes.io/pci-10de.present: "true"}
		  affinity: {nodeAffinity: {}}
		  tolerations: [{operator: Exists}]
		nfd: {enabled: true}
	EOT
	cat >"$work/two.yaml" <<-'EOT'
		config:
		  map:
		    a: "version: v1"
		    b: |-
		      version: v1
		      flags: {migStrategy: none}
	EOT
	printf 'config: {map: {default: "version: v1\\nflags: {MigStrategy: \\"mixed\\"}"}}\n' >"$work/mig.yaml"
	printf 'config: {map: {default: "{\\"sharing\\": {\\"mps\\": {\\"resources\\": [{\\"name\\": \\"gpu\\", \\"replicas\\": 2}]}}}"}}\n' >"$work/mps-json.yaml"
	printf 'config: {map: {default: "{flags: {mpsRoot: /m}, sharing: {mps: null}}"}}\n' >"$work/mps-null.yaml"
	printf 'config: {map: {default: "flags: {plugin: {deviceListStrategy: volume-mounts}}"}}\n' >"$work/mounts.yaml"
	printf 'config: {map: {default: "flags: {plugin: {deviceListStrategy: cdi-cri}}"}}\n' >"$work/cdi.yaml"
}

none='[false, ""]' admin='[false, "SYS_ADMIN"]' privileged='[true, ""]'
openshift=(--api-versions security.openshift.io/v1)
one=(--set-string 'config.map.default=version: v1')

check_pod() {
	accepts "defaults" 'volumes == ["device-plugins", "last-config", "ledger", "pod-resources", "run"]'
	accepts "defaults" 'agent.securityContext == {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: ["ALL"]}, seccompProfile: {type: "RuntimeDefault"}}'
	accepts "defaults" 'pod | (has("hostPID") or has("hostNetwork") or has("hostIPC") or has("shareProcessNamespace")) | not'
	accepts "defaults" 'kind("DaemonSet").spec.updateStrategy == {type: "RollingUpdate", rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}'
	accepts "defaults" 'pod | (.terminationGracePeriodSeconds == 10 and .priorityClassName == "system-node-critical" and (.containers | length) == 1)'
	accepts "defaults" 'pod.tolerations == [{operator: "Exists"}]'
	accepts "defaults" '[pod.affinity | .. | .key? // empty] == ["feature.node.kubernetes.io/pci-10de.present", "feature.node.kubernetes.io/pci-0302_10de.present", "feature.node.kubernetes.io/pci-0300_10de.present", "feature.node.kubernetes.io/cpu-model.vendor_id", "nvidia.com/gpu.present"]'
	accepts "defaults" 'agent | (.livenessProbe.httpGet.path == "/healthz" and .readinessProbe.httpGet.path == "/readyz" and .ports == [{name: "http", containerPort: 9401}, {name: "metrics", containerPort: 9400}])'
	accepts "defaults" 'env("GPUSLICE_LISTEN") == "[$(POD_IP)]:9401" and env("NVIDIA_VISIBLE_DEVICES") == "all"'
	# What is not given must not be set: a variable goes before the config, even an empty one.
	accepts "defaults" '[agent.env[].name] - ["GPUSLICE_LABELS", "GPUSLICE_LEDGER_DIR", "GPUSLICE_LISTEN", "GPUSLICE_METRICS_LISTEN", "GPUSLICE_LOG_FORMAT", "GPUSLICE_LOG_LEVEL", "GPUSLICE_NODE_CONDITION", "GPUSLICE_STARTUP_TAINT", "NAMESPACE", "NODE_NAME", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_VISIBLE_DEVICES", "POD_IP", "POD_NAME"] == []'
	accepts "the address is known before what is made of it" '[agent.env[].name] | index("POD_IP") < index("GPUSLICE_LISTEN")'

	accepts "strategies" 'env("MIG_STRATEGY") == "mixed" and env("DEVICE_ID_STRATEGY") == "index" and env("FAIL_ON_INIT_ERROR") == "false" and env("GDS_ENABLED") == "true" and env("NVIDIA_MIG_MONITOR_DEVICES") == "all"' \
		--set migStrategy=mixed,deviceIDStrategy=index,failOnInitError=false,gdsEnabled=true
	accepts "list of strategies" 'env("DEVICE_LIST_STRATEGY") == "cdi-annotations,cdi-cri"' --set 'deviceListStrategy={cdi-annotations,cdi-cri}'
	accepts "gfd" 'env("GFD_NO_TIMESTAMP") == "true" and env("GFD_SLEEP_INTERVAL") == "30s"' --set gfd.noTimestamp=true,gfd.sleepInterval=30s
	accepts "gfd at the top level" 'env("GFD_NO_TIMESTAMP") == "true" and env("GFD_SLEEP_INTERVAL") == "30s"' --set noTimestamp=true,sleepInterval=30s
	accepts "gfd off" 'env("GPUSLICE_LABELS") == "off"' --set gfd.enabled=false
	accepts "labels only" 'env("KUBELET_SOCKET") == "" and (volumes | index("device-plugins")) == null' --set devicePlugin.enabled=false
	accepts "environment of the user" 'env("GPUSLICE_LOG_LEVEL") == "debug" and env("DP_DISABLE_HEALTHCHECKS") == "xids"' \
		--set 'extraEnv[0].name=GPUSLICE_LOG_LEVEL,extraEnv[0].value=debug,extraEnv[1].name=DP_DISABLE_HEALTHCHECKS,extraEnv[1].value=xids'
	accepts "narrow tolerations keep the start-up taint" '[pod.tolerations[].key] == ["nvidia.com/gpu", "gpuslice.io/not-ready"]' \
		--set 'tolerations[0].key=nvidia.com/gpu,tolerations[0].operator=Exists'
	accepts "kubelet's root" 'volume("pod-resources").hostPath.path == "/var/lib/k0s/kubelet/pod-resources" and volume("device-plugins").hostPath.path == "/var/lib/kubelet/device-plugins"' \
		--set kubeletRoot=/var/lib/k0s/kubelet
	accepts "feature file" 'volumes | index("features") != null' --set labels.output=file
	accepts "validator" '[pod.initContainers[].command | join(" ")] == ["gpuslice validate driver", "gpuslice validate toolkit"] and ([pod.initContainers[].securityContext | .privileged // false] == [true, false]) and ([agent.volumeMounts[].name] | index("host")) == null' --set validator.enabled=true
	accepts "digest" 'agent.image | startswith("r.example/g@sha256:00")' \
		--set "image.repository=r.example/g,image.tag=x,image.digest=sha256:$(printf '0%.0s' {1..64})"
	accepts "selector labels of the user" 'kind("DaemonSet").spec | (.selector.matchLabels == {a: "b"} and .template.metadata.labels.a == "b")' --set selectorLabelsOverride.a=b
	accepts "no SCC but on OpenShift" '(kinds | index("SecurityContextConstraints") == null) and (agent.securityContext | has("seLinuxOptions") | not)'
	accepts "SCC on OpenShift" 'kind("SecurityContextConstraints") | (.metadata.name == "gpuslice" and .allowHostDirVolumePlugin and (.allowHostPID or .allowHostNetwork or .allowPrivilegedContainer | not) and .allowedCapabilities == [])' "${openshift[@]}"
	accepts "SELinux on OpenShift" 'agent.securityContext.seLinuxOptions == {type: "spc_t"}' "${openshift[@]}"
	accepts "SELinux label of the user" 'agent.securityContext.seLinuxOptions == {type: "x_t"}' --set seLinuxOptions.type=x_t
	accepts "SCC with what the values take" 'kind("SecurityContextConstraints") | (.allowHostPID and .allowedCapabilities == ["SYS_ADMIN"])' "${openshift[@]}" --set metrics.hostPID=true,migStrategy=mixed
	accepts "SCC of a privileged agent" 'kind("SecurityContextConstraints") | (.allowPrivilegedContainer and .seccompProfiles == ["runtime/default", "unconfined"])' "${openshift[@]}" --set compatWithCPUManager=true
	accepts "right to use the SCC" '[.[] | select(.kind == "Role" and .metadata.name == "gpuslice-scc") | .rules[0]] == [{apiGroups: ["security.openshift.io"], resources: ["securitycontextconstraints"], resourceNames: ["gpuslice"], verbs: ["use"]}]' "${openshift[@]}"
	accepts "no SCC, if not wanted" 'kinds | index("SecurityContextConstraints") == null' "${openshift[@]}" --set scc.create=false
	accepts "no PodMonitor without its API" 'kinds | index("PodMonitor") == null' --set podMonitor.enabled=true
	accepts "PodMonitor by force" 'kinds | index("PodMonitor") != null' --set podMonitor.enabled=true,podMonitor.force=true
	accepts "quota" 'kind("ResourceQuota").spec.scopeSelector.matchExpressions[0].values == ["system-node-critical"]' --set priorityClassQuota=true
	accepts "NVIDIA's default values" 'agent.image == "localhost/gpuslice:0.1.0" and env("GPUSLICE_LABELS") == "off" and env("NVIDIA_VISIBLE_DEVICES") == "all"' -f "$work/nvidia.yaml"
	accepts "values of NVIDIA's older charts" 'env("FAIL_ON_INIT_ERROR") == "true" and env("GDS_ENABLED") == "false" and (pod | has("runtimeClassName") | not)' -f "$work/nvidia-old.yaml"
	notes 'accepted, ignored: gfd.affinity, gfd.allowDefaultNamespace, gfd.failOnInitError' -f "$work/nvidia-old.yaml"
	notes 'gfd.runtimeClassName' -f "$work/nvidia-old.yaml"
	notes '!accepted, ignored' -f "$work/nvidia.yaml"
	notes 'accepted, ignored: legacyDaemonsetAPI.' --set legacyDaemonsetAPI=true
	notes 'does not bring Node Feature Discovery' --set nfd.enabled=true
	accepts "a flag as text counts as the flag" "caps == $none and env(\"PASS_DEVICE_SPECS\") == \"false\"" --set-string compatWithCPUManager=false
}

check_config() {
	accepts "config.map" '(kind("ConfigMap") | (.metadata.name == "gpuslice-configs" and .data == {default: "version: v1"})) and env("CONFIG_FILE_SRCDIR") == "/available-configs" and env("FALLBACK_STRATEGIES") == "named,single"' "${one[@]}"
	accepts "config.name" 'volume("configs").configMap == {name: "mine", optional: true} and mount("configs").mountPath == "/available-configs"' --set config.name=mine
	accepts "a default" 'env("DEFAULT_CONFIG") == "b"' -f "$work/two.yaml" --set config.default=b
	accepts "fallback to nothing" 'env("FALLBACK_STRATEGIES") == "empty"' -f "$work/two.yaml" --set 'config.fallbackStrategies={empty}'
	accepts "through the API" 'env("GPUSLICE_CONFIG_MAP") == "gpuslice-configs" and no_env("CONFIG_FILE_SRCDIR") and (volumes | index("configs")) == null' "${one[@]}" --set configViaAPI=true
	# A change of the config must not restart the agents: the DaemonSet stays the same to the byte.
	render "${one[@]}" --show-only templates/daemonset.yaml >"$work/before"
	render --set-string 'config.map.default=health: {probes: 3}' --show-only templates/daemonset.yaml >"$work/after"
	checks=$((checks + 1))
	cmp -s "$work/before" "$work/after" || fail "another config makes another DaemonSet"
}

check_security() {
	accepts "config of the chart, without MIG" "caps == $none" "${one[@]}"
	accepts "configs that all say none" "caps == $none" -f "$work/two.yaml" --set config.default=a
	accepts "a config with MIG" "caps == $admin" -f "$work/mig.yaml"
	accepts "the same, forced off" "caps == $none" -f "$work/mig.yaml" --set migStrategy=none
	accepts "a config that the chart does not see" "caps == $admin" --set config.name=mine
	accepts "the same, both strategies forced" "caps == $none" --set config.name=mine,migStrategy=none,deviceListStrategy=envvar
	accepts "migStrategy" "caps == $admin" --set migStrategy=single
	accepts "volume-mounts" "caps == $admin" --set deviceListStrategy=volume-mounts
	accepts "volume-mounts in a config" "caps == $admin" -f "$work/mounts.yaml"
	accepts "vGPU labels" "caps == $admin" --set labels.vgpu=true
	accepts "CPU manager" "caps == $privileged and env(\"PASS_DEVICE_SPECS\") == \"true\"" --set compatWithCPUManager=true
	accepts "securityContext of the user" 'agent.securityContext == {runAsGroup: 7}' --set securityContext.runAsGroup=7,compatWithCPUManager=true
	accepts "no toolkit" "caps == $privileged and env(\"DEVICE_LIST_STRATEGY\") == \"cdi-annotations,cdi-cri\" and no_env(\"NVIDIA_VISIBLE_DEVICES\") and volumes == [\"cdi\", \"dev\", \"device-plugins\", \"driver-root\", \"last-config\", \"ledger\", \"pod-resources\", \"run\"]" --set toolkit=false
	accepts "no toolkit, the config says how" 'no_env("DEVICE_LIST_STRATEGY") and (volumes | index("cdi")) != null' -f "$work/cdi.yaml" --set toolkit=false
	accepts "CDI" 'mount("driver-root").readOnly and mount("driver-root").recursiveReadOnly == "IfPossible" and volume("driver-root").hostPath.path == "/"' --set deviceListStrategy=cdi-cri
	accepts "CDI in a config" 'volumes | (index("cdi") != null and index("driver-root") != null)' -f "$work/cdi.yaml"
	accepts "driver container" 'mount("driver-root").mountPropagation == "HostToContainer" and env("NVIDIA_DRIVER_ROOT") == "/run/nvidia/driver"' --set nvidiaDriverRoot=/run/nvidia/driver
	accepts "an API server that does not know recursiveReadOnly" 'mount("driver-root") | has("recursiveReadOnly") | not' --set deviceListStrategy=cdi-cri --kube-version 1.29.0
}

check_mig_manager() {
	local on=(--set migManager.enabled=true) host='pod.volumes[] | select(.name == "host-root")'
	accepts "off by default" 'no_env("GPUSLICE_MIG_MANAGER") and no_env("NVIDIA_MIG_CONFIG_DEVICES")'
	accepts "on with a MIG strategy" "env(\"GPUSLICE_MIG_MANAGER\") == \"true\" and env(\"NVIDIA_MIG_CONFIG_DEVICES\") == \"all\" and env(\"NVIDIA_MIG_MONITOR_DEVICES\") == \"all\" and caps == $admin" --set migStrategy=mixed
	accepts "off in spite of it" 'no_env("GPUSLICE_MIG_MANAGER")' --set migStrategy=mixed,migManager.enabled=false
	accepts "on with a default" "env(\"MIG_CONFIG_DEFAULT\") == \"all-disabled\" and caps == $admin" --set migManager.config.default=all-disabled
	accepts "layouts in a volume" 'env("MIG_CONFIG_FILE") == "/mig-layouts/config.yaml" and volume("mig-layouts").configMap == {name: "mine", optional: true} and no_env("CONFIG_FILE_SRCDIR")' --set migManager.config.name=mine
	accepts "layouts through the API" 'env("GPUSLICE_MIG_CONFIG_MAP") == "mine" and (volumes | index("mig-layouts")) == null and (kind("Role").rules[0].resourceNames == ["mine"])' --set migManager.config.name=mine,configViaAPI=true
	accepts "both ConfigMaps" 'kind("Role").rules[0].resourceNames == ["gpuslice-configs", "mine"]' "${one[@]}" --set migManager.config.name=mine,configViaAPI=true
	accepts "no host's root without need" "[$host] == []" "${on[@]}"
	accepts "reboot" "env(\"WITH_REBOOT\") == \"true\" and ($host | .hostPath.path) == \"/\" and caps == $privileged" "${on[@]}" --set migManager.withReboot=true
	accepts "services of the host" "env(\"GPU_CLIENTS_FILE\") == \"/gpu-clients/clients.yaml\" and env(\"WITH_SHUTDOWN_HOST_GPU_CLIENTS\") == \"true\" and volume(\"gpu-clients\").configMap.name == \"c\" and caps == $privileged" "${on[@]}" --set migManager.gpuClientsConfig.name=c
	accepts "rights" 'rules("ClusterRole") == ["nodes: list,watch", "nodes: patch", "nodes/status: patch", "pods: list", "events: create,patch"] and rules("Role") == []' "${on[@]}" --set labels.output=off,startupTaint.enabled=false
	accepts "validators" '[.[] | select(.kind == "Role") | .metadata.namespace] == ["op"] and rules("Role") == ["pods: list,delete"] and env("GPUSLICE_MIG_OPERATOR_NAMESPACE") == "op"' "${on[@]}" --set migManager.operatorNamespace=op
	refuses "values of migManager are set, but it is off" --set migManager.withReboot=true
	refuses "values of migManager are set, but it is off" --set migManager.enabled=false,migManager.config.default=x
	refuses "at '/migManager/config/default'" --set-string 'migManager.config.default=a"b'
	refuses "additional properties 'withreboot' not allowed" --set migManager.withreboot=true
}

check_slices() {
	local shared='pod.hostPID == true and env("GPUSLICE_STATE_DIR") == "/var/lib/gpuslice" and mount("state").mountPath == volume("state").hostPath.path' ptrace='[false, "KILL,SYS_NICE,SYS_PTRACE"]'
	local isolated=(--set-string 'config.map.default=sharing: {timeSlicing: {resources: [{name: gpu\, replicas: 2\, isolation: {memory: equal}}]}}')
	accepts "no slices without isolation" 'no_env("GPUSLICE_STATE_DIR") and (pod | has("hostPID") | not) and (volumes | index("state")) == null' "${one[@]}"
	accepts "the last config on the host" 'mount("last-config").mountPath == "/var/lib/gpuslice/config" and volume("last-config").hostPath.path == "/data/g/config"' --set slices.stateDir=/data/g
	accepts "the same, with the slices" '(volumes | index("last-config")) == null' --set slices.enabled=true
	accepts "a config that isolates" "$shared and caps == $ptrace" "${isolated[@]}"
	accepts "the same for profiles" "$shared" --set-string 'config.map.default=sharing: {slices: [{name: gpu\, profiles: [{name: small\, memory: 2Gi}]}]}'
	accepts "the same, off" 'pod | has("hostPID") | not' "${isolated[@]}" --set slices.enabled=false
	accepts "a config that the chart does not see" 'pod | has("hostPID") | not' --set config.name=mine
	accepts "the same, on" "$shared" --set config.name=mine,slices.enabled=true
	accepts "with MIG" 'caps == [false, "KILL,SYS_NICE,SYS_PTRACE,SYS_ADMIN"]' --set slices.enabled=true,migStrategy=mixed
	accepts "another directory" 'env("GPUSLICE_STATE_DIR") == "/data/g" and mount("state").mountPath == "/data/g" and volume("state").hostPath.path == "/data/g"' --set slices.enabled=true,slices.stateDir=/data/g
	accepts "the same rights of the API" 'kinds | index("Role") == null' --set slices.enabled=true
	refuses "additional properties 'dir' not allowed" --set slices.dir=/x
	refuses "at '/slices/stateDir'" --set slices.stateDir=x
}

check_mps() {
	local shared='pod.hostPID == true and env("MPS_ROOT") == "/run/nvidia/mps" and mount("mps").mountPath == "/run/nvidia/mps" and volume("mps").hostPath == {path: "/run/nvidia/mps", type: "DirectoryOrCreate"}'
	local none_of_it='no_env("MPS_ROOT") and (pod | has("hostPID") | not) and (volumes | index("mps")) == null' rights='[false, "SYS_PTRACE,SYS_ADMIN"]'
	local text='config.map.default=sharing: {mps: {resources: [{name: gpu\, replicas: 2}]}}'
	local sets='config.map.default=sharing: {slices: [{name: gpu\, mps: true\, profiles: [{name: small\, memory: 2Gi}]}]}'
	accepts "no MPS without a word of it" "$none_of_it" "${one[@]}"
	accepts "a config with MPS" "$shared and caps == $rights" --set-string "$text"
	accepts "the same in JSON" "$shared" -f "$work/mps-json.yaml"
	accepts "the same, off" "$none_of_it" --set-string "$text" --set mps.enabled=false
	accepts "sharing.mps: null, and another key" "$none_of_it" -f "$work/mps-null.yaml"
	accepts "slices under MPS" "$shared and env(\"GPUSLICE_STATE_DIR\") == \"/var/lib/gpuslice\" and caps == [false, \"KILL,SYS_NICE,SYS_PTRACE,SYS_ADMIN\"]" --set-string "$sets"
	accepts "words in a comment" "$none_of_it and caps == $none and ([agent.env[].name] | index(\"GPUSLICE_STATE_DIR\")) == null" \
		-f "$(config_of $'version: v1 # sharing: {mps: {}, slices: [], timeSlicing: {replicas: 2}}\n# isolation: migStrategy: single, volume-mounts')"
	accepts "slices that take turns" 'no_env("MPS_ROOT")' --set-string "${sets/true/false}"
	accepts "MPS of a config that the chart does not see" "$none_of_it" --set config.name=mine,migStrategy=none
	accepts "the same, on" "$shared" --set config.name=mine,mps.enabled=true
	accepts "another root of MPS" 'env("MPS_ROOT") == "/data/m" and mount("mps").mountPath == "/data/m" and volume("mps").hostPath.path == "/data/m"' --set mps.enabled=true,mps.root=/data/m
	accepts "MPS beside the MIG manager" "caps == [false, \"SYS_PTRACE,SYS_ADMIN\"]" --set mps.enabled=true,migManager.enabled=true
	refuses "at '/mps/root'" --set mps.root=m
	refuses "at '/mps/enabled'" --set-string mps.enabled=true
}

# Metrics, what they are scraped by, and what is made of deploy/grafana.
check_metrics() {
	local api=(--api-versions monitoring.coreos.com/v1) end='kind("PodMonitor").spec.podMetricsEndpoints[0]' text
	accepts "metrics" 'env("GPUSLICE_METRICS_LISTEN") == ":9400" and env("GPUSLICE_LEDGER_DIR") == mount("ledger").mountPath and volume("ledger").hostPath == {path: "/var/lib/gpuslice/ledger", type: "DirectoryOrCreate"} and no_env("GPUSLICE_PRICE") and no_env("GPUSLICE_METRICS_COLLECTORS") and (pod | has("hostPID") | not)'
	accepts "no metrics" 'env("GPUSLICE_METRICS") == "false" and no_env("GPUSLICE_METRICS_LISTEN") and no_env("GPUSLICE_LEDGER_DIR") and (volumes | index("ledger")) == null and [agent.ports[].name] == ["http"]' --set metrics.enabled=false
	accepts "metrics in the host's network" 'env("GPUSLICE_METRICS_LISTEN") == "[$(POD_IP)]:9500"' --set metrics.port=9500,devicePlugin.enableHostNetwork=true
	accepts "where to listen, how often" 'env("GPUSLICE_METRICS_LISTEN") == "127.0.0.1:9400" and env("GPUSLICE_METRICS_INTERVAL") == "10s"' --set metrics.listen=127.0.0.1:9400,metrics.interval=10s
	accepts "PIDs for attribution" 'pod.hostPID == true and caps == [false, ""]' --set metrics.hostPID=true
	text='config.map.default=sharing: {timeSlicing: {resources: [{name: gpu\, replicas: 2}]}}'
	accepts "the same where a config shares GPUs" 'pod.hostPID == true and caps == [false, ""]' --set-string "$text"
	accepts "the same, off" 'pod | has("hostPID") | not' --set-string "$text" --set metrics.hostPID=false
	accepts "the same, nothing measured" 'pod | has("hostPID") | not' --set-string "$text" --set metrics.enabled=false
	accepts "a config that shares nothing" 'pod | has("hostPID") | not' --set-string 'config.map.default=resources: {gpus: [{pattern: "*"\, name: gpu}]}'
	refuses "at '/metrics/hostPID'" --set-string metrics.hostPID=true
	accepts "token" 'env("GPUSLICE_METRICS_TOKEN_FILE") == "/etc/gpuslice/token/t" and volume("token").secret.secretName == "s" and mount("token").readOnly' --set metrics.tokenSecret.name=s,metrics.tokenSecret.key=t
	accepts "TLS" 'env("GPUSLICE_METRICS_CERT_FILE") == "/etc/gpuslice/tls/tls.crt" and env("GPUSLICE_METRICS_KEY_FILE") == "/etc/gpuslice/tls/tls.key" and volume("tls").secret.secretName == "s"' --set metrics.tlsSecret=s
	accepts "counters" 'env("GPUSLICE_METRICS_COLLECTORS") == "/etc/gpuslice/counters/default-counters.csv" and volume("counters").configMap.name == "gpuslice-counters" and ([.[] | select(.metadata.name == "gpuslice-counters") | .data["default-counters.csv"]] == ["DCGM_FI_DEV_GPU_TEMP, gauge, temperature\n"])' --set-string 'metrics.counters=DCGM_FI_DEV_GPU_TEMP\, gauge\, temperature'
	accepts "counters of the user" 'env("GPUSLICE_METRICS_COLLECTORS") == "/etc/gpuslice/counters/metrics" and volume("counters").configMap.name == "mine" and (kinds | index("ConfigMap")) == null' --set metrics.countersConfigMap.name=mine,metrics.countersConfigMap.key=metrics
	accepts "counters through the API" 'env("DCGM_EXPORTER_CONFIGMAP_DATA") == "mon:dcgm"' --set metrics.configMapData=mon:dcgm
	refuses "at '/metrics/configMapData'" --set metrics.configMapData=dcgm
	accepts "no labels of pods" 'no_env("DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS")' --set 'metrics.podLabels.allowlist={^app$}'
	accepts "labels of pods" 'env("DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS") == "true" and env("DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX") == "^app$,^t"' --set 'metrics.podLabels.enabled=true,metrics.podLabels.allowlist={^app$,^t}'
	accepts "price" 'env("GPUSLICE_PRICE") == "12.24" and env("GPUSLICE_CURRENCY") == "EUR"' --set price.perHour=12.24,price.currency=EUR
	accepts "a node for nothing" 'env("GPUSLICE_PRICE") == "0"' --set price.perHour=0
	accepts "instance type" 'env("GPUSLICE_INSTANCE_TYPE") == "p3.8xlarge" and env("GPUSLICE_REGION") == "eu-west-1" and no_env("GPUSLICE_CURRENCY")' --set price.instanceType=p3.8xlarge,price.region=eu-west-1
	accepts "catalogue" 'env("GPUSLICE_PRICE_FILE") == "/etc/gpuslice/prices/prices.yaml" and volume("prices").configMap.name == "gpuslice-prices" and kind("ConfigMap").data["prices.yaml"] == "version: gpuslice/prices/v1\n"' --set-string 'price.catalogue=version: gpuslice/prices/v1'
	accepts "PodMonitor" "$end | .port == \"metrics\" and .honorLabels and .relabelings == [{action: \"labeldrop\", regex: \"pod|namespace|container\"}] and (has(\"scheme\") or has(\"authorization\") or has(\"metricRelabelings\") | not)" --set podMonitor.enabled=true "${api[@]}"
	accepts "PodMonitor as dcgm-exporter's" "$end | (.honorLabels | not) and (has(\"relabelings\") | not)" --set podMonitor.enabled=true,podMonitor.honorLabels=false "${api[@]}"
	accepts "exported labels" "$end | [.metricRelabelings[].targetLabel] == [\"exported_pod\", \"exported_namespace\", \"exported_container\"]" --set podMonitor.enabled=true,podMonitor.exportedLabels=true "${api[@]}"
	accepts "PodMonitor with token and TLS" "$end | .scheme == \"https\" and .authorization.credentials == {name: \"s\", key: \"token\"}" --set podMonitor.enabled=true,metrics.tlsSecret=c,metrics.tokenSecret.name=s "${api[@]}"
	accepts "no rules without the API" 'kinds | index("PrometheusRule") == null' --set prometheusRule.enabled=true
	accepts "rules" '[kind("PrometheusRule").spec.groups[].rules[] | select(.alert)] | length > 15 and all(.annotations.runbook_url | startswith("https://x.example/docs/alerts.md#")) and (.[] | select(.alert == "GpusliceIdleMoney") | .expr == "node:gpuslice_gpu_idle_hourly_cost:sum > 2.5" and (.annotations.description | contains("more than 2.5 an hour")))' --set prometheusRule.enabled=true,prometheusRule.idleCostPerHour=2.5,prometheusRule.runbookPrefix=https://x.example/ "${api[@]}"
	accepts "rules by force" 'kinds | index("PrometheusRule") != null' --set prometheusRule.enabled=true,prometheusRule.force=true
	# As they are, they are the file's.
	text=$(to_json <deploy/grafana/rules.yaml)
	accepts "the same rules" "kind(\"PrometheusRule\").spec == ${text}[0]" --set prometheusRule.enabled=true,prometheusRule.force=true
	accepts "dashboards" 'kind("ConfigMap") | (.metadata.labels.grafana_dashboard == "1" and .metadata.namespace == "m" and (.data | map_values(fromjson | .uid)) == {"gpuslice-cluster.json": "gpuslice-cluster", "gpuslice-node.json": "gpuslice-node"})' --set dashboards.enabled=true,dashboards.namespace=m
	accepts "network policy" 'kind("NetworkPolicy").spec.ingress | length == 1 and .[0].ports[0].port == "http"' --set networkPolicy.enabled=true
	accepts "network policy with peers" 'kind("NetworkPolicy").spec.ingress[1] == {ports: [{port: "metrics", protocol: "TCP"}], from: [{namespaceSelector: {}}]}' --set networkPolicy.enabled=true --set-json 'networkPolicy.from=[{"namespaceSelector":{}}]'
	refuses "metrics.port and listenPort are both 9400" --set listenPort=9400
	refuses 'metrics.listen is ":9401", and listenPort 9401' --set metrics.listen=:9401
	refuses "metrics.counters and metrics.countersConfigMap.name are both set" --set metrics.counters=x,metrics.countersConfigMap.name=y
	refuses "podMonitor.enabled is true, but metrics.enabled is false" --set metrics.enabled=false,podMonitor.enabled=true
	refuses "at '/metrics/interval'" --set metrics.interval=1x
	for text in 0s 999ms 5m1s 10m 0.9s; do
		refuses "metrics.interval: expected a duration from 1s to 5m, found $text" --set metrics.interval=$text
	done
	for text in 1s 1000ms 5m 4m59.5s; do
		accepts "the interval $text" "env(\"GPUSLICE_METRICS_INTERVAL\") == \"$text\"" --set metrics.interval=$text
	done
	refuses "metrics.listen: expected HOST:PORT with a port from 1 to 65535, found :65536" --set metrics.listen=:65536
	refuses "at '/price/perHour': minimum: got -1, want 0" --set price.perHour=-1
	refuses "at '/price/perHour'" --set-string price.perHour=-1
	text='price.perHour: expected an amount from 0 to 1000000 such as 12.24, found'
	refuses "$text 1e-07" --set-json price.perHour=0.0000001
	refuses "$text 1000001" --set price.perHour=1000001
	refuses "at '/price/currency'" --set price.currency=euro
	refuses "at '/price/perHour'" --set-string price.perHour=cheap
	refuses "at '/metrics/listen'" --set metrics.listen=here
}

# Rights by feature: exactly these rules, and a token only where there is one to use.
check_rights() {
	local off=(--set 'labels.output=off,startupTaint.enabled=false') get='"nodes: list,watch"'
	local status='"nodes/status: patch"' type='env("GPUSLICE_NODE_CONDITION")'
	local patch='"nodes: patch"' events='"events: create,patch"' maps='"configmaps: list,watch"'
	accepts "no API" 'kinds == ["DaemonSet", "ServiceAccount"] and pod.automountServiceAccountToken == false' "${off[@]}"
	accepts "feature file" 'kinds == ["DaemonSet", "ServiceAccount"]' --set labels.output=file,startupTaint.enabled=false
	accepts "config by label" "rules(\"ClusterRole\") == [$get, $events] and rules(\"Role\") == [] and pod.automountServiceAccountToken" "${off[@]}" "${one[@]}"
	accepts "config through the API" "rules(\"Role\") == [$maps] and kind(\"Role\").rules[0].resourceNames == [\"gpuslice-configs\"]" "${off[@]}" "${one[@]}" --set configViaAPI=true
	accepts "start-up taint" "rules(\"ClusterRole\") == [$get, $patch, $status, $events]" --set labels.output=off
	accepts "labels by patch" "rules(\"ClusterRole\") == [$get, $patch, $status, $events] and rules(\"Role\") == []" --set startupTaint.enabled=false
	accepts "node condition" "$type == \"AcceleratedHardwareReady\""
	accepts "no node condition without the policy" "rules(\"ClusterRole\") == [$get, $patch, $events] and $type == \"\"" --set nodeRestriction.enabled=false,metrics.podLabels.enabled=false
	accepts "no node condition before 1.32" "(rules(\"ClusterRole\") | index($status)) == null and $type == \"\"" --kube-version 1.31.9
	accepts "no node condition if not wanted" "(rules(\"ClusterRole\") | index($status)) == null and $type == \"\"" --set nodeCondition.enabled=false
	accepts "node condition by force" "(rules(\"ClusterRole\") | index($status)) != null and $type == \"Mine\"" --set nodeCondition.enabled=true,nodeCondition.type=Mine --kube-version 1.31.9
	accepts "node condition alone" "rules(\"ClusterRole\") == [$get, $status, $events]" "${off[@]}" --set nodeCondition.enabled=true
	refuses "at '/nodeCondition/type'" --set nodeCondition.type=Ready
	accepts "counters through the API" "rules(\"ClusterRole\") == [$get, $events] and rules(\"Role\") == [$maps] and (kind(\"Role\") | .metadata.namespace == \"mon\" and .rules[0].resourceNames == [\"dcgm\"])" "${off[@]}" --set metrics.configMapData=mon:dcgm
	accepts "labels of pods" "rules(\"ClusterRole\") == [$get, \"pods: list\", $events] and rules(\"Role\") == [] and pod.automountServiceAccountToken" "${off[@]}" --set metrics.podLabels.enabled=true
	accepts "no metrics, no labels of pods" 'kinds == ["DaemonSet", "ServiceAccount"]' "${off[@]}" --set metrics.enabled=false,metrics.podLabels.enabled=true
	accepts "labels by NFD" "rules(\"ClusterRole\") == [$get, $events] and rules(\"Role\") == [\"nodefeatures: get,create,update\", \"pods: get\"]" --set labels.output=nfd,startupTaint.enabled=false
	accepts "roles of the user" 'kinds | (index("ClusterRole") == null and index("Role") == null)' --set rbac.create=false
	accepts "account of the user" 'pod.serviceAccountName == "mine" and (kinds | index("ServiceAccount")) == null' --set serviceAccount.create=false,serviceAccount.name=mine
	accepts "policy" '[.[] | select(.kind == "ValidatingAdmissionPolicy").metadata.name] == ["gpuslice-node"]'
	accepts "policy with NFD" '[.[] | select(.kind == "ValidatingAdmissionPolicy").metadata.name] == ["gpuslice-node", "gpuslice-nodefeature"]' --set labels.output=nfd
	accepts "no policy before 1.32" 'kinds | index("ValidatingAdmissionPolicy") == null' --kube-version 1.31.9
	accepts "no policy if not wanted" 'kinds | index("ValidatingAdmissionPolicy") == null' --set nodeRestriction.enabled=false
	accepts "policy by force" 'kinds | index("ValidatingAdmissionPolicy") != null' --kube-version 1.31.9 --set nodeRestriction.enabled=true
}

check_refusals() {
	local text
	refuses "additional properties 'migstrategy' not allowed" --set migstrategy=none
	refuses "additional properties 'fallbackStrategy' not allowed" --set config.fallbackStrategy=single
	refuses "at '/migStrategy': value must be one of 'none', 'single', 'mixed'" --set migStrategy=Single
	refuses "at '/deviceIDStrategy'" --set deviceIDStrategy=name
	refuses "at '/deviceDiscoveryStrategy'" --set deviceDiscoveryStrategy=tegra
	refuses "at '/deviceListStrategy/0'" --set 'deviceListStrategy={env}'
	refuses 'deviceListStrategy has "env"; it can have envvar' --set deviceListStrategy=env
	refuses 'deviceListStrategy has ""; it can have envvar' --set 'deviceListStrategy=envvar\,'
	refuses "at '/failOnInitError'" --set-string failOnInitError=yes
	refuses "additional properties 'runtimeClass' not allowed" --set gfd.runtimeClass=nvidia
	refuses "at '/gfd/sleepInterval'" --set gfd.sleepInterval=60
	refuses "at '/gfd/sleepInterval'" --set gfd.sleepInterval=1minute
	refuses "at '/resources/limits/memory'" --set resources.limits.memory=1GB
	refuses "at '/resources/limits/memory'" --set resources.limits.memory=-1
	for text in 512m 512 0 31Mi 0.03Gi; do
		refuses "resources.limits.memory: expected 32Mi or more, found $text" --set resources.limits.memory=$text
	done
	for text in 33554432 32Mi 1G 0.5Gi; do
		accepts "a memory limit of $text" "(agent.resources.limits.memory | tostring) == \"$text\"" --set resources.limits.memory=$text
	done
	for text in Repo/x 'a"b' a//b: a:x; do
		refuses "at '/image/repository'" --set-string "image.repository=$text"
	done
	for text in gpuslice r.example:5000/a/b-c_d R.example/x localhost/x host:5000/x a__b; do
		accepts "the repository $text" "agent.image | startswith(\"$text:\")" --set "image.repository=$text"
	done
	refuses "at '/updateStrategy/rollingUpdate/maxSurge'" --set updateStrategy.rollingUpdate.maxSurge=1
	refuses "at '/updateStrategy/rollingUpdate/maxUnavailable'" --set updateStrategy.rollingUpdate.maxUnavailable=0
	refuses "at '/config/map/default': got object, want string" --set config.map.default.version=v1
	refuses "invalid propertyName 'a_'" --set-string 'config.map.a_=version: v1'
	refuses "at '/config/fallbackStrategies/0'" --set 'config.fallbackStrategies={first}'
	refuses "at '/labels/output'" --set labels.output=api
	refuses "at '/listenPort'" --set listenPort=0
	refuses "at '/kubeletRoot'" --set kubeletRoot=var/lib/kubelet
	refuses "at '/validator/components/0'" --set 'validator.components={plugin}'
	refuses "at '/startupTaint/key'" --set startupTaint.key=
	refuses 'refusing to install into the namespace "default"' --namespace default
	refuses 'refusing to install into the namespace "default"' --set namespaceOverride=default
	refuses '"namespace" is not a value of this chart' --set namespace=x
	refuses "config.name and config.map are both set" "${one[@]}" --set config.name=x
	refuses 'set config.default to one of: a, b' -f "$work/two.yaml"
	refuses 'config.default is "c", but config.map has only: a, b' -f "$work/two.yaml" --set config.default=c
	refuses 'there is neither config.map nor config.name' --set config.default=c
	refuses 'configViaAPI is true, but' --set configViaAPI=true
	refuses "nothing to do" --set devicePlugin.enabled=false,gfd.enabled=false
	refuses "a mirror of NVIDIA's image" --set image.repository=mirror.example/nvidia/k8s-device-plugin
	refuses 'toolkit is false, but deviceListStrategy is "envvar"' --set toolkit=false,deviceListStrategy=envvar
	refuses "validator.components has \"toolkit\", but toolkit is false" --set toolkit=false,validator.enabled=true
	refuses "chart requires kubeVersion: >=1.28.0-0" --kube-version 1.27.0
	accepts "namespace default, if wanted" 'kind("DaemonSet").metadata.namespace == "default"' --namespace default --set allowDefaultNamespace=true
}

# A key with nothing behind it is null, by which helm takes the chart's default away. Such a value is refused by its name, or it is as
# good as none; and that not in the words of Go.
check_nulls() {
	local depth name
	python3 - "$chart" "$work" <<-'EOT'
		import json, sys, yaml
		chart, work = sys.argv[1:]
		values = yaml.safe_load(open(f"{chart}/values.yaml"))
		schema = json.load(open(f"{chart}/values.schema.json"))
		nulls = {}
		def put(tree, path):
		    for key in path[:-1]:
		        tree = tree.setdefault(key, {})
		    tree[path[-1]] = None
		def walk(schema, values, path):
		    for key, below in schema.get("properties", {}).items():
		        if key not in values:
		            continue
		        here = path + [key]
		        required = key in schema.get("required", [])
		        put(nulls.setdefault(len(here) if required else "none", {}), here)
		        if required and isinstance(values[key], dict):
		            walk(below, values[key], here)
		walk(schema, values, [])
		for name, tree in nulls.items():
		    json.dump(tree, open(f"{work}/null-{name}.yaml", "w"))
	EOT
	for depth in 1 2 3; do
		refuses "missing propert" -f "$work/null-$depth.yaml"
		for name in $(gojq -r '[paths(. == null)[-1]] | unique[]' "$work/null-$depth.yaml"); do
			checks=$((checks + 1))
			grep -q "missing propert.*'$name'" "$work/stderr" || fail "the refusal of empty values does not name $name: $(cat "$work/stderr")"
		done
	done
	accepts "values without a default, empty" '[.. | strings | select(test("<nil>|<no value>"))] == [] and (pod | has("priorityClassName") | not)' -f "$work/null-none.yaml"
	accepts "no rollingUpdate" 'kind("DaemonSet").spec.updateStrategy.rollingUpdate.maxUnavailable == 1' --set-json updateStrategy.rollingUpdate=null
	refuses "at '': missing property 'gfd'" --set-json gfd=null
}

# config_of TEXT: values with one config, of this text.
config_of() {
	local file=$work/config-$checks.yaml
	python3 -c 'import json, sys; json.dump({"config": {"map": {"c": sys.argv[1]}}}, open(sys.argv[2], "w"))' "$1" "$file"
	echo "$file"
}

# configs_of FILE: values with a config of each line of it up to "|", c1 and so on. They share one run of helm.
configs_of() {
	python3 -c 'import json, sys
texts = [line.rstrip("\n").split("|")[0].replace("\\n", "\n") for line in open(sys.argv[1]) if line[:3] != "#: "]
print(json.dumps({"config": {"default": "c1", "map": {f"c{i}": text for i, text in enumerate(texts, 1)}}}))' "$1" >"$work/configs.yaml"
	echo "$work/configs.yaml"
}

# What the agent would refuse or leave out, helm refuses; and nothing that the agent takes. test-config-flags gives the agent the same texts.
check_texts() {
	local text expected file n=0
	file=$(configs_of test/data/config-texts/refused)
	while IFS='|' read -r text expected; do
		n=$((n + 1))
		[[ $n -gt 1 ]] || refuses "the agent would not take these values:" -f "$file"
		checks=$((checks + 1))
		grep -qF -- "config.map.c$n: $expected" "$work/stderr" ||
			fail "the config '$text': expected '$expected', found: $(grep -F "config.map.c$n: " "$work/stderr" || echo "no refusal")"
	done < <(grep -v '^#: ' test/data/config-texts/refused)
	accepts "the configs of test/data/config-texts" 'kinds | index("ConfigMap") != null' -f "$(configs_of test/data/config-texts/accepted)"
	# The agent gets the text that was checked.
	text=$'  version: v1\n  flags: {migStrategy: none}'
	accepts "a config that begins with spaces" "kind(\"ConfigMap\").data.c == \"${text//$'\n'/\\n}\"" -f "$(config_of "$text"$'\n')"
	accepts "an empty config" 'kinds | index("ConfigMap") != null' -f "$(config_of "")"
	for file in examples/*.yaml; do
		grep -q '^version: v1' "$file" || continue
		accepts "$file" 'kinds | index("ConfigMap") != null' -f "$(config_of "$(cat "$file")")"
	done
	while IFS='|' read -r text expected; do
		refuses "metrics.counters: line 2: $expected" --set-string "metrics.counters=# a comment
		${text//,/\\,}"
	done <<-'EOT'
		DCGM_FI_DEV_GPU_TEMP, gauge, a,|expected 3 columns with commas between them (field, type, help), found 4: DCGM_FI_DEV_GPU_TEMP, gauge, a,
		DCGM_FI_DEV_GPU_TEMP; gauge; a|expected 3 columns with commas between them (field, type, help), found 1
		DCGM_FI_DEV_GPU_TEMP, Gauge, a|expected the type counter, gauge, histogram, label, summary; found "Gauge"
		GPU_TEMP, gauge, a|expected the name of a DCGM field, found "GPU_TEMP"
	EOT
	for text in 'DCGM_FI_DEV_DEC_UTIL ,	gauge , Blank.' '"DCGM_EXP_P2P_STATUS","gauge","a, ""b"", c"' 'dcgm_gpu_temp,gauge,'; do
		accepts "the counters '$text'" 'volume("counters").configMap.optional' --set-string "metrics.counters=${text//,/\\,}"
	done
	refuses 'price.catalogue: version: expected "gpuslice/prices/v1", found "2"' --set-string 'price.catalogue=version: "2"'
	refuses 'price.catalogue: malformed YAML: ' --set-string 'price.catalogue=a: ['
	# A pod does not wait for a ConfigMap or Secret.
	accepts "all ConfigMaps and Secrets are optional" '[pod.volumes[] | (.configMap, .secret) | select(.)] | length == 6 and all(.optional)' \
		"${one[@]}" --set metrics.tokenSecret.name=s,metrics.tlsSecret=t,metrics.countersConfigMap.name=c,migManager.withReboot=true \
		--set-string 'price.catalogue=version: gpuslice/prices/v1' --set migManager.enabled=true,migManager.gpuClientsConfig.name=g
}

check_readme() {
	checks=$((checks + 1))
	deploy/helm/values-table.py "$chart" >"$work/table" || { fail "values-table.py"; return; }
	sed -n '/^<!-- values: /,/^<!-- end of values/{//!p}' "$chart/README.md" >"$work/readme"
	diff -u "$work/readme" "$work/table" >"$work/diff" ||
		fail "README.md and values.yaml differ (deploy/helm/values-table.py $chart --write): $(head -n 20 "$work/diff")"
	# Every value is in the schema: helm with the defaults alone has shown it. The reverse, for our own levels:
	python3 - "$chart" >"$work/extra" <<-'EOT' || fail "the schema knows values that values.yaml lacks: $(cat "$work/extra")"
		import json, sys, yaml
		chart = sys.argv[1]
		values = yaml.safe_load(open(f"{chart}/values.yaml"))
		schema = json.load(open(f"{chart}/values.schema.json"))
		# NVIDIA's and Helm's, which have no meaning here or are synonyms.
		foreign = {"namespace", "componentSelectorLabels", "noTimestamp", "sleepInterval", "nfd", "global",
		           "gfd.enableHostNetwork", "gfd.nameOverride", "gfd.namespaceOverride", "gfd.securityContext",
		           "gfd.containers", "legacyDaemonsetAPI", "devicePlugin.mode", "mps.enableHostPID", "mps.enableHostNetwork", "mps.containers",
		           "resources.limits", "resources.claims"}
		foreign |= {f"gfd.{key}" for key, below in schema["properties"]["gfd"]["properties"].items()
		            if below == {"$ref": "#/definitions/ignored"}}
		def walk(schema, values, path):
		    for key, below in schema.get("properties", {}).items():
		        name = f"{path}.{key}".lstrip(".")
		        if name in foreign:
		            continue
		        if not isinstance(values, dict) or key not in values:
		            yield name
		        else:
		            yield from walk(below, values[key], name)
		extra = list(walk(schema, values, ""))
		print(", ".join(extra))
		sys.exit(bool(extra))
	EOT
}

check_manifests() {
	local file
	checks=$((checks + 1))
	HELM=$helm deploy/manifests/generate "$work/manifests" || { fail "deploy/manifests/generate"; return; }
	for file in "$work"/manifests/*/gpuslice.yaml; do
		diff -u "deploy/manifests/${file#"$work/manifests/"}" "$file" >"$work/diff" ||
			fail "deploy/manifests is not up to date (deploy/manifests/generate): $(head -n 20 "$work/diff")"
	done
	command -v kubectl >/dev/null || return 0
	kubectl kustomize deploy/manifests/time-slicing >"$work/kustomized" 2>"$work/stderr" || fail "kustomize: $(cat "$work/stderr")"
	[[ $(grep -c 'replicas: 10\|image: registry.example/gpuslice' "$work/kustomized") == 2 ]] ||
		fail "the overlay time-slicing does not set replicas and image"
}

write_values
check_lint
check_pod
check_config
check_security
check_mig_manager
check_slices
check_mps
check_metrics
check_rights
check_refusals
check_nulls
check_texts
check_readme
check_manifests
echo "$checks checks with $("$helm" version --short), $bad failed"
[[ $bad == 0 ]]
