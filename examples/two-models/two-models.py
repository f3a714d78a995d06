#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two small language models that talk to each other on one GPU.

Each is a process of its own, with a decoder of random weights that is made here: nothing is downloaded, and what
they say is made up. Each answers the other's last message, word by word. At the end stands how fast each was.

    two-models.py                      both at once, on the GPU as this process has it
    two-models.py --mps                the same under MPS, with a control daemon of its own; no Kubernetes needed
    two-models.py --compare            one alone, both by the GPU's own time-slicing, both under MPS
    two-models.py --where              what this process has of a GPU: under MPS or not, in a slice or not
    two-models.py --serve --name ada --peer http://ben:8080      one of the two, for Kubernetes

It needs PyTorch, but for --where and --device none.
"""
import argparse
import contextlib
import ctypes
import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMES = ("ada", "ben")
VOCABULARY = 512
SILENCE = 0  # what is answered by whoever has heard nothing yet; never said
MARKS = {1: ",", 2: ".", 3: "?", 4: "!"}
FIRST_WORD = 5


class Failure(Exception):
    """Told in one line, and the program ends with 1."""


# ---- Words


def make_words():
    """A made-up language, the same in every process."""
    rng = random.Random(1843)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in ("a", "e", "i", "o", "u", "ai", "an", "or")]
    words = {}
    while len(words) < VOCABULARY - FIRST_WORD:
        words["".join(rng.choices(syllables, k=rng.choice((1, 2, 2, 3))))] = True
    return list(words)


WORDS = make_words()


class Speech:
    """Tokens of one message to text, piece by piece."""

    def __init__(self):
        self.begun = False
        self.open = False  # a word has come since the last mark
        self.sentence = True  # the next word begins one

    def feed(self, token):
        if token in MARKS:
            if not self.open:
                return ""
            self.open = False
            self.sentence = MARKS[token] != ","
            return MARKS[token]
        word = WORDS[(token - FIRST_WORD) % len(WORDS)]
        text = (" " if self.begun else "") + (word.capitalize() if self.sentence else word)
        self.begun, self.open, self.sentence = True, True, False
        return text

    def end(self):
        if self.open:
            return "."
        return "" if self.sentence else " ..."


# ---- Models: answer(prompt, length) gives out token after token


class Decoder:
    """A decoder as in GPT-2: causal attention with a cache of keys and values, weights by chance."""

    def __init__(self, device, layers, width, seed, context=256):
        try:
            import torch
        except ImportError as err:
            raise Failure(f"no PyTorch here ({err}); --device none needs none") from err
        if device == "cuda" and not torch.cuda.is_available():
            raise Failure("PyTorch finds no GPU; --device cpu needs none")
        self.torch, self.device, self.context = torch, device, context
        self.layers, self.width, self.heads = layers, width, max(1, width // 64)
        torch.set_grad_enabled(False)
        if device == "cpu":
            torch.set_num_threads(1)  # two models, and this machine has other work
        self.kind = torch.float16 if device == "cuda" else torch.float32
        self.rng = torch.Generator(device=device).manual_seed(seed)
        self.words, self.places = self.weights(VOCABULARY, width), self.weights(context, width)
        self.blocks = [{"qkv": self.weights(width, 3 * width), "out": self.weights(width, width),
                        "up": self.weights(width, 4 * width), "down": self.weights(4 * width, width)}
                       for _ in range(layers)]
        self.head = self.weights(width, VOCABULARY, 1.8 * width**-0.5)
        # Sentences, as chance would put a mark behind every hundredth word only.
        self.bias = torch.zeros(VOCABULARY, device=device)
        self.bias[:FIRST_WORD] = torch.tensor([-1e9, 3.7, 4.1, 2.5, 1.8], device=device)
        # Keys and values of each layer, as far as the message has come.
        self.cache = torch.zeros(layers, 2, self.heads, context, width // self.heads, device=device, dtype=self.kind)
        self.mask = torch.full((context, context), float("-inf"), device=device, dtype=self.kind).triu(1)

    def weights(self, rows, columns, deviation=0.02):
        w = self.torch.randn(rows, columns, generator=self.rng, device=self.device) * deviation
        return w.to(self.kind)

    def parameters(self):
        count = sum(w.numel() for block in self.blocks for w in block.values())
        return count + self.words.numel() + self.places.numel() + self.head.numel()

    def norm(self, x):
        return self.torch.nn.functional.layer_norm(x, (self.width,))

    def split(self, x, n):
        return x.view(n, self.heads, -1).transpose(0, 1)

    def attend(self, layer, x, at):
        """What stands at `at` and behind it looks at all before it and at itself."""
        n = x.shape[0]
        q, k, v = (self.split(part, n) for part in (x @ self.blocks[layer]["qkv"]).chunk(3, dim=-1))
        keys, values = self.cache[layer]
        keys[:, at:at + n], values[:, at:at + n] = k, v
        scores = q @ keys[:, :at + n].transpose(1, 2) * q.shape[-1] ** -0.5
        if n > 1:
            scores = scores + self.mask[at:at + n, :at + n]
        seen = scores.softmax(dim=-1) @ values[:, :at + n]
        return seen.transpose(0, 1).reshape(n, self.width) @ self.blocks[layer]["out"]

    def forward(self, tokens, at):
        """The tokens stand at `at` and behind it; what the next one may be."""
        x = self.words[tokens] + self.places[at:at + len(tokens)]
        for layer, block in enumerate(self.blocks):
            x = x + self.attend(layer, self.norm(x), at)
            x = x + self.torch.nn.functional.gelu(self.norm(x) @ block["up"]) @ block["down"]
        return (self.norm(x[-1]) @ self.head).float() + self.bias

    def answer(self, prompt, length):
        torch = self.torch
        tokens = torch.tensor(prompt[-(self.context - length):], device=self.device)
        at = 0
        for _ in range(length):
            logits = self.forward(tokens, at)
            at += len(tokens)
            tokens = torch.multinomial(logits.softmax(dim=-1), 1, generator=self.rng)
            yield int(tokens)  # waits for the GPU

    def memory(self):
        return self.torch.cuda.max_memory_allocated() >> 20 if self.device == "cuda" else 0


class Babbler:
    """In place of a model, where there is no PyTorch: to try how the two talk, and for tests."""

    def __init__(self, seed, seconds=0.002):
        self.rng, self.seconds = random.Random(seed), seconds

    def parameters(self):
        return 0

    def memory(self):
        return 0

    def answer(self, prompt, length):
        self.rng.seed(f"{self.rng.random()} {prompt}")
        for _ in range(length):
            time.sleep(self.seconds)
            yield self.rng.choice(list(MARKS)) if self.rng.random() < 0.2 else self.rng.randrange(FIRST_WORD, VOCABULARY)


def make_model(args, name):
    seed = args.seed + sum(name.encode())
    if args.device == "none":
        return Babbler(seed)
    small = args.device == "cpu"
    return Decoder(args.device, args.layers or (4 if small else 12), args.width or (256 if small else 768), seed)


# ---- The conversation


class Mailbox:
    """The other's last message."""

    def __init__(self):
        self.changed = threading.Condition()
        self.tokens, self.count, self.taken, self.closed = [SILENCE], 0, 0, False

    def put(self, tokens):
        with self.changed:
            self.tokens, self.count = list(tokens), self.count + 1
            self.changed.notify_all()

    def close(self):
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def last(self, wait=0.0):
        """The last message; one that was taken before only if nothing newer comes in this time."""
        with self.changed:
            self.changed.wait_for(lambda: self.count > self.taken or self.closed, wait)
            self.taken = self.count
            return self.tokens


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))] if values else 0.0


