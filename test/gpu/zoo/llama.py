# SPDX-License-Identifier: Apache-2.0
"""A language model of Llama's form on random weights, in PyTorch alone: 1.1 B parameters, static KV cache."""
import torch

HIDDEN, LAYERS, HEADS, WIDE, CONTEXT, VOCABULARY = 2048, 22, 32, 5632, 512, 32000


class Layer:
    def __init__(self, make):
        self.qkv = make(3 * HIDDEN, HIDDEN)
        self.out = make(HIDDEN, HIDDEN)
        self.up = make(2 * WIDE, HIDDEN)
        self.down = make(HIDDEN, WIDE)
        self.norm1 = torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.norm2 = torch.ones(HIDDEN, device="cuda", dtype=torch.bfloat16)
        self.keys = torch.zeros(1, HEADS, CONTEXT, HIDDEN // HEADS, device="cuda", dtype=torch.bfloat16)
        self.values = torch.zeros_like(self.keys)

    def attend(self, x, pos):
        f = torch.nn.functional
        n = x.shape[0]
        q, k, v = f.linear(x, self.qkv).view(n, 3, HEADS, -1).permute(1, 2, 0, 3).unbind(0)
        if n == 1:
            self.keys.index_copy_(2, pos, k.unsqueeze(0))
            self.values.index_copy_(2, pos, v.unsqueeze(0))
            a = f.scaled_dot_product_attention(q.unsqueeze(0), self.keys, self.values)
        else:
            a = f.scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), is_causal=True)
        return f.linear(a.transpose(1, 2).reshape(n, HIDDEN), self.out)

    def __call__(self, x, pos):
        f = torch.nn.functional
        x = x + self.attend(f.rms_norm(x, (HIDDEN,), self.norm1), pos)
        gate, up = f.linear(f.rms_norm(x, (HIDDEN,), self.norm2), self.up).chunk(2, -1)
        return x + f.linear(f.silu(gate) * up, self.down)


class Model:
    def __init__(self, layers=LAYERS):
        g = torch.Generator(device="cuda").manual_seed(7)

        def make(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16, generator=g) / shape[-1] ** 0.5

        self.embedding = make(VOCABULARY, HIDDEN)
        self.layers = [Layer(make) for _ in range(layers)]

    def forget(self):
        """Empties the caches."""
        torch._foreach_zero_([c for layer in self.layers for c in (layer.keys, layer.values)])

    def __call__(self, ids, pos, between=lambda i: None):
        """Logits of the last token. BETWEEN is called before each layer and behind the last."""
        x = self.embedding[ids]
        for i, layer in enumerate(self.layers):
            between(i)
            x = layer(x, pos)
        logits = torch.nn.functional.linear(x[-1:], self.embedding)
        between(len(self.layers))
        return logits


def capture(run):
    """A graph of RUN(), and what that returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run()
    torch.cuda.synchronize()
    return graph, out
