#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists files and folders that have grown past the guides. A list to think about, not a failure.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-size.sh"
	echo "Lists files of over 800 lines and folders of over 25 files (corpora and data aside)."
	exit 0
fi
cd "$(dirname "$0")/.."
find src test tools -type f \( -name '*.[ch]' -o -name '*.sh' -o -name '*.py' -o -name '*.bats' \) \
	-exec wc -l {} + | awk '$2 != "total" && $1 > 800 { print "guide: " $2 " has " $1 " lines" }'
find src test tools man -type f ! -path '*/corpus/*' ! -path '*/data/*' -printf '%h\n' |
	sort | uniq -c | awk '$1 > 25 { print "guide: " $2 " holds " $1 " files" }'
