#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake-api.py DIR: the reading half of an API server, as far as an agent asks it.

DIR/nodes and DIR/configmaps are the one object of their kind, as JSON; without the file there is
none. While DIR/KIND.fail is there, every question about that kind is answered by 503. Lists and
watches follow the files; all else is 404. The port is written to DIR/port.
"""
import http.server
import json
import os
import signal
import sys
import time

DIR = sys.argv[1]
LOOK_S = 0.1


def load(kind):
    try:
        with open(os.path.join(DIR, kind), encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        return None


def versioned(item):
    """The resourceVersion goes up with time, which is all that a client may know of it."""
    item["metadata"]["resourceVersion"] = str(time.monotonic_ns())
    return item


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def answer(self, status, body=None):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        if body is not None:
            self.wfile.write(json.dumps(body).encode() + b"\n")
            self.wfile.flush()

    def watch(self, kind, was):
        while not os.path.exists(os.path.join(DIR, kind + ".fail")):
            now = load(kind)
            if now != was:
                change = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                event = {"type": change, "object": versioned(dict(now or was))}
                self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()
                was = now
            time.sleep(LOOK_S)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        kind = path.rsplit("/", 1)[-1]
        if kind not in ("nodes", "configmaps"):
            self.answer(404)
        elif os.path.exists(os.path.join(DIR, kind + ".fail")):
            self.answer(503)
        elif "watch=1" in query:
            self.answer(200)
            self.watch(kind, self.server.listed.get(kind))
        else:
            item = self.server.listed[kind] = load(kind)
            items = [versioned(json.loads(json.dumps(item)))] if item else []
            version = {"resourceVersion": str(time.monotonic_ns())}
            self.answer(200, {"metadata": version, "items": items})

    def do_PATCH(self):
        self.answer(404)

    do_POST = do_PUT = do_PATCH

    def log_message(self, *args):
        pass


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
server.listed = {}
with open(os.path.join(DIR, "port.new"), "w", encoding="utf-8") as port:
    port.write(str(server.server_address[1]))
os.rename(os.path.join(DIR, "port.new"), os.path.join(DIR, "port"))
server.serve_forever()
