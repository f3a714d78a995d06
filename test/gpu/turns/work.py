# SPDX-License-Identifier: Apache-2.0
"""
work.py train|infer|decode SECONDS, on random weights. Prints its rate and a digest of what it computes,
which depends on nothing but the program: the same steps are done again and again.
"""
import hashlib
import sys

import torch
from loop import loop

mode, seconds = sys.argv[1], float(sys.argv[2])
torch.manual_seed(7)
torch.use_deterministic_algorithms(True)
torch.backends.cuda.matmul.allow_tf32 = False


def block(width, layers):
    one = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True, device="cuda")
    return torch.nn.TransformerEncoder(one, layers, enable_nested_tensor=False)


def digest(t):
    return hashlib.sha256(t.detach().float().cpu().numpy().tobytes()).hexdigest()[:16]


def train_setup():
    model = block(1024, 4)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(16, 256, 1024, device="cuda")

    def steps():
        model.load_state_dict(start)
        opt = torch.optim.SGD(model.parameters(), lr=1e-3)
        for _ in range(8):
            opt.zero_grad(set_to_none=True)
            model(x).square().mean().backward()
            opt.step()
        torch.cuda.synchronize()
        return 8, digest(next(model.parameters()))
    return steps


def infer_setup():
    model = block(512, 4).eval()
    x = torch.randn(4, 64, 512, device="cuda")

    def steps():
        with torch.no_grad():
            y = model(x)
        torch.cuda.synchronize()
        return 1, digest(y)
    return steps


def decode_setup():
    model = block(512, 2).eval()
    x = torch.randn(1, 16, 512, device="cuda")
    first = x.clone()
    side = torch.cuda.Stream()
    with torch.no_grad():
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = model(x)
            x.copy_(y)

    def steps():
        x.copy_(first)
        for _ in range(32):
            graph.replay()
            torch.cuda.synchronize()
        return 32, digest(x)
    return steps


setup = {"train": train_setup, "infer": infer_setup, "decode": decode_setup}[mode]
loop(mode, setup(), seconds)
