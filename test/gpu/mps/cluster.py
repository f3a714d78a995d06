# SPDX-License-Identifier: Apache-2.0
"""A node with the agent and the stand-in kubelet: MPS as a config brings it about, and pods that are given it. Beside
it an MPS daemon as one starts it by hand."""
import contextlib
import glob
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from node import Node, now_ns

HERE = os.path.dirname(os.path.abspath(__file__))
MPS_PROGRAMS = "nvidia-cuda-mps"
# In front of a command: the directory of the slice is where a container has it.
MOUNTED = ("/usr/bin/env", "unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && mkdir -p /run/gpuslice/slice && "
           "mount --bind \"$GPUSLICE_SLICE_DIR\" /run/gpuslice/slice && exec \"$@\"", "sh")


class Pod:
    """A place to start processes in: @env is what its container would have."""

    def __init__(self, name, grant, env):
        self.name, self.grant, self.env = name, grant, env

    def __str__(self):
        return self.name

    def limit(self):
        """Of the memory of its slice, bytes; None: it has none."""
        if "GPUSLICE_SLICE_DIR" not in self.env:
            return None
        with open(os.path.join(self.env["GPUSLICE_SLICE_DIR"], "slice.json"), encoding="utf-8") as f:
            return json.load(f)["gpus"][0].get("memory")

    def told(self):
        """What MPS is told of it, in short."""
        said = self.grant["envs"]
        return "/".join(said.get(f"CUDA_MPS_{k}", "-").replace("0=", "")
                        for k in ("ACTIVE_THREAD_PERCENTAGE", "PINNED_DEVICE_MEM_LIMIT", "CLIENT_PRIORITY"))


class Place(Pod):
    """Under the daemon that was started by hand."""

    def __init__(self, name, env):
        super().__init__(name, None, env)


class AgentSocket(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=5)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(5)
        self.sock.connect(self.path)


class Watch:
    """Asks the agent each 10 ms: (ns, state of MPS, healthy devices) whenever one of them is another."""

    def __init__(self, node):
        self.rows, self.over = [], False
        node.watches.append(self)
        self.thread = threading.Thread(target=self.look, args=(node,), daemon=True)
        self.thread.start()

    def look(self, node):
        while not self.over:
            s = node.agent_status()
            row = (s["mps"][0]["state"] if s["mps"] else "none",
                   sum(d["healthy"] for r in s["resources"] for d in r["slices"])) if s else ("no agent", 0)
            if not self.rows or self.rows[-1][1:] != row:
                self.rows.append((now_ns(),) + row)
            time.sleep(0.01)

    def end(self):
        self.over = True
        self.thread.join(10)

    def first(self, since_ns, holds):
        """ms from then until the first row for which that is so; None: there is none."""
        for ns, state, healthy in self.rows:
            if ns >= since_ns and holds(state, healthy):
                return (ns - since_ns) / 1e6
        return None

    def last(self, since_ns, holds):
        """The same, from where on it is so until the end."""
        at = None
        for ns, state, healthy in self.rows:
            at = (at or ns) if holds(state, healthy) else None
        return None if at is None else max(0.0, (at - since_ns) / 1e6)

    def story(self, since_ns):
        return ",".join(f"{(ns - since_ns) / 1e6:.0f}:{state.replace(' ', '_')}:{healthy}" for ns, state, healthy in self.rows)


