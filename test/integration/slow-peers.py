#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peers that mean harm: slow-peers.py HOST PORT COUNT FILE

Holds COUNT connections until it is killed, and opens another one for each that is closed: silent ones, half requests
and POST requests that announce 4 MiB and send as much of it as they can. FILE gets the number of connections opened.
"""
import selectors
import socket
import sys
import time

BEGINS = [
    b"",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n",
    b"POST /v1/status HTTP/1.1\r\nHost: x\r\nContent-Length: 4194304\r\n\r\n" + b"x" * 65536,
]


class Peers:
    def __init__(self, at):
        self.at, self.opened, self.selector = at, 0, selectors.DefaultSelector()

    def open(self):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(self.at)
        begin = BEGINS[self.opened % len(BEGINS)]
        self.opened += 1
        self.selector.register(s, selectors.EVENT_READ | (selectors.EVENT_WRITE if begin else 0), begin)

    def close(self, s):
        self.selector.unregister(s)
        s.close()

    def serve(self, key, events):
        """False: the connection is closed."""
        try:
            if events & selectors.EVENT_WRITE:
                rest = key.data[key.fileobj.send(key.data):]
                mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if rest else 0)
                self.selector.modify(key.fileobj, mask, rest)
            return not events & selectors.EVENT_READ or bool(key.fileobj.recv(4096))
        except BlockingIOError:
            return True
        except OSError:
            return False


def main():
    host, port, count, path = sys.argv[1:]
    peers = Peers((host, int(port)))
    for _ in range(int(count)):
        peers.open()
    while True:
        closed = [key.fileobj for key, events in peers.selector.select(0.1) if not peers.serve(key, events)]
        for s in closed:
            peers.close(s)
            peers.open()
        with open(path, "w", encoding="ascii") as f:
            f.write(f"{peers.opened}\n")
        time.sleep(0.01)


if __name__ == "__main__":
    main()