class Stats:
    def __init__(self):
        self.began, self.messages, self.words, self.gaps, self.firsts = time.monotonic(), 0, 0, [], []

    def word(self, seconds, first):
        self.words += 1
        (self.firsts if first else self.gaps).append(seconds)

    def summary(self):
        spent = time.monotonic() - self.began
        return {"seconds": round(spent, 3), "messages": self.messages, "words": self.words,
                "words_per_s": round(self.words / spent, 2) if spent > 0 else 0.0,
                "p50_ms": round(percentile(self.gaps, 0.5) * 1e3, 3),
                "p99_ms": round(percentile(self.gaps, 0.99) * 1e3, 3),
                "first_ms": round(percentile(self.firsts, 0.5) * 1e3, 3)}


class Talker:
    """Answers the other's last message again and again, and does not wait for a new one unless it is polite.

    tell(KIND, ...) is called with "begin"; "word", TEXT; "said", TOKENS.
    """

    def __init__(self, model, heard, tell, length=32, polite=0.0, opens=True):
        self.model, self.heard, self.tell, self.length = model, heard, tell, length
        self.polite, self.opens = polite, opens
        self.stats, self.stopped = Stats(), threading.Event()

    def stop(self):
        self.stopped.set()
        self.heard.close()

    def warm_up(self):
        for _ in self.model.answer([SILENCE], self.length):
            pass

    def say(self, prompt):
        speech, tokens = Speech(), []
        self.tell("begin")
        before = time.monotonic()
        for token in self.model.answer(prompt, self.length):
            now = time.monotonic()
            self.stats.word(now - before, not tokens)
            before = now
            tokens.append(token)
            self.tell("word", speech.feed(token))
            if self.stopped.is_set():
                return
        self.tell("word", speech.end())
        self.stats.messages += 1
        self.tell("said", tokens)

    def talk(self, rounds=0, seconds=float("inf")):
        self.stats = Stats()
        end = time.monotonic() + seconds
        while not self.stopped.is_set() and not 0 < rounds <= self.stats.messages and time.monotonic() < end:
            wait = 0.0 if self.opens else self.polite
            self.opens = self.polite == 0
            prompt = self.heard.last(wait)
            if not self.stopped.is_set():
                self.say(prompt)


