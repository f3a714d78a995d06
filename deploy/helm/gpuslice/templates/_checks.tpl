{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /* What a schema cannot say: values that do not go together. Each message says what to do. */ -}}

{{- define "gpuslice.checks" -}}
{{- $c := .Values.config -}}
{{- if .Values.namespace -}}
{{- fail "\"namespace\" is not a value of this chart: use helm's --namespace, or namespaceOverride" -}}
{{- end -}}
{{- if and (eq (include "gpuslice.namespace" .) "default") (not .Values.allowDefaultNamespace) -}}
{{- fail "refusing to install into the namespace \"default\": use --namespace, or set allowDefaultNamespace=true" -}}
{{- end -}}
{{- if and $c.name $c.map -}}
{{- fail "config.name and config.map are both set: name a ConfigMap that exists, or give the entries, not both" -}}
{{- end -}}
{{- if $c.map -}}
{{- if $c.default -}}
{{- if not (hasKey $c.map $c.default) -}}
{{- fail (printf "config.default is %q, but config.map has only: %s" $c.default (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- else -}}
{{- $found := has "empty" $c.fallbackStrategies -}}
{{- if and (has "named" $c.fallbackStrategies) (hasKey $c.map "default") }}{{ $found = true }}{{ end -}}
{{- if and (has "single" $c.fallbackStrategies) (eq (len $c.map) 1) }}{{ $found = true }}{{ end -}}
{{- if not $found -}}
{{- fail (printf "no default for nodes without the label nvidia.com/device-plugin.config: set config.default to one of: %s; or call one \"default\"; or add \"empty\" to config.fallbackStrategies" (keys $c.map | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- else if and $c.default (not $c.name) -}}
{{- fail (printf "config.default is %q, but there is neither config.map nor config.name" $c.default) -}}
{{- end -}}
{{- if and .Values.configViaAPI (not (or (include "gpuslice.configMapName" .) .Values.migManager.config.name)) -}}
{{- fail "configViaAPI is true, but there is neither config.map nor config.name nor migManager.config.name" -}}
{{- end -}}
{{- if and (not .Values.devicePlugin.enabled) (eq (include "gpuslice.labelsOutput" .) "off") -}}
{{- fail "nothing to do: devicePlugin.enabled is false, and there are no labels (gfd.enabled, labels.output)" -}}
{{- end -}}
{{- if and (regexMatch "/k8s-device-plugin$" .Values.image.repository) (not (include "gpuslice.foreignImage" .)) -}}
{{- fail (printf "image.repository is %q, which looks like a mirror of NVIDIA's image: it has no gpusliced; name the image built from deploy/image/Containerfile" .Values.image.repository) -}}
{{- end -}}
{{- if and .Values.metrics.counters .Values.metrics.countersConfigMap.name -}}
{{- fail "metrics.counters and metrics.countersConfigMap.name are both set: give the text, or name a ConfigMap that exists, not both" -}}
{{- end -}}
{{- if and .Values.metrics.enabled (not .Values.metrics.listen) (eq (int .Values.metrics.port) (int .Values.listenPort)) -}}
{{- fail (printf "metrics.port and listenPort are both %v: choose another one for one of them" .Values.listenPort) -}}
{{- end -}}
{{- if and .Values.metrics.enabled (has .Values.metrics.listen (list (printf ":%v" .Values.listenPort) (printf "0.0.0.0:%v" .Values.listenPort) (printf "[::]:%v" .Values.listenPort))) -}}
{{- fail (printf "metrics.listen is %q, and listenPort %v is the probes': choose another one for one of them" .Values.metrics.listen .Values.listenPort) -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
{{- range $name := list "podMonitor" "prometheusRule" "dashboards" "networkPolicy" -}}
{{- if (index $.Values $name).enabled -}}
{{- fail (printf "%s.enabled is true, but metrics.enabled is false, so that there is nothing for it" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $m := .Values.migManager -}}
{{- if and (not (include "gpuslice.migManager" .)) (or $m.config.name $m.config.default $m.gpuClientsConfig.name $m.withReboot $m.force $m.operatorNamespace) -}}
{{- fail "values of migManager are set, but it is off: set migManager.enabled=true, or migStrategy" -}}
{{- end -}}
{{- include "gpuslice.checkTexts" . -}}
{{- $strategy := include "gpuslice.deviceListStrategy" . -}}
{{- range ternary (splitList "," $strategy) list (ne $strategy "") -}}
{{- if not (has (trim .) (list "envvar" "volume-mounts" "cdi-annotations" "cdi-cri")) -}}
{{- fail (printf "deviceListStrategy has %q; it can have envvar, volume-mounts, cdi-annotations and cdi-cri" (trim .)) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.toolkit) $strategy (not (contains "cdi-" $strategy)) -}}
{{- fail (printf "toolkit is false, but deviceListStrategy is %q, which only NVIDIA's container runtime understands: use cdi-annotations and cdi-cri" $strategy) -}}
{{- end -}}
{{- if and .Values.validator.enabled (not .Values.toolkit) -}}
{{- range without .Values.validator.components "driver" -}}
{{- fail (printf "validator.components has %q, but toolkit is false, so that nobody gives this container a GPU: leave it out there" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
