#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake-prometheus.py DIR: a Prometheus server, as far as `gpuslice cost` asks it.

The answer to a query is DIR/METRIC.json, of the metric in it, or an empty vector; questions go to
DIR/queries, a line of JSON each (path, query, time, Authorization). DIR/mode makes it misbehave: status CODE,
redirect, endless, silent, html. The port is written to DIR/port.
"""
import http.server
import json
import os
import re
import signal
import sys
import time
import urllib.parse

DIR = sys.argv[1]


def load(name, default):
    try:
        with open(os.path.join(DIR, name), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return default


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def endless(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" " * 65536)
        except OSError:
            pass

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        args = dict(urllib.parse.parse_qsl(url.query))
        with open(os.path.join(DIR, "queries"), "a", encoding="utf-8") as f:
            f.write(json.dumps({"path": url.path, "query": args.get("query"), "time": args.get("time"),
                                "authorization": self.headers.get("Authorization")}) + "\n")
        mode = load("mode", "").split()
        if mode[:1] == ["status"]:
            self.answer(int(mode[1]), b'{"status":"error","error":"as it was told"}')
        elif mode == ["redirect"]:
            self.answer(302, b"", [("Location", "http://localhost:1/elsewhere")])
        elif mode == ["endless"]:
            self.endless()
        elif mode == ["silent"]:
            time.sleep(30)
        elif mode == ["html"]:
            self.answer(200, b"<html>no api here</html>")
        else:
            metric = re.search(r"gpuslice_\w+", args.get("query") or "")
            empty = '{"status":"success","data":{"resultType":"vector","result":[]}}'
            self.answer(200, load(f"{metric.group(0)}.json" if metric else "none", empty).encode())

    def log_message(self, *_):
        pass


def main():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    port = os.path.join(DIR, "port")
    with open(port + ".new", "w", encoding="utf-8") as f:
        f.write(str(server.server_address[1]))
    os.rename(port + ".new", port)
    server.serve_forever()


main()
