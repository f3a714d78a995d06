# SPDX-License-Identifier: Apache-2.0
"""Clients, servers, daemons and agents that end at bad moments, and a config that goes away under a client."""
import os
import re
import signal
import time

from cluster import Watch, replicas
from node import now_ns

SHARED = replicas(4, memory="equal", compute="fair")
SLICED = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}


def ready_with(node, n):
    """So many pods on the GPU, shared by MPS."""
    node.delete_pods()
    node.configure(SHARED, 4)
    return [node.pod(f"{node.fresh()}-{i}") for i in range(n)]


def ms(ns, since_ns):
    return None if ns is None else (ns - since_ns) / 1e6


def shown(value):
    return "-" if value is None else f"{value:.1f}"


def fault(node):
    for kind in ("bad_address", "trap_now"):
        fault_of(node, kind)
        node.end_procs()


def fault_of(node, kind):
    pods = ready_with(node, 4)
    others = [node.client(p, "loop", "--linger", "1.5", name=f"other-{p}") for p in pods[:2]]
    server = node.servers(pods[0])
    xids, log = node.agent_status()["gpus"][0]["xids"], node.log_at()
    watch = Watch(node)
    bad = node.client(pods[2], "fault", kind, "--linger", "1")
    node.until(lambda: node.mps_state() == "fault" or bad.popen.poll() is not None, "the agent has seen the fault")
    during_at = now_ns()
    during = node.try_out(pods[3], 10)
    during_ms = ms(now_ns(), during_at)
    f = bad.wait(60)
    at = f["launch_ns"]
    seen = [p.wait(60) for p in others]
    ended = max([f["end_ns"]] + [s["end_ns"] for s in seen])
    node.until(lambda: node.mps_state() == "ready", "MPS takes clients again", 30)
    works_ms, refused = node.until_works(pods[3], ended)
    time.sleep(0.5)
    watch.end()
    for who, s in [("culprit", f)] + [("other", s) for s in seen]:
        node.result("fault", kind=kind, who=who, pid=s["pid"], code=s["code"], after_ms=shown(ms(s.get("error_ns"), at)),
                    alloc=s.get("alloc"), new_context=s.get("new_context"))
    text, gpu = node.log_since(log), node.agent_status()["gpus"][0]
    who = re.findall(r'who="?([^"\n]*)', text)
    node.result("fault", kind=kind, status_says_after_ms=shown(watch.first(at, lambda s, _: s == "fault")),
                no_device_healthy_after_ms=shown(watch.first(at, lambda _, n: n == 0)),
                all_gone_after_ms=ms(ended, at), ready_after_ms=shown(watch.last(at, lambda s, _: s == "ready")),
                healthy_after_ms=shown(watch.last(at, lambda _, n: n == 4)),
                healthy_after_last_client_ms=shown(watch.last(ended, lambda _, n: n == 4)),
                new_client_after_last_client_ms=works_ms, refused=refused)
    node.result("fault", kind=kind, new_client_meanwhile=during.get("code", "none"), step=during.get("step", "-"),
                mps=during.get("mps", "-"), took_ms=during_ms, server="same" if node.servers(pods[0]) == server else "other",
                faults=node.daemon()["faults"], xids=gpu["xids"] - xids, last_xid=gpu["lastXid"],
                who=(who[0] if who else "-").replace(" ", "_"), culprit_pid=f["pid"],
                story=watch.story(at))
    node.note("-- the agent's log of it\n" + text)


def kill(node):
    for one in (kill_client, kill_server, kill_daemon, kill_agent, end_agent, restart_twice):
        one(node)
        node.end_procs()


def fared(p):
    """How a loop has fared that was told to end, or ended by an error."""
    p.terminate()
    f = p.wait(30)
    return {"other_code": f["code"], "other_loops": f["loops"], "other_longest_gap_ms": f["longest_gap_ms"]}


def kill_client(node):
    """In the middle of a kernel: on an H100 that is a fatal fault for all others."""
    pods = ready_with(node, 3)
    other = node.client(pods[0], "loop")
    gone = node.client(pods[1], "long", "8")
    node.until(lambda: gone.popen.pid in node.clients(), "the agent knows the client")
    time.sleep(0.5)
    at = now_ns()
    gone.kill()
    node.until(lambda: gone.popen.pid not in node.clients(), "the agent knows that the client is gone", 15)
    known = ms(now_ns(), at)
    works, _ = node.until_works(pods[2], now_ns())
    time.sleep(0.5)
    node.result("kill", who="client", known_after_ms=known, new_client_ms=works, state=node.mps_state(), **fared(other))


def goes_on(node, p):
    """The same of one that nothing should have happened to."""
    f = fared(p)
    node.check(f["other_code"] == 0, f"a client that should go on has error {f['other_code']}")
    return f


def lost(node, procs, at):
    """What clients say that lost their server or daemon."""
    ends = [p.wait(60) for p in procs]
    return {"codes": "/".join(str(f["code"]) for f in ends),
            "after_ms": "/".join(shown(ms(f.get("error_ns"), at)) for f in ends),
            "new_contexts": "/".join(str(f.get("new_context")) for f in ends)}


