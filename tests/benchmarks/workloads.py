"""The programs that the budgets are measured on: functions and models, forward and training, small or large.

make("softmax")(1_000_000)  ->  Work(call, leaves, function, args)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Compiler = Callable[[Any], Any]


@dataclass(frozen=True)
class Work:
    """function: what is compiled. training: the call is a forward and a backward pass."""

    function: Any
    args: tuple[Any, ...]
    training: bool

    def compiled(self, compiler: Compiler) -> Callable[[], Any]:
        """A call without arguments: the result, or for training the loss and all gradients."""
        made = compiler(self.function)
        if not self.training:

            def forward() -> Any:
                with torch.no_grad():
                    return made(*self.args)

            return forward
        leaves = [arg for arg in self.args if isinstance(arg, torch.Tensor) and arg.requires_grad]
        leaves += self.function.parameters() if isinstance(self.function, nn.Module) else []

        def step() -> Any:
            for leaf in leaves:
                leaf.grad = None
            loss = made(*self.args)
            if loss.dim():
                loss = (loss * _target(loss)).sum()
            loss.backward()
            return [loss.detach(), *(leaf.grad for leaf in leaves)]

        return step


def _target(like: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1, 1, like.shape[-1]).expand(like.shape)


def chain(x, y, z):
    a = x * y + z
    b = F.gelu(a, approximate="tanh")
    c = torch.tanh(b) * 0.5 + torch.exp(-a.abs())
    d = torch.sigmoid(c) * b - x
    return d * 1.1 + y


def softmax(x):
    return torch.softmax(x * 0.5, -1)


def layer_norm(x, r, w, b):
    return F.layer_norm(x + r, (x.shape[-1],), w, b)


def rms_norm(x, r, w):
    h = x + r
    return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def cross_entropy(x, t):
    return F.cross_entropy(x * 2, t)


class Block(nn.Module):
    def __init__(self, d: int, h: int, causal: bool = False):
        super().__init__()
        self.h, self.causal = h, causal
        self.ln1, self.qkv, self.o = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ln2, self.f1, self.f2 = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal).transpose(1, 2).reshape(b, t, d)
        x = x + self.o(a)
        return x + self.f2(F.gelu(self.f1(self.ln2(x))))


class Gpt(nn.Module):
    """A language model in the manner of nanoGPT: embeddings, causal blocks, a head, the loss."""

    def __init__(self, vocabulary: int, context: int, d: int, h: int, layers: int):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.blocks = nn.ModuleList(Block(d, h, causal=True) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids, wanted):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), wanted.view(-1))


def _rows(n: int) -> torch.Tensor:
    width = min(1000, max(n // 10, 4))
    return torch.randn(n // width, width)


def _chain(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    return chain, tuple(torch.randn(n, requires_grad=grad) for _ in range(3))


def _softmax(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    return softmax, (_rows(n).requires_grad_(grad),)


def _layer_norm(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    x = _rows(n)
    rest = torch.randn_like(x), torch.randn(x.shape[1]), torch.randn(x.shape[1])
    return layer_norm, tuple(y.requires_grad_(grad) for y in (x, *rest))


def _rms_norm(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    x = _rows(n)
    return rms_norm, tuple(y.requires_grad_(grad) for y in (x, torch.randn_like(x), torch.randn(x.shape[1])))


def _cross_entropy(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    x = _rows(n)
    return cross_entropy, (x.requires_grad_(grad), torch.randint(0, x.shape[1], (x.shape[0],)))


def _mlp(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    d = 512 if n >= 10_000 else 32
    module = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)).requires_grad_(grad)
    return module, (torch.randn(max(n // d, 1), d),)


def _encoder(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    d, h, t = (256, 8, 128) if n >= 100_000 else (64, 4, 16)
    module = nn.Sequential(*[Block(d, h) for _ in range(4)], nn.LayerNorm(d)).requires_grad_(grad)
    return module, (torch.randn(max(n // (t * d), 1), t, d),)


def _gpt(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    d, h, t, vocabulary = (256, 8, 128, 1000) if n >= 100_000 else (64, 4, 16, 65)
    module = Gpt(vocabulary, t, d, h, 4).requires_grad_(grad)
    ids = torch.randint(0, vocabulary, (max(n // (t * d), 1), t + 1))
    return module, (ids[:, :-1].contiguous(), ids[:, 1:].contiguous())


def _llama(n: int, grad: bool) -> tuple[Any, tuple[Any, ...]]:
    """One decoder layer of the library `transformers`, with its rotary embedding."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    d, t = (256, 128) if n >= 100_000 else (64, 16)
    config = LlamaConfig(
        hidden_size=d, intermediate_size=3 * d, num_attention_heads=d // 32, num_key_value_heads=d // 64,
        num_hidden_layers=1, vocab_size=100, max_position_embeddings=t, attn_implementation="sdpa",
    )  # fmt: skip

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rotary, self.layer = LlamaRotaryEmbedding(config), LlamaDecoderLayer(config, 0)

        def forward(self, x):
            places = torch.arange(x.shape[1], device=x.device)[None]
            out = self.layer(x, position_ids=places, position_embeddings=self.rotary(x, places))
            return out[0] if isinstance(out, tuple) else out

    return Layer().requires_grad_(grad), (torch.randn(max(n // (t * d), 1), t, d),)


MAKERS: dict[str, Callable[[int, bool], tuple[Any, tuple[Any, ...]]]] = {
    "chain": _chain,
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "RMS norm": _rms_norm,
    "cross entropy": _cross_entropy,
    "GELU MLP": _mlp,
    "encoder": _encoder,
    "GPT": _gpt,
    "Llama layer": _llama,
}


def make(name: str, n: int) -> Work:
    """The workload "softmax" or "softmax training" of about n elements."""
    word = " training"
    torch.manual_seed(0)
    function, args = MAKERS[name.removesuffix(word)](n, name.endswith(word))
    return Work(function, args, name.endswith(word))
