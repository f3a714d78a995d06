#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What /metrics says of a GPU, held against nvidia-smi at the same moments and against loads whose rates are known.

BUNDLE is what "test/gpu/slice.sh pack BUILD BUNDLE" put together. The agent and the stand-in kubelet run from it;
processes are of pods by their mounts, as in containers. Writes OUT/results.txt, a line of key=value for each figure,
and OUT/transcript.txt. For root. Changes no setting of the GPU. Exit 1 if a figure is wrong.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "mps"), os.path.join(HERE, "turns")]
import script  # noqa: E402
import shares  # noqa: E402
from cluster import Cluster  # noqa: E402

# nvidia-smi's name, ours, and how far they may be apart: a number, a part of it, or 0 for exactly.
BESIDE = [
    ("temperature.gpu", "DCGM_FI_DEV_GPU_TEMP", 2, 0), ("temperature.memory", "DCGM_FI_DEV_MEMORY_TEMP", 2, 0),
    ("power.draw", "DCGM_FI_DEV_POWER_USAGE", 0, 0.1), ("clocks.sm", "DCGM_FI_DEV_SM_CLOCK", 0, 0.05),
    ("clocks.mem", "DCGM_FI_DEV_MEM_CLOCK", 0, 0), ("memory.used", "DCGM_FI_DEV_FB_USED", 1, 0),
    ("memory.free", "DCGM_FI_DEV_FB_FREE", 1, 0), ("utilization.gpu", "DCGM_FI_DEV_GPU_UTIL", 3, 0),
    ("utilization.memory", "DCGM_FI_DEV_MEM_COPY_UTIL", 3, 0), ("utilization.encoder", "DCGM_FI_DEV_ENC_UTIL", 3, 0),
    ("utilization.decoder", "DCGM_FI_DEV_DEC_UTIL", 3, 0),
]
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
# A metric of "nvidia-smi dmon --gpm-metrics": its number, our name, and the factor for our figure.
GPM = [(1, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 100), (2, "DCGM_FI_PROF_SM_ACTIVE", 100), (3, "DCGM_FI_PROF_SM_OCCUPANCY", 100),
       (5, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 100), (10, "DCGM_FI_PROF_DRAM_ACTIVE", 100),
       (20, "DCGM_FI_PROF_PCIE_TX_BYTES", 1 / (1 << 20)), (21, "DCGM_FI_PROF_PCIE_RX_BYTES", 1 / (1 << 20))]
INTERVAL_S = 1
SPAN_S = 12

TORCH = """
import sys, time, torch
kind, seconds = sys.argv[1], float(sys.argv[2])
gpu = "cuda"
if kind == "dram":
    a, b = (torch.empty(4 << 30, dtype=torch.uint8, device=gpu) for _ in range(2))
    step, amount = (lambda: b.copy_(a)), 2 * (4 << 30)
elif kind == "tensor":
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device=gpu) for _ in range(2))
    step, amount = (lambda: a @ b), 2 * 8192 ** 3
else:
    a = torch.empty(1 << 30, dtype=torch.uint8, pin_memory=True)
    b = torch.empty(1 << 30, dtype=torch.uint8, device=gpu)
    step, amount = ((lambda: b.copy_(a, non_blocking=True)) if kind == "to" else (lambda: a.copy_(b, non_blocking=True))), 1 << 30
step(); torch.cuda.synchronize()
print("ready", flush=True)
began = time.monotonic(); n = 0
while time.monotonic() - began < seconds:
    for _ in range(4):
        step()
    torch.cuda.synchronize(); n += 4
print('{"rate": %.6g}' % (n * amount / (time.monotonic() - began)), flush=True)
"""


