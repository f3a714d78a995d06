#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Dashboards and rules of deploy/grafana: what is there is what its script makes, Prometheus takes the rules, each
# alert fires when it should and only then, and on a simulated node every query has an answer.
set -euo pipefail

if [[ ${1-} == --help ]]; then
	echo "usage: [GPUSLICE_BUILD=DIR] test/prom/run.sh"
	echo "Exits with 77 without promtool (tools/setup prom); the live part also needs root."
	exit 0
fi
cd "$(dirname "$0")/../.."
command -v promtool >/dev/null || {
	echo "no promtool: tools/setup prom installs it"
	exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

deploy/grafana/generate "$work"
for name in gpuslice-node.json gpuslice-cluster.json; do
	cmp "$work/$name" "deploy/grafana/$name" || {
		echo "deploy/grafana/$name is not what deploy/grafana/generate makes: run it"
		exit 1
	}
done
if grep -n 'or vector(0)' deploy/grafana/*.json deploy/grafana/rules.yaml; then
	echo "deploy/grafana: a series that is missing is unknown, not 0"
	exit 1
fi
promtool check rules deploy/grafana/rules.yaml
promtool test rules test/prom/rules-test.yaml
# What the descriptions of alerts lead to.
bad=0
for link in $(sed -n 's/^ *runbook_url: //p' deploy/grafana/rules.yaml); do
	grep -qix "## ${link#*#}" "${link%#*}" || { echo "rules.yaml: no heading for $link" && bad=1; }
done
[[ $bad == 0 ]]
bats test/prom/prom.bats
