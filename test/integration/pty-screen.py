#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""pty-screen.py COLUMNSxLINES STEP... -- COMMAND...: plays somebody at a terminal.

Runs the command on a terminal of its own (a vt100, as far as ncurses uses one) and takes the steps in
order:
  see:TEXT      wait until the screen has the text
  unsee:TEXT    wait until it has not
  key:TEXT      type; \\e is Escape, \\n Enter
  size:CxL      the terminal gets another size
  do:COMMAND    run it in a bash, here
  signal:NAME   send the program SIGNAME
  raw:TEXT      what the program has written so far has these bytes (\\e is Escape)
  noraw:TEXT    it has not
  show          print the screen
  end:STATUS    wait until the program ends, with this exit status, and the terminal is as it was
A step that does not come true in time prints the screen, and the exit status is 1.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

PATIENCE_S = 15 * int(os.environ.get("GPUSLICE_PATIENCE", "1"))


class Screen:
    """What a vt100 shows."""

    def __init__(self, columns, lines):
        self.raw = b""
        self.rest = ""
        self.decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.cells = [[" "] * columns for _ in range(lines)]
        self.x = self.y = 0
        self.top, self.bottom = 0, lines - 1

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, data):
        self.raw += data
        text = self.rest + self.decode(data)
        pattern = re.compile(
            r"\x1b\[[?>]?([0-9;]*)([@-~])|\x1b[()].|\x1b[^\[()]|\x1b\[[0-9;?>]*$|\x1b$|[^\x1b]",
            re.S,
        )
        at = 0
        while at < len(text):
            m = pattern.match(text, at)
            if m is None or (m.group().startswith("\x1b") and m.end() == len(text) and m.group(2) is None):
                break
            at = m.end()
            if m.group(2):
                self.control(m.group(1), m.group(2))
            elif m.group() == "\x1bM":
                self.up()
            elif m.group() == "\x1bD":
                self.down()
            elif not m.group().startswith("\x1b"):
                self.put(m.group())
        self.rest = text[at:]

    def down(self):
        if self.y == self.bottom:
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)
        else:
            self.y = min(self.y + 1, self.lines - 1)

    def up(self):
        if self.y == self.top:
            del self.cells[self.bottom]
            self.cells.insert(self.top, [" "] * self.columns)
        else:
            self.y = max(self.y - 1, 0)

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.down()
        elif c == "\b":
            self.x = max(self.x - 1, 0)
        elif c == "\t":
            self.x = min((self.x // 8 + 1) * 8, self.columns - 1)
        elif c >= " ":
            if self.x >= self.columns:
                self.x = 0
                self.down()
            self.cells[self.y][self.x] = c
            self.x += 1

    def control(self, numbers, what):
        n = [int(x or 0) for x in numbers.split(";")] if numbers else []
        one = max(n[0] if n else 1, 1)
        if what == "H":
            self.y = min((n[0] if n else 1) or 1, self.lines) - 1
            self.x = min((n[1] if len(n) > 1 else 1) or 1, self.columns) - 1
        elif what == "A":
            self.y = max(self.y - one, 0)
        elif what == "B":
            self.y = min(self.y + one, self.lines - 1)
        elif what == "C":
            self.x = min(self.x + one, self.columns - 1)
        elif what == "D":
            self.x = max(min(self.x, self.columns - 1) - one, 0)
        elif what == "r":
            self.top = (n[0] if n else 1) - 1
            self.bottom = (n[1] if len(n) > 1 else self.lines) - 1
            self.x = self.y = 0
        elif what == "K":
            self.clear_line(n[0] if n else 0)
        elif what == "J":
            self.clear(n[0] if n else 0)

    def clear_line(self, how):
        line = self.cells[self.y]
        begin = 0 if how else self.x
        end = min(self.x + 1, self.columns) if how == 1 else self.columns
        line[begin:end] = [" "] * (end - begin)

    def clear(self, how):
        self.clear_line(how)
        rows = range(self.y + 1, self.lines) if how == 0 else range(self.y) if how == 1 else range(self.lines)
        for y in rows:
            self.cells[y] = [" "] * self.columns


class Play:
    def __init__(self, size, command):
        self.master, self.slave = pty.openpty()
        self.size(size)
        columns, lines = (int(n) for n in size.split("x"))
        self.screen = Screen(columns, lines)
        self.before = termios.tcgetattr(self.slave)
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        env.setdefault("TERM", "vt100")
        self.child = subprocess.Popen(
            command,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            env=env,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def size(self, size):
        columns, lines = (int(n) for n in size.split("x"))
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        ready, _, _ = select.select([self.master], [], [], seconds)
        if ready:
            self.screen.feed(os.read(self.master, 65536))

    def until(self, true):
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            if time.monotonic() > deadline:
                return False
            self.read(0.05)
        return True

    def end(self, status):
        if not self.until(lambda: self.child.poll() is not None):
            return False
        self.read(0)
        if self.child.returncode != int(status):
            print("exit status", self.child.returncode)
            return False
        if termios.tcgetattr(self.slave) != self.before:
            print("the terminal is not as it was")
            return False
        return True

    def do(self, step):
        what, _, arg = step.partition(":")
        words = arg.replace("\\e", "\x1b").replace("\\n", "\r")
        screen = self.screen
        if what == "see":
            return self.until(lambda: arg in screen.text())
        if what == "unsee":
            return self.until(lambda: arg not in screen.text())
        if what == "raw":
            return self.until(lambda: words.encode() in screen.raw)
        if what == "noraw":
            return words.encode() not in screen.raw
        if what == "end":
            return self.end(arg)
        if what == "key":
            os.write(self.master, words.encode())
        elif what == "size":
            columns, lines = (int(n) for n in arg.split("x"))
            screen.resize(columns, lines)
            self.size(arg)
        elif what == "do":
            subprocess.run(["bash", "-c", arg], check=True)
        elif what == "signal":
            self.child.send_signal(getattr(signal, "SIG" + arg))
        elif what == "show":
            print(screen.text())
        else:
            sys.exit("unknown step " + step)
        return True


def main():
    split = sys.argv.index("--")
    play = Play(sys.argv[1], sys.argv[split + 1 :])
    try:
        for step in sys.argv[2:split]:
            if not play.do(step):
                print("did not come true: " + step)
                print(play.screen.text())
                return 1
    finally:
        if play.child.poll() is None:
            play.child.kill()
            play.child.wait()
    return 0


sys.exit(main())
