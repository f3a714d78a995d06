{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}

{{- /* The agent's environment: a list, so that what the user gives can take the place of an entry. */ -}}
{{- define "gpuslice.env" -}}
{{- $v := .Values -}}
{{- $env := list -}}
{{- range $name, $path := dict "NODE_NAME" "spec.nodeName" "POD_NAME" "metadata.name" "NAMESPACE" "metadata.namespace" "POD_IP" "status.podIP" -}}
{{- $env = append $env (dict "name" $name "valueFrom" (dict "fieldRef" (dict "fieldPath" $path))) -}}
{{- end -}}
{{- /* Brackets do no harm to an IPv4 address, and an IPv6 address needs them. */ -}}
{{- $own := dict "GPUSLICE_LISTEN" (printf "[$(POD_IP)]:%v" $v.listenPort) "GPUSLICE_LOG_LEVEL" $v.logLevel "GPUSLICE_LOG_FORMAT" $v.logFormat "GPUSLICE_LABELS" (include "gpuslice.labelsOutput" .) "GPUSLICE_STARTUP_TAINT" (ternary $v.startupTaint.key "" $v.startupTaint.enabled) "GPUSLICE_NODE_CONDITION" (ternary $v.nodeCondition.type "" (eq (include "gpuslice.nodeCondition" .) "true")) -}}
{{- if $v.toolkit -}}
{{- $_ := set $own "NVIDIA_VISIBLE_DEVICES" "all" -}}
{{- $_ := set $own "NVIDIA_DRIVER_CAPABILITIES" "compute,utility" -}}
{{- if or (include "gpuslice.migPossible" .) (include "gpuslice.migManager" .) }}{{ $_ := set $own "NVIDIA_MIG_MONITOR_DEVICES" "all" }}{{ end -}}
{{- if include "gpuslice.migManager" . }}{{ $_ := set $own "NVIDIA_MIG_CONFIG_DEVICES" "all" }}{{ end -}}
{{- end -}}
{{- if include "gpuslice.migManager" . -}}
{{- $m := $v.migManager -}}
{{- $_ := set $own "GPUSLICE_MIG_MANAGER" "true" -}}
{{- with $m.config.default }}{{ $_ := set $own "MIG_CONFIG_DEFAULT" . }}{{ end -}}
{{- with $m.config.name }}{{ if $v.configViaAPI }}{{ $_ := set $own "GPUSLICE_MIG_CONFIG_MAP" . }}{{ else }}{{ $_ := set $own "MIG_CONFIG_FILE" "/mig-layouts/config.yaml" }}{{ end }}{{ end -}}
{{- if $m.gpuClientsConfig.name -}}
{{- $_ := set $own "GPU_CLIENTS_FILE" "/gpu-clients/clients.yaml" -}}
{{- $_ := set $own "WITH_SHUTDOWN_HOST_GPU_CLIENTS" "true" -}}
{{- end -}}
{{- if $m.withReboot }}{{ $_ := set $own "WITH_REBOOT" "true" }}{{ end -}}
{{- if $m.force }}{{ $_ := set $own "GPUSLICE_MIG_FORCE" "true" }}{{ end -}}
{{- with $m.operatorNamespace }}{{ $_ := set $own "GPUSLICE_MIG_OPERATOR_NAMESPACE" . }}{{ end -}}
{{- end -}}
{{- if include "gpuslice.slices" . }}{{ $_ := set $own "GPUSLICE_STATE_DIR" $v.slices.stateDir }}{{ end -}}
{{- if $v.metrics.enabled -}}
{{- /* kubectl port-forward comes by the pod's loopback address; a node has more addresses than it should be at. */ -}}
{{- $_ := set $own "GPUSLICE_METRICS_LISTEN" (default (printf "%s:%v" (ternary "[$(POD_IP)]" "" (eq (include "gpuslice.hostNetwork" .) "true")) $v.metrics.port) $v.metrics.listen) -}}
{{- $_ := set $own "GPUSLICE_LEDGER_DIR" "/var/lib/gpuslice-ledger" -}}
{{- with $v.metrics.interval }}{{ $_ := set $own "GPUSLICE_METRICS_INTERVAL" . }}{{ end -}}
{{- if $v.metrics.tokenSecret.name }}{{ $_ := set $own "GPUSLICE_METRICS_TOKEN_FILE" (printf "/etc/gpuslice/token/%s" $v.metrics.tokenSecret.key) }}{{ end -}}
{{- if $v.metrics.tlsSecret -}}
{{- $_ := set $own "GPUSLICE_METRICS_CERT_FILE" "/etc/gpuslice/tls/tls.crt" -}}
{{- $_ := set $own "GPUSLICE_METRICS_KEY_FILE" "/etc/gpuslice/tls/tls.key" -}}
{{- end -}}
{{- with include "gpuslice.countersMap" . }}{{ $_ := set $own "GPUSLICE_METRICS_COLLECTORS" (printf "/etc/gpuslice/counters/%s" $v.metrics.countersConfigMap.key) }}{{ end -}}
{{- with $v.metrics.configMapData }}{{ $_ := set $own "DCGM_EXPORTER_CONFIGMAP_DATA" . }}{{ end -}}
{{- if $v.metrics.podLabels.enabled -}}
{{- $_ := set $own "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS" "true" -}}
{{- with $v.metrics.podLabels.allowlist }}{{ $_ := set $own "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX" (join "," .) }}{{ end -}}
{{- end -}}
{{- if not (has (toString $v.price.perHour) (list "" "<nil>")) }}{{ $_ := set $own "GPUSLICE_PRICE" (toString $v.price.perHour) }}{{ $_ := set $own "GPUSLICE_CURRENCY" $v.price.currency }}{{ end -}}
{{- with $v.price.instanceType }}{{ $_ := set $own "GPUSLICE_INSTANCE_TYPE" . }}{{ end -}}
{{- with $v.price.region }}{{ $_ := set $own "GPUSLICE_REGION" . }}{{ end -}}
{{- with $v.price.catalogue }}{{ $_ := set $own "GPUSLICE_PRICE_FILE" "/etc/gpuslice/prices/prices.yaml" }}{{ end -}}
{{- else -}}
{{- $_ := set $own "GPUSLICE_METRICS" "false" -}}
{{- end -}}
{{- if include "gpuslice.mps" . }}{{ $_ := set $own "MPS_ROOT" (include "gpuslice.mpsRoot" .) }}{{ end -}}
{{- if not $v.devicePlugin.enabled }}{{ $_ := set $own "KUBELET_SOCKET" "" }}{{ end -}}
{{- with include "gpuslice.configMapName" . -}}
{{- if $v.configViaAPI }}{{ $_ := set $own "GPUSLICE_CONFIG_MAP" . }}{{ else }}{{ $_ := set $own "CONFIG_FILE_SRCDIR" "/available-configs" }}{{ end -}}
{{- $_ := set $own "DEFAULT_CONFIG" (default "" $v.config.default) -}}
{{- $_ := set $own "FALLBACK_STRATEGIES" (join "," $v.config.fallbackStrategies) -}}
{{- end -}}
{{- with include "gpuslice.deviceListStrategy" . }}{{ $_ := set $own "DEVICE_LIST_STRATEGY" . }}{{ end -}}
{{- with $v.cdi.featureFlags }}{{ $_ := set $own "CDI_FEATURE_FLAGS" (include "gpuslice.commas" .) }}{{ end -}}
{{- /* Not set is not the same as false: only what the user gave goes before the config. */ -}}
{{- $given := dict "PASS_DEVICE_SPECS" $v.compatWithCPUManager "MIG_STRATEGY" $v.migStrategy "FAIL_ON_INIT_ERROR" $v.failOnInitError "DEVICE_ID_STRATEGY" $v.deviceIDStrategy "DEVICE_DISCOVERY_STRATEGY" $v.deviceDiscoveryStrategy "NVIDIA_DRIVER_ROOT" $v.nvidiaDriverRoot "NVIDIA_DEV_ROOT" $v.nvidiaDevRoot "GDRCOPY_ENABLED" $v.gdrcopyEnabled "GDS_ENABLED" $v.gdsEnabled "MOFED_ENABLED" $v.mofedEnabled "NVIDIA_CDI_HOOK_PATH" $v.cdi.nvidiaHookPath "GFD_NO_TIMESTAMP" (ternary $v.noTimestamp $v.gfd.noTimestamp (kindIs "invalid" $v.gfd.noTimestamp)) "GFD_SLEEP_INTERVAL" (default $v.sleepInterval $v.gfd.sleepInterval) -}}
{{- range $name, $value := $given -}}
{{- if not (kindIs "invalid" $value) }}{{ $_ := set $own $name (toString $value) }}{{ end -}}
{{- end -}}
{{- range $name, $value := $own -}}
{{- $env = append $env (dict "name" $name "value" $value) -}}
{{- end -}}
{{- range $entry := concat (default list $v.devicePlugin.containers.main.env) (default list $v.extraEnv) -}}
{{- $rest := list -}}
{{- range $env }}{{ if ne .name $entry.name }}{{ $rest = append $rest . }}{{ end }}{{ end -}}
{{- $env = append $rest $entry -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- /*
  Host directories, ConfigMaps and Secrets, each with its mount: a list of {name, mount, volume}. A directory of
  the kubelet that is not there is an error that the pod's events show; ours are made. All ConfigMaps and Secrets are
  optional: the kubelet does not start a pod without one that is not, and the node would offer no GPUs for want of a
  secondary file. The agent reports the missing file and takes it when it comes.
*/ -}}
{{- define "gpuslice.volumes" -}}
{{- $v := .Values -}}
{{- $made := "DirectoryOrCreate" -}}
- name: run
  mount: {mountPath: /run/gpuslice}
  volume: {hostPath: {path: {{ $v.runDir }}, type: {{ $made }}}}
{{- if include "gpuslice.slices" . }}
{{- /* Under the host's own path: what lies in there is mounted into pods. */}}
- name: state
  mount: {mountPath: {{ $v.slices.stateDir }}}
  volume: {hostPath: {path: {{ $v.slices.stateDir }}, type: {{ $made }}}}
{{- else }}
{{- /* The last valid config survives the pod and a reboot. Not the whole state directory: as with the ledger. */}}
- name: last-config
  mount: {mountPath: /var/lib/gpuslice/config}
  volume: {hostPath: {path: {{ $v.slices.stateDir }}/config, type: {{ $made }}}}
{{- end }}
{{- if $v.metrics.enabled }}
{{- /* Not the state directory: in that a config with isolation would find what the chart gives it on purpose only. */}}
- name: ledger
  mount: {mountPath: /var/lib/gpuslice-ledger}
  volume: {hostPath: {path: {{ $v.slices.stateDir }}/ledger, type: {{ $made }}}}
{{- with $v.metrics.tokenSecret.name }}
- name: token
  mount: {mountPath: /etc/gpuslice/token, readOnly: true}
  volume: {secret: {secretName: {{ . }}, defaultMode: 0400, optional: true}}
{{- end }}
{{- with $v.metrics.tlsSecret }}
- name: tls
  mount: {mountPath: /etc/gpuslice/tls, readOnly: true}
  volume: {secret: {secretName: {{ . }}, defaultMode: 0400, optional: true}}
{{- end }}
{{- with include "gpuslice.countersMap" . }}
- name: counters
  mount: {mountPath: /etc/gpuslice/counters, readOnly: true}
  volume: {configMap: {name: {{ . }}, optional: true}}
{{- end }}
{{- if $v.price.catalogue }}
- name: prices
  mount: {mountPath: /etc/gpuslice/prices, readOnly: true}
  volume: {configMap: {name: {{ include "gpuslice.fullname" . }}-prices, optional: true}}
{{- end }}
{{- end }}
{{- if include "gpuslice.mps" . }}
{{- /* The same: pods get the pipe directories in there. */}}
- name: mps
  mount: {mountPath: {{ include "gpuslice.mpsRoot" . }}}
  volume: {hostPath: {path: {{ include "gpuslice.mpsRoot" . }}, type: {{ $made }}}}
{{- end }}
{{- if $v.devicePlugin.enabled }}
- name: device-plugins
  mount: {mountPath: /var/lib/kubelet/device-plugins}
  volume: {hostPath: {path: {{ $v.devicePluginPath }}, type: Directory}}
{{- end }}
- name: pod-resources
  mount: {mountPath: /var/lib/kubelet/pod-resources, readOnly: true}
  volume: {hostPath: {path: {{ $v.kubeletRoot }}/pod-resources, type: Directory}}
{{- if and (include "gpuslice.configMapName" .) (not $v.configViaAPI) }}
- name: configs
  mount: {mountPath: /available-configs, readOnly: true}
  volume: {configMap: {name: {{ include "gpuslice.configMapName" . }}, optional: true}}
{{- end }}
{{- if and (include "gpuslice.migManager" .) $v.migManager.config.name (not $v.configViaAPI) }}
- name: mig-layouts
  mount: {mountPath: /mig-layouts, readOnly: true}
  volume: {configMap: {name: {{ $v.migManager.config.name }}, optional: true}}
{{- end }}
{{- if include "gpuslice.migHost" . }}
- name: host-root
  mount: {mountPath: /host, mountPropagation: HostToContainer}
  volume: {hostPath: {path: {{ $v.migManager.hostRoot }}, type: Directory}}
{{- with $v.migManager.gpuClientsConfig.name }}
- name: gpu-clients
  mount: {mountPath: /gpu-clients, readOnly: true}
  volume: {configMap: {name: {{ . }}, optional: true}}
{{- end }}
{{- end }}
{{- if include "gpuslice.strategyMayBe" (list "cdi-" .) }}
- name: cdi
  mount: {mountPath: /var/run/cdi}
  volume: {hostPath: {path: {{ $v.cdi.dir }}, type: {{ $made }}}}
{{- end }}
{{- with include "gpuslice.driverRoot" . }}
- name: driver-root
  {{- /* Of "/" the mounts below it are read-only too, if the node can. Elsewhere a driver container may
         mount its own later, and that must arrive here: the two exclude each other. */}}
  {{- if and (eq . "/") (semverCompare ">=1.30.0-0" $.Capabilities.KubeVersion.Version) }}
  mount: {mountPath: /driver-root, readOnly: true, recursiveReadOnly: IfPossible}
  {{- else }}
  mount: {mountPath: /driver-root, readOnly: true, mountPropagation: HostToContainer}
  {{- end }}
  volume: {hostPath: {path: {{ . }}{{ if ne . "/" }}, type: {{ $made }}{{ end }}}}
{{- end }}
{{- if not $v.toolkit }}
- name: dev
  mount: {mountPath: /dev, mountPropagation: HostToContainer}
  volume: {hostPath: {path: /dev, type: Directory}}
{{- end }}
{{- if eq (include "gpuslice.labelsOutput" .) "file" }}
- name: features
  mount: {mountPath: /etc/kubernetes/node-feature-discovery/features.d}
  volume: {hostPath: {path: /etc/kubernetes/node-feature-discovery/features.d, type: {{ $made }}}}
{{- end }}
{{- if $v.validator.enabled }}
- name: validations
  init: true
  volume: {hostPath: {path: {{ $v.validator.outputDir }}, type: {{ $made }}}}
{{- if has "driver" $v.validator.components }}
- name: host
  init: true
  volume: {hostPath: {path: /}}
