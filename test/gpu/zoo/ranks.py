# SPDX-License-Identifier: Apache-2.0
"""
ranks.py ddp|fsdp [GPUS]: training over several GPUs by NCCL, a process each. A step of "ddp" takes about 10 ms and ends
with a wait, so that ranks meet in each step.
"""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from program import AFTER_NS, digest, now_ns, serve, summary

what, world = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
STEPS, WIDTH, LAYERS, BATCH = 32, 1024, 6, 16


def model_of(device):
    torch.manual_seed(7)
    one = torch.nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, dropout=0.0, batch_first=True, device=device)
    model = torch.nn.TransformerEncoder(one, LAYERS, enable_nested_tensor=False)
    if what == "ddp":
        return model, torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model, model


def train(number, orders, shared, answers):
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", init_method=f"file://{shared['store']}", rank=number, world_size=world)
    plain, model = model_of(number)
    start = {k: v.clone() for k, v in plain.state_dict().items()}
    x = torch.randn(BATCH, 128, WIDTH, device=f"cuda:{number}", generator=torch.Generator(f"cuda:{number}").manual_seed(number))

    def steps(stop, at):
        """From step AT on, until STOP says at which to end."""
        ends, digests = [], set()
        while at < stop.value:
            if at % STEPS == 0:
                plain.load_state_dict(start)
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            torch.cuda.synchronize()
            at += 1
            ends.append(now_ns())
            if at % STEPS == 0:
                digests.add(digest(loss))
            if number == 0 and ends[-1] > shared["until"].value and stop.value > at + 3:
                stop.value = at + 3
        return ends, digests

    steps(shared["stop"], 0)
    answers.put(number)
    while True:
        if orders[number].get() is None:
            os._exit(0)
        answers.put((number, *steps(shared["stop"], 0)))


def main():
    context = mp.get_context("spawn")
    shared = {"store": os.path.join(tempfile.mkdtemp(), "store"), "stop": context.Value("q", STEPS),
              "until": context.Value("q", 1 << 62)}
    orders, answers = [context.Queue() for _ in range(world)], context.Queue()
    ranks = [context.Process(target=train, args=(i, orders, shared, answers), daemon=True) for i in range(world)]
    for r in ranks:
        r.start()
    for _ in ranks:
        answers.get(timeout=200)

    def run(t0, t1, _):
        shared["stop"].value, shared["until"].value = 1 << 40, t1 + AFTER_NS
        for o in orders:
            o.put(1)
        said = dict((number, (ends, digests)) for number, ends, digests in (answers.get(timeout=200) for _ in ranks))
        return summary(said[0][0], set().union(*(said[i][1] for i in said)), t0, t1)

    serve(run)


if __name__ == "__main__":
    main()
