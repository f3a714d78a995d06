#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake-api.py DIR: an API server, as far as an agent asks it.

DIR/nodes and DIR/configmaps are the one object of their kind, as JSON; without the file there is
none. While DIR/KIND.fail is there, every question about that kind is answered by 503. Lists and
watches follow the files. DIR/pods is a list of pods, all on that node; what is deleted goes from it.
Merge patches of the node are added to DIR/patches and made, those of its status (conditions, by type) to
DIR/status-patches, Events to DIR/events, a line each. A JSON patch of the taints is made, or answered by the status that
DIR/taints.fail has. While DIR/status.forbidden is there, the latter are refused. All else is 404. The
port is written to DIR/port. Who holds the lock of DIR/lock (flock) can read an object and write it again:
no patch comes in between.
"""
import contextlib
import copy
import fcntl
import http.server
import json
import os
import signal
import sys
import time
import urllib.parse

DIR = sys.argv[1]
LOOK_S = 0.1


def load(kind):
    try:
        with open(os.path.join(DIR, kind), encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return None


@contextlib.contextmanager
def locked():
    with open(os.path.join(DIR, "lock"), "a", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def store(kind, item):
    path = os.path.join(DIR, kind)
    new = f"{path}.{time.monotonic_ns()}"
    with open(new, "w", encoding="utf-8") as f:
        json.dump(item, f)
    os.rename(new, path)


def add_line(name, item):
    with open(os.path.join(DIR, name), "a", encoding="utf-8") as f:
        f.write(json.dumps(item) + "\n")


def merge(to, patch):
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    to = dict(to) if isinstance(to, dict) else {}
    for key, value in patch.items():
        if value is None:
            to.pop(key, None)
        else:
            to[key] = merge(to.get(key), value)
    return to


def versioned(item):
    """The resourceVersion goes up with time, which is all that a client may know of it."""
    item = copy.deepcopy(item)
    item["metadata"]["resourceVersion"] = str(time.monotonic_ns())
    return item


class Past:
    """What clients were told, and with which resourceVersion: a watch goes on from there."""

    def __init__(self):
        self.told = {}

    def add(self, kind, version, item):
        self.told.setdefault(kind, []).append((int(version), item))

    def at(self, kind, version):
        known = [item for told, item in self.told.get(kind, []) if told <= version]
        return known[-1] if known else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def answer(self, status, body=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if body is not None:
            self.wfile.write(json.dumps(body).encode() + b"\n")
            self.wfile.flush()

    def watch(self, kind, version):
        was = self.server.past.at(kind, version)
        while not os.path.exists(os.path.join(DIR, kind + ".fail")):
            now = load(kind)
            if now != was:
                change = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                event = {"type": change, "object": versioned(now or was)}
                self.server.past.add(kind, event["object"]["metadata"]["resourceVersion"], now)
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()
                was = now
            time.sleep(LOOK_S)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        kind = path.rsplit("/", 1)[-1]
        if kind == "pods":
            self.pods(path)
        elif kind not in ("nodes", "configmaps"):
            self.answer(404)
        elif os.path.exists(os.path.join(DIR, kind + ".fail")):
            self.answer(503)
        elif "watch=1" in query:
            self.answer(200)
            asked = urllib.parse.parse_qs(query).get("resourceVersion", ["0"])[0]
            self.watch(kind, int(asked))
        else:
            item = load(kind)
            items = [versioned(item)] if item else []
            version = str(time.monotonic_ns())
            self.server.past.add(kind, version, item)
            self.answer(200, {"metadata": {"resourceVersion": version}, "items": items})

    def pods(self, path):
        parts = path.split("/")
        items = load("pods") or []
        if "namespaces" in parts:
            items = [p for p in items if p["metadata"]["namespace"] == parts[4]]
        self.answer(503 if os.path.exists(os.path.join(DIR, "pods.fail")) else 200, {"items": items})

    def body(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")

    def do_POST(self):
        body = self.body()
        if self.path.partition("?")[0].endswith("/events"):
            add_line("events", body)
            self.answer(201, body)
        else:
            self.answer(404)

    def patch_status(self, body):
        if os.path.exists(os.path.join(DIR, "status.forbidden")):
            self.answer(403, {"kind": "Status", "message": "nodes/status is forbidden"})
            return
        with locked():
            node = load("nodes")
            if node:
                add_line("status-patches", body)
                old = node.setdefault("status", {}).get("conditions", [])
                new = body["status"]["conditions"]
                types = [c["type"] for c in new]
                node["status"]["conditions"] = [c for c in old if c["type"] not in types] + new
                store("nodes", node)
        self.answer(200 if node else 404, node)

    def patch_taints(self, body):
        try:
            status = load("taints.fail")
        except json.JSONDecodeError:
            status = 500
        with locked():
            node = load("nodes")
            for step in body if node and not status else []:
                if step["op"] == "test" and node["spec"]["taints"] != step["value"]:
                    status = 422
                elif step["op"] == "replace" and not status:
                    node["spec"]["taints"] = step["value"]
                    store("nodes", node)
        self.answer(status or (200 if node else 404), node)

    def do_PATCH(self):
        parts, body = self.path.partition("?")[0].split("/"), self.body()
        kind = parts[-2]
        if parts[-3] == "nodes" and parts[-1] == "status" and "strategic" in self.headers["Content-Type"]:
            self.patch_status(body)
        elif kind == "nodes" and "json-patch" in self.headers["Content-Type"]:
            self.patch_taints(body)
        elif kind == "events":
            add_line("events", body)
            self.answer(200, body)
        elif kind != "nodes" or "merge-patch" not in self.headers["Content-Type"]:
            self.answer(404)
        elif os.path.exists(os.path.join(DIR, "nodes.fail")):
            self.answer(503)
        else:
            with locked():
                node = load("nodes")
                if node:
                    add_line("patches", body)  # who sees the Node sees its patches
                    node = merge(node, body)
                    store("nodes", node)
            self.answer(200 if node else 404, node)

    def do_DELETE(self):
        parts = self.path.split("/")
        with locked():
            pods = load("pods") or []
            left = [p for p in pods if (p["metadata"]["namespace"], p["metadata"]["name"]) != (parts[4], parts[6])]
            store("pods", left)
        self.answer(200 if len(left) < len(pods) else 404, {})

    def do_PUT(self):
        self.answer(404)

    def log_message(self, *args):
        pass


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
server.past = Past()
with open(os.path.join(DIR, "port.new"), "w", encoding="utf-8") as port:
    port.write(str(server.server_address[1]))
os.rename(os.path.join(DIR, "port.new"), os.path.join(DIR, "port"))
server.serve_forever()
