#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks who may include whom. The two tables below are the rules; ARCHITECTURE.md explains them.
set -euo pipefail

# A group of folders, by where it runs: the groups that it may include besides itself.
groups() {
	cat <<-'EOF'
		lib:
		abi:
		model:     lib abi
		io:        lib abi model
		node:      lib abi model io
		container: abi
		testbed:   lib abi model io
		tools:     lib abi model io
	EOF
}

# A folder: the folders of its own group, and the groups besides those above, that it may include; a bar; and the
# libraries that it may know. Any folder may use libc, but for what `never` says of model.
folders() {
	cat <<-'EOF'
		lib/base:                                    |
		lib/json:        base                        | jansson.h
		lib/proc:        base                        | uv.h
		lib/report:      base                        |
		lib/http:        base                        | uv.h microhttpd.h curl/ jansson.h
		lib/yaml:        base                        | jansson.h libfyaml.h
		abi:                                         |
		model:                                       |
		io/cdi:                                      | jansson.h
		io/config:                                   | jansson.h libfyaml.h
		io/kube-api:                                 | uv.h curl/ jansson.h
		io/kubelet:                                  | uv.h grpc/ protobuf-c/ .pb-c.h
		io/mig-editor:   nvml                        |
		io/nvml:                                     | uv.h
		io/price:                                    | jansson.h yajl/
		io/usage-db:                                 | sqlite3.h
		io/web:                                      | microhttpd.h gnutls/
		node/agent:      metrics view                | uv.h jansson.h
		node/arbiter:                                | uv.h jansson.h
		node/metrics:    view                        |
		node/view:                                   | jansson.h
		container:                                   |
		testbed/sim:                                 | jansson.h libfyaml.h
		testbed/standin:                             | uv.h jansson.h
		tools/bench:                                 | uv.h jansson.h
		tools/cli:       bench plan simulate validate testbed | uv.h jansson.h libfyaml.h curl/ ncurses.h
		tools/plan:                                  |
		tools/simulate:                              | csv.h
		tools/validate:                              | uv.h jansson.h
	EOF
}

# Headers of libraries: those of the second table, and those that no program of ours may know. What is in neither
# this list nor src/ is libc.
libraries="$(folders | sed 's/.*|//' | tr '\n' ' ') cmocka.h nvml.h cuda.h"

# model is pure: no files, sockets, clocks, threads, processes, logs.
never='unistd.h fcntl.h pthread.h threads.h time.h signal.h poll.h dirent.h sys/ lib/base/fd.h lib/base/fd-pass.h lib/base/log.h'

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-layers.sh"
	echo "Checks that each include under src/ obeys these tables."
	echo "Groups of folders, and the groups they may include:"
	groups
	echo "Folders, the siblings they may include, and the libraries they may know:"
	folders
	exit 0
fi
cd "$(dirname "$0")/.."

# Prints FILE:LINE:INCLUDED for each include of the files on standard input.
includes() {
	xargs -r grep -nHoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"][^>"]+[>"]' /dev/null |
		sed -E 's/^([^:]*:[0-9]+):[^<"]*/\1:/'
}

{
	groups | sed 's/^/group:/'
	folders | sed 's/^/folder:/'
	# What a header says itself: "Inside src/io/price only."
	find src -name '*.h' -exec grep -HoE 'Inside src/[a-z/-]*[a-z] ' {} + |
		sed -E 's/^([^:]*):Inside src\/(.*) $/only:\1:\2\//' || true
	find src -name '*.[ch]' | LC_ALL=C sort | includes
} | awk -F: -v libraries="$libraries" -v never="$never" '
	# Does the header match one of the words: a folder ("lib" or "grpc/"), an ending (".pb-c.h")
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
	# The row of the second table that a file is in, and its group.
	function folder_of(path,    part) {
		split(path, part, "/")
		return (part[1] in theirs) ? part[1] : part[1] "/" part[2]
	}
	function group_of(path,    part) {
		split(path, part, "/")
		return part[1]
	}
	function complain(text) {
		printf "%s:%s: %s\n", $1, $2, text
		bad++
	}
	$1 == "group" {
		lower[$2] = $3
		next
	}
	$1 == "only" {
		home[substr($2, length("src/") + 1)] = $3
		next
	}
	$1 == "folder" {
		split($3, half, "|")
		siblings[$2] = half[1]
		theirs[$2] = half[2]
		next
	}
	{
		n++
		path = substr($1, length("src/") + 1)
		folder = folder_of(path)
		group = group_of(path)
		quoted = $3 ~ /^"/
		header = substr($3, 2, length($3) - 2)
		other = group_of(header)
		if (!(folder in theirs)) {
			complain("src/" folder " has no row in tools/check-layers.sh")
			next
		}
		if (header ~ /\.\.\//)
			complain("\"" header "\": name headers from src/, without ../")
		else if (matches(header, libraries)) {
			if (!matches(header, theirs[folder]))
				complain(folder " may not include the library header " $3)
		} else if (quoted && header !~ /\//)
			complain("\"" header "\": name it from src/, as \"" folder "/" header "\"")
		else if (!quoted && other in lower && header ~ /\//)
			complain(header ": put headers of the project in quotes")
		else if (quoted && other == group) {
			if (folder_of(header) != folder && !matches(substr(header, length(group) + 2), siblings[folder]))
				complain(folder " may not include \"" header "\"")
		} else if (quoted && !matches(header, lower[group]) && !matches(header, siblings[folder]))
			complain(folder " may not include \"" header "\"")
		if (quoted && header ~ /\/internal\.h$/)
			home[header] = substr(header, 1, length(header) - length("internal.h"))
		if (quoted && (header in home) && index(path, home[header]) != 1)
			complain("\"" header "\" is for src/" home[header] " only")
		if (group == "model" && matches(header, never))
			complain("model has no input or output, clock, thread or log: " $3)
	}
	END {
		printf "%d includes, %d wrong\n", n, bad
		exit bad > 0
	}'

# model gets the time as an argument.
if grep -rnE --include="*.c" '\btime_(mono|wall)_ns\(' src/model; then
	echo "src/model reads the clock: take the time as an argument"
	exit 1
fi

# Only src/testbed, folders that may include it, and tests link parts of the simulator.
mapfile -t users < <(folders | sed -nE 's/^([^:]*):.*\btestbed\b.*\|.*/src\/\1/p')
not=(-not -path 'src/testbed/*')
for user in "${users[@]}"; do
	not+=(-not -path "$user/*")
done
if find src -name meson.build "${not[@]}" -print0 | xargs -r0 grep -HnP "^[^#]*(?<![\w/'-])(sim|sim_\w+|standin)(?![\w/'-])"; then
	echo "only src/testbed, ${users[*]} and test may link parts of the simulator"
	exit 1
fi
