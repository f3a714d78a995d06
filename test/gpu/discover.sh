#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What is read from the real GPUs and driver of this machine, held against other witnesses: labels
# against gpu-feature-discovery and nvidia-smi, the CDI specification against the file system, and
# the validation with its computation on each GPU. Changes nothing on the card. Writes a transcript
# to standard output; exit 1 if a step differs. Never part of the default tests.
set -euo pipefail

usage() {
	cat <<-'EOF'
	Usage: test/gpu/discover.sh STAGE [GFD]

	STAGE is a staged install (build/stage) or a bundle (tools/bundle), whose libraries are used.
	GFD is NVIDIA's gpu-feature-discovery (test/peers builds it); without it that comparison is left
	out.
	EOF
}

case "${1-}" in
-h | --help) usage; exit 0 ;;
esac
[[ $# -ge 1 && $# -le 2 ]] || { usage >&2; exit 2; }
# shellcheck source=test/gpu/lib.bash
source "$(dirname "${BASH_SOURCE[0]}")/lib.bash"
use_stage "$1"
gfd=${2-}
mkdir "$tmp/cdi"
trap 'rm -rf "$tmp"' EXIT

smi() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits | head -n 1; }
label() { sed -n "s|^nvidia.com/$1=||p" "$tmp/labels"; }

heading "labels"
show gpuslice labels --no-timestamp || failed=1
gpuslice labels --no-timestamp >"$tmp/labels" 2>/dev/null
expect "gpu.count" "$(nvidia-smi -L | grep -c '^GPU ')" "$(label gpu.count)"
expect "cuda.driver-version.full" "$(smi driver_version)" "$(label cuda.driver-version.full)"
expect "gpu.memory" "$(smi memory.total)" "$(label gpu.memory)"
expect "gpu.compute" "$(smi compute_cap)" "$(label gpu.compute.major).$(label gpu.compute.minor)"

if [[ -n $gfd ]]; then
	heading "labels of gpu-feature-discovery"
	USE_NODE_FEATURE_API=false show "$gfd" --oneshot --no-timestamp --output-file "$tmp/gfd" || failed=1
	LC_ALL=C sort "$tmp/gfd" >"$tmp/theirs"
	LC_ALL=C sort "$tmp/labels" >"$tmp/ours"
	expect "lines that differ" 0 "$(diff "$tmp/theirs" "$tmp/ours" | tee "$tmp/diff" | grep -c '^[<>]' || true)"
	sed 's/^/  /' "$tmp/diff"
fi

heading "CDI specification"
show gpuslice cdi generate --output "$tmp/cdi/spec.json" || failed=1
python3 - "$tmp/cdi/spec.json" <<'PY' || failed=1
import json, os, stat, sys
spec = json.load(open(sys.argv[1]))
edits = [spec.get("containerEdits", {})] + [d["containerEdits"] for d in spec["devices"]]
nodes = [n.get("hostPath", n["path"]) for e in edits for n in e.get("deviceNodes", [])]
mounts = [m["hostPath"] for e in edits for m in e.get("mounts", [])]
print("  cdiVersion %s, kind %s, %d devices, %d device nodes, %d mounts, %d hooks, %d bytes" % (
    spec["cdiVersion"], spec["kind"], len(spec["devices"]), len(nodes), len(mounts),
    sum(len(e.get("hooks", [])) for e in edits), os.path.getsize(sys.argv[1])))
for d in spec["devices"]:
    print("  device", d["name"], [n["path"] for n in d["containerEdits"].get("deviceNodes", [])])
missing = [p for p in mounts if not os.path.exists(p)]
missing += [p for p in nodes if not (os.path.exists(p) and stat.S_ISCHR(os.stat(p).st_mode))]
for want in ("libcuda.so", "libnvidia-ml.so", "libnvidia-ptxjitcompiler.so", "nvidia-smi"):
    if not any(want in m for m in mounts):
        missing.append(want + " (not mounted)")
print("ok    all that it names is there" if not missing else "FAIL  missing: %s" % missing)
sys.exit(bool(missing))
PY

heading "the specification, with no other library in reach"
# What a container would see: only the mounts of the specification, found by their names there.
python3 - "$tmp/cdi/spec.json" "$tmp/inside" <<'PY'
import json, os, sys
spec = json.load(open(sys.argv[1]))
os.makedirs(sys.argv[2])
for m in spec["containerEdits"].get("mounts", []):
    at = os.path.join(sys.argv[2], os.path.basename(m["containerPath"]))
    if ".so" in m["containerPath"] and not os.path.lexists(at):
        os.symlink(m["hostPath"], at)
PY
(
	LD_LIBRARY_PATH=$tmp/inside${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	export LD_LIBRARY_PATH
	show gpuslice validate cuda --output-dir "$tmp/validations" --cuda "$tmp/inside/libcuda.so.1"
) || failed=1

heading "validation"
show gpuslice validate driver cuda --output-dir "$tmp/validations" \
	--disable-dev-char-symlink-creation || failed=1
for file in "$tmp"/validations/*; do
	[[ ! -s $file ]] || { echo "  ${file##*/}:" && sed 's/^/    /' "$file"; }
done
for component in driver cuda; do
	expect "$component-ready" yes "$([[ -e $tmp/validations/$component-ready ]] && echo yes || echo no)"
done

heading "result"
((failed)) && echo "a step differs" || echo "all steps as expected"
exit "$failed"