- name: driver-dir
  init: true
  volume: {hostPath: {path: {{ include "gpuslice.driverDir" . }}, type: {{ $made }}}}
{{- end }}
{{- end }}
{{- end -}}

{{- /* Whoever narrows the tolerations must still get through the taint that only the agent takes away. */ -}}
{{- define "gpuslice.tolerations" -}}
{{- $list := .Values.tolerations | default list -}}
{{- $key := .Values.startupTaint.key -}}
{{- $covered := false -}}
{{- range $list -}}
{{- if and (eq (default "Equal" .operator) "Exists") (has (default "" .key) (list "" $key)) (not .effect) }}{{ $covered = true }}{{ end -}}
{{- end -}}
{{- if and .Values.startupTaint.enabled (not $covered) -}}
{{- $list = append $list (dict "key" $key "operator" "Exists") -}}
{{- end -}}
{{- if $list }}{{ toYaml $list }}{{ end -}}
{{- end -}}

{{- /* Of a driver container, where there may be one. */ -}}
{{- define "gpuslice.driverDir" -}}
{{- if has (default "/" .Values.nvidiaDriverRoot) (list "/") }}/run/nvidia/driver{{ else }}{{ .Values.nvidiaDriverRoot }}{{ end -}}
{{- end -}}

{{- /* It runs the host's nvidia-smi below the host's root, and makes device nodes that are missing. */ -}}
{{- define "gpuslice.validateDriver" -}}
env:
- {name: WITH_WAIT, value: "true"}
- {name: OUTPUT_DIR, value: /run/nvidia/validations}
- {name: DRIVER_INSTALL_DIR, value: {{ include "gpuslice.driverDir" . }}}
- {name: NVIDIA_VISIBLE_DEVICES, value: void}
securityContext:
  privileged: true
volumeMounts:
- {name: validations, mountPath: /run/nvidia/validations}
- {name: host, mountPath: /host, mountPropagation: HostToContainer}
- {name: driver-dir, mountPath: /run/nvidia/driver, mountPropagation: HostToContainer}
{{- end -}}

{{- /* Whether a container like the agent's gets its GPUs. */ -}}
{{- define "gpuslice.validateOther" -}}
env:
- {name: WITH_WAIT, value: "true"}
- {name: OUTPUT_DIR, value: /run/nvidia/validations}
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: "compute,utility"}
securityContext:
  {{- include "gpuslice.securityContext" . | nindent 2 }}
volumeMounts:
- {name: validations, mountPath: /run/nvidia/validations}
{{- end -}}
