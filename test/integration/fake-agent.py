#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fake-agent.py DIR [TOKEN]: an agent, as far as `gpuslice top` asks it.

Answers GET /api/v1/node with DIR/answer.json; while DIR/answer.status is there, with that status and
{"error": ...}; while DIR/away is there, not at all. It listens on the unix socket DIR/gpusliced.sock and, if there is a TOKEN, on a port
of 127.0.0.1 as well, written to DIR/port, where it wants that token. Each question adds a line to
DIR/asked.
"""
import http.server
import json
import os
import signal
import socketserver
import sys
import threading

DIR = sys.argv[1]
TOKEN = sys.argv[2] if len(sys.argv) > 2 else None


def path_of(name):
    return os.path.join(DIR, name)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wants = None

    def log_message(self, *_):
        pass

    def address_string(self):
        return "local"

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        with open(path_of("asked"), "a", encoding="utf-8") as f:
            f.write(self.path + "\n")
        if os.path.exists(path_of("away")):
            self.close_connection = True
        elif self.wants and self.headers.get("Authorization") != "Bearer " + self.wants:
            self.answer(401, b'{"error":"a bearer token is wanted"}')
        elif self.path != "/api/v1/node":
            self.answer(404, b'{"error":"no such path"}')
        elif os.path.exists(path_of("answer.status")):
            with open(path_of("answer.status"), encoding="utf-8") as f:
                self.answer(int(f.read()), json.dumps({"error": "not\x1b[2J now"}).encode())
        else:
            with open(path_of("answer.json"), "rb") as f:
                self.answer(200, f.read())


class TokenHandler(Handler):
    wants = TOKEN


class UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def main():
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    if TOKEN:
        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenHandler)
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        with open(path_of("port.new"), "w", encoding="utf-8") as f:
            f.write(str(web.server_address[1]))
        os.rename(path_of("port.new"), path_of("port"))
    if os.path.exists(path_of("gpusliced.sock")):
        os.unlink(path_of("gpusliced.sock"))
    UnixServer(path_of("gpusliced.sock"), Handler).serve_forever()


main()
