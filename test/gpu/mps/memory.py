# SPDX-License-Identifier: Apache-2.0
"""How much memory clients of MPS have: of a pod, whatever its processes do, and without isolation."""
import json
import re
import subprocess
import time

from cluster import replicas

MIB = 1 << 20
STORM = {"processes": 8, "threads": 8}
STORM_S = 20


def fill(node, place, name, *args):
    p = node.client(place, "fill", *args, name=name)
    return p, json.loads(p.text().splitlines()[0])


def physical(node):
    """{pid: bytes} of the GPU as NVML has it."""
    text = subprocess.run([node.bin("nvml-look")], env=node.env, capture_output=True, text=True, check=True).stdout
    return {int(pid): int(size) for pid, size in re.findall(r"(\d+):(\d+)", text.split("pids=")[1].splitlines()[0])}


def together(node, pod, seconds=2):
    """The most, in looks that long, that the processes of the pod's slice have: by NVML, and in the slice's account."""
    most, most_used, looks, end = 0, 0, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        pids = {p["host_pid"] for p in node.slice_of(pod)["processes"]}
        most = max(most, sum(size for pid, size in physical(node).items() if pid in pids))
        most_used = max(most_used, node.slice_of(pod)["gpus"][0]["used"])
        looks += 1
        time.sleep(0.05)
    return most, most_used, looks


def one(node, kind, pod, f, limit):
    node.result("memory", what=kind, pod=pod, told=pod.told(), mps=f.get("mps"), sms=f.get("sms"),
                total_mib=f.get("total", 0) // MIB, device_total_mib=f.get("device_total", 0) // MIB,
                free_mib=f.get("free", 0) // MIB, allocated_mib=f.get("held", 0) // MIB, code=f["code"],
                limit_mib=limit // MIB if limit else None)


def at_once(node, kind, pods):
    """A client in each of them takes all that it gets."""
    procs = [fill(node, pod, f"fill-{pod}") for pod in pods]
    for pod, (_, found) in zip(pods, procs):
        one(node, kind, pod, found, pod.limit())
    return [p for p, _ in procs]


def end(procs):
    for p in procs:
        p.terminate()
    for p in procs:
        p.wait(30)


def memory(node):
    node.configure(replicas(4, memory="equal"), 4)
    pods = [node.pod(f"m{i}") for i in range(4)]
    procs = at_once(node, "limited", pods)
    limit = pods[0].limit()
    for pod in pods:
        most, used, looks = together(node, pod, 0.5)
        node.check(most <= limit, f"{pod} has more than its limit")
        node.result("memory", what="limited-nvml", pod=pod, looks=looks, most_mib=most // MIB, account_mib=used // MIB,
                    over=max(0, most - limit))
    end(procs)
    first, a = fill(node, pods[0], "first", "--bytes", limit // 2 // MIB * MIB)
    second, b = fill(node, pods[0], "second")
    most, used, looks = together(node, pods[0])
    node.check(most <= limit, "two processes of a pod have more than its limit")
    node.result("memory", what="two-in-a-pod", first_mib=a.get("held", 0) // MIB, second_mib=b.get("held", 0) // MIB,
                second_code=b["code"], second_free_mib=b.get("free", 0) // MIB, looks=looks, most_mib=most // MIB,
                account_mib=used // MIB, limit_mib=limit // MIB, over=max(0, most - limit))
    end([first, second])
    storm(node, pods)
    node.delete_pods()
    node.configure(replicas(4), 4)
    pods = [node.pod(f"p{i}") for i in range(2)]
    both = at_once(node, "per-process", [pods[0], pods[0], pods[1]])
    end(both)


def storm(node, pods):
    """Under MPS by the pod's variables; cuda-storm puts its children into the slice itself."""
    env = {k: v for k, v in pods[0].env.items() if k not in ("LD_PRELOAD", "GPUSLICE_SLICE_DIR")}
    seconds = 3 if node.sim else STORM_S
    node.until(lambda: node.slice_of(pods[0])["gpus"][0]["used"] == 0, "the slice is empty")
    done = subprocess.run(
        [node.bin("cuda-storm"), "--preload", pods[0].env["LD_PRELOAD"], "--slice", pods[0].env["GPUSLICE_SLICE_DIR"],
         "--limit", str(pods[0].limit()), "--processes", str(STORM["processes"]), "--threads", str(STORM["threads"]),
         "--seconds", str(seconds), "--neighbour", pods[1].env["GPUSLICE_SLICE_DIR"]],
        env=env, capture_output=True, text=True, check=False, timeout=seconds + 60)
    node.note(done.stdout + done.stderr)
    for line in done.stdout.splitlines():
        if re.match("storm |neighbour ", line):
            node.result("storm", **dict(w.split("=", 1) for w in line.split()[1:]))
    if done.returncode:
        raise RuntimeError(f"storm: {(done.stdout + done.stderr)[-300:]}")


def users(node):
    """Clients of several users at once, as containers have them."""
    node.configure(replicas(4, memory="equal"), 4)
    pods = [node.pod(f"u{i}") for i in range(3)]
    ids = (None, 1000, 2000)
    node.try_out(pods[0])
    node.open_to_all()
    procs = []
    for pod, uid in zip(pods, ids):
        procs.append(node.client(pod, "loop", *([] if uid is None else ["--uid", uid]), name=f"user-{uid}", mounts=True))
    at = time.monotonic()
    connected = len(node.servers(pods[0]))
    time.sleep(max(0.0, 2 - (time.monotonic() - at)))
    for p in procs:
        p.terminate()
    for p in procs:
        f = p.wait(30)
        node.result("users", uid=f["uid"], code=f["code"], step=f["step"], mps=f.get("mps"), loops=f.get("loops"),
                    longest_gap_ms=f.get("longest_gap_ms"), start_ms=f["took_ms"], servers=connected)
