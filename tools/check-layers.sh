#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Who may include whom. The table below is the rule; ARCHITECTURE.md explains it.
set -euo pipefail

# Layer: folders and headers of ours it may include (its own folder is understood), a bar, and
# the libraries it may know. libc is free for all but core.
rules() {
	cat <<-'EOF'
		base:    |
		abi:     |
		json:    base | jansson.h
		proc:    base | uv.h
		runtime: abi gpu/nvml-api.h |
		arbiter: abi base core turns | uv.h jansson.h
		core:    base abi/slice-limits.h |
		turns:   base abi/slice-limits.h |
		view:    base core | jansson.h
		metrics: base core view |
		config:  base core | jansson.h libfyaml.h
		gpu:     base core | uv.h
		price:   base config/yaml.h | jansson.h yajl/
		ledger:  base core | sqlite3.h
		plan:    base abi/slice-limits.h turns/turns.h core price/price.h config/config.h config/yaml.h | csv.h
		bench:   base abi arbiter/control.h core gpu/monitor.h json proc | uv.h jansson.h
		mig:     base core config gpu |
		sim:     base abi gpu/nvml-api.h gpu/nvml-functions.h | jansson.h libfyaml.h
		kube:    base core config/yaml.h | uv.h grpc/ protobuf-c/ curl/ jansson.h .pb-c.h
		http:    base | uv.h microhttpd.h curl/ jansson.h
		web:     base http/header.h http/listen.h | microhttpd.h gnutls/
		standin: base core config/yaml.h kube http | uv.h jansson.h
		agent:   base abi core config gpu json kube http ledger/ledger.h metrics price/price.h proc view web arbiter/control.h | uv.h jansson.h
		validate: base abi core config/yaml.h gpu/monitor.h gpu/nvml-api.h kube http | uv.h jansson.h
		cli:     base abi bench core config json gpu/monitor.h gpu/label-facts.h gpu/nvml.h kube http ledger/ledger.h mig plan price/load.h price/price.h standin validate sim/control.h sim/place.h | uv.h jansson.h libfyaml.h curl/ ncurses.h
	EOF
}

# Headers of libraries; what is not listed here is libc or ours.
libraries='uv.h jansson.h libfyaml.h microhttpd.h sqlite3.h csv.h yajl/ curl/ ncurses.h grpc/ protobuf-c/ .pb-c.h cmocka.h nvml.h cuda.h gnutls/'

# core is pure: no files, sockets, clocks, threads, processes.
core_never='unistd.h fcntl.h pthread.h threads.h time.h signal.h poll.h dirent.h sys/ base/fd.h base/log.h'

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-layers.sh"
	echo "Checks that each include under src/ obeys this table (layer: ours | libraries):"
	rules
	exit 0
fi
cd "$(dirname "$0")/.."

# Prints FILE:LINE:INCLUDED for each include of the files on standard input.
includes() {
	xargs -r grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]+[>"]' /dev/null |
		sed -E 's/^([^:]*:[0-9]+):[^<"]*/\1:/'
}

{
	rules | sed 's/^/rule:/'
	find src -name '*.[ch]' | LC_ALL=C sort | includes
} | awk -F: -v libraries="$libraries" -v core_never="$core_never" '
	# Does the header match one of the words: a folder ("base" or "grpc/"), an ending (".pb-c.h")
	# or a whole name.
	function matches(header, words,    n, list, i, w) {
		n = split(words, list, " ")
		for (i = 1; i <= n; i++) {
			w = list[i]
			if (header == w || w ~ /\/$/ && index(header, w) == 1)
				return 1
			if (w !~ /[.\/]/ && index(header, w "/") == 1)
				return 1
			if (w ~ /^\./ && substr(header, length(header) - length(w) + 1) == w)
				return 1
		}
		return 0
	}
	function complain(text) {
		printf "%s:%s: %s\n", $1, $2, text
		bad++
	}
	$1 == "rule" {
		layer = $2
		split($3, half, "|")
		ours[layer] = layer " " half[1]
		theirs[layer] = half[2]
		next
	}
	{
		n++
		split($1, path, "/")
		layer = path[2]
		quoted = $3 ~ /^"/
		header = substr($3, 2, length($3) - 2)
		if (!(layer in ours)) {
			complain("src/" layer " has no row in tools/check-layers.sh")
			next
		}
		if (header ~ /\.\.\//)
			complain("\"" header "\": name headers from src/, without ../")
		else if (matches(header, libraries)) {
			if (!matches(header, theirs[layer]))
				complain(layer " may not know the library of " $3)
		} else if (quoted && header !~ /\//)
			complain("\"" header "\": name it from src/, as \"" layer "/" header "\"")
		else if (quoted && !matches(header, ours[layer]))
			complain(layer " may not include \"" header "\"")
		else if (!quoted && header ~ /^(base|abi|core|config|gpu|price|ledger|view|metrics|web|mig|runtime|arbiter|turns|sim|kube|http|standin|agent|validate|cli)\//)
			complain(header ": headers of ours stand in quotes")
		if (layer ~ /^(core|turns)$/ && matches(header, core_never))
			complain(layer " has no input or output, clock, thread or log: " $3)
	}
	END {
		printf "%d includes, %d wrong\n", n, bad
		exit bad > 0
	}'

# Time comes into core as an argument.
if grep -rnE --include="*.c" '\btime_(mono|wall)_ns\(' src/model; then
	echo "core asks the clock: take the time as an argument"
	exit 1
fi

# The simulator is no part of what is shipped but for the tool's own `sim` command.
if grep -nE '\bsim_(lib|dep|core|model|control)[a-z_]*\b' src/{base,core,config,gpu,price,ledger,view,metrics,web,mig,runtime,arbiter,kube,http,standin,agent}/meson.build; then
	echo "only src/testbed/sim, src/tools/cli and test link parts of the simulator"
	exit 1
fi
