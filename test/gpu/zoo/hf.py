# SPDX-License-Identifier: Apache-2.0
"""
hf.py generate|static|train|loader|compile: programs on a model of transformers with random weights.

generate   eager generation with a growing cache: about 200 small kernels a token, bound by launches
static     the same with a static cache, compiled, its decode step in CUDA graphs
train      AMP and AdamW
loader     the same with a data loader whose processes hardly keep up
compile    training of a smaller model by torch.compile with CUDA graph trees
"""
import sys

import torch
import transformers
from program import digest, serve_rounds

what = sys.argv[1]
torch.manual_seed(7)
torch.use_deterministic_algorithms(True, warn_only=True)
torch.backends.cuda.enable_cudnn_sdp(False)  # not deterministic, nor the next one
torch.backends.cuda.enable_mem_efficient_sdp(False)
transformers.logging.set_verbosity_error()
TOKENS, STEPS, BATCH, LENGTH = 32, 8, 16, 512


def config(hidden, layers, **more):
    return transformers.LlamaConfig(vocab_size=32000, hidden_size=hidden, intermediate_size=int(hidden * 2.75),
                                    num_hidden_layers=layers, num_attention_heads=hidden // 64,
                                    num_key_value_heads=hidden // 64, max_position_embeddings=1024, **more)


def model_of(hidden, layers, dtype=torch.float32):
    return transformers.LlamaForCausalLM(config(hidden, layers)).to("cuda", dtype)


def generating():
    """Token by token: model.generate() would hide when one ends."""
    model = model_of(1024, 16, torch.bfloat16).eval()
    prompt = torch.arange(16, device="cuda").unsqueeze(0)
    if what == "static":
        step = torch.compile(model, mode="reduce-overhead")
        cache = transformers.StaticCache(config=model.config, max_batch_size=1, max_cache_len=128, device="cuda",
                                         dtype=torch.bfloat16)

    @torch.no_grad()
    def rounds(_):
        if what == "static":
            cache.reset()
            past, run = cache, step
        else:
            past, run = transformers.DynamicCache(), model
        ids, at = prompt, 0
        for _ in range(TOKENS):
            positions = torch.arange(at, at + ids.shape[1], device="cuda")
            forward = model if ids.shape[1] > 1 else run
            logits = forward(input_ids=ids, past_key_values=past, use_cache=True, cache_position=positions,
                             position_ids=positions.unsqueeze(0)).logits[:, -1:]
            at += ids.shape[1]
            ids = logits.argmax(-1).clone()
            ids.item()
            yield
        return digest(logits)
    return rounds


class Tokens(torch.utils.data.Dataset):
    """Whose making takes a process most of a step's time."""

    def __len__(self):
        return 1 << 30

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i % (STEPS * BATCH))
        x = torch.randn(1 << 19, generator=g)
        x.sort()
        return (x[:LENGTH].abs() * 1000).long() % 32000


def training():
    small = what == "compile"
    model = model_of(512 if small else 1024, 4 if small else 12)
    start = {k: v.clone() for k, v in model.state_dict().items()}
    batches = torch.randint(0, 32000, (STEPS, BATCH, LENGTH), device="cuda")
    run = torch.compile(model, mode="reduce-overhead") if small else model
    source = None
    if what == "loader":
        source = iter(torch.utils.data.DataLoader(Tokens(), BATCH, num_workers=2, pin_memory=True))

    def rounds(_):
        model.load_state_dict(start)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for i in range(STEPS):
            ids = next(source).to("cuda", non_blocking=True) if source else batches[i]
            with torch.autocast("cuda", torch.bfloat16):
                loss = run(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            loss = loss.detach().clone()
            loss.item()
            yield
        return digest(loss)
    return rounds


serve_rounds(training() if what in ("train", "loader", "compile") else generating())