class Cluster(Node):
    keeps_samples = False

    def __init__(self, *args):
        super().__init__(*args)
        for name in [n for n in self.env if n.startswith("CUDA_")]:
            del self.env[name]
        self.env["GPUSLICE_TEST"] = self.work  # the mark by which what was left is found
        self.config_file, self.kubelet_dir = os.path.join(self.work, "config.yaml"), os.path.join(self.work, "k")
        self.mps_root, self.bare_dir = os.path.join(self.work, "m"), os.path.join(self.work, "b")
        self.control = "nvidia-cuda-mps-control"
        self.agent = self.bare = self.agent_exit = self.in_force = None
        self.pods, self.watches, self.wrong, self.n_fresh = [], [], [], 0

    # ---- life ----

    def begin_services(self):
        os.makedirs(os.path.join(self.kubelet_dir, "device-plugins"))
        self.own_env.update(GPUSLICE_KUBELET_DIR=self.kubelet_dir, GPUSLICE_LIBEXEC=os.path.join(self.bundle, "bin"),
                            GPUSLICE_RUNTIME_DIR=os.path.join(self.bundle, "lib"), NO_COLOR="1", GPUSLICE_SLICE_KEEP="2s")
        if self.sim:
            sim = os.path.join(self.bundle, "sim")
            self.control = os.path.join(sim, self.control)
            self.own_env.update(GPUSLICE_MPS_CONTROL=self.control, GPUSLICE_NVML=os.path.join(sim, "libnvidia-ml.so.1"))
        # Clients may be of any user, and what this was unpacked to is perhaps for us alone.
        for path in (os.path.join(HERE, "client.py"), self.bin("kernels.ptx")):
            shutil.copy(path, self.work)
            os.chmod(os.path.join(self.work, os.path.basename(path)), 0o644)
        self.service("kubelet", self.bin("gpuslice"), "kubelet", "--kubelet-dir", self.kubelet_dir)
        self.until(lambda: os.path.exists(os.path.join(self.kubelet_dir, "device-plugins", "kubelet.sock")),
                   "the kubelet listens")

    def end_services(self):
        self.stop_bare()
        self.stop_agent()
        super().end_services()
        self.kill_left()

    def end(self):
        try:
            self.note("== the agent's log\n" + self.log_since(0))
        finally:
            super().end()

    def check(self, holds, what):
        """The part fails at its end, when all has been measured."""
        if not holds:
            self.wrong.append(what)

    @contextlib.contextmanager
    def part(self, name):
        bad, self.wrong = True, []
        try:
            with super().part(name):
                yield
            bad, self.wrong = self.wrong, []
            if bad:
                raise RuntimeError("; ".join(bad))
        finally:
            for watch in self.watches:
                watch.end()
            self.watches = []
            self.delete_pods()
            self.stop_bare()
            if bad:
                self.note("-- the agent's log\n" + self.log_since(0)[-6000:])
                self.stop_agent()
                self.kill_left(keep=("gpuslice kubelet", "gpuslice-sim-gpu"))

    def left(self):
        """{pid: command line} of what carries our mark, but what has ended and is not waited for."""
        found, mark = {}, f"GPUSLICE_TEST={self.work}\0".encode()
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as f:
                    if mark not in f.read():
                        continue
                with open(os.path.dirname(path) + "/cmdline", "rb") as f:
                    found[int(path.split("/")[2])] = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
            except OSError:
                pass
        found.pop(os.getpid(), None)
        return {pid: line for pid, line in found.items() if line}

    def left_of_mps(self):
        return {pid: line for pid, line in self.left().items() if MPS_PROGRAMS in line.split()[0]}

    def kill_left(self, keep=()):
        for sig in (signal.SIGTERM, signal.SIGKILL):
            for pid, line in self.left().items():
                if not any(k in line for k in keep):
                    with contextlib.suppress(OSError):
                        os.kill(pid, sig)
            time.sleep(0.3)

    def tool(self, *args, text=None):
        """What gpuslice answers."""
        return subprocess.run([self.bin("gpuslice"), *args], env=self.own_env, input=text, text=True,
                              capture_output=True, check=True, timeout=30).stdout

    def open_to_all(self):
        """A container of any user has the directory of its slice as a mount; here the way there is closed. And the
        simulated GPU is for who made it."""
        for name in ("state", "state/slices"):
            os.chmod(os.path.join(self.work, name), 0o711)
        for path in [self.env["GPUSLICE_SIM_DIR"]] + glob.glob(self.env["GPUSLICE_SIM_DIR"] + "/*") if self.sim else ():
            os.chmod(path, 0o777)

    # ---- the agent ----

    def start_agent(self):
        args = ["--config-file", self.config_file]
        if self.sim:
            args += ["--sysfs", os.path.join(self.work, "sim", "sys")]
        self.agent = self.service("agent", self.bin("gpusliced"), *args)
        self.until(lambda: self.agent_status() is not None, "the agent answers")

    def stop_agent(self, sig=signal.SIGTERM):
        """ms that it took."""
        if not self.agent:
            return None
        began = now_ns()
        self.agent.send_signal(sig)
        try:
            self.agent.wait(15)
        except subprocess.TimeoutExpired:
            self.agent.kill()
            self.agent.wait()
        self.agent_exit = self.agent.returncode
        self.services.remove(self.agent)
        self.agent = None
        return (now_ns() - began) / 1e6

    def agent_status(self):
        """None: it does not answer."""
        try:
            with contextlib.closing(AgentSocket(os.path.join(self.run, "gpusliced.sock"))) as c:
                c.request("GET", "/v1/status")
                return json.load(c.getresponse())
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def log_at(self):
        return len(self.log_since(0))

    def log_since(self, at):
        path = os.path.join(self.work, "agent.log")
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()[at:]

    def configure(self, sharing, devices, state="ready"):
        """That config is in force, and the kubelet knows of so many healthy devices; returns the ms that took."""
        flags = {"mpsRoot": self.mps_root}
        if self.sim:
            root = os.path.join(self.work, "sim")
            flags.update(nvidiaDriverRoot=root, plugin={"containerDriverRoot": root})
        with open(self.config_file + ".new", "w", encoding="utf-8") as f:
            json.dump({"version": "v1", "flags": flags, "sharing": sharing}, f)
        before = (self.agent_status() or {}).get("config", {}).get("generation")
        began = now_ns()
        os.rename(self.config_file + ".new", self.config_file)
        if not self.agent:
            self.start_agent()

        def holds():
            s = self.agent_status()
            if not s or s["config"]["generation"] == before and self.in_force != sharing:
                return False
            if s["config"]["lastError"]:
                raise RuntimeError(f"the config is refused: {s['config']['lastError']}")
            return (sum(r["allocatable"] for r in s["resources"]) == devices and
                    all(r["state"] == "registered" for r in s["resources"]) and
                    (state is None or self.mps_state(s) == state))

        self.until(holds, f"the config is in force with {devices} devices")
        self.in_force = sharing
        return (now_ns() - began) / 1e6

    def mps_state(self, s=None):
        s = s or self.agent_status()
        return s["mps"][0]["state"] if s and s["mps"] else "none"

    def daemon(self):
        return self.agent_status()["mps"][0]

    def clients(self):
        return {c["pid"] for c in self.daemon()["clients"]}

    # ---- what the arbiter has of a pod ----

    def slice_of(self, pod):
        wanted = os.path.basename(pod.env["GPUSLICE_SLICE_DIR"])
        for s in self.status()["slices"]:
            if s["id"] == wanted:
                return s
        raise RuntimeError(f"the arbiter does not know the slice of {pod}")

    def account_of(self, pod):
        return self.slice_of(pod)["gpus"][0]

    def busy_ns(self):
        return sum(g["busy_ns"] for g in self.status()["gpus"])

    # ---- pods ----

    def fresh(self):
        """A name that no pod had yet."""
        self.n_fresh += 1
        return f"p{self.n_fresh}"


    def pod(self, name, resource="nvidia.com/gpu"):
        self.tool("kubelet", "apply", "-f", "-", text=json.dumps(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "c", "image": "x", "resources": {"limits": {resource: 1}}}]}}))
        self.pods.append(name)
        self.until(lambda: self.grant(name), f"pod {name} was given something")
        grant = self.grant(name)
        return Pod(name, grant, self.env_in(grant))

    def grant(self, name):
        for item in json.loads(self.tool("kubelet", "get", "pods", "-o", "json"))["items"]:
            if item["metadata"]["name"] == name:
                grants = item["gpuslice"]["grants"]
                return grants[0] if grants else None
        return None

    def env_in(self, grant):
        """What a process in the container would see: the variables, and the mounts where they are on the host."""
        env = dict(self.env, **grant["envs"])
        env["CUDA_VISIBLE_DEVICES"] = env["NVIDIA_VISIBLE_DEVICES"]
        for m in grant["mounts"]:
            if m["containerPath"].endswith("/pipe"):
                env["CUDA_MPS_PIPE_DIRECTORY"] = m["hostPath"]
            elif m["containerPath"] == "/run/gpuslice/slice":
                env["GPUSLICE_SLICE_DIR"] = m["hostPath"]
            elif m["containerPath"] == "/etc/ld.so.preload":
                lib = os.path.dirname(m["hostPath"])
                env["LD_PRELOAD"] = f"{lib}/libgpuslice-cuda.so:{lib}/libgpuslice-nvml.so"
        if "GPUSLICE_SLICE_DIR" in env:
            self.until(lambda: os.path.exists(os.path.join(env["GPUSLICE_SLICE_DIR"], "socket")), "the slice has a socket")
        return env

    def delete_pods(self):
        for name in self.pods:
            with contextlib.suppress(subprocess.SubprocessError):
                self.tool("kubelet", "delete", f"pod/{name}")
        self.pods = []

    def env_of(self, place):
        return place.env if isinstance(place, Pod) else super().env_of(place)

    def client(self, place, mode, *args, name=None, mounts=False):
        """client.py there; ready when it has a context, but for "look". With @mounts the slice's directory is mounted
        as in a container, which the arbiter checks of users other than root."""
        p = self.start(place, name or mode, *(MOUNTED if mounts else ()), "/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1", "python3",
                       os.path.join(self.work, "client.py"), os.path.join(self.work, "kernels.ptx"), mode, *args)
        return p if mode == "look" else p.ready()

    def try_out(self, place, seconds=20):
        """What the driver shows a process there; {}: it did not end in time."""
        p = self.client(place, "look")
        try:
            return p.wait(seconds)
        except (subprocess.TimeoutExpired, RuntimeError):
            p.kill()
            return {}

    def until_works(self, place, since_ns, seconds=20):
        """ms until a new process there has a context under MPS, and how often one had none."""
        end, tries = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            tries += 1
            seen = self.try_out(place)
            if seen.get("code") == 0 and seen.get("mps") == 1:
                return (now_ns() - since_ns) / 1e6, tries - 1
        raise RuntimeError(f"no new process works within {seconds} s")

    # ---- a daemon by hand ----

    def start_bare(self):
        """Nothing told: no limits, no percentages. Returns the place under it."""
        os.makedirs(self.bare_dir + "/pipe", exist_ok=True)
        os.makedirs(self.bare_dir + "/log", exist_ok=True)
        env = dict(self.env, CUDA_MPS_PIPE_DIRECTORY=self.bare_dir + "/pipe", CUDA_MPS_LOG_DIRECTORY=self.bare_dir + "/log")
        with open(os.path.join(self.work, "bare.log"), "ab") as log:
            self.bare = subprocess.Popen([self.control, "-f", "-multiuser-server"], env=env, stdin=subprocess.DEVNULL,
                                         stdout=log, stderr=log)
        place = Place("bare", env)
        self.until(lambda: self.mps_says(place, "get_server_list") is not None, "the daemon started by hand answers")
        return place

    def stop_bare(self):
        if not self.bare:
            return
        self.mps_says(Place("bare", dict(self.env, CUDA_MPS_PIPE_DIRECTORY=self.bare_dir + "/pipe")), "quit")
        try:
            self.bare.wait(5)
        except subprocess.TimeoutExpired:
            self.bare.kill()
            self.bare.wait()
        self.bare = None

    def mps_says(self, place, command):
        """What the daemon of that place answers; None: nothing."""
        env = dict(self.env, CUDA_MPS_PIPE_DIRECTORY=place.env["CUDA_MPS_PIPE_DIRECTORY"])
        try:
            p = subprocess.run([self.control], input=command + "\n", text=True, env=env, capture_output=True, check=False,
                               timeout=5)
        except subprocess.TimeoutExpired:
            return None
        return p.stdout if p.returncode == 0 else None

    def servers(self, place):
        return [int(w) for w in (self.mps_says(place, "get_server_list") or "").split() if w.isdigit()]


def by_percent(place, percent):
    return Place(f"{place.name}{percent}", dict(place.env, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(percent)))


def replicas(n, **isolation):
    """`sharing` with that, all of it under MPS."""
    entry = {"name": "nvidia.com/gpu", "replicas": n}
    if isolation:
        entry["isolation"] = isolation
    return {"mps": {"resources": [entry]}}


def slices(*profiles):
    return {"slices": [{"name": "nvidia.com/gpu", "mps": True, "profiles": list(profiles)}]}