class Screen:
    """Shows one message at a time, of both in turn, as it is spoken. What is said meanwhile is not shown."""

    def __init__(self, out, pace=0.0, alternate=True, columns=78):
        self.out, self.pace, self.alternate, self.columns = out, pace, alternate, columns
        self.live, self.before, self.next, self.column = None, NAMES[1], 0.0, 0

    def begin(self, name):
        now = time.monotonic()
        if self.live is None and now >= self.next and not (self.alternate and name == self.before):
            self.live = self.before = name
            self.next = now + self.pace
            self.write(f"{name}: ")

    def word(self, name, text):
        if name != self.live:
            return
        if self.column + len(text) > self.columns and text.startswith(" "):
            self.write("\n" + " " * (len(name) + 2))
            text = text[1:]
        self.write(text)

    def end(self, name):
        if name == self.live:
            self.write("\n")
            self.live = None

    def write(self, text):
        self.out.write(text)
        self.out.flush()
        self.column = len(text) - text.rfind("\n") - 1 if "\n" in text else self.column + len(text)


# ---- What this process has of a GPU

MULTIPROCESSORS, MPS = 16, 133  # attributes of a device, from cuda.h


def where():
    """Of the first GPU, by the driver alone."""
    found = {"slice": os.path.exists("/run/gpuslice/slice"), "mps": False, "name": None,
             "pipe": os.environ.get("CUDA_MPS_PIPE_DIRECTORY")}
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as err:
        return dict(found, error=str(err))
    device, value, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(256)

    def attribute(which):
        return value.value if cuda.cuDeviceGetAttribute(ctypes.byref(value), which, device) == 0 else 0

    for what, status in (("cuInit", lambda: cuda.cuInit(0)),
                         ("cuDeviceGet", lambda: cuda.cuDeviceGet(ctypes.byref(device), 0)),
                         ("cuDeviceGetName", lambda: cuda.cuDeviceGetName(name, len(name), device)),
                         ("cuDeviceTotalMem", lambda: cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device))):
        code = status()
        if code != 0:
            return dict(found, error=f"{what} failed with {code}" + {
                805: ": the MPS daemon takes no clients", 806: ": the MPS server has ended",
                807: ": the MPS server is not ready"}.get(code, ""))
    return dict(found, name=name.value.decode(), total=total.value, multiprocessors=attribute(MULTIPROCESSORS),
                mps=attribute(MPS) == 1)


