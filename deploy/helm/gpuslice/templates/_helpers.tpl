{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* A yes is the text "true", a no is empty: that is what `if (include …)` understands. */ -}}

{{- define "gpuslice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 55 characters, so that "-configs" still makes a name of at most 63. */ -}}
{{- define "gpuslice.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 55 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 55 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 55 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- /* Immutable in a DaemonSet, therefore few. */ -}}
{{- define "gpuslice.selectorLabels" -}}
{{- if .Values.selectorLabelsOverride -}}
{{- toYaml .Values.selectorLabelsOverride -}}
{{- else -}}
app.kubernetes.io/name: {{ include "gpuslice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "gpuslice.podLabels" -}}
{{- $own := include "gpuslice.selectorLabels" . | fromYaml -}}
{{- toYaml (merge $own (dict "app.kubernetes.io/component" "agent")) -}}
{{- end -}}

{{- define "gpuslice.labels" -}}
{{- $release := dict "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- toYaml (merge (include "gpuslice.podLabels" . | fromYaml) $release) -}}
{{- end -}}

{{- /* NVIDIA's own image, which comes in with a values file of its chart, is not ours to run. */ -}}
{{- define "gpuslice.foreignImage" -}}
{{- if eq .Values.image.repository "nvcr.io/nvidia/k8s-device-plugin" }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.image" -}}
{{- $i := .Values.image -}}
{{- if include "gpuslice.foreignImage" . -}}
localhost/gpuslice:{{ .Chart.AppVersion }}
{{- else if $i.digest -}}
{{ $i.repository }}@{{ $i.digest }}
{{- else -}}
{{ $i.repository }}:{{ default .Chart.AppVersion $i.tag }}
{{- end -}}
{{- end -}}

{{- define "gpuslice.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpuslice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.configMapName" -}}
{{- if .Values.config.map -}}
{{ include "gpuslice.fullname" . }}-configs
{{- else -}}
{{- default "" .Values.config.name -}}
{{- end -}}
{{- end -}}

{{- /* All configs that the chart knows, as JSON: a comment gives no rights and restarts nothing. In lower case, as keys are read
       without regard to case. One that is no YAML is refused (gpuslice.configErrors). */ -}}
{{- define "gpuslice.configText" -}}
{{- range .Values.config.map }}{{ fromYaml . | toJson | lower }}{{ "\n" }}{{ end -}}
{{- end -}}

{{- /* node, nfd, file or off. */ -}}
{{- define "gpuslice.labelsOutput" -}}
{{- if .Values.gfd.enabled }}{{ .Values.labels.output }}{{ else }}off{{ end -}}
{{- end -}}

{{- define "gpuslice.migManager" -}}
{{- $m := .Values.migManager -}}
{{- if ternary (or (has .Values.migStrategy (list "single" "mixed")) $m.config.name $m.config.default) $m.enabled (kindIs "invalid" $m.enabled) }}true{{ end -}}
{{- end -}}

{{- /* The MIG manager stops services of the host, or reboots it. */ -}}
{{- define "gpuslice.migHost" -}}
{{- if and (include "gpuslice.migManager" .) (or .Values.migManager.withReboot .Values.migManager.gpuClientsConfig.name) }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.patchesNode" -}}
{{- if or (include "gpuslice.migManager" .) (eq (include "gpuslice.labelsOutput" .) "node") .Values.startupTaint.enabled }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.readsPodLabels" -}}
{{- if and .Values.metrics.enabled .Values.metrics.podLabels.enabled }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.countersData" -}}
{{- if .Values.metrics.enabled }}{{ default "" .Values.metrics.configMapData }}{{ end -}}
{{- end -}}

{{- define "gpuslice.usesAPI" -}}
{{- if or (include "gpuslice.countersData" .) (include "gpuslice.readsPodLabels" .) (include "gpuslice.configMapName" .) (include "gpuslice.patchesNode" .) (eq (toString .Values.nodeCondition.enabled) "true") (eq (include "gpuslice.labelsOutput" .) "nfd") }}true{{ end -}}
{{- end -}}

{{- /* A list, or a text with commas, as a text with commas. */ -}}
{{- define "gpuslice.commas" -}}
{{- if kindIs "slice" . }}{{ join "," . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{- /* The strategy that is forced on all configs; empty: theirs count. */ -}}
{{- define "gpuslice.deviceListStrategy" -}}
{{- $text := include "gpuslice.configText" . -}}
{{- if .Values.deviceListStrategy -}}
{{- include "gpuslice.commas" .Values.deviceListStrategy -}}
{{- else if not (or .Values.toolkit .Values.config.name (contains "deviceliststrategy" $text)) -}}
cdi-annotations,cdi-cri
{{- end -}}
{{- end -}}

{{- /* "possible" WORD: the strategy has it, or no strategy is forced and a config may have it. */ -}}
{{- define "gpuslice.strategyMayBe" -}}
{{- $word := index . 0 -}}
{{- $ := index . 1 -}}
{{- $forced := include "gpuslice.deviceListStrategy" $ -}}
{{- if $forced -}}
{{- if contains $word $forced }}true{{ end -}}
{{- else if or $.Values.config.name (contains $word (include "gpuslice.configText" $)) -}}
true
{{- end -}}
{{- end -}}

{{- /* A config that speaks of MIG in any other way than "none", or that the chart cannot see. */ -}}
{{- define "gpuslice.migPossible" -}}
{{- $rest := regexReplaceAll "migstrategy[\"']?\\s*:\\s*[\"']?none" (include "gpuslice.configText" .) "" -}}
{{- if .Values.migStrategy -}}
{{- if ne .Values.migStrategy "none" }}true{{ end -}}
{{- else if or .Values.config.name (contains "migstrategy" $rest) -}}
true
{{- end -}}
{{- end -}}

{{- /* A config of the chart that isolates, or cuts GPUs into slices. One that it cannot see does not count: the host's PIDs are not given
       on suspicion, and without them and the state directory the agent refuses such pods, with the reason. */ -}}
{{- define "gpuslice.slices" -}}
{{- $s := .Values.slices.enabled -}}
{{- if kindIs "invalid" $s -}}
{{- if regexMatch "isolation|slices[\"']?\\s*:" (include "gpuslice.configText" .) }}true{{ end -}}
{{- else if $s -}}
true
{{- end -}}
{{- end -}}

{{- /* The same for MPS: `mps:` that is not empty, of `sharing` or of a set of slices. */ -}}
{{- define "gpuslice.mps" -}}
{{- $m := .Values.mps.enabled -}}
{{- $text := regexReplaceAll "mps[\"']?\\s*:\\s*(false|null|no|off|~)" (include "gpuslice.configText" .) "" -}}
{{- if kindIs "invalid" $m -}}
{{- if regexMatch "\\bmps[\"']?\\s*:" $text }}true{{ end -}}
{{- else if $m -}}
true
{{- end -}}
{{- end -}}

{{- define "gpuslice.mpsRoot" -}}
{{- default "/run/nvidia/mps" .Values.mps.root -}}
{{- end -}}

{{- /* Which process is of which pod: a config of the chart that shares GPUs by time-slicing alone. */ -}}
{{- define "gpuslice.podUsage" -}}
{{- $p := .Values.metrics.hostPID -}}
{{- $text := include "gpuslice.configText" . -}}
{{- if not .Values.metrics.enabled -}}
{{- else if kindIs "invalid" $p -}}
{{- if and (contains "timeslicing" $text) (regexMatch "replicas[\"']?\\s*:" $text) (not (contains "isolation" $text)) }}true{{ end -}}
{{- else if $p -}}
true
{{- end -}}
{{- end -}}

{{- define "gpuslice.hostPID" -}}
{{- if or (include "gpuslice.slices" .) (include "gpuslice.mps" .) (include "gpuslice.podUsage" .) }}true{{ end -}}
{{- end -}}

{{- /* ConfigMap with the counters file; none: what is built in. */ -}}
{{- define "gpuslice.countersMap" -}}
{{- if .Values.metrics.counters -}}
{{ include "gpuslice.fullname" . }}-counters
{{- else -}}
{{- default "" .Values.metrics.countersConfigMap.name -}}
{{- end -}}
{{- end -}}

{{- /* "monitoring" VALUES: of PodMonitor or PrometheusRule, whether one is made. */ -}}
{{- define "gpuslice.monitoring" -}}
{{- $m := index . 0 -}}
{{- $ := index . 1 -}}
{{- if and $m.enabled $.Values.metrics.enabled (or $m.force ($.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}true{{ end -}}
{{- end -}}

{{- /* First match, as in NVIDIA's chart. README.md says why for each. */ -}}
{{- define "gpuslice.securityContext" -}}
{{- if .Values.securityContext -}}
{{- toYaml .Values.securityContext -}}
{{- else if or (eq (toString .Values.compatWithCPUManager) "true") (not .Values.toolkit) (include "gpuslice.migHost" .) -}}
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
{{- $add := list -}}
{{- if include "gpuslice.slices" . }}{{ $add = concat $add (list "KILL" "SYS_NICE" "SYS_PTRACE") }}{{ end -}}
{{- if and (include "gpuslice.mps" .) (not (include "gpuslice.slices" .)) }}{{ $add = append $add "SYS_PTRACE" }}{{ end -}}
{{- if or (include "gpuslice.mps" .) (include "gpuslice.migManager" .) (include "gpuslice.migPossible" .) (include "gpuslice.strategyMayBe" (list "volume-mounts" .)) .Values.labels.vgpu }}{{ $add = append $add "SYS_ADMIN" }}{{ end }}
capabilities:
  drop: [ALL]
  {{- if $add }}
  add: [{{ join ", " $add }}]
  {{- end }}
seccompProfile:
  type: RuntimeDefault
{{- with include "gpuslice.seLinuxOptions" . }}
seLinuxOptions:
  {{- . | nindent 2 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* OpenShift: whether its SecurityContextConstraints are made for the agent. */ -}}
{{- define "gpuslice.scc" -}}
{{- $create := .Values.scc.create -}}
{{- if ternary (.Capabilities.APIVersions.Has "security.openshift.io/v1") $create (kindIs "invalid" $create) }}true{{ end -}}
{{- end -}}

{{- /* A privileged container is not confined anyway. */ -}}
{{- define "gpuslice.seLinuxOptions" -}}
{{- if .Values.seLinuxOptions -}}
{{- toYaml .Values.seLinuxOptions -}}
{{- else if include "gpuslice.scc" . -}}
type: spc_t
{{- end -}}
{{- end -}}

{{- /* What NVIDIA's charts of other versions have and one DaemonSet does not: those that are set, with commas. */ -}}
{{- define "gpuslice.ignored" -}}
{{- $set := list -}}
{{- range $key := list "affinity" "allowDefaultNamespace" "containers" "failOnInitError" "fullnameOverride" "image" "imagePullSecrets" "legacyDaemonsetAPI" "migStrategy" "namespace" "nfd" "nodeSelector" "podAnnotations" "podSecurityContext" "priorityClassName" "resources" "runtimeClassName" "selectorLabelsOverride" "tolerations" "updateStrategy" -}}
{{- if index $.Values.gfd $key }}{{ $set = append $set (printf "gfd.%s" $key) }}{{ end -}}
{{- end -}}
{{- if .Values.legacyDaemonsetAPI }}{{ $set = append $set "legacyDaemonsetAPI" }}{{ end -}}
{{- if .Values.devicePlugin.mode }}{{ $set = append $set "devicePlugin.mode" }}{{ end -}}
{{- join ", " $set -}}
{{- end -}}

{{- /* Host path of the driver root, where it is needed; else empty. */ -}}
{{- define "gpuslice.driverRoot" -}}
{{- $cdi := contains "cdi-" (printf "%s%s" (include "gpuslice.deviceListStrategy" .) (include "gpuslice.configText" .)) -}}
{{- if .Values.nvidiaDriverRoot -}}
{{- .Values.nvidiaDriverRoot -}}
{{- else if or $cdi (not .Values.toolkit) -}}
/
{{- end -}}
{{- end -}}

{{- /* The policy needs to know on which node a token is, which its claims say from 1.32 on. */ -}}
{{- define "gpuslice.nodeRestriction" -}}
{{- $auto := and (semverCompare ">=1.32.0-0" .Capabilities.KubeVersion.Version) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1") -}}
{{- $on := ternary $auto .Values.nodeRestriction.enabled (kindIs "invalid" .Values.nodeRestriction.enabled) -}}
{{- if and $on (include "gpuslice.usesAPI" .) }}true{{ end -}}
{{- end -}}

{{- /* By itself only with the policy: who can patch the status of any Node can have all of them replaced. */ -}}
{{- define "gpuslice.nodeCondition" -}}
{{- $auto := and (include "gpuslice.patchesNode" .) (include "gpuslice.nodeRestriction" .) -}}
{{- if ternary $auto .Values.nodeCondition.enabled (kindIs "invalid" .Values.nodeCondition.enabled) }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.hostNetwork" -}}
{{- if or .Values.devicePlugin.enableHostNetwork .Values.gfd.enableHostNetwork }}true{{ end -}}
{{- end -}}
