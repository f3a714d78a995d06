#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What gpuslice mig says of the real GPUs of this machine, held against nvidia-smi, nvidia-mig-parted
# and the simulator. It only reads: what a layout would take is asked with --dry-run, and the card is
# left as it is. Writes a transcript to standard output; exit 1 if a step differs. Never part of the
# default tests.
set -euo pipefail

usage() {
	cat <<-'EOF'
	Usage: test/gpu/mig.sh STAGE [NVIDIA_MIG_PARTED]

	STAGE is a staged install (build/stage) or a bundle (tools/bundle), whose libraries are used.
	NVIDIA_MIG_PARTED is NVIDIA's program (test/peers builds it); without it that comparison is left
	out. The GPUs must have MIG, which must be off.
	EOF
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
esac
[[ $# -ge 1 && $# -le 2 ]] || { usage >&2; exit 2; }
# shellcheck source=test/gpu/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
peer=${2-}
[[ -z $peer ]] || peer=$(realpath "$peer")
own_libraries=${LD_LIBRARY_PATH-}
use_stage "$1"
trap 'rm -rf "$tmp"' EXIT

mig() { gpuslice mig "$@"; }

# NVIDIA's programs, without the libraries of ours.
theirs() { LD_LIBRARY_PATH=$own_libraries "$@"; }

modes() { theirs nvidia-smi --query-gpu=mig.mode.current,mig.mode.pending,compute_mode,persistence_mode --format=csv,noheader; }

heading "The machine"
show theirs nvidia-smi --query-gpu=name,driver_version,pci.bus_id,mig.mode.current --format=csv || true
before=$(modes)

heading "Profiles: nvidia-smi and ours"
show theirs nvidia-smi mig -lgip || true
show theirs nvidia-smi mig -lgipp || true
show mig list || true
show mig status || true
# Id, starts and size of each profile of each GPU.
theirs nvidia-smi mig -lgipp | sed -nE 's/^GPU +([0-9]+) Profile ID +([0-9]+) Placements? ?: ?\{([0-9,]+)\}:([0-9]+).*/\1 \2 \3 \4/p' | sort >"$tmp/smi"
mig list -o json | python3 -c '
import json, sys
for gpu in json.load(sys.stdin):
    for p in gpu["profiles"]:
        print(gpu["index"], p["id"], ",".join(map(str, p["starts"])), p["size"])' | sort >"$tmp/ours"
expect "placements of nvidia-smi, not ours" "" "$(comm -23 "$tmp/smi" "$tmp/ours" | paste -s -d ';')"
expect "placements of ours, not nvidia-smi's" "" "$(comm -13 "$tmp/smi" "$tmp/ours" | paste -s -d ';')"

heading "Ours and nvidia-mig-parted"
mig export >"$tmp/export.yaml"
mig export -o json >"$tmp/export.json"
mig checkpoint -f "$tmp/checkpoint.json" >/dev/null
if [[ -n $peer ]]; then
	theirs "$peer" export >"$tmp/peer.yaml"
	theirs "$peer" export -o json >"$tmp/peer.json"
	theirs "$peer" checkpoint -f "$tmp/peer-checkpoint.json" >/dev/null
	expect "export, lines that differ" 0 "$(diff "$tmp/peer.yaml" "$tmp/export.yaml" | grep -c '^[<>]' || true)"
	expect "export -o json, bytes" "$(cksum <"$tmp/peer.json")" "$(cksum <"$tmp/export.json")"
	expect "checkpoint, bytes" "$(cksum <"$tmp/peer-checkpoint.json")" "$(cksum <"$tmp/checkpoint.json")"
fi
show cat "$tmp/export.yaml" || true
mig generate-config >"$tmp/generated.yaml"
show cat "$tmp/generated.yaml" || true

heading "Every generated layout: assert, and what it would take"
while read -r name; do
	mine=0
	mig assert -f "$tmp/generated.yaml" -c "$name" >/dev/null 2>&1 || mine=$?
	if [[ -n $peer ]]; then
		their=0
		theirs "$peer" assert -f "$tmp/generated.yaml" -c "$name" >/dev/null 2>&1 || their=$?
		expect "assert $name, exit status" "$their" "$mine"
	fi
	status=0
	mig apply -f "$tmp/generated.yaml" -c "$name" --dry-run >"$tmp/plan" 2>&1 || status=$?
	expect "apply --dry-run $name, exit status" 0 "$status"
	sed 's/^/  /' "$tmp/plan"
done < <(mig generate-config -o json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["mig-configs"], sep="\n")')

heading "Time and calls of a look"
for _ in 1 2 3; do
	start=$EPOCHREALTIME
	mig apply -f "$tmp/generated.yaml" -c all-disabled --dry-run -o json >"$tmp/end"
	awk -v a="$start" -v b="$EPOCHREALTIME" -v n="$(sed -nE 's/.*"nvml_calls":([0-9]+).*/\1/p' "$tmp/end")" \
		'BEGIN { printf "gpuslice mig apply --dry-run: %.0f ms, %d NVML calls\n", (b - a) * 1000, n }'
	[[ -n $peer ]] || continue
	start=$EPOCHREALTIME
	theirs "$peer" assert -f "$tmp/generated.yaml" -c all-disabled >/dev/null 2>&1
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "nvidia-mig-parted assert: %.0f ms\n", (b - a) * 1000 }'
done

heading "The card is as it was"
expect "modes" "$before" "$(modes)"
exit "$failed"