def describe(found):
    if not found["name"]:
        return f"no GPU: {found['error']}"
    text = f"{found['name']}, {found['total'] >> 20} MiB, {found['multiprocessors']} multiprocessors, "
    if found["mps"]:
        text += "under MPS"
    elif found["pipe"]:
        text += f"NOT under MPS, though CUDA_MPS_PIPE_DIRECTORY is {found['pipe']}: no daemon can be reached there"
    else:
        text += "not under MPS"
    return text + (", in a slice of gpuslice" if found["slice"] else "")


# ---- One of the two, as a process of --compare and its like: lines of JSON on standard input and output


def end_with_parent():
    """The kernel ends this process when the one that started it is gone, however that ended."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG


def worker(args):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nobody else writes between our lines

    def tell(event, value=None):
        out.write(json.dumps([event, value]) + "\n")

    try:
        model = make_model(args, args.name)
    except Failure as err:
        tell("failed", str(err))
        return 1
    heard = Mailbox()
    talker = Talker(model, heard, tell, args.words, 60.0 if args.polite else 0.0, opens=args.name == NAMES[0] or not args.polite)
    talker.warm_up()
    go = threading.Event()

    def listen():
        for line in sys.stdin:
            what, value = json.loads(line)
            if what == "hear":
                heard.put(value)
            elif what == "go":
                go.set()
            else:
                talker.stop()
        talker.stop()
        go.set()

    threading.Thread(target=listen, daemon=True).start()
    tell("ready", {"where": describe(where()) if args.device == "cuda" else args.device, "parameters": model.parameters()})
    go.wait()
    talker.talk(args.rounds)
    tell("end", dict(talker.stats.summary(), memory_mib=model.memory()))
    return 0


class Speaker:
    """A worker, seen from the parent."""

    def __init__(self, args, name, env, events):
        command = [sys.executable, os.path.abspath(__file__), "--worker", "--name", name]
        for option in ("device", "words", "rounds", "layers", "width", "seed"):
            command += [f"--{option}", str(getattr(args, option))]
        if args.polite:
            command.append("--polite")
        self.name, self.summary, self.where = name, None, ""
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=env, preexec_fn=end_with_parent)
        threading.Thread(target=self.read, args=(events,), daemon=True).start()

    def read(self, events):
        for line in self.process.stdout:
            events.put((self, *json.loads(line)))
        events.put((self, "gone", None))

    def tell(self, what, value=None):
        with contextlib.suppress(OSError):  # it has ended, which its events say
            self.process.stdin.write(json.dumps([what, value]) + "\n")
            self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()


class Talk:
    """The parent's side of a conversation: passes on what is said, and ends it in time."""

    def __init__(self, args, names, env, out):
        self.seconds, self.events = args.seconds, queue.Queue()
        self.screen = Screen(out, 0.0 if args.polite else 0.4, alternate=len(names) > 1)
        self.speakers = [Speaker(args, name, env, self.events) for name in names]
        self.out = out

    def wait(self, count, timeout):
        """Handles events until so many speakers are ready, or have ended."""
        deadline = time.monotonic() + timeout
        while count > 0:
            try:
                speaker, what, value = self.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            count -= self.handle(speaker, what, value)
        return True

    def handle(self, speaker, what, value):
        if what == "word":
            self.screen.word(speaker.name, value)
        elif what == "begin":
            self.screen.begin(speaker.name)
        elif what == "said":
            self.screen.end(speaker.name)
            for other in self.speakers:
                if other is not speaker or len(self.speakers) == 1:
                    other.tell("hear", value)
        elif what == "ready":
            speaker.where = value["where"]
            size = f"{value['parameters'] / 1e6:.0f} million weights, " if value["parameters"] else ""
            self.out.write(f"[{speaker.name}: {size}{value['where']}]\n")
            return 1
        elif what == "end":
            speaker.summary = value
            return 1
        elif what == "failed":
            raise Failure(value)
        elif what == "gone" and speaker.summary is None:
            raise Failure(f"{speaker.name} has ended with status {speaker.process.wait()}")
        return 0

    def run(self):
        try:
            if not self.wait(len(self.speakers), 600):
                raise Failure("a model was not ready after 600 s")
            for speaker in self.speakers:
                speaker.tell("go")
            with contextlib.suppress(KeyboardInterrupt):
                self.wait(len(self.speakers), self.seconds)
            for speaker in self.speakers:
                speaker.tell("stop")
            missing = sum(s.summary is None for s in self.speakers)
            if not self.wait(missing, 60):
                raise Failure("a model did not stop within 60 s")
            for speaker in self.speakers:
                self.screen.end(speaker.name)
        finally:
            for speaker in self.speakers:
                speaker.end()
        return {speaker.name: speaker.summary for speaker in self.speakers}


