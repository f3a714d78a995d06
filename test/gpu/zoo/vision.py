# SPDX-License-Identifier: Apache-2.0
"""
vision.py conv|unet. conv: ResNet-50 of torchvision in training, by cuDNN. unet: the loop of a diffusion model, 20 steps of a
U-Net a picture.
"""
import sys

import torch
from program import digest, serve_rounds

what = sys.argv[1]
torch.manual_seed(7)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
STEPS = 8


def conv():
    import torchvision
    model = torchvision.models.resnet50(weights=None).to("cuda", memory_format=torch.channels_last)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(32, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (32,), device="cuda")

    def rounds(_):
        model.load_state_dict(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            loss.item()
            yield
        return digest(loss)
    return rounds


class Block(torch.nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.GroupNorm(8, a), torch.nn.SiLU(), torch.nn.Conv2d(a, b, 3, padding=1),
                                        torch.nn.GroupNorm(8, b), torch.nn.SiLU(), torch.nn.Conv2d(b, b, 3, padding=1))
        self.skip = torch.nn.Conv2d(a, b, 1)

    def forward(self, x):
        return self.skip(x) + self.body(x)


class UNet(torch.nn.Module):
    def __init__(self, widths=(64, 128, 256, 512)):
        super().__init__()
        self.first = torch.nn.Conv2d(4, widths[0], 3, padding=1)
        self.down = torch.nn.ModuleList(Block(a, b) for a, b in zip(widths, widths[1:]))
        self.middle = torch.nn.TransformerEncoderLayer(widths[-1], 8, 4 * widths[-1], 0.0, batch_first=True)
        self.up = torch.nn.ModuleList(Block(2 * b, a) for a, b in reversed(list(zip(widths, widths[1:]))))
        self.last = torch.nn.Conv2d(widths[0], 4, 3, padding=1)

    def forward(self, x):
        f, kept = torch.nn.functional, []
        x = self.first(x)
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = f.avg_pool2d(x, 2)
        n, c, h, w = x.shape
        x = self.middle(x.flatten(2).transpose(1, 2)).transpose(1, 2).view(n, c, h, w)
        for block in self.up:
            x = block(torch.cat([f.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        return self.last(x)


@torch.no_grad()
def diffuse(model, noise):
    x = noise
    for t in range(20):
        x = x - 0.05 * model(x) + 0.001 * t
    return x


def unet():
    model = UNet().to("cuda", torch.float16).eval()
    noise = torch.randn(1, 4, 64, 64, device="cuda", dtype=torch.float16)

    def rounds(_):
        for _ in range(STEPS):
            x = diffuse(model, noise)
            torch.cuda.synchronize()
            yield
        return digest(x)
    return rounds


serve_rounds({"conv": conv, "unet": unet}[what]())
