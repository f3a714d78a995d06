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

{{- /* (list TEXT FACTORS): the sum of TEXT's numbers, each times the factor of its unit. */ -}}
{{- define "gpuslice.scaled" -}}
{{- $factors := index . 1 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[^0-9.]*" (index . 0) -1 -}}
{{- $unit := regexReplaceAll "[0-9.]" . "" -}}
{{- $sum = addf $sum (mulf (float64 (trimSuffix $unit .)) (float64 (index $factors $unit))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{- /* A duration in seconds; nothing, if it is none. */ -}}
{{- define "gpuslice.seconds" -}}
{{- if regexMatch "^[+-]?(0|(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$" . -}}
{{- $text := ternary "0s" . (has . (list "0" "+0" "-0")) -}}
{{- ternary "-" "" (hasPrefix "-" $text) }}{{ include "gpuslice.scaled" (list (trimAll "+-" $text) (dict "ns" 1e-9 "us" 1e-6 "µs" 1e-6 "μs" 1e-6 "ms" 1e-3 "s" 1 "m" 60 "h" 3600)) -}}
{{- end -}}
{{- end -}}

{{- /* Kubernetes' quantity in bytes; nothing, if it is none. */ -}}
{{- define "gpuslice.bytes" -}}
{{- if regexMatch "^([0-9]+\\.?[0-9]*|\\.[0-9]+)(k|[MGTPE]|[KMGTPE]i)?$" . -}}
{{- include "gpuslice.scaled" (list . (dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976)) -}}
{{- end -}}
{{- end -}}

{{- /* What a row of files/config-keys.yaml wants, for error messages. */ -}}
{{- define "gpuslice.expected" -}}
{{- $words := join ", " (default list .of) -}}
{{- $limits := "" -}}
{{- if hasKey . "min" }}{{ $limits = printf " from %v to %v" .min .max }}{{ end -}}
{{- $texts := dict "object" "an object" "bool" "true or false" "text" "a text" "integer" "an integer" "list" "a list" "channels" "[] or [0]" "name" "a name such as nvidia.com/gpu, of at most 63 lower-case letters, digits, '-' and '.'" "duration" "a duration such as 30s or 1m30s" "devices" "all, a count above 0, or a list of indexes (0, 0:0) and UUIDs" "memory" (printf "%s, an amount such as 8Gi (2Mi or more), or a part from 0.1%% to 100%%" $words) "xids" (printf "%sa list of XIDs from 1 to 4294967294" (ternary "" (printf "%s, or " $words) (empty $words))) "word" (printf "one of %s" $words) "words" (printf "one of %s, or a list of them" $words) -}}
{{- if and (eq .type "text") .of }}{{ $words }}{{ else }}{{ index $texts .type }}{{ end -}}
{{- if has .type (list "list" "xids") }}{{ $limits = replace " from" ", its length from" $limits }}{{ end -}}
{{- $limits -}}
{{- end -}}

{{- /* (list ROW VALUE): "true" if VALUE, which is not null, is what ROW wants. Objects, and what is in lists of them, are others' work. */ -}}
{{- define "gpuslice.valueGood" -}}
{{- $row := index . 0 -}}{{- $value := index . 1 -}}
{{- $text := toString $value -}}
{{- $whole := and (kindIs "float64" $value) (eq $text (toString (floor $value))) -}}
{{- $list := kindIs "slice" $value -}}
{{- $scalar := not (or $list (kindIs "map" $value)) -}}
{{- $number := 0.0 -}}
{{- if $list }}{{ $number = float64 (len $value) }}{{ else if kindIs "float64" $value }}{{ $number = $value }}{{ end -}}
{{- $min := $row.min -}}{{- $max := $row.max -}}
{{- $good := true -}}
{{- if eq $row.type "object" }}{{ $good = kindIs "map" $value }}
{{- else if eq $row.type "list" }}{{ $good = $list }}
{{- else if eq $row.type "bool" }}{{ $good = kindIs "bool" $value }}
{{- else if eq $row.type "integer" }}{{ $good = $whole }}
{{- else if eq $row.type "word" }}{{ $good = has $value $row.of }}
{{- else if eq $row.type "text" }}{{ $good = and $scalar (or (not $row.of) (has $text (prepend $row.of ""))) (or (not $row.required) (ne $value "")) }}
{{- else if eq $row.type "name" }}{{ $good = and (kindIs "string" $value) (le (len (trimPrefix "nvidia.com/" $text)) 52) (regexMatch "^(nvidia\\.com/)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" $text) }}
{{- else if eq $row.type "words" -}}
{{- range ternary $value (list $value) $list }}{{ if not (has . $row.of) }}{{ $good = false }}{{ end }}{{ end -}}
{{- else if eq $row.type "channels" }}{{ $good = has (toJson $value) (list "[]" "[0]") }}
{{- else if eq $row.type "xids" -}}
{{- $good = or $list (has $value (default list $row.of)) -}}
{{- range ternary $value list $list }}{{ if or (not (kindIs "float64" .)) (ne . (floor .)) (lt . 1.0) (gt . 4294967294.0) }}{{ $good = false }}{{ end }}{{ end -}}
{{- else if eq $row.type "devices" -}}
{{- $good = or $list (eq $text "all") (and $whole (gt $number 0.0) (not $row.object)) -}}
{{- range ternary $value list $list }}{{ if not (regexMatch "^([0-9]{1,9}(:[0-9]{1,9})?|(GPU|MIG)-UUID|MIG-GPU-UUID/[0-9]{1,9}/[0-9]{1,9})$" (regexReplaceAll "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}" (toString .) "UUID")) }}{{ $good = false }}{{ end }}{{ end -}}
{{- else if eq $row.type "memory" -}}
{{- $good = and $scalar (has $text $row.of) -}}
{{- if $whole }}{{ $good = ge $number 2097152.0 -}}
{{- else if regexMatch "^[0-9]*\\.?[0-9]+%$" $text }}{{ $percent := float64 (trimSuffix "%" $text) }}{{ $good = and (ge $percent 0.1) (le $percent 100.0) -}}
{{- else if include "gpuslice.bytes" $text }}{{ $good = ge (float64 (include "gpuslice.bytes" $text)) 2097152.0 }}{{ end -}}
{{- else if eq $row.type "duration" -}}
{{- /* Without limits it is NVIDIA's, which may be a number of nanoseconds. */ -}}
{{- $seconds := include "gpuslice.seconds" $text -}}
{{- $good = or (and (kindIs "string" $value) (ne $seconds "")) (and (not $min) (or (kindIs "float64" $value) (eq $text "infinite"))) -}}
{{- if and $good $min }}{{ $number = float64 $seconds }}{{ $min = float64 (include "gpuslice.seconds" $min) }}{{ $max = float64 (include "gpuslice.seconds" $max) }}{{ end -}}
{{- end -}}
{{- if and $good (hasKey $row "min") (or $list (not (eq $row.type "xids"))) }}{{ $good = and (ge $number $min) (le $number $max) }}{{ end -}}
{{- if $good }}true{{ end -}}
{{- end -}}

{{- /* (list KEYS PATTERN PATH VALUE): a line for each error in VALUE, whose row of KEYS is PATTERN. */ -}}
{{- define "gpuslice.valueErrors" -}}
{{- $keys := index . 0 -}}{{- $pattern := index . 1 -}}{{- $path := index . 2 -}}{{- $value := index . 3 -}}
{{- $row := index $keys $pattern -}}
{{- if hasKey $keys (printf "%s.product" $pattern) }}{{ $row = set (deepCopy $row) "object" true }}{{ end -}}
{{- /* What is required below an object is missing in null, too. */ -}}
{{- if and (kindIs "invalid" $value) (eq $row.type "object") (not $row.nullable) }}{{ $value = dict }}{{ end -}}
{{- $object := and (kindIs "map" $value) (or (eq $row.type "object") $row.object) -}}
{{- $good := $object -}}
{{- if kindIs "invalid" $value }}{{ $good = not (or $row.required (has $row.type (list "devices" "name"))) -}}
{{- else if not $object }}{{ $good = eq (include "gpuslice.valueGood" (list $row $value)) "true" }}{{ end -}}
{{- if not $good -}}
{{ $path }}: expected {{ include "gpuslice.expected" $row }}{{ ternary ";" "," (not (empty $row.of)) }} found {{ include "gpuslice.shown" $value }}{{ "\n" }}
{{- else if $object -}}
{{- $given := dict -}}
{{- range $key, $below := $value }}{{ include "gpuslice.keyErrors" (list $keys $pattern $path $key $below $given) }}{{ end -}}
{{- range $name, $below := $keys -}}
{{- if and $below.required (eq $name (printf "%s.%s" $pattern (last (splitList "." $name)))) (not (hasKey $given $name)) -}}
{{ printf "%s.%s" $path (last (splitList "." $name)) }}: expected {{ include "gpuslice.expected" $below }}, found nothing{{ "\n" }}
{{- end -}}
{{- end -}}
{{- else if eq $row.type "list" -}}
{{- $element := printf "%s[]" $pattern -}}
{{- range $i, $below := $value -}}
{{- if hasKey $keys $element }}{{ include "gpuslice.valueErrors" (list $keys $element (printf "%s[%d]" $path $i) $below) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* (list KEYS PATTERN PATH KEY VALUE GIVEN): the same for one key of an object, which gets into GIVEN by its row. */ -}}
{{- define "gpuslice.keyErrors" -}}
{{- $keys := index . 0 -}}{{- $pattern := index . 1 -}}{{- $path := index . 2 -}}{{- $key := index . 3 -}}{{- $value := index . 4 -}}{{- $given := index . 5 -}}
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
{{- if not $found.row -}}
{{ $at }}: unknown key; expected one of {{ $known | sortAlpha | join ", " }}{{ "\n" }}
{{- else if hasKey $given $found.row -}}
{{ $at }}: duplicate key; expected it once, found also {{ index $given $found.row }}{{ "\n" }}
{{- else -}}
{{- $_ := set $given $found.row $key -}}
{{ include "gpuslice.valueErrors" (list $keys $found.row $at $value) }}
{{- end -}}
{{- end -}}

{{- /*
  (list KEYS TEXT CONFIG): the keys that TEXT has more often than CONFIG, which helm has read from it: of keys that are given twice
  in one object it keeps the last alone, and what is below it. In TEXT quotes and comments do not count; a text with a block or with
  several documents is left to the agent.
*/ -}}
{{- define "gpuslice.duplicateKeys" -}}
{{- $text := regexReplaceAll "[\"']([A-Za-z]+)[\"']" (index . 1) "${1}" -}}
{{- $text = regexReplaceAll "\"[^\"\n]*\"|'[^'\n]*'" $text "quoted" -}}
{{- $text = regexReplaceAll "(?m)(^|\\s)#.*$" $text "" -}}
{{- $json := toJson (index . 2) -}}
{{- $found := list -}}
{{- if not (or (regexMatch "[\"']|(?m:[|>][-+0-9]*\\s*$)" $text) (contains "\n---" $text)) -}}
{{- range $name, $_ := index . 0 -}}
{{- $key := last (splitList "." $name) -}}
{{- if and $key (not (hasSuffix "[]" $key)) -}}
{{- $n := len (regexFindAll (printf "(?im)(^|[\\s{,])%s\\s*:" $key) $text -1) -}}
{{- if gt $n (len (regexFindAll (printf "(?i)\"%s\":" $key) $json -1)) }}{{ $found = append $found $key }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found | uniq | join ", " -}}
{{- end -}}

{{- define "gpuslice.configErrors" -}}
{{- $keys := $.Files.Get "files/config-keys.yaml" | fromYaml -}}
{{- range $name, $text := .Values.config.map -}}
{{- $config := fromYaml $text -}}
{{- $duplicates := include "gpuslice.duplicateKeys" (list $keys $text $config) -}}
{{- if and (hasKey $config "Error") (eq (len $config) 1) -}}
config.map.{{ $name }}: malformed YAML: {{ $config.Error }}{{ "\n" }}
{{- else if $duplicates -}}
config.map.{{ $name }}: duplicate key; expected each key once in its object, found twice in one: {{ $duplicates }}{{ "\n" }}
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
{{- range $i, $line := splitList "\n" (default "" .Values.metrics.counters) -}}
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

{{- /* What a schema cannot say of single values. */ -}}
{{- define "gpuslice.singleErrors" -}}
{{- with .Values.metrics.interval -}}
{{- $seconds := float64 (include "gpuslice.seconds" .) -}}
{{- if or (lt $seconds 1.0) (gt $seconds 300.0) }}metrics.interval: expected a duration from 1s to 5m, found {{ . }}{{ "\n" }}{{ end -}}
{{- end -}}
{{- with .Values.metrics.listen -}}
{{- $port := last (splitList ":" .) | int -}}
{{- if or (lt $port 1) (gt $port 65535) }}metrics.listen: expected HOST:PORT with a port from 1 to 65535, found {{ . }}{{ "\n" }}{{ end -}}
{{- end -}}
{{- /* 512m is half a byte. */ -}}
{{- $memory := dig "limits" "memory" "" (default dict .Values.resources) -}}
{{- $bytes := $memory -}}
{{- if kindIs "string" $memory }}{{ $bytes = include "gpuslice.bytes" $memory | default "0" | float64 }}{{ end -}}
{{- if and (ne (toString $memory) "") (lt (float64 $bytes) 33554432.0) }}resources.limits.memory: expected 32Mi or more, found {{ $memory }}{{ "\n" }}{{ end -}}
{{- $price := toString .Values.price.perHour -}}
{{- if not (has $price (list "" "<nil>")) -}}
{{- if or (not (regexMatch "^[0-9]+(\\.[0-9]+)?$" $price)) (gt (float64 $price) 1e6) -}}
price.perHour: expected an amount from 0 to 1000000 such as 12.24, found {{ $price }}{{ "\n" }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Ends helm with all of them. */ -}}
{{- define "gpuslice.checkTexts" -}}
{{- with printf "%s%s%s%s" (include "gpuslice.configErrors" .) (include "gpuslice.counterErrors" .) (include "gpuslice.catalogueErrors" .) (include "gpuslice.singleErrors" .) | trim -}}
{{- fail (printf "the agent would not take these values:\n%s" .) -}}
{{- end -}}
{{- end -}}
