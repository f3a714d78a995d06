#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the form of the source tree: one form of modules, a library is a folder, unit tests lie where the code lies.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	cat <<-'EOF'
		usage: tools/check-tree.sh
		Checks the form of src/ and test/unit/:
		  - a module with parts is a folder: foo/foo.c and foo/foo.h, not foo.c beside foo/;
		  - what the parts of a module share is in its foo/internal.h;
		  - a header of a file's own folder declares its external functions, or the header of the library that is
		    named as the library's folder (src/lib, model, io, node);
		  - a file without a header of its name begins with a comment that says what the file does: before the
		    includes, or after them with an empty line behind it;
		  - the title of a section is "/* --- title --- */", on a line of its own;
		  - src/GROUP/FOLDER/meson.build makes one static library at most, which is named after the folder
		    ("io/nvml/monitor" makes "nvml-monitor"); it names files of its folder only, and all of them;
		  - test/unit/FOLDER tests src/FOLDER.
	EOF
	exit 0
fi
cd "$(dirname "$0")/.."
bad=0
complain() {
	echo "$1: $2"
	bad=1
}

# The folder of the library that the file $1 is of.
library_of() {
	local folder=${1%/*}
	until [[ -e $folder/meson.build || $folder == src ]]; do
		folder=${folder%/*}
	done
	echo "$folder"
}

n=0
while read -r file; do
	n=$((n + 1))
	[[ ! -d ${file%.[ch]} ]] || complain "$file" "belongs into ${file%.[ch]}/"
	[[ $file != *-internal.h ]] || complain "$file" "put it into a folder of its module, as internal.h"
	[[ $file == *.c ]] || continue
	folder=$(library_of "$file")
	grep -qF "'${file#"$folder"/}'" "$folder/meson.build" || complain "$file" "$folder/meson.build does not name it"
done < <(find src -name '*.[ch]' | LC_ALL=C sort)

# Lists the files that have no head: no comment before the first #include, and none of its own behind the includes.
# A comment without an empty line behind it belongs to a declaration, and "--- name ---" begins a section.
headless() {
	awk '
		function judge() {
			if (file != "" && state != "head")
				print file
		}
		FNR == 1 { judge(); file = FILENAME; state = "start"; next } # the license
		state == "head" { next }
		state == "start" && /^\/\*/ { state = "head"; next }
		/^#include/ { state = "includes"; next }
		state == "includes" && /^$/ { next }
		state == "includes" && /^\/\*/ && !/^\/\* --/ { state = /\*\/$/ ? "behind" : "comment"; next }
		state == "comment" { if (/\*\/$/) state = "behind"; next }
		state == "behind" && /^$/ { state = "head"; next }
		!/^$/ { state = "code" }
		END { judge() }
	' "$@" </dev/null
}

sources=()
while read -r file; do
	[[ -e ${file%.c}.h ]] || sources+=("$file")
done < <(find src -name '*.c' | LC_ALL=C sort)
while read -r file; do
	complain "$file" "begin it with a comment that says what the file does, as there is no ${file%.c}.h"
done < <(headless "${sources[@]}")

while IFS=: read -r file line _; do
	complain "$file:$line" 'write the title of a section as "/* --- title --- */"'
done < <(grep -rnE '^/\* --' src test --include='*.[ch]' | grep -vE '/\* --- [^ -].*[^ -] --- \*/$')

# Lists the external functions whose folder has no header with their name. The groups container and testbed are left
# out: no header of ours declares the functions that a program finds by NVIDIA's names.
undeclared() {
	awk '
		FNR == 1 { folder = FILENAME; sub(/\/[^\/]*$/, "", folder); head = "" }
		FILENAME ~ /\.h$/ {
			if ($0 ~ /^[ \t]*(\/?\*|\/\/)/) # a comment declares nothing
				next
			for (n = split($0, words, /[^A-Za-z_0-9]+/); n > 0; n--)
				declared[folder, words[n]]
			next
		}
		/^[A-Za-z_].*\(/ && !/;/ { head = $0 }
		/^\{/ && head != "" {
			match(head, /[A-Za-z_0-9]+\(/)
			name = substr(head, RSTART, RLENGTH - 1)
			if (head !~ /^static / && name != "main" && !((folder, name) in declared))
				print FILENAME, name
		}
		/^[{}]/ || /;$/ { head = "" }
	' "$@" </dev/null
}

# All headers come first.
mapfile -t sources < <(find src -regex 'src/\(lib\|model\|io\|node\)/.*\.[ch]' | LC_ALL=C sort -t . -k 2,2r -k 1,1)
while read -r file name; do
	library=$(library_of "$file")
	grep -qsw "$name" "$library/${library##*/}.h" || complain "$file" "no header of ${file%/*}/ declares $name()"
done < <(undeclared "${sources[@]}")

while read -r build; do
	folder=${build#src/} folder=${folder%/meson.build}
	name=${folder#*/} name=${name//\//-} # below the group
	while read -r library; do
		[[ $library == "$name" ]] || complain "$build" "name the library '$library' after its folder, '$name', or give it a folder of its own"
	done < <(sed -nE "s/.*\bstatic_library\('([^']*)'.*/\1/p" "$build")
	while read -r source; do
		[[ $source != ../* ]] || complain "$build" "'$source' is of another folder"
		# A folder with a build file of its own builds its files.
		below=$source
		while [[ $below == */* ]]; do
			below=${below%/*}
			[[ ! -e src/$folder/$below/meson.build ]] || complain "$build" "'$source' is of $below/meson.build"
		done
	done < <(grep -v '^ *#' "$build" | grep -oE "'[^' ]*\.c'" | tr -d "'")
done < <(find src -name meson.build | LC_ALL=C sort)

while read -r folder; do
	[[ -d src/${folder#test/unit} ]] || complain "$folder" "there is no src${folder#test/unit} for it to test"
done < <(find test/unit -type d | LC_ALL=C sort)

echo "$n files of C in $(find src -type d | wc -l) folders"
exit "$bad"
