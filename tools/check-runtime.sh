#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a preload library must be, so that it can be a guest in any program of any age.
set -euo pipefail

newest=2.17 # of the C library's versions that it may need: CentOS 7

if [[ ${1-} == --help || $# -ne 3 ]]; then
	cat <<-'EOF'
		usage: tools/check-runtime.sh LIBRARY SONAME NAMES

		NAMES: the list that the library was made from (src/container/loader/). Checks: it exports
		these names, dlopen, dlmopen and its spare symbols, and nothing else; needs libc only, in
		no newer version than CentOS 7 has; runs nothing when it is loaded; is never unloaded; has
		next to no thread-local storage; imports nothing of the dl* family; entry points have 16 bytes; the
		tables that are corrected in place share no page with code, and the spare symbols are
		the last of their bucket.
	EOF
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
library=$1 soname=$2 names=$3
bad=0

complain() {
	echo "$library: $*"
	bad=1
}

dynamic=$(readelf -dW "$library")
found=$(sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p' <<<"$dynamic")
[[ $found == "$soname" ]] || complain "SONAME is '$found', not '$soname'"
while read -r needed; do
	[[ $needed == libc.so.6 || $needed == ld-linux* ]] || complain "needs $needed"
done < <(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$dynamic")
for tag in INIT FINI INIT_ARRAY FINI_ARRAY PREINIT_ARRAY TEXTREL RPATH RUNPATH; do
	[[ $dynamic != *"($tag)"* ]] || complain "has $tag"
done
grep -q '(FLAGS_1).*NODELETE' <<<"$dynamic" || complain "may be unloaded, with a thread of its own in it"

listed=$({
	sed 's/#.*//' "$names" | awk 'NF { print $1 }'
	printf 'dlopen\ndlmopen\n'
} | LC_ALL=C sort)
exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort)
spares=$(grep -cE '^spare[0-9]+_(bA|ab){9}$' <<<"$exported" || true)
exported=$(grep -vE '^spare[0-9]+_(bA|ab){9}$' <<<"$exported")
[[ $spares == 512 ]] || complain "$spares spare symbols, not 512"
missing=$(LC_ALL=C comm -13 <(echo "$exported") <(echo "$listed"))
extra=$(LC_ALL=C comm -23 <(echo "$exported") <(echo "$listed"))
[[ -z $missing ]] || complain "not exported: ${missing//$'\n'/ }"
[[ -z $extra ]] || complain "exported, but not listed: ${extra//$'\n'/ }"
short=$(nm -DS --defined-only "$library" | awk 'NF == 4 && $3 == "T" && length($2) == 16 &&
	substr($2, 1, 14) == "00000000000000" && substr($2, 15) < "10" { print $4 }')
[[ -z $short ]] || complain "entry points of less than 16 bytes: ${short//$'\n'/ }"

undefined=$(nm -D --undefined-only "$library" | awk '{ print $NF }')
while read -r symbol; do
	case ${symbol%%@*} in
	dl_iterate_phdr) ;;
	dl*) complain "imports $symbol" ;;
	esac
	[[ $symbol == *@* ]] || complain "imports $symbol, of no library"
	version=${symbol##*@GLIBC_}
	[[ $(printf '%s\n%s\n' "$version" "$newest" | sort -V | tail -n 1) == "$newest" ]] ||
		complain "imports $symbol, which is newer than GLIBC_$newest"
done <<<"$undefined"

tls=$(readelf -lW "$library" | awk '$1 == "TLS" { print $6 }')
[[ $((${tls:-0})) -le 64 ]] || complain "$tls bytes of thread-local storage: no room in programs that are full"
python3 "$(dirname "$0")/check-runtime-tables.py" "$library" || bad=1

echo "$(wc -l <<<"$exported") names, $spares spares, $(wc -l <<<"$undefined") imports"
exit $bad
