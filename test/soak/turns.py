# SPDX-License-Identifier: Apache-2.0
"""Tenants that come and go, on a simulated GPU.

Two tenants stay, with weights 1 and 2, and always want the GPU. Others come with any share, class and kind of
work, are changed while they run, and end by themselves, by SIGTERM or by SIGKILL; some of their slices go
too. The arbiter is killed now and then. With --storm only one tenant stays, six are killed and begun again
all the time, and the arbiter dies every second or so. BUNDLE is what "test/gpu/slice.sh pack" put together.

Each line: the share of the first tenant against both, as iterations and as charges say, its error in points;
busy: what is charged of the time; lost: ns by which the sum of all charges and what slices that are gone had
is not what the GPU's account says; what the arbiter and the tenants that stay have of memory and descriptors.
At the end: does every slice serve a process that is alone at once, is nothing left in any list, has nothing
grown? "verdict: ok", or what was found; exit 1 then.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu", "turns"))
from node import PATIENCE, Node, now_ns  # noqa: E402

KERNEL = 500_000  # rounds: half a millisecond
ERROR_POINTS = 3.0  # of a share, over a minute
GROWTH_KB = 1024 if PATIENCE == 1 else 1 << 20  # sanitizers keep what was freed
GROWTH_FDS = 2  # one of the two connections may be away
SAMPLES_MAX = 1_000_000  # of cuda-burn
GATE_AT, GATE_STATE = 64, 3  # the first gate of a page, TURN_STATE (src/abi/turn-page.h)
KINDS = (
    ("cuda-burn", "--depth", 16),
    ("cuda-burn", "--depth", 4, "--streams", 8),
    ("cuda-burn", "--depth", 8, "--graph", 4),
    ("cuda-burn", "--depth", 2, "--sync-every", 4, "--think-us", 2000),
    ("cuda-burn", "--depth", 8, "--threads", 3),
    ("cuda-burn", "--depth", 4, "--copy", 1 << 20),
    ("cuda-latency", "--period-ms", 20, "--burst", 5),
    ("cuda-mix", "--rounds", 50, "--check-every", 10),
)


def proc_of(pid):
    """Its memory in kB, descriptors, and how many of those are memory files."""
    fds = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            fds[fd] = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            pass
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        rows = dict(line.split(":", 1) for line in f)
    return {"kb": int(rows["RssAnon"].split()[0]), "fds": len(fds),
            "memfds": sum(1 for at in fds.values() if at.startswith("/memfd:")),
            "threads": int(rows["Threads"])}


def gate_of(pid):
    """The gate's state as the page of the process has it; None: it has none."""
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/memfd:gpuslice-turns"):
                with open(f"/proc/{pid}/fd/{fd}", "rb") as f:
                    f.seek(GATE_AT)
                    return int.from_bytes(f.read(4), "little") & GATE_STATE
    except OSError:
        pass
    return None


class Tail:
    """The iterations of a program that prints windows, without reading its output again and again."""

    def __init__(self, proc):
        self.proc = proc

    def done(self):
        with open(self.proc.path, "rb") as f:
            f.seek(max(0, os.fstat(f.fileno()).st_size - 1000))
            lines = [s for s in f.read().decode(errors="replace").splitlines()[1:] if s.startswith("window") and "delta=" in s]
        return int(lines[-1].split("done=")[1].split()[0]) if lines else 0