# ---- MPS without Kubernetes: a control daemon in a temporary directory, for as long as this program lives


def control(command, env, timeout=5.0):
    """One command to the daemon; None: no answer. While it ends it may never answer."""
    try:
        done = subprocess.run(["nvidia-cuda-mps-control"], input=command, env=env, text=True, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if done.returncode == 0 else None


def kill_users_of(directory):
    """Ends the processes that have this pipe directory: the daemon, its servers, clients. All of them are ours."""
    mark = f"CUDA_MPS_PIPE_DIRECTORY={directory}/pipe".encode()
    for pid in (int(entry) for entry in os.listdir("/proc") if entry.isdigit()):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark in f.read().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)


def keep_mps(directory):
    """A process between the daemon and this program: when that is gone, also by kill -9, it ends the daemon."""
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    env = dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=f"{directory}/pipe", CUDA_MPS_LOG_DIRECTORY=f"{directory}/log")
    with open(f"{directory}/daemon.log", "wb") as log:
        daemon = subprocess.Popen(["nvidia-cuda-mps-control", "-f"], env=env, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=log, preexec_fn=end_with_parent)
    try:
        deadline = time.monotonic() + 10
        while daemon.poll() is None and time.monotonic() < deadline and control("get_server_list", env) is None:
            time.sleep(0.05)
        print("ready" if daemon.poll() is None else "ended", flush=True)
        sys.stdin.read()
        if daemon.poll() is None and control("quit", env) is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(5)
    finally:
        kill_users_of(directory)
        daemon.wait()
        shutil.rmtree(directory, ignore_errors=True)
    return 0


