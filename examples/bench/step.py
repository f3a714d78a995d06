#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model with random weights that is trained or asked, for gpuslice profile and gpuslice bench.

    gpuslice profile --pattern '^step' --save train.yaml -- python3 -u examples/bench/step.py train

Prints a line at the end of each step, when the GPU has done it. Needs PyTorch.
"""
import sys

import torch


def layers(width, n):
    return torch.nn.Sequential(*(
        torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True) for _ in range(n))).cuda()


def train():
    model = layers(1024, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(16, 256, 1024, device="cuda")
    while True:
        optimizer.zero_grad(set_to_none=True)
        model(batch).pow(2).mean().backward()
        optimizer.step()
        yield


def infer():
    model = layers(512, 4).eval()
    batch = torch.randn(4, 64, 512, device="cuda")
    with torch.no_grad():
        while True:
            model(batch)
            yield


def main():
    kinds = {"train": train, "infer": infer}
    if len(sys.argv) != 2 or sys.argv[1] not in kinds:
        sys.exit("usage: step.py train|infer")
    for number, _ in enumerate(kinds[sys.argv[1]]()):
        torch.cuda.synchronize()
        print("step", number, flush=True)


main()
