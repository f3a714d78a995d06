# SPDX-License-Identifier: Apache-2.0
"""NCCL over as many GPUs as the argument says; a process each."""
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from common import say


def rank(number, world, sums):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=world)
    x = torch.full((16 << 20,), float(number + 1), device="cuda")
    for _ in range(20):
        y = x.clone()
        dist.all_reduce(y)
    torch.cuda.synchronize()
    sums[number] = y[12345].item()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    world = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    manager = mp.Manager()
    sums = manager.dict()
    mp.spawn(rank, args=(world, sums), nprocs=world)
    right = world * (world + 1) / 2
    say("nccl", all(sums[i] == right for i in range(world)), ranks=world, sum=sums[0])
