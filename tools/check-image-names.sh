#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The name of the image has one definition: image.repository in the chart's values.yaml, with its appVersion as the tag. All
# other files have that name, or registry.example/gpuslice, which stands for the reader's own registry.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: tools/check-image-names.sh"
	echo "Reports names of the image in README.md, docs/, deploy/ and examples/ that differ from the chart's."
	exit 0
fi
cd "$(dirname "$0")/.."
chart=deploy/helm/gpuslice
repository=$(sed -n '/^image:/,/^[a-z]/s/^  repository: //p' "$chart/values.yaml")
version=$(sed -n 's/^appVersion: "\(.*\)"$/\1/p' "$chart/Chart.yaml")
[[ -n $repository && -n $version ]] || { echo "no image.repository or no appVersion in $chart" && exit 1; }

# Of each line what looks like the image: behind "image:", or in a registry. A tag that a template makes is the chart's.
names() {
	grep -rnoE --include='*.md' --include='*.yaml' --include='*.tpl' --include=Containerfile \
		'image: *"?([a-z0-9./-]+/)?gpuslice[^ "]*|(^|[^/a-z0-9.-])(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+)/gpuslice(:[^ ,`"'"'"')]*)?' \
		README.md docs deploy examples --exclude-dir=results
}

bad=0 n=0
while IFS= read -r found; do
	place=${found%%:*}:$(cut -d: -f2 <<<"$found")
	name=$(cut -d: -f3- <<<"$found" | sed -E 's/^image: *"?//; s/^[^a-z]//')
	n=$((n + 1))
	case $name in
	"$repository" | registry.example/gpuslice) [[ $found != *image:* ]] && continue ;;
	"$repository:$version" | "registry.example/gpuslice:$version" | "$repository:{{"*) continue ;;
	esac
	echo "$place: expected $repository:$version or registry.example/gpuslice:$version, found $name"
	bad=1
done < <(names)
((n > 0)) || { echo "no name of the image was found" && exit 1; }
echo "$n names of the image"
exit $bad
