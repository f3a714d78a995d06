# SPDX-License-Identifier: Apache-2.0
"""A node for one run: the arbiter, slices, and processes in them, bare, or under MPS."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

PATIENCE = int(os.environ.get("GPUSLICE_PATIENCE") or 1)
READY_S = 60 * PATIENCE


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")


def percentile(values, percent):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else float("nan")


class Proc:
    """A program whose lines are kept in a file; the last one is JSON."""

    def __init__(self, node, name, args, env, stdin=subprocess.DEVNULL):
        self.name = name
        self.path = os.path.join(node.work, f"{len(node.procs)}-{name}.out")
        self.file = open(self.path, "w+b")
        self.popen = subprocess.Popen(args, stdout=self.file, stderr=subprocess.STDOUT, env=env, stdin=stdin)
        self.args = args
        node.procs.append(self)

    def text(self):
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def ready(self):
        end = time.monotonic() + READY_S
        while "ready" not in self.text():
            if self.popen.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.name} is not ready: {self.text()[-400:]}")
            time.sleep(0.01)
        return self

    def wait(self, seconds):
        """Its last line as JSON."""
        code = self.popen.wait(seconds)
        text = self.text()
        if code != 0:
            raise RuntimeError(f"{self.name} ended with {code}: {text[-600:]}")
        lines = [line for line in text.splitlines() if line.startswith("{")]
        return json.loads(lines[-1]) if lines else {}

    def windows(self):
        """(time in ns, iterations so far) of each line."""
        rows = []
        for line in self.text().splitlines():
            if line.startswith("window "):
                row = dict(part.split("=") for part in line.split()[1:])
                rows.append((int(row["t_ns"]), int(row["done"])))
        return rows

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()

    def terminate(self):
        if self.popen.poll() is None:
            self.popen.terminate()


class Node:
    keeps_samples = True

    def __init__(self, bundle, out, sim, seconds):
        self.bundle, self.out, self.sim, self.seconds = os.path.abspath(bundle), out, sim, seconds
        self.procs, self.names, self.services = [], {}, []
        self.rounds = self.sms = self.burst_rounds = self.alone_rate = None  # shares.py measures them, once
        os.makedirs(out, exist_ok=True)
        self.work = tempfile.mkdtemp(prefix="gs.")  # sockets lie below it: a short name
        self.state, self.run = os.path.join(self.work, "state"), os.path.join(self.work, "run")
        self.env = dict(os.environ)
        self.env.pop("CUDA_MPS_PIPE_DIRECTORY", None)
        self.mps_dir = None

    def bin(self, name):
        return os.path.join(self.bundle, "bin", name)

    # ---- what is written down ----

    def note(self, text):
        with open(os.path.join(self.out, "transcript.txt"), "a", encoding="utf-8") as f:
            f.write(text + "\n")

    def result(self, name, **figures):
        line = f"{name}: " + " ".join(
            f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in figures.items())
        print(line, flush=True)
        self.note(line)
        with open(os.path.join(self.out, "results.txt"), "a", encoding="utf-8") as f:
            f.write(line + "\n")

    # ---- life ----

    def __enter__(self):
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def begin(self):
        os.makedirs(os.path.join(self.state, "slices"))
        os.makedirs(self.run)
        os.chmod(self.work, 0o755)
        if self.sim:
            self.env.update(GPUSLICE_SIM_NODE="h100-1", GPUSLICE_SIM_DIR=os.path.join(self.work, "sim"),
                            GPUSLICE_SIM_GPU=os.path.join(self.bundle, "sim", "gpuslice-sim-gpu"),
                            LD_LIBRARY_PATH=os.path.join(self.bundle, "sim"))
        own = os.path.join(self.bundle, "deps")
        path = self.env.get("LD_LIBRARY_PATH")
        self.own_env = dict(self.env, GPUSLICE_STATE_DIR=self.state, GPUSLICE_RUN_DIR=self.run,
                            LD_LIBRARY_PATH=f"{own}:{path}" if path else own)
        look = subprocess.run([self.bin("nvml-look")], env=self.env, capture_output=True, text=True, check=True)
        self.look = look.stdout.splitlines()[0]
        self.uuids = [dict(w.split("=", 1) for w in line.split() if "=" in w)["uuid"]
                      for line in look.stdout.splitlines() if "uuid=" in line]
        self.uuid = self.uuids[0]
        self.begin_services()

    def begin_services(self):
        self.start_arbiter()
        self.service("feed", self.bin("cuda-feed"), os.path.join(self.run, "arbiter.sock"), "--again")

    def end(self):
        self.end_procs()
        self.stop_mps()
        self.end_services()
        if self.sim:
            subprocess.run(["pkill", "-f", "--", f"--dir {self.work}/sim"], check=False)
        for name in os.listdir(self.work):
            if name.endswith(".log"):
                shutil.copy(os.path.join(self.work, name), self.out)
        shutil.rmtree(self.work, ignore_errors=True)

    def end_services(self):
        for popen in self.services:
            popen.terminate()
        for popen in self.services:
            popen.wait(10)
        self.services = []

    def service(self, name, *args):
        """A program that runs until the end, or until it is killed; its log is NAME.log."""
        with open(os.path.join(self.work, name + ".log"), "ab") as log:
            popen = subprocess.Popen(args, env=self.own_env, stdout=log, stderr=log,
                                     stdin=subprocess.DEVNULL)
        self.services.append(popen)
        return popen

    def start_arbiter(self):
        self.arbiter = self.service("arbiter", self.bin("gpuslice-arbiter"))
        self.until(lambda: self.status() is not None, "the arbiter answers")

    def kill_arbiter(self):
        self.arbiter.kill()
        self.arbiter.wait()
        self.services.remove(self.arbiter)

    def end_procs(self):
        for p in self.procs:
            p.kill()
        for p in self.procs:
            p.popen.wait()
            p.file.close()
        self.procs = []

    @contextlib.contextmanager
    def part(self, name):
        self.note(f"== {name}")
        began = time.monotonic()
        try:
            yield
        finally:
            for p in self.procs:
                self.note(f"-- {p.name} {' '.join(p.args)}\n{p.text()[-1500:]}")
            self.end_procs()
            self.stop_mps()
            self.note(f"== {name} took {time.monotonic() - began:.1f} s")

    @staticmethod
    def until(holds, what, seconds=20):
        end = time.monotonic() + seconds * PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"not in {seconds} s: {what}")
            time.sleep(0.01)

    # ---- the arbiter ----

    def status(self):
        """The arbiter's answer; None: it does not answer."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                s.connect(os.path.join(self.run, "arbiter.sock"))
                s.sendall(b'{"op": "status"}\n')
                data = b""
                while not data.endswith(b"\n"):
                    more = s.recv(1 << 16)
                    if not more:
                        return None
                    data += more
                return json.loads(data)
        except OSError:
            return None

    def slice_id(self, name):
        return f"{self.names.setdefault(name, len(self.names) + 1):032x}"

    def slice_dir(self, name):
        return os.path.join(self.state, "slices", self.slice_id(name))

    def slice(self, name, weight=1, cap=None, cls="batch", memory=16 << 30, gpus=(0,)):
        """Makes the slice, or changes it. GPUS: their numbers."""
        at = self.slice_dir(name)
        all_of = [{"uuid": self.uuids[i], "memory": memory, "weight": weight, **({"cap": cap} if cap else {})} for i in gpus]
        text = json.dumps({"version": 1, "id": self.slice_id(name), "resource": "nvidia.com/gpu",
                           "devices": [f"{self.uuid}::{name}"], "gpus": all_of, "compute": "turns",
                           "class": cls, "unhooked": "report"})
        new = os.path.join(self.work, "new")
        os.makedirs(new)
        with open(os.path.join(new, "slice.json"), "w", encoding="utf-8") as f:
            f.write(text)
        if os.path.isdir(at):
            os.rename(os.path.join(new, "slice.json"), os.path.join(at, "slice.json"))
            os.rmdir(new)
        else:
            os.rename(new, at)
        self.until(lambda: os.path.exists(os.path.join(at, "socket")), f"slice {name} has a socket")
        return name

    def account(self, name):
        """Of the slice on the GPU, as the arbiter has it."""
        for s in self.status()["slices"]:
            if s["id"] == self.slice_id(name):
                return s["gpus"][0]
        raise RuntimeError(f"the arbiter does not know slice {name}")

    # ---- processes ----

    def env_of(self, place):
        """None: bare. "mps": under MPS. Else the name of a slice."""
        if place is None:
            return self.env
        if place == "mps":
            return dict(self.env, CUDA_MPS_PIPE_DIRECTORY=self.mps_dir + "/pipe",
                        CUDA_MPS_LOG_DIRECTORY=self.mps_dir + "/log")
        lib = os.path.join(self.bundle, "lib")
        return dict(self.env, GPUSLICE_SLICE_DIR=self.slice_dir(place),
                    LD_PRELOAD=f"{lib}/libgpuslice-cuda.so:{lib}/libgpuslice-nvml.so")

    def start(self, place, name, *args):
        args = [str(a) for a in args]
        if "/" not in args[0]:
            args[0] = self.bin(args[0])
        return Proc(self, name, args, self.env_of(place))

    def start_mps(self):
        """False: there is none here."""
        if self.sim or not shutil.which("nvidia-cuda-mps-control"):
            return False
        self.mps_dir = os.path.join(self.work, "mps")
        os.makedirs(self.mps_dir + "/pipe", exist_ok=True)
        os.makedirs(self.mps_dir + "/log", exist_ok=True)
        return subprocess.run(["nvidia-cuda-mps-control", "-d"], env=self.env_of("mps"),
                              check=False).returncode == 0

    def stop_mps(self):
        if self.mps_dir:
            subprocess.run(["nvidia-cuda-mps-control"], input="quit\n", text=True, check=False,
                           env=self.env_of("mps"), stdout=subprocess.DEVNULL)
            time.sleep(1)
        self.mps_dir = None