class Watched(Cluster):
    """Serves /metrics; processes that are started in a pod are found there."""

    def begin_services(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        counters = os.path.join(self.work, "counters.csv")
        with open(counters, "w", encoding="utf-8") as f:
            for name in [row[1] for row in BESIDE + GPM] + ["DCGM_FI_DEV_XID_ERRORS"]:
                f.write(f"{name}, gauge, x\n")
            f.write(f"{ENERGY}, counter, x\n")
        self.own_env.update(GPUSLICE_METRICS_LISTEN=f"127.0.0.1:{self.port}", GPUSLICE_METRICS_INTERVAL=f"{INTERVAL_S}s",
                            DCGM_EXPORTER_COLLECTORS=counters, GPUSLICE_PRICE="3.6")
        super().begin_services()
        self.uids = {}

    # ---- pods ----

    def pod(self, name, resource="nvidia.com/gpu"):
        pod = super().pod(name, resource)
        self.uids[name] = str(uuid.uuid4())
        hosts = self.hosts(name)
        os.makedirs(os.path.dirname(hosts))
        shutil.copy("/etc/hosts", hosts)
        self.write_checkpoint()
        return pod

    def hosts(self, name):
        return os.path.join(self.work, "pods", self.uids[name], "etc-hosts")

    def write_checkpoint(self):
        """As the kubelet does, which the stand-in does not."""
        entries = [{"PodUID": self.uids[p["metadata"]["name"]], "ContainerName": g["container"], "ResourceName": g["resource"],
                    "DeviceIDs": {"-1": g["ids"]}, "AllocResp": ""}
                   for p in json.loads(self.tool("kubelet", "get", "pods", "-o", "json"))["items"]
                   for g in p["gpuslice"]["grants"] if p["metadata"]["name"] in self.uids]
        path = os.path.join(self.kubelet_dir, "device-plugins", "kubelet_internal_checkpoint")
        with open(path + ".new", "w", encoding="utf-8") as f:
            json.dump({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}, f)
        os.rename(path + ".new", path)

    def start(self, place, name, *args, user=None):
        if getattr(place, "name", None) in self.uids:
            hosts = self.hosts(place.name)
            args = ("/usr/bin/unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts,
                    args[0] if "/" in str(args[0]) else self.bin(args[0])) + args[1:]
        return super().start(place, name, *args, user=user)

    # ---- /metrics ----

    def scrape(self):
        """{(name, labels as a frozenset): value}"""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as r:
            text = r.read().decode()
        rows = {}
        for line in text.splitlines():
            m = re.match(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            if m and not line.startswith("#"):
                labels = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', m.group(2) or ""))
                rows[m.group(1), labels] = float(m.group(3))
        return rows

    def fresh_scrape(self):
        """One whose figures were taken after this was called, a whole interval ago at least."""
        at = time.time() + INTERVAL_S
        while True:
            rows = self.scrape()
            if value(rows, "gpuslice_view_timestamp_seconds") > at:
                return rows
            time.sleep(0.05)


def value(rows, name, **labels):
    """The only series of that name with these labels; NaN: there is none, or several."""
    found = [v for (n, have), v in rows.items() if n == name and set(labels.items()) <= have]
    return found[0] if len(found) == 1 else float("nan")


def total(rows, name, **labels):
    return sum(v for (n, have), v in rows.items() if n == name and set(labels.items()) <= have)


def near(a, b, apart, part):
    return abs(a - b) <= max(apart, part * max(abs(a), abs(b)))


def smi(node, names):
    if node.sim:
        return [float("nan")] * len(names)
    text = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=True).stdout
    return [float(x) if re.fullmatch(r"[-+.\d]+", x.strip()) else float("nan") for x in text.split(",")]


def beside(node, what):
    """Our figures between two looks of nvidia-smi: equal to one of them, or between."""
    names = [row[0] for row in BESIDE]
    before = smi(node, names)
    rows = node.fresh_scrape()
    after = smi(node, names)
    wrong = []
    for (name, ours, apart, part), x, y in zip(BESIDE, before, after):
        v = value(rows, ours)
        ok = v != v and x != x or min(x, y) <= v <= max(x, y) or near(v, x, apart, part) or near(v, y, apart, part)
        node.result("beside-nvidia-smi", when=what, smi=name, before=x, ours=v, after=y, ok=ok)
        if not ok and not node.sim:
            wrong.append(f"{ours} is {v}, {name} {x} and {y}")
    node.check(not wrong, "; ".join(wrong))


def next_energy(node, watts):
    """(when, mJ) of the next value: NVML is asked for it less often. Adds what nvidia-smi says meanwhile."""
    before = value(node.scrape(), ENERGY)
    while True:
        watts += smi(node, ["power.draw"])
        rows = node.fresh_scrape()
        if value(rows, ENERGY) != before:
            return value(rows, "gpuslice_view_timestamp_seconds"), value(rows, ENERGY)


def idle_and_busy(node):
    node.configure({}, 1, state=None)
    beside(node, "idle")
    shares.rounds(node)
    b = shares.burn(node, None, "burn").ready()
    time.sleep(4)
    beside(node, "busy")
    first, watts = next_energy(node, []), []
    second = next_energy(node, watts)
    b.terminate()
    b.wait(20)
    s, joule = second[0] - first[0], (second[1] - first[1]) / 1000
    node.result("energy", joule=joule, seconds=s, watt=joule / s, smi_watt=sum(watts) / len(watts))
    node.check(node.sim or near(joule / s, sum(watts) / len(watts), 0, 0.05), "energy is not power times time")


def dmon(node):
    """{number: mean} of what nvidia-smi says of GPM; {}: it cannot."""
    numbers = ",".join(str(row[0]) for row in GPM)
    p = subprocess.run(["nvidia-smi", "dmon", "--gpm-metrics", numbers, "-s", "", "-c", "4"], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        p = subprocess.run(["nvidia-smi", "dmon", "--gpm-metrics", numbers, "-c", "4"], capture_output=True, text=True, check=False)
    node.note(f"-- nvidia-smi dmon\n{p.stdout}{p.stderr}")
    rows = [line.split()[-len(GPM):] for line in p.stdout.splitlines() if line and not line.startswith("#")]
    sums = {}
    for row in rows[1:]:
        for (number, _, _), text in zip(GPM, row):
            if re.fullmatch(r"[\d.]+", text):
                sums.setdefault(number, []).append(float(text))
    return {number: sum(v) / len(v) for number, v in sums.items()}


def units(node):
    """GPM under loads of which we know what they do, and beside nvidia-smi's own GPM."""
    node.configure({}, 1, state=None)
    if node.sim:
        return
    clock, memory = smi(node, ["clocks.max.mem", "memory.total"])
    peak = clock * 1e6 * 2 * (6144 if memory > 100e3 else 5120) / 8  # bits of an H200's and an H100's memory
    # The bytes of PCIe include the protocol's own.
    known = {"dram": ("DCGM_FI_PROF_DRAM_ACTIVE", 1 / peak, 0.1), "tensor": ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", None, 0.15),
             "to": ("DCGM_FI_PROF_PCIE_RX_BYTES", 1, 0.15), "from": ("DCGM_FI_PROF_PCIE_TX_BYTES", 1, 0.15)}
    path = os.path.join(node.work, "torch-load.py")
    with open(path, "w", encoding="utf-8") as f:
        f.write(TORCH)
    for kind, (ours, scale, part) in known.items():
        p = node.start(None, kind, shutil.which("python3"), path, kind, str(SPAN_S + 3)).ready()
        time.sleep(2)
        theirs = dmon(node)
        rows = node.fresh_scrape()
        # At full power the clock gives way: 4096 operations a clock on each of 132 multiprocessors.
        clock = value(rows, "DCGM_FI_DEV_SM_CLOCK") * 1e6
        rate = p.wait(60)["rate"] * (scale or 1 / (4096 * 132 * clock))
        node.result("unit", load=kind, field=ours, ours=value(rows, ours), expected=rate)
        node.check(near(value(rows, ours), rate, 0, part), f"{ours} is {value(rows, ours)}, {rate} expected")
        for number, name, factor in GPM:
            mine = value(rows, name) * factor
            node.result("beside-gpm", load=kind, gpm=number, field=name, ours=mine, smi=theirs.get(number, float("nan")))
            if number in theirs:
                node.check(near(mine, theirs[number], 3, 0.1), f"{name} is {mine}, nvidia-smi has {theirs[number]}")


def busy_of(rows, pod):
    return total(rows, "gpuslice_container_gpu_busy_seconds_total", pod=pod)


def shared(node, kind, sharing, near_part):
    """Pods with different loads on one GPU: what each had, and that it adds up. @near_part: to the time of their
    kernels; None: the time of each is not known."""
    node.configure(sharing, 4, state="ready" if kind.startswith("mps") else None)
    shares.rounds(node)
    pods = [node.pod(node.fresh()) for _ in range(3)]
    duty = [("--sync-every", 40, "--think-us", 10000), ("--sync-every", 20, "--think-us", 30000), ("--sync-every", 4, "--think-us", 20000)]
    first = node.fresh_scrape()
    burns = [shares.burn(node, p, f"burn-{i}", *d) for i, (p, d) in enumerate(zip(pods, duty))]
    for b in burns:
        b.ready()
    time.sleep(SPAN_S / 2)
    if not node.sim:
        node.note(subprocess.run(["nvidia-smi", "pmon", "-c", str(SPAN_S // 2)], capture_output=True, text=True, check=False).stdout)
    live = node.fresh_scrape()
    smi_mib = smi(node, ["memory.used"])[0]
    for b in burns:
        b.terminate()
    done = [b.wait(30)["done"] for b in burns]
    time.sleep(1.5)  # a period of NVML's samples
    second = node.fresh_scrape()
    kernel_ns = shares.KERNEL_US * 1000
    # An idle GPU is busy for some microseconds in each interval.
    seen = [busy_of(second, p.name) - busy_of(first, p.name) for p in pods]
    gpu = total(second, "gpuslice_gpu_busy_seconds_total") - total(first, "gpuslice_gpu_busy_seconds_total")
    other = total(second, "gpuslice_gpu_other_busy_seconds_total") - total(first, "gpuslice_gpu_other_busy_seconds_total")
    for p, d, s in zip(pods, done, seen):
        node.result("pod", mode=kind, pod=p.name, seconds=s, kernels_s=d * kernel_ns / 1e9,
                    exact=value(second, "gpuslice_container_busy_exact", pod=p.name),
                    memory_mib=value(live, "gpuslice_container_memory_used_bytes", pod=p.name) / (1 << 20))
    kernels = sum(done) * kernel_ns / 1e9
    node.result("sum", mode=kind, pods=sum(seen), other=other, gpu=gpu, kernels_s=kernels, pods_of_kernels=sum(seen) / kernels)
    used = value(live, "gpuslice_gpu_memory_used_bytes")
    rest = value(live, "gpuslice_gpu_memory_other_bytes")
    mine = sum(value(live, "gpuslice_container_memory_used_bytes", pod=p.name) for p in pods)
    node.result("memory", mode=kind, pods=mine, other=rest, gpu=used, smi_mib=smi_mib)
    node.check(near(sum(seen) + other, gpu, 1e-6, 0), f"{kind}: {sum(seen)} + {other} s are not the GPU's {gpu}")
    node.check(near(mine + rest, used, 1, 0), f"{kind}: the memory does not add up")
    node.check(mine > 0, f"{kind}: the pods have no memory")
    if near_part is None:
        known = [p.name for p in pods if value(second, "gpuslice_container_gpu_busy_seconds_total", pod=p.name) >= 0]
        node.check(not known and gpu > 0, f"{kind}: {known} have times, {gpu} s in all")
    else:
        node.check(near(sum(seen), kernels, 0, 1 if node.sim else near_part), f"{kind}: {sum(seen)} s for {kernels} s of kernels")
    node.delete_pods()


def resources(**more):
    return {"resources": [dict({"name": "nvidia.com/gpu", "replicas": 4}, **more)]}


def time_slicing(node):
    shared(node, "time-slicing", {"timeSlicing": resources()}, 0.15)


def slices(node):
    """What is charged is the time in flight, and that of short bursts is longer than their kernels."""
    shared(node, "slices", {"timeSlicing": resources(isolation={"memory": "equal", "compute": "fair"})}, 0.25)


def mps(node):
    """The driver does not say which client computed."""
    shared(node, "mps", {"mps": resources()}, None)


def mps_slices(node):
    """The arbiter does: side by side, kernels take longer than alone."""
    shared(node, "mps-slices", {"mps": resources(isolation={"memory": "equal", "compute": "fair"})}, 0.6)


PARTS = {"machine": shares.machine, "idle-and-busy": idle_and_busy, "units": units, "time-slicing": time_slicing, "slices": slices, "mps": mps, "mps-slices": mps_slices}
LIMITS = {None: 60, "units": 150}

if __name__ == "__main__":
    sys.exit(script.run(__doc__, PARTS, Watched, seconds=SPAN_S, limit=400, limits=LIMITS))
