#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# One table of exit statuses (src/tools/cli/cmd.h, gpuslice(1)), kept by all commands; and how they end when nobody
# reads what they print.

bats_require_minimum_version 1.5.0
load lib

ROOT=$BATS_TEST_DIRNAME/../..

setup_file() {
	stage_programs
}

setup() {
	node_setup p4d.24xlarge
	cd "$BATS_TEST_TMPDIR"
	cp "$ROOT/test/data/bench/report.json" .
	cat >config.yaml <<-'END'
		version: v1
		sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}
	END
}

teardown() {
	node_teardown
}

commands() {
	"$GPUSLICE" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

# A call of each command that prints and finds nothing wrong. profile has a GPU for itself and validate a driver
# where they do more than this.
prints() {
	case $1 in
	bench) echo "bench report report.json" ;;
	cdi) echo "cdi generate --node p3.8xlarge" ;;
	config) echo "config check --node p3.8xlarge config.yaml" ;;
	cost) echo "cost --ledger ledger.db --from 2026-01-01 --to 2026-01-02" ;;
	demo) echo "demo --once --plain" ;;
	kubelet) echo "kubelet get nodes" ;;
	labels) echo "labels --node p3.8xlarge" ;;
	mig) echo "mig export" ;;
	plan) echo "plan $ROOT/examples/plan/four-on-p3.yaml" ;;
	profile) echo "profile --help" ;;
	sim) echo "sim list keys" ;;
	simulate) echo "simulate --nodes $ROOT/test/data/openb/openb_small_nodes.csv --trace $ROOT/test/data/openb/openb_small_pods.csv --seeds 1" ;;
	status) echo "status" ;;
	top) echo "top --once" ;;
	validate) echo "validate --help" ;;
	*) return 1 ;;
	esac
}

# Runs the rest with a standard output that nobody reads any more. The status of a signal is 128 and its number.
without_reader() {
	python3 -c 'import os, subprocess, sys
r, w = os.pipe()
os.close(r)
status = subprocess.run(sys.argv[1:], stdout=w).returncode
sys.exit(128 - status if status < 0 else status)' "$@"
}

serve_all() {
	kubelet
	agent --config-file "$BATS_TEST_TMPDIR/config.yaml"
	"$GPUSLICE_BUILD/test/support/make-ledger" ledger.db <<-'END'
		period|1767225600|node-1|p3.8xlarge|us-east-1|USD|catalogue 2026-07-20|12240000000|4|300000000000
		idle|GPU-0|300000000000|255000000
	END
}

@test "each command has a row here" {
	local command
	for command in $(commands); do
		prints "$command" >/dev/null || { echo "no row for $command" && false; }
	done
}

@test "wrong usage is 2, and 1 for commands that replace nvidia-mig-parted" {
	local command want
	run -2 --separate-stderr "$GPUSLICE"
	run -2 --separate-stderr "$GPUSLICE" no-such-command
	for command in $(commands); do
		[[ $command == mig ]] && want=-1 || want=-2
		run $want --separate-stderr "$GPUSLICE" "$command" --no-such-option
		# shellcheck disable=SC2154 # run sets it
		[[ $stderr == "gpuslice $command: "* ]]
		run -0 "$GPUSLICE" "$command" --help
	done
	ln -s "$GPUSLICE" nvidia-mig-parted
	run -1 --separate-stderr ./nvidia-mig-parted --no-such-option
}

@test "the man page has each status that an error can have, and no other" {
	local table page
	table=$({
		grep -oE '^	\[ERR_[A-Z_]+\] = \{ "[a-z-]+", [0-9]+, [0-9]+, [0-9]+ \}' "$ROOT/src/lib/base/error.c" | grep -oE '[0-9]+ \}' | tr -d ' }'
		sed -n 's/^#define EXIT_[A-Z]* *//p' "$ROOT/src/tools/cli/cmd.h"
	} | sort -nu)
	page=$(sed -n '/^# EXIT STATUS/,/^# ENVIRONMENT/s/^\*\([0-9]*\)\*$/\1/p' "$ROOT/man/gpuslice.1.scd")
	[[ -n $page ]]
	diff <(echo "$table") <(echo "$page")
}

@test "output that cannot be written is 10" {
	local command want
	serve_all
	for command in $(commands); do
		[[ $command == mig ]] && want=1 || want=10
		# shellcheck disable=SC2046 # words
		"$GPUSLICE" $(prints "$command") >/dev/full 2>err && status=0 || status=$?
		echo "$command: $status: $(<err)"
		((status == want))
		grep -F "write to standard output: " err
	done
	run -10 bash -c "timeout 60 '$GPUSLICE' demo --plain >/dev/full"
}

@test "unknown results with lost output: 10, not 13" {
	local status=0
	echo 'version: gpuslice/plan/v1' >plan.yaml
	echo 'workloads: [{name: a, mem_peak_mib: 900, slo: {p99_ms: 50}}]' >>plan.yaml
	run -13 "$GPUSLICE" plan plan.yaml
	run -10 bash -c "'$GPUSLICE' plan plan.yaml >/dev/full"
	[[ $output == *"write to standard output: "* ]]
	without_reader "$GPUSLICE" plan plan.yaml 2>/dev/null || status=$?
	((status == 141))
}

@test "a name that does not exist is 3, and a word that a command does not know 2" {
	local status args
	kubelet
	while IFS='|' read -r status args; do
		# shellcheck disable=SC2086 # words
		run -"$status" "$GPUSLICE" $args
		echo "$args: $output"
	done <<-'END'
		3|demo --once --node no-such-model
		3|sim add no-such-product
		3|sim lose 99
		2|sim set 0 no-such-key 1
		3|cost --ledger no-such-file
		3|kubelet get nodes no-such-node
		3|kubelet get resources no-such-resource
		3|kubelet get pods no-such-pod
		2|kubelet get no-such-kind
		2|kubelet fault no-such-fault
		3|kubelet fault drop-streams no-such-resource
		3|kubelet fault duplicate-stream no-such-resource
		3|kubelet fault slow-reader no-such-resource
	END
	run -0 "$GPUSLICE" kubelet get nodes "$("$GPUSLICE" kubelet get nodes | awk 'NR == 2 { print $1 }')"
}

@test "without a reader every command ends quietly by SIGPIPE" {
	local command args
	serve_all
	for command in $(commands); do
		args=$(prints "$command")
		# shellcheck disable=SC2086 # words
		without_reader timeout 60 "$GPUSLICE" $args 2>err && status=0 || status=$?
		echo "$args: $status: $(<err)"
		((status == 141))
		if grep -v '^warning: ' err; then false; fi # of a price that is old
	done
	# What it found goes before that.
	without_reader "$GPUSLICE" validate driver 2>err && status=0 || status=$?
	((status == 1))
	grep -F 'error validating driver: ' err
	run -0 bash -c "set +o pipefail; '$GPUSLICE' status | head -1"
	[[ $output == "Driver "* ]]
}

# What a command changes it changes as a whole, whoever reads.
@test "a change of the MIG layout is completed without a reader" {
	root_cuts
	without_reader "$GPUSLICE" mig apply --builtin -c all-1g.5gb && status=0 || status=$?
	((status == 141))
	"$GPUSLICE" mig export >after.yaml
	(($(grep -c '1g.5gb: 7' after.yaml) >= 1))
	run -0 "$GPUSLICE" mig assert -f after.yaml
}
