# SPDX-License-Identifier: Apache-2.0
"""A data loader of several processes beside a parent with a GPU; fork and spawn."""
import torch
from common import say


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        return torch.full((1024,), float(i))


def total(method):
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=50, num_workers=6,
                                         pin_memory=True, multiprocessing_context=method)
    return sum(batch.cuda(non_blocking=True).sum().item() for batch in loader)


if __name__ == "__main__":
    base = torch.ones(64 << 20, device="cuda")
    right = 1024.0 * sum(range(2000))
    got = [total("fork"), total("spawn")]
    say("loader", got == [right, right] and base.sum().item() == 64 << 20, sums=got)