@contextlib.contextmanager
def private_mps():
    """The environment of clients that have half of the GPU each."""
    if os.environ.get("CUDA_MPS_PIPE_DIRECTORY"):
        raise Failure("CUDA_MPS_PIPE_DIRECTORY is set: this process has a daemon already (see --where)")
    if shutil.which("nvidia-cuda-mps-control") is None:
        raise Failure("there is no nvidia-cuda-mps-control in PATH; it comes with the driver")
    # In a process of its own: whoever has called cuInit without MPS stays without.
    found = json.loads(subprocess.run([sys.executable, os.path.abspath(__file__), "--where", "--json"], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout)
    if not found["name"]:
        raise Failure(f"no GPU: {found['error']}")
    directory = tempfile.mkdtemp(prefix="two-models-")
    for name in ("pipe", "log"):
        os.mkdir(f"{directory}/{name}")
    keeper = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--keep-mps", directory], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        if keeper.stdout.readline().strip() != "ready":
            with open(f"{directory}/daemon.log", encoding="utf-8", errors="replace") as log:
                raise Failure(f"the MPS control daemon has ended: {log.read()[-500:].strip()}")
        yield dict(os.environ, CUDA_MPS_PIPE_DIRECTORY=f"{directory}/pipe", CUDA_MPS_LOG_DIRECTORY=f"{directory}/log",
                   CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50",
                   CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=f"0={found['total'] // 2 >> 20}M")
    finally:
        keeper.stdin.close()
        keeper.wait()


# ---- One of the two in a pod


class Post:
    """Brings the last message to the other, as soon as it is there. Lost ones are not repeated: a newer one comes."""

    def __init__(self, name, peer):
        self.name, self.url, self.box, self.error = name, peer.rstrip("/") + "/hear", Mailbox(), "nothing sent yet"
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        sent = 0
        while True:
            tokens = self.box.last(wait=3600)
            if self.box.taken == sent:
                continue
            sent = self.box.taken
            body = json.dumps({"from": self.name, "tokens": tokens}).encode()
            request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
            try:
                with self.opener.open(request, timeout=5):
                    self.error = None
            except (OSError, ValueError) as err:
                if self.error is None:
                    print(f"[{self.url}: {err}]", flush=True)
                self.error = str(err)
                time.sleep(0.5)


def tokens_of(body):
    """What came by HTTP, checked."""
    tokens = json.loads(body)["tokens"]
    if not isinstance(tokens, list) or not 0 < len(tokens) <= 1024:
        raise ValueError("tokens: a list of 1 to 1024")
    if not all(type(t) is int and 0 <= t < VOCABULARY for t in tokens):
        raise ValueError(f"tokens: whole numbers below {VOCABULARY}")
    return tokens


def make_handler(heard, status):
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self):
            if self.path == "/healthz":
                self.reply(200, b"ok\n", "text/plain")
            elif self.path == "/":
                self.reply(200, json.dumps(status()).encode() + b"\n", "application/json")
            else:
                self.reply(404, b"not here\n", "text/plain")

        def do_POST(self):
            size = self.headers.get("Content-Length", "")
            if self.path != "/hear" or not size.isdigit() or int(size) > 65536:
                self.reply(400, b"POST /hear with at most 64 KiB\n", "text/plain")
                return
            try:
                heard.put(tokens_of(self.rfile.read(int(size))))
            except (ValueError, KeyError, TypeError) as err:
                self.reply(400, f"{err}\n".encode(), "text/plain")
                return
            self.reply(204, b"", "text/plain")

        def reply(self, code, body, kind):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def serve(args):
    model = make_model(args, args.name)
    heard, post = Mailbox(), Post(args.name, args.peer)
    screen = Screen(sys.stdout, args.pace, alternate=False, columns=110)
    place = describe(where()) if args.device == "cuda" else args.device
    last = {}

    def tell(event, value=None):
        if event == "begin":
            screen.begin(args.name)
        elif event == "word":
            screen.word(args.name, value)
        else:
            screen.end(args.name)
            post.box.put(value)

    talker = Talker(model, heard, tell, args.words, 5.0 if args.polite else 0.0)
    talker.warm_up()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: talker.stop())

    def status():
        return {"name": args.name, "where": place, "last10s": last, "heard": heard.count, "peerError": post.error,
                "memory_mib": model.memory()}

    address, _, port = args.listen.rpartition(":")
    server = ThreadingHTTPServer((address, int(port)), make_handler(heard, status))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"[{args.name}: {place}]", flush=True)
    while not talker.stopped.is_set():
        talker.talk(seconds=10)
        last.update(talker.stats.summary())
        print(f"[{args.name}: {last['words_per_s']:.0f} words/s, a word in {last['p50_ms']:.2f} ms, p99 {last['p99_ms']:.2f}; "
              f"heard {heard.count} messages]", flush=True)
    server.shutdown()
    return 0


# ---- What is asked for


def converse(args, names=NAMES, env=None, out=sys.stdout):
    return Talk(args, names, env or dict(os.environ), out).run()