def kill_server(node):
    pods = ready_with(node, 3)
    procs = [node.client(p, "loop", name=f"loop-{p}") for p in pods[:2]]
    node.until(lambda: len(node.clients()) == 2, "the agent knows both clients", 15)
    (server,), daemon = node.servers(pods[0]), node.daemon()["pid"]
    watch, at = Watch(node), now_ns()
    os.kill(server, signal.SIGKILL)
    said = lost(node, procs, at)
    works, refused = node.until_works(pods[2], at)
    node.until(lambda: node.mps_state() == "ready", "MPS takes clients again", 30)
    watch.end()
    node.result("kill", who="server", **said, status_says_after_ms=shown(watch.first(at, lambda s, _: s != "ready")),
                healthy_after_ms=shown(watch.last(at, lambda _, n: n == 4)), new_client_ms=works, refused=refused,
                other_server=node.servers(pods[0]) != [server], same_daemon=node.daemon()["pid"] == daemon,
                story=watch.story(at))


def kill_daemon(node):
    pods = ready_with(node, 3)
    procs = [node.client(pods[0], "loop")]
    node.until(lambda: len(node.clients()) == 1, "the agent knows the client", 15)
    (server,), daemon = node.servers(pods[0]), node.daemon()["pid"]
    watch, at = Watch(node), now_ns()
    os.kill(daemon, signal.SIGKILL)
    said = lost(node, procs, at)
    node.until(lambda: node.mps_state() == "ready" and node.daemon()["pid"] != daemon, "there is another daemon", 40)
    works, refused = node.until_works(pods[2], at)
    watch.end()
    old = sum(pid in (server, daemon) for pid in node.left_of_mps())
    node.check(not old, "something of the killed daemon is left")
    node.result("kill", who="daemon", **said, status_says_after_ms=shown(watch.first(at, lambda s, _: s != "ready")),
                healthy_after_ms=shown(watch.last(at, lambda _, n: n == 4)), new_client_ms=works, refused=refused,
                old_left=old, programs=len(node.left_of_mps()),
                story=watch.story(at))


def kill_agent(node):
    pods = ready_with(node, 2)
    other = node.client(pods[0], "loop")
    node.until(lambda: len(node.clients()) == 1, "the agent knows the client", 15)
    daemon, server, at = node.daemon()["pid"], node.servers(pods[0]), now_ns()
    node.stop_agent(signal.SIGKILL)
    time.sleep(1)
    node.start_agent()
    node.until(lambda: node.agent_status()["mps"] and node.mps_state() == "ready", "the next agent has MPS", 30)
    adopted = ms(now_ns(), at)
    node.until(lambda: other.popen.pid in node.clients(), "the next agent knows the client", 30)
    known = ms(now_ns(), at)
    works, _ = node.until_works(pods[1], now_ns())
    node.result("kill", who="agent", ready_after_ms=adopted, client_known_after_ms=known,
                same_daemon=node.daemon()["pid"] == daemon, same_server=node.servers(pods[0]) == server,
                new_client_ms=works, **goes_on(node, other))


def restart_twice(node):
    """An agent that ends as soon as it has begun leaves clients alone too, also those that come after it."""
    pods = ready_with(node, 2)
    other = node.client(pods[0], "loop")
    node.until(lambda: len(node.clients()) == 1, "the agent knows the client", 15)
    daemon, at = node.daemon()["pid"], now_ns()
    for _ in range(2):
        node.stop_agent()
        node.start_agent()
        node.until(lambda: node.agent_status()["mps"] and node.mps_state() == "ready", "the next agent has MPS", 30)
    works, refused = node.until_works(pods[1], at)
    node.result("kill", who="agent-term-twice", same_daemon=node.daemon()["pid"] == daemon, new_client_ms=works,
                refused=refused, **goes_on(node, other))


def end_agent(node):
    (pod,) = ready_with(node, 1)
    node.try_out(pod)
    time.sleep(0.3)
    pipe = node.env_of(pod)["CUDA_MPS_PIPE_DIRECTORY"]
    took = node.stop_agent()
    left = node.left_of_mps()
    node.check(not left, "an MPS program is left when the agent has ended")
    node.result("kill", who="agent-term", ended_ms=took, programs_left=len(left), in_pipe=",".join(os.listdir(pipe)) or "-",
                exit=node.agent_exit)


def switch(node):
    """MPS is configured away under a client, and comes back."""
    (pod,) = ready_with(node, 1)
    p = node.client(pod, "loop")
    node.until(lambda: len(node.clients()) == 1, "the agent knows the client", 15)
    daemon, at = node.daemon()["pid"], now_ns()
    node.configure(SLICED, 4, state=None)
    offered = ms(now_ns(), at)
    node.until(lambda: node.mps_state() == "draining", "the daemon waits for its client")
    draining, watch = ms(now_ns(), at), Watch(node)
    bare = node.try_out(None)
    time.sleep(2)
    still = node.mps_state()
    fared = goes_on(node, p)
    ended = now_ns()
    node.until(lambda: node.mps_state() == "none" and not node.left_of_mps(), "the daemon is gone", 30)
    gone = ms(now_ns(), ended)
    watch.end()
    node.result("switch", to="timeSlicing", offered_ms=offered, draining_ms=draining, state_2_s_later=still,
                bare_code=bare.get("code"), bare_mps=bare.get("mps"), daemon_gone_after_client_ms=gone,
                in_pipe=",".join(os.listdir(pod.env["CUDA_MPS_PIPE_DIRECTORY"])) or "-", story=watch.story(at), **fared)
    back = node.configure(SHARED, 4)
    (pod,) = ready_with(node, 1)
    works, _ = node.until_works(pod, now_ns())
    node.result("switch", to="mps", ready_ms=back, new_client_ms=works, another_daemon=node.daemon()["pid"] != daemon)
