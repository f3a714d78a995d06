#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two models of examples/two-models: how they talk, without PyTorch and without a GPU."""
import contextlib
import importlib.util
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/two-models/two-models.py")
sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("two_models", SCRIPT)
two = importlib.util.module_from_spec(spec)
spec.loader.exec_module(two)

# In place of the driver's: a daemon with -f, with a server of its own; else one command. $FAKE says how it fails.
CONTROL = """#!/bin/sh
set -eu
if [ "${1-}" = -f ]; then
	[ "${FAKE-}" != broken ] || { echo "no GPU for the daemon"; exit 1; }
	setsid sleep 1000 &
	echo $$ $! >"$CUDA_MPS_PIPE_DIRECTORY/pids"
	: >"$CUDA_MPS_PIPE_DIRECTORY/control"
	wait
fi
[ -e "$CUDA_MPS_PIPE_DIRECTORY/control" ] || exit 1
read -r command || true
[ "$command" != quit ] || [ "${FAKE-}" = hangs ] || kill $(cat "$CUDA_MPS_PIPE_DIRECTORY/pids")
[ "$command" != quit ] || [ "${FAKE-}" != hangs ] || exec sleep 1000
"""


class Echo:
    """A model that says what it was told, one higher."""

    def __init__(self):
        self.prompts = []

    def answer(self, prompt, length):
        self.prompts.append(list(prompt))
        for i in range(length):
            yield (prompt[i % len(prompt)] + 1) % two.VOCABULARY


def run(*args, **kwargs):
    return subprocess.run([sys.executable, SCRIPT, *args], text=True, capture_output=True, timeout=60, check=False, **kwargs)