COLUMNS = "{:<24}{:<6}{:>9}{:>10}{:>12}{:>8}{:>15}{:>8}"


def table(runs, alone=None):
    """RUNS: what was tried, and what came out of it for each model."""
    lines = [COLUMNS.format("", "", "words/s", "of alone" if alone else "", "a word, ms", "p99", "first word, ms", "MiB")]
    for how, result in runs:
        for name, one in result.items():
            part = f"{100 * one['words_per_s'] / alone:.0f} %" if alone else ""
            lines.append(COLUMNS.format(how, name, f"{one['words_per_s']:.1f}", part, f"{one['p50_ms']:.2f}",
                                        f"{one['p99_ms']:.2f}", f"{one['first_ms']:.2f}", one["memory_mib"]))
    return "\n".join(line.rstrip() for line in lines)


def compare(args):
    if args.device != "cuda":
        raise Failure("--compare is about a GPU")
    runs = []
    for how, names, place in (("one alone", NAMES[:1], contextlib.nullcontext), ("both, time-slicing", NAMES, contextlib.nullcontext),
                              ("both, MPS, 50 % each", NAMES, private_mps)):
        print(f"\n---- {how}", flush=True)
        with place() as env:
            runs.append((how, converse(args, names, env)))
    alone = runs[0][1][NAMES[0]]["words_per_s"]
    print("\n" + table(runs, alone))
    return 0


def local(args):
    with (private_mps() if args.mps else contextlib.nullcontext()) as env:
        result = converse(args, env=env)
    print("\n" + table([("under MPS" if args.mps else "", result)]))
    return 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu", "none"), default="cuda", help="none: no model, words by chance")
    parser.add_argument("--seconds", type=float, default=15, help="how long they talk (default 15)")
    parser.add_argument("--rounds", type=int, default=0, help="or how many messages each says, within that time")
    parser.add_argument("--words", type=int, default=32, help="length of a message (default 32)")
    parser.add_argument("--polite", action="store_true", help="one speaks at a time; else both do, without end")
    parser.add_argument("--layers", type=int, default=0, help="default 12; on the CPU 4")
    parser.add_argument("--width", type=int, default=0, help="a multiple of 64; default 768; on the CPU 256")
    parser.add_argument("--seed", type=int, default=1)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--mps", action="store_true", help="under MPS, half of the GPU for each, with a daemon of its own")
    what.add_argument("--compare", action="store_true", help="alone, time-slicing, MPS")
    what.add_argument("--where", action="store_true", help="say what this process has of a GPU, and end")
    what.add_argument("--serve", action="store_true", help="be one of the two, and talk to the other by HTTP")
    what.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    what.add_argument("--keep-mps", metavar="DIR", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="with --where")
    parser.add_argument("--name", default=NAMES[0], help="with --serve: who this is")
    parser.add_argument("--peer", default="", help="with --serve: where the other one is, http://HOST:PORT")
    parser.add_argument("--listen", default="0.0.0.0:8080", help="with --serve (default 0.0.0.0:8080)")
    parser.add_argument("--pace", type=float, default=5, help="with --serve: show a message at most every so many seconds (default 5)")
    args = parser.parse_args(argv)
    if not 1 <= args.words <= 120:
        parser.error("--words: 1 to 120")
    if args.width % 64 or args.width < 0 or args.layers < 0:
        parser.error("--width: a multiple of 64; --layers: not below 0")
    if args.serve and not args.peer.startswith("http://"):
        parser.error("--serve takes --peer http://HOST:PORT")
    if args.mps and args.device != "cuda":
        parser.error("--mps is about a GPU")
    return args


def main(argv=None):
    args = parse(argv)
    try:
        if args.keep_mps:
            return keep_mps(args.keep_mps)
        if args.worker:
            return worker(args)
        if args.serve:
            return serve(args)
        if args.where:
            found = where()
            print(json.dumps(found) if args.json else describe(found))
            return 0
        return compare(args) if args.compare else local(args)
    except Failure as err:
        print(f"two-models: {err}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
