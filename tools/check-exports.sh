#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A shared library exports the functions of its list and nothing else, under the right SONAME.
set -euo pipefail

if [[ ${1-} == --help || $# -ne 3 ]]; then
	echo "usage: tools/check-exports.sh LIBRARY SONAME NAMES"
	echo "NAMES: one function a line; what follows the name, and lines with #, do not count."
	[[ ${1-} == --help ]] && exit 0 || exit 2
fi
library=$1 soname=$2 names=$3
bad=0

found=$(readelf -dW "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[[ $found == "$soname" ]] || { echo "$library: SONAME is '$found', not '$soname'" && bad=1; }

exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | LC_ALL=C sort -u)
listed=$(sed 's/#.*//' "$names" | awk 'NF { print $1 }' | LC_ALL=C sort -u)
missing=$(LC_ALL=C comm -13 <(echo "$exported") <(echo "$listed"))
extra=$(LC_ALL=C comm -23 <(echo "$exported") <(echo "$listed"))
[[ -z $missing ]] || { printf 'not exported: %s\n' "${missing//$'\n'/ }" && bad=1; }
[[ -z $extra ]] || { printf 'exported, but not listed: %s\n' "${extra//$'\n'/ }" && bad=1; }
echo "$(wc -l <<<"$exported") functions exported"
exit $bad