class Soak:
    def __init__(self, node, a):
        self.node, self.a, self.rng = node, a, random.Random(a.seed)
        self.found, self.visitors, self.removed_ns = [], {}, 0
        self.count = {"came": 0, "killed": 0, "told": 0, "ended": 0, "slices_gone": 0, "arbiters": 0}
        self.stay, self.tails = [], []
        self.names = {}  # place of a guest to its slice: a new one behind one that went
        self.last = {}  # slice to what was charged, of the last look

    def bad(self, text):
        print(f"found: {text}", flush=True)
        self.found.append(text)

    # ---- who comes and goes ----

    def settle(self):
        for i, weight in enumerate((1,) if self.a.storm else (1, 2)):
            name = self.node.slice(f"stay{i}", weight=weight)
            self.stay.append(self.node.start(name, name, "cuda-burn", "--work", KERNEL, "--seconds", 0,
                                             "--window-ms", 100).ready())
        self.tails = [Tail(p) for p in self.stay]

    def share(self):
        r = self.rng
        return {"weight": r.choice((1, 1, 2, 5)), "cap": r.choice((None, None, None, 100_000, 300_000)),
                "cls": r.choice(("batch", "batch", "batch", "latency")), "memory": 4 << 30}

    def come(self, at):
        name = self.names.setdefault(at, f"guest{self.count['came']}")
        self.node.slice(name, **self.share())
        kind = list(self.rng.choice(KINDS))
        if kind[0] != "cuda-mix":
            kind += ["--work", self.rng.choice((20_000, 200_000, 2_000_000)) if kind[0] == "cuda-burn" else 20_000]
            kind += ["--seconds", self.rng.choice((0, 3, 8))]
        self.visitors[at] = (self.node.start(name, name, *kind), time.monotonic() + self.stays())
        self.count["came"] += 1

    def stays(self):
        return self.rng.uniform(0.01, 0.6) if self.a.storm else self.rng.uniform(0.5, 15)

    def forget(self, proc):
        proc.popen.wait()
        proc.file.close()
        self.node.procs.remove(proc)
        os.unlink(proc.path)

    def go(self, at):
        """Ends the guest if its time is over, or looks how it ended."""
        proc, until = self.visitors[at]
        code = proc.popen.poll()
        if code is None and time.monotonic() < until:
            return
        if code is None:
            kill = self.a.storm or self.rng.random() < 0.5 or "cuda-mix" in proc.args[0]
            self.count["killed" if kill else "told"] += 1
            if kill:
                proc.kill()
            else:
                proc.terminate()
                try:
                    code = proc.popen.wait(30 * PATIENCE)
                except subprocess.TimeoutExpired:
                    self.bad(f"{proc.args} does not end: gate {gate_of(proc.popen.pid)}")
                    proc.kill()
        else:
            self.count["ended"] += 1
        text = proc.text()
        if code not in (None, 0, -15) or "gpuslice:" in text:
            self.bad(f"{proc.args} ended with {code}: {text[-400:]}")
        self.forget(proc)
        del self.visitors[at]
        if not self.a.storm and self.rng.random() < 0.2:
            self.remove(self.names.pop(at))

    def remove(self, name):
        """Its slice goes; what it was charged stays with the GPU."""
        self.node.until(lambda: self.empty(name), f"nobody is left in {name}", 20)
        charged = self.node.account(name)["charged_ns"]
        at = self.node.slice_dir(name)
        os.unlink(os.path.join(at, "slice.json"))
        os.rename(at, os.path.join(self.node.work, "gone"))
        self.node.until(lambda: self.row(name) is None, f"{name} is gone", 30)
        for file in os.listdir(os.path.join(self.node.work, "gone")):
            os.unlink(os.path.join(self.node.work, "gone", file))
        os.rmdir(os.path.join(self.node.work, "gone"))
        self.removed_ns += charged
        self.last.pop(self.node.slice_id(name), None)
        self.count["slices_gone"] += 1

    def row(self, name):
        return next((s for s in self.node.status()["slices"] if s["id"] == self.node.slice_id(name)), None)

    def empty(self, name):
        return self.row(name)["processes"] == []

    def restart_arbiter(self):
        self.node.kill_arbiter()
        time.sleep(self.rng.uniform(0, 0.5))
        self.node.start_arbiter()
        self.count["arbiters"] += 1

    # ---- what is looked at ----

    def look(self):
        status = self.node.status()
        charged = {s["id"]: s["gpus"][0]["charged_ns"] for s in status["slices"]
                   if "charged_ns" in s["gpus"][0]}
        for key, ns in self.last.items():
            if charged.get(key, 0) < ns:
                self.bad(f"the account of slice {key[-2:]} fell from {ns} to {charged.get(key)}")
        self.last = charged
        busy = status["gpus"][0]["busy_ns"]
        lost = sum(charged.values()) + self.removed_ns - busy
        if lost:
            self.bad(f"charges and those of slices gone are {lost} ns more than busy_ns")
        mine = [charged[self.node.slice_id(p.name)] for p in self.stay]
        return {"at": now_ns(), "busy": busy, "lost": lost, "charged": mine, "done": [t.done() for t in self.tails]}

    def report(self, before, arbiters):
        now = self.look()
        wall = now["at"] - before["at"]
        done = [b - a for a, b in zip(before["done"], now["done"])]
        charged = [b - a for a, b in zip(before["charged"], now["charged"])]
        line = {"seconds": f"{wall / 1e9:.0f}", "busy": f"{100 * (now['busy'] - before['busy']) / wall:.2f}%",
                "lost_ns": now["lost"]}
        if len(done) == 2:
            wanted = 100 / 3
            by_done, by_charge = (100 * x[0] / max(1, sum(x)) for x in (done, charged))
            line.update(share=f"{by_done:.2f}", share_charged=f"{by_charge:.2f}",
                        error_points=f"{by_done - wanted:+.2f}")
            if abs(by_done - wanted) > ERROR_POINTS and wall > 30e9:
                self.bad(f"the share is {by_done:.2f} % instead of {wanted:.2f} %")
        if min(done) == 0:
            self.bad(f"a tenant that stays did nothing for {wall / 1e9:.0f} s")
        if now["busy"] - before["busy"] > wall * 1.001 + 50_000_000:
            self.bad(f"more was charged than there was time: {now['busy'] - before['busy']} of {wall} ns")
        # A new arbiter has another size.
        line["arbiter"] = "/".join(str(v) for v in proc_of(self.node.arbiter.pid).values())
        line["stay"] = ",".join("/".join(str(v) for v in proc_of(p.popen.pid).values()) for p in self.stay)
        line["arbiter_new"] = self.count["arbiters"] - arbiters
        print(" ".join(f"{k}={v}" for k, v in line.items()), flush=True)
        return now

    # ---- the run ----

    def turn(self):
        guests = 6 if self.a.storm else 4
        for at in range(guests):
            if at in self.visitors:
                self.go(at)
            elif self.rng.random() < (0.5 if self.a.storm else 0.05):
                self.come(at)
        if self.visitors and self.rng.random() < 0.03:
            self.node.slice(self.names[self.rng.choice(list(self.visitors))], **self.share())
        if self.rng.random() < (0.03 if self.a.storm else 1 / 1200):
            self.restart_arbiter()

    def run(self):
        self.settle()
        before = self.look()
        end = time.monotonic() + self.a.seconds
        stay0, next_line, arbiters = None, time.monotonic() + self.a.report, 0
        while time.monotonic() < end:
            self.turn()
            time.sleep(0.05)
            if time.monotonic() >= next_line:
                before = self.report(before, arbiters)
                arbiters = self.count["arbiters"]
                next_line += self.a.report
                # From the first line on, when all that is done once is done.
                stay0 = stay0 or [proc_of(p.popen.pid) for p in self.stay]
        self.leave()
        for p, t, then in zip(self.stay, self.tails, stay0 or []):
            now = proc_of(p.popen.pid)
            kept_kb = min(t.done(), SAMPLES_MAX) * 8 // 1024  # by the program, of each iteration
            if now["kb"] > then["kb"] + kept_kb + GROWTH_KB or now["fds"] > then["fds"] + GROWTH_FDS or now["threads"] > then["threads"]:
                self.bad(f"{p.name} has grown: {then} to {now}")
        for p in self.stay:
            p.terminate()
            if p.wait(60 * PATIENCE).get("result") != "ok" or "gpuslice:" in p.text():
                self.bad(f"{p.name}: {p.text()[-400:]}")
        self.afterwards()

    def leave(self):
        for at, (proc, _) in list(self.visitors.items()):
            proc.kill()
            self.forget(proc)
            del self.visitors[at]
        self.stay_alone()

    def stay_alone(self):
        """Nobody else is there, so those that stay go on at once."""
        was = [t.done() for t in self.tails]
        self.node.until(lambda: all(t.done() > w + 10 for t, w in zip(self.tails, was)), "those that stay go on",
                        20)

    def idle(self):
        status = self.node.status()
        return all(s["processes"] == [] for s in status["slices"]) and not any(
            s["gpus"][0].get("turn") or s["gpus"][0].get("stuck") for s in status["slices"])

    def arbiter_size(self):
        """The arbiter at rest: who has just asked it something may have a connection that is still to be closed."""
        sizes = []
        for _ in range(20):
            sizes.append(proc_of(self.node.arbiter.pid))
            time.sleep(0.05 * PATIENCE)
        return min(sizes, key=lambda size: size["fds"])

    def afterwards(self):
        """All have gone: each slice is as if it were new."""
        self.node.until(self.idle, "no process is listed, no slice has the turn", 20)
        self.look()
        size = self.arbiter_size()
        names = [s for s in self.node.names if self.row(s)]
        for name in names:
            self.node.slice(name)
            p = self.node.start(name, name, "cuda-burn", "--work", KERNEL, "--seconds", 0, "--window-ms", 50).ready()
            try:
                self.node.until(lambda p=p: gate_of(p.popen.pid) == 0 and Tail(p).done() > 100,
                                f"the gate of {name} is open", 20)
            except RuntimeError as e:
                self.bad(f"{e}; gate {gate_of(p.popen.pid)}, {Tail(p).done()} done")
            p.terminate()
            p.wait(60 * PATIENCE)
        self.node.until(self.idle, "no process is listed, no slice has the turn", 20)
        self.look()
        # Those processes have come and gone, as all before; and then the slices.
        for name in names:
            self.remove(name)
        now = self.arbiter_size()
        # Each slice has a socket, and may have a watch.
        if now["fds"] > size["fds"] - len(names) or now["memfds"] > size["memfds"]:
            self.bad(f"the arbiter keeps descriptors: {size} to {now} with {len(names)} slices less")
        if now["kb"] > size["kb"] + GROWTH_KB:
            self.bad(f"the arbiter has grown: {size} to {now}")
        print(f"arbiter with {len(names)} slices {size}, without {now}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bundle")
    p.add_argument("seconds", nargs="?", type=float, default=3600, help="an hour by default")
    p.add_argument("--out", help="for the arbiter's log (a new directory)")
    p.add_argument("--storm", action="store_true", help="tenants only die, and the arbiter often")
    p.add_argument("--report", type=float, default=60, metavar="S", help="a line each so many seconds (60)")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30), help="of a run that is to come again")
    a = p.parse_intermixed_args()
    print(f"seed={a.seed}", flush=True)
    shm = set(os.listdir("/dev/shm"))
    with Node(a.bundle, a.out or tempfile.mkdtemp(), True, 1) as node:
        soak = Soak(node, a)
        try:
            soak.run()
        except Exception as e:  # pylint: disable=broad-except
            soak.bad(f"{type(e).__name__}: {e}")
            raise
        finally:
            print(" ".join(f"{k}={v}" for k, v in soak.count.items()))
            with open(os.path.join(node.work, "arbiter.log"), encoding="utf-8") as f:
                bad = [line for line in f if line.split(" ")[1:2] in (["warn"], ["error"])]
            for line in bad[:10]:
                soak.bad(line.strip())
            if soak.found:
                print(f"verdict: {len(soak.found)} found, the first: {soak.found[0]}", flush=True)
    left = [name for name in set(os.listdir("/dev/shm")) - shm if "gpuslice" in name]
    if left:
        print(f"verdict: left in /dev/shm: {left}")
        return 1
    if not soak.found:
        print("verdict: ok")
    return 1 if soak.found else 0


if __name__ == "__main__":
    sys.exit(main())
