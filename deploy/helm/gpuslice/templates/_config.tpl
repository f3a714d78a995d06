{{- /* SPDX-License-Identifier: Apache-2.0 */ -}}
{{- /*
  The texts in the values that the agent will parse: sharing configs (config.map), counters and prices. helm sees here
  what would else show in the agent's log on each node. The checks are part of the agent's, never stricter: keys and
  types come from files/config-keys.yaml, which a unit test holds against the parser's own table.
*/ -}}

{{- /* One line for an error message: a value as JSON, cut short. */ -}}
{{- define "gpuslice.shown" -}}
{{- toJson . | trunc 60 -}}
{{- end -}}

{{- /* (list KEYS PATTERN PATH VALUE): a line for each error in VALUE, whose row of KEYS is PATTERN. */ -}}
{{- define "gpuslice.valueErrors" -}}
{{- $keys := index . 0 -}}{{- $pattern := index . 1 -}}{{- $path := index . 2 -}}{{- $value := index . 3 -}}
{{- $row := index $keys $pattern -}}
{{- $shown := include "gpuslice.shown" $value -}}
{{- if kindIs "invalid" $value -}}
{{- else if eq $row.type "object" -}}
{{- if kindIs "map" $value -}}
{{- range $key, $below := $value }}{{ include "gpuslice.keyErrors" (list $keys $pattern $path $key $below) }}{{ end -}}
{{- else }}{{ $path }}: expected an object, found {{ $shown }}{{ "\n" }}{{ end -}}
{{- else if eq $row.type "list" -}}
{{- if kindIs "slice" $value -}}
{{- $element := printf "%s[]" $pattern -}}
{{- range $i, $below := $value -}}
{{- if hasKey $keys $element }}{{ include "gpuslice.valueErrors" (list $keys $element (printf "%s[%d]" $path $i) $below) }}{{ end -}}
{{- end -}}
{{- else }}{{ $path }}: expected a list, found {{ $shown }}{{ "\n" }}{{ end -}}
{{- else if eq $row.type "bool" -}}
{{- if not (kindIs "bool" $value) }}{{ $path }}: expected true or false, found {{ $shown }}{{ "\n" }}{{ end -}}
{{- else if eq $row.type "integer" -}}
{{- if not (and (kindIs "float64" $value) (eq (toString $value) (toString (floor $value)))) -}}
{{ $path }}: expected an integer, found {{ $shown }}{{ "\n" }}
{{- else if lt $value (float64 (default -1e18 $row.least)) -}}
{{ $path }}: expected {{ $row.least }} or more, found {{ $shown }}{{ "\n" }}
{{- end -}}
{{- else if and (eq $row.type "word") (not (has $value $row.of)) -}}
{{ $path }}: expected one of {{ join ", " $row.of }}; found {{ $shown }}{{ "\n" }}
{{- else if and (eq $row.type "text") (or (kindIs "map" $value) (kindIs "slice" $value)) -}}
{{ $path }}: expected a text, found {{ $shown }}{{ "\n" }}
{{- end -}}
{{- end -}}

{{- /* (list KEYS PATTERN PATH KEY VALUE): the same for one key of an object. */ -}}
{{- define "gpuslice.keyErrors" -}}
{{- $keys := index . 0 -}}{{- $pattern := index . 1 -}}{{- $path := index . 2 -}}{{- $key := index . 3 -}}{{- $value := index . 4 -}}
{{- $exact := (index $keys $pattern).exact -}}
{{- $prefix := ternary "" (printf "%s." $pattern) (eq $pattern "") -}}
{{- $known := list -}}
{{- $found := dict -}}
{{- range $name, $_ := $keys -}}
{{- if and (hasPrefix $prefix $name) (ne $name "") -}}
{{- $rest := trimPrefix $prefix $name -}}
{{- if and (not (contains "." $rest)) (not (hasSuffix "[]" $rest)) -}}
{{- $known = append $known $rest -}}
{{- if or (eq $rest $key) (and (not $exact) (eq (lower $rest) (lower $key))) }}{{ $_ := set $found "row" $name }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $at := ternary $key (printf "%s.%s" $path $key) (eq $path "") -}}
{{- if $found.row -}}
{{ include "gpuslice.valueErrors" (list $keys $found.row $at $value) }}
{{- else -}}
{{ $at }}: unknown key; expected one of {{ $known | sortAlpha | join ", " }}{{ "\n" }}
{{- end -}}
{{- end -}}

{{- define "gpuslice.configErrors" -}}
{{- $keys := $.Files.Get "files/config-keys.yaml" | fromYaml -}}
{{- range $name, $text := .Values.config.map -}}
{{- $config := fromYaml $text -}}
{{- if and (hasKey $config "Error") (eq (len $config) 1) -}}
config.map.{{ $name }}: malformed YAML: {{ $config.Error }}{{ "\n" }}
{{- else -}}
{{- range splitList "\n" (include "gpuslice.valueErrors" (list $keys "" "" $config)) -}}
{{- with trim . }}config.map.{{ $name }}: {{ . }}{{ "\n" }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Three columns in each row; a column in quotes may have commas. */ -}}
{{- define "gpuslice.counterErrors" -}}
{{- $types := list "counter" "gauge" "histogram" "label" "summary" -}}
{{- range $i, $line := splitList "\n" .Values.metrics.counters -}}
{{- $row := trim $line -}}
{{- if and $row (not (hasPrefix "#" $row)) -}}
{{- $columns := splitList "," (regexReplaceAll "\"([^\"]|\"\")*\"" $row "quoted") -}}
{{- $name := trim (first (splitList "," $row)) | trimAll "\"" -}}
{{- $type := "" -}}
{{- if gt (len $columns) 1 }}{{ $type = trim (index (splitList "," $row) 1) | trimAll "\"" }}{{ end -}}
{{- if ne (len $columns) 3 -}}
metrics.counters: line {{ add1 $i }}: expected 3 columns with commas between them (field, type, help), found {{ len $columns }}: {{ $row | trunc 60 }}{{ "\n" }}
{{- else if not (regexMatch "^(DCGM_(FI|EXP)_[A-Z0-9_]+|dcgm_[a-z0-9_]+)$" $name) -}}
metrics.counters: line {{ add1 $i }}: expected the name of a DCGM field, found {{ $name | trunc 60 | quote }}{{ "\n" }}
{{- else if not (has $type $types) -}}
metrics.counters: line {{ add1 $i }}: expected the type {{ join ", " $types }}; found {{ $type | trunc 60 | quote }}{{ "\n" }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.catalogueErrors" -}}
{{- with .Values.price.catalogue -}}
{{- $prices := fromYaml . -}}
{{- if and (hasKey $prices "Error") (eq (len $prices) 1) -}}
price.catalogue: malformed YAML: {{ $prices.Error }}{{ "\n" }}
{{- else if ne (toString $prices.version) "gpuslice/prices/v1" -}}
price.catalogue: version: expected "gpuslice/prices/v1", found {{ include "gpuslice.shown" $prices.version }}{{ "\n" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Ends helm with all of them. */ -}}
{{- define "gpuslice.checkTexts" -}}
{{- with printf "%s%s%s" (include "gpuslice.configErrors" .) (include "gpuslice.counterErrors" .) (include "gpuslice.catalogueErrors" .) | trim -}}
{{- fail (printf "the agent would not take these values:\n%s" .) -}}
{{- end -}}
{{- end -}}
