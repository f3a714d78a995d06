#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The man pages and --help say the same: every option, variable and command of the one stands in the
# other.
set -euo pipefail

if [[ ${1-} == --help || $# -ne 1 ]]; then
	echo "usage: tools/check-help.sh BIN_DIR"
	echo "Compares BIN_DIR/gpusliced and BIN_DIR/gpuslice with man/*.scd."
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
bin=$1
man=$(cd "$(dirname "$0")/../man" && pwd)
bad=0

# Option names in the left column of --help.
help_options() {
	sed -n 's/^  \(-.*\)$/\1/p' | sed 's/   *.*//' | grep -oE -- '--?[a-z][a-z0-9-]*' | LC_ALL=C sort -u
}

help_variables() {
	grep -oE '\[\$[A-Z_$, ]+\]' | grep -oE '[A-Z][A-Z_]+' | LC_ALL=C sort -u
}

# Option names that head an entry ("*-s*, *--slices*") of the section on standard input.
page_options() {
	{ grep -E '^\*-' || true; } | sed 's/ _.*_$//; s/ _[^_]*_//g' | { grep -oE -- '--?[a-z][a-z0-9-]*' || true; } |
		LC_ALL=C sort -u
}

# section FILE HEADING: from that heading to the next of the same or a higher level.
section() {
	awk -v heading="$2" '
		$0 == heading { on = 1; level = index($0, " ") - 1; next }
		on && /^#+ / && index($0, " ") - 1 <= level { exit }
		on' "$1"
}

# compare WHAT PAGE HELP_LIST PAGE_LIST
compare() {
	local missing extra
	missing=$(LC_ALL=C comm -23 <(echo "$3") <(echo "$4") | grep . || true)
	extra=$(LC_ALL=C comm -13 <(echo "$3") <(echo "$4") | grep . || true)
	[[ -z $missing ]] || { echo "$2: lacks, of $1 --help: ${missing//$'\n'/ }" && bad=1; }
	[[ -z $extra ]] || { echo "$2: has what $1 --help lacks: ${extra//$'\n'/ }" && bad=1; }
}

variables_in() {
	local name
	for name in $(help_variables <<<"$2"); do
		grep -q "\*$name\*" "$1" || { echo "$1: lacks the variable $name" && bad=1; }
	done
}

page=$man/gpusliced.8.scd
help=$("$bin/gpusliced" --help)
compare gpusliced "$page" "$(help_options <<<"$help")" "$(section "$page" '# OPTIONS' | page_options)"
variables_in "$page" "$help"

# commands_of [WORD]: those that the help of gpuslice, or of one of its commands, lists.
commands_of() {
	"$bin/gpuslice" "$@" --help |
		awk -v word="${1-}" '/^Commands:/ { on = 1; next } /^[^ ]|^$/ { on = 0 } on { print word (word ? " " : "") $1 }'
}

page=$man/gpuslice.1.scd
commands=$(commands_of)
[[ -n $commands ]] || { echo "gpuslice --help lists no commands" && bad=1; }
for command in $commands; do
	inner=$(commands_of "$command")
	[[ -z $inner ]] || commands+=$'\n'$inner
done
compare "gpuslice" "$page (commands)" "$(LC_ALL=C sort <<<"$commands")" \
	"$(sed -n 's/^## gpuslice //p' "$page" | LC_ALL=C sort)"
common=$(section "$page" '# OPTIONS' | page_options)
while read -r command; do
	# shellcheck disable=SC2086 # "mig apply" is two words
	help=$("$bin/gpuslice" $command --help)
	compare "gpuslice $command" "$page" "$(help_options <<<"$help")" \
		"$({ section "$page" "## gpuslice $command" | page_options && echo "$common"; } | LC_ALL=C sort -u)"
	variables_in "$page" "$help"
done <<<"$commands"
[[ $bad == 0 ]] && echo "man pages and --help agree"
exit $bad