def eventually(seconds, what):
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def alive(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


class Words(unittest.TestCase):
    def test_every_word_is_another(self):
        self.assertEqual(len(two.WORDS), two.VOCABULARY - two.FIRST_WORD)
        self.assertEqual(len(set(two.WORDS)), len(two.WORDS))
        self.assertEqual(two.make_words(), two.WORDS)

    def text(self, *tokens):
        speech = two.Speech()
        return "".join([speech.feed(t) for t in tokens] + [speech.end()])

    def test_sentences(self):
        a, b = two.WORDS[0], two.WORDS[1]
        self.assertEqual(self.text(5, 6), f"{a.capitalize()} {b}.")
        self.assertEqual(self.text(5, 2, 6, 3), f"{a.capitalize()}. {b.capitalize()}?")
        self.assertEqual(self.text(5, 1, 6), f"{a.capitalize()}, {b}.")
        self.assertEqual(self.text(2, 5, 1, 2), f"{a.capitalize()}, ...")
        self.assertEqual(self.text(), "")


class Conversation(unittest.TestCase):
    def talker(self, **kwargs):
        self.events, self.box = [], two.Mailbox()
        return two.Talker(Echo(), self.box, lambda *event: self.events.append(event), length=3, **kwargs)

    def test_answers_the_last_message(self):
        talker = self.talker()
        self.box.put([10])
        self.box.put([20, 30])
        talker.talk(rounds=1)
        self.assertEqual(talker.model.prompts, [[20, 30]])
        self.assertEqual([v for e, *v in self.events if e == "said"], [[[21, 31, 21]]])

    def test_begins_with_silence_and_does_not_wait(self):
        talker = self.talker()
        talker.talk(rounds=4)
        self.assertEqual(talker.model.prompts, [[two.SILENCE]] * 4)
        self.assertEqual((talker.stats.messages, talker.stats.words), (4, 12))
        self.assertEqual((len(talker.stats.firsts), len(talker.stats.gaps)), (4, 8))

    def test_the_polite_one_waits(self):
        talker = self.talker(polite=60.0, opens=False)
        thread = threading.Thread(target=talker.talk, kwargs={"rounds": 2})
        thread.start()
        time.sleep(0.2)
        self.assertEqual(talker.model.prompts, [])
        self.box.put([7])
        self.assertTrue(eventually(10, lambda: len(talker.model.prompts) == 1))
        time.sleep(0.2)
        self.assertEqual(talker.model.prompts, [[7]])
        talker.stop()
        thread.join(10)
        self.assertFalse(thread.is_alive())

    def test_stops_within_a_message(self):
        talker = self.talker()
        talker.tell = lambda event, *_: talker.stop() if event == "word" else None
        talker.talk()
        self.assertEqual((talker.stats.words, talker.stats.messages), (1, 0))

    def test_percentiles(self):
        values = list(range(100))
        self.assertEqual((two.percentile(values, 0.5), two.percentile(values, 0.99)), (50, 99))
        self.assertEqual(two.percentile([], 0.5), 0.0)

    def test_the_screen_shows_one_at_a_time_in_turn(self):
        out = io.StringIO()
        screen = two.Screen(out)
        screen.begin("ben")  # ada is the first one
        for name, text in (("ada", "A"), ("ben", "B")):
            screen.begin(name)
            screen.word(name, text)
        screen.word("ada", " a")
        screen.end("ben")
        screen.end("ada")
        screen.begin("ada")
        screen.begin("ben")
        screen.word("ben", "C")
        screen.end("ben")
        self.assertEqual(out.getvalue(), "ada: A a\nben: C\n")

    def test_lines_are_folded(self):
        out = io.StringIO()
        screen = two.Screen(out, columns=12)
        screen.begin("ada")
        for text in ("One", " two", " three", "."):
            screen.word("ada", text)
        self.assertEqual(out.getvalue(), "ada: One two\n     three.")


class Place(unittest.TestCase):
    def found(self, **more):
        return dict({"name": "H", "total": 1 << 30, "multiprocessors": 66, "mps": False, "pipe": None, "slice": False}, **more)

    def test_says_how_it_runs(self):
        self.assertIn(", under MPS", two.describe(self.found(mps=True, pipe="/p")))
        self.assertIn(", not under MPS", two.describe(self.found()))
        self.assertIn("NOT under MPS, though CUDA_MPS_PIPE_DIRECTORY is /p", two.describe(self.found(pipe="/p")))
        self.assertTrue(two.describe(self.found(slice=True)).endswith("in a slice of gpuslice"))

    def test_where_ends_well_without_a_driver(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run("--where", "--json", env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": empty})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("slice", json.loads(done.stdout))


class Http(unittest.TestCase):
    def test_checks_what_comes(self):
        self.assertEqual(two.tokens_of(b'{"tokens": [0, 511]}'), [0, 511])
        for bad in (b"", b"[]", b"{}", b'{"tokens": []}', b'{"tokens": [512]}', b'{"tokens": [-1]}', b'{"tokens": [true]}',
                    b'{"tokens": "1"}', b'{"tokens": [1.5]}', json.dumps({"tokens": [1] * 1025}).encode(), b"\xff"):
            with self.assertRaises((ValueError, KeyError, TypeError), msg=bad):
                two.tokens_of(bad)

    # An address of this process: on 127.0.0.1 another program may take a free port first, also as a client.
    HOST = f"127.{os.getpid() >> 8 & 127 | 1}.{os.getpid() & 255}.1"

    def get(self, port, path="", body=None):
        with urllib.request.urlopen(f"http://{self.HOST}:{port}/{path}", body, timeout=5) as reply:
            return reply.read()

    def status(self, port):
        try:
            return json.loads(self.get(port))
        except OSError:
            return {"heard": 0}

    def test_two_pods_talk(self):
        ports = []
        for _ in two.NAMES:
            with socket.socket() as s:
                s.bind((self.HOST, 0))
                ports.append(s.getsockname()[1])
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(subprocess.Popen(
                [sys.executable, SCRIPT, "--serve", "--device", "none", "--name", name, "--listen", f"{self.HOST}:{own}",
                 "--peer", f"http://{self.HOST}:{other}", "--words", "8", "--pace", "0"], stdout=subprocess.PIPE, text=True))
                for name, own, other in zip(two.NAMES, ports, reversed(ports))]
            for process in processes:
                stack.callback(process.kill)
            for port in ports:
                self.assertTrue(eventually(30, lambda port=port: self.status(port)["heard"] > 3))
            self.assertEqual(self.get(ports[0], "healthz"), b"ok\n")
            for path, body in (("hear", b"x"), ("hear", b'{"tokens": [9999]}'), ("other", None)):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    self.get(ports[0], path, body)
                refused.exception.close()
            for process in processes:
                process.terminate()
            for process in processes:
                self.assertEqual(process.wait(10), 0)
                self.assertRegex(process.stdout.read(), r"(ada|ben): [A-Z]")


class Local(unittest.TestCase):
    def test_a_conversation(self):
        for more in ((), ("--polite",)):
            done = run("--device", "none", "--rounds", "3", *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"ada: [A-Z]")
            self.assertRegex(done.stdout.splitlines()[-1], r"^ +ben +\d")
        self.assertRegex(done.stdout, r"ben: [A-Z]")

    def test_says_who_ended(self):
        with subprocess.Popen([sys.executable, SCRIPT, "--device", "none", "--seconds", "30"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talk:
            def workers():
                with open(f"/proc/{talk.pid}/task/{talk.pid}/children", encoding="ascii") as f:
                    return [int(pid) for pid in f.read().split()]
            self.assertTrue(eventually(20, lambda: len(workers()) == 2))
            talk.stdout.readline()
            os.kill(workers()[1], signal.SIGKILL)
            out, err = talk.communicate(timeout=20)
        self.assertEqual((talk.returncode, "ben has ended with status -9" in err), (1, True), out + err)

    def test_workers_end_with_it(self):
        with subprocess.Popen([sys.executable, SCRIPT, "--device", "none", "--seconds", "30"], stdout=subprocess.PIPE) as talk:
            talk.stdout.readline()
            with open(f"/proc/{talk.pid}/task/{talk.pid}/children", encoding="ascii") as f:
                workers = [int(pid) for pid in f.read().split()]
            for pid in workers:  # no end of file reaches them
                os.kill(pid, signal.SIGSTOP)
            talk.kill()
        self.assertEqual(len(workers), 2)
        self.assertTrue(eventually(10, lambda: not any(alive(pid) for pid in workers)))

    def test_mistakes(self):
        for args in (("--mps", "--device", "cpu"), ("--words", "0"), ("--width", "100"), ("--serve",), ("--mps", "--compare")):
            self.assertEqual(run(*args).returncode, 2, args)


class Mps(unittest.TestCase):
    """The process that keeps the daemon, with a daemon that is none."""

    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.dir = f"{self.top.name}/mps"
        for name in ("", "/pipe", "/log"):
            os.mkdir(self.dir + name)
        os.mkdir(f"{self.top.name}/bin")
        control = f"{self.top.name}/bin/nvidia-cuda-mps-control"
        with open(control, "w", encoding="ascii") as f:
            f.write(CONTROL)
        os.chmod(control, 0o755)

    def keeper(self, fake=""):
        env = dict(os.environ, PATH=f"{self.top.name}/bin:{os.environ['PATH']}", FAKE=fake)
        keeper = subprocess.Popen([sys.executable, SCRIPT, "--keep-mps", self.dir], env=env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(keeper.stdout.close)
        self.addCleanup(keeper.wait)
        self.addCleanup(keeper.kill)
        self.addCleanup(keeper.stdin.close)
        return keeper, keeper.stdout.readline().strip()

    def pids(self):
        with open(f"{self.dir}/pipe/pids", encoding="ascii") as f:
            return [int(pid) for pid in f.read().split()]

    def ends(self, fake):
        keeper, said = self.keeper(fake)
        self.assertEqual(said, "ready")
        pids = self.pids()
        self.assertTrue(all(alive(pid) for pid in pids))
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            keeper.send_signal(name)
        time.sleep(0.2)
        self.assertTrue(all(alive(pid) for pid in pids))
        keeper.stdin.close()  # what it sees when whoever started it has gone, however
        self.assertEqual(keeper.wait(30), 0)
        self.assertFalse(any(alive(pid) for pid in pids))
        self.assertFalse(os.path.exists(self.dir))

    def test_ends_the_daemon(self):
        self.ends("")

    def test_ends_a_daemon_that_does_not_quit(self):
        self.ends("hangs")

    def test_says_that_there_is_none(self):
        self.assertEqual(self.keeper("broken")[1], "ended")


@unittest.skipUnless(importlib.util.find_spec("torch"), "no PyTorch here")
class Model(unittest.TestCase):
    def test_the_cache_changes_nothing(self):
        import torch
        model = two.Decoder("cpu", 2, 128, 1)
        tokens = torch.tensor([5, 9, 300, 7, 8, 2])
        whole = model.forward(tokens, 0)
        for at, token in enumerate(tokens):
            step = model.forward(token.view(1), at)
        self.assertTrue(torch.allclose(whole, step, atol=1e-4))
        self.assertFalse(torch.allclose(whole, model.forward(tokens.flip(0), 0), atol=1e-2))

    def test_says_nothing_but_words_and_the_same_again(self):
        said = [list(two.Decoder("cpu", 2, 128, 3).answer([0, 5, 6], 40)) for _ in range(2)]
        self.assertEqual(said[0], said[1])
        self.assertEqual((len(said[0]), two.SILENCE in said[0], max(said[0]) < two.VOCABULARY), (40, False, True))


if __name__ == "__main__":
    unittest.main()
