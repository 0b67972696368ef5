"""Steady-state calls on the CPU: eager, torch.compile's default and dynajit's native backend, taking turns.

    python steady.py [--only NAME ...] [--sizes 1e3 1e5] [--threads 1] [--rounds 15] [--json out.json]

Budget: against torch.compile a geometric mean of 1.5 and no case under 0.95; against eager no case under 0.95.
torch.compile is reset between sizes, so that it may specialise for each. Every result is compared with eager's.
"""

from __future__ import annotations

import argparse
import copy
import functools
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import interleaved
from torch import nn

import dynajit

Make = Callable[[int], tuple[Callable[..., Any], tuple[Any, ...]]]
CASES: dict[str, Make] = {}
TRAINING: set[str] = set()
WIDTH = 1000


def case(name: str, training: bool = False) -> Callable[[Make], Make]:
    """A workload: from a number of elements to a function and its arguments."""

    def register(make: Make) -> Make:
        CASES[name] = make
        if training:
            TRAINING.add(name)
        return make

    return register


def _rows(n: int, count: int = 1) -> tuple[torch.Tensor, ...]:
    """Tensors of n elements, in rows of 1000 where there are enough."""
    width = WIDTH if n >= 10 * WIDTH else n // 10
    return tuple(torch.randn(n // width, width) for _ in range(count))


def _elementwise(function: Callable[..., Any], count: int) -> Make:
    return lambda n: (function, tuple(torch.randn(n) for _ in range(count)))


def _by_rows(function: Callable[..., Any], count: int = 1) -> Make:
    return lambda n: (function, _rows(n, count))


def light(x, y, z):
    a = (x + y) * z - x
    b = F.relu(a) + 0.5 * y
    return (b.abs() + 1) * 0.25 - a.clamp(-1, 1) / 3


def chain(x, y, z):
    a = x * y + z
    b = F.gelu(a, approximate="tanh")
    c = torch.tanh(b) * 0.5 + torch.exp(-a.abs())
    d = torch.sigmoid(c) * b - x
    return d * 1.1 + y


def swiglu(x, y):
    return F.silu(x) * y


def gelu(x, y):
    return F.gelu(x + y) * 0.5


case("light chain")(_elementwise(light, 3))
case("heavy chain")(_elementwise(chain, 3))
case("silu times")(_elementwise(swiglu, 2))
case("gelu (erf)")(_elementwise(gelu, 2))
case("softmax")(_by_rows(lambda x: torch.softmax(x * 0.5, -1)))
case("log softmax")(_by_rows(lambda x: torch.log_softmax(x * 0.5, -1)))
case("row sum")(_by_rows(lambda x, y: (x * y).sum(-1), 2))
case("column sum")(_by_rows(lambda x, y: (x * y).sum(0), 2))
case("whole sum")(_by_rows(lambda x, y: (x * y).sum(), 2))
case("whole mean square")(_by_rows(lambda x, y: (x - y).pow(2).mean(), 2))
case("row max")(_by_rows(lambda x, y: (x * y).amax(-1), 2))
case("row argmax")(_by_rows(lambda x: (x * 2).argmax(-1)))
case("standardise")(_by_rows(lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)))
case("logsumexp")(_by_rows(lambda x: torch.logsumexp(x * 0.5, -1)))
case("norm")(_by_rows(lambda x: x / x.norm(dim=-1, keepdim=True)))
case("cumsum")(_by_rows(lambda x: (x * 0.5).cumsum(-1)))
case("cat")(_by_rows(lambda x, y: torch.cat([x * 2, y + 1], -1), 2))
case("shifted")(_by_rows(lambda x: x[:, 1:] * 2 - x[:, :-1]))
case("rotary")(
    _by_rows(lambda x, c, s: x * c + torch.cat([-x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], -1) * s, 3)
)


@case("layer norm")
def _layer_norm(n: int):
    x, r = _rows(n, 2)
    w, b = torch.randn(x.shape[1]), torch.randn(x.shape[1])
    return lambda x, r, w, b: F.layer_norm(x + r, (x.shape[-1],), w, b), (x, r, w, b)


@case("rms norm")
def _rms_norm(n: int):
    x, r = _rows(n, 2)

    def function(x, r, w):
        h = x + r
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    return function, (x, r, torch.randn(x.shape[1]))


@case("cross entropy")
def _cross_entropy(n: int):
    (x,) = _rows(n)
    return lambda x, t: F.cross_entropy(x * 2, t), (x, torch.randint(0, x.shape[1], (x.shape[0],)))


@case("embedding")
def _embedding(n: int):
    width = 100
    table, index = torch.randn(1000, width), torch.randint(0, 1000, (max(n // width, 1),))
    return lambda t, i: F.embedding(i, t) * 2 + 1, (table, index)


class Block(nn.Module):
    def __init__(self, d: int, h: int):
        super().__init__()
        self.h = h
        self.ln1, self.qkv, self.o = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ln2, self.f1, self.f2 = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.o(a)
        return x + self.f2(F.gelu(self.f1(self.ln2(x))))


def _encoder(n: int):
    d, h, layers = (256, 8, 4) if n >= 100_000 else (64, 4, 2) if n >= 10_000 else (16, 2, 2)
    t = 128 if d == 256 else 16
    return nn.Sequential(*[Block(d, h) for _ in range(layers)], nn.LayerNorm(d)), (
        torch.randn(max(n // (t * d), 1), t, d),
    )


def _mlp(n: int):
    d = 512 if n >= 10_000 else 32
    return nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)), (torch.randn(max(n // d, 1), d),)


@case("MLP")
def _mlp_forward(n: int):
    module, args = _mlp(n)
    return module.eval().requires_grad_(False), args


@case("encoder")
def _encoder_forward(n: int):
    module, args = _encoder(n)
    return module.eval().requires_grad_(False), args


case("MLP training", training=True)(_mlp)
case("encoder training", training=True)(_encoder)


@case("chain training", training=True)
def _chain_training(n: int):
    return chain, tuple(torch.randn(n, requires_grad=True) for _ in range(3))


@case("layer norm training", training=True)
def _layer_norm_training(n: int):
    function, args = _layer_norm(n)
    return function, tuple(arg.requires_grad_() for arg in args)


@case("cross entropy training", training=True)
def _cross_entropy_training(n: int):
    function, (x, t) = _cross_entropy(n)
    return function, (x.requires_grad_(), t)


def _step(
    function: Callable[..., Any], like: Callable[..., Any], args: tuple[Any, ...], shape: torch.Size
) -> Callable[[], list[Any]]:
    """A forward and backward pass that returns the result and all gradients."""
    leaves = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    leaves += like.parameters() if isinstance(like, nn.Module) else []
    target = torch.randn(shape)

    def run() -> list[Any]:
        out = function(*args)
        return [out.detach(), *torch.autograd.grad(out, leaves, target)]

    return run


def runs_of(name: str, n: int) -> dict[str, Callable[[], Any]]:
    torch.manual_seed(0)
    function, args = CASES[name](n)
    torch._dynamo.reset()
    own = [copy.deepcopy(function) for _ in range(3)]  # a module is compiled in place
    forms = {
        "eager": own[0],
        "torch": torch.compile(own[1]),
        "dynajit": dynajit.compile(own[2], backend="native", build="sync"),
    }
    if name in TRAINING:
        shape = function(*args).shape
        state = torch.get_rng_state()
        made = {}
        for (key, form), like in zip(forms.items(), own, strict=True):
            torch.set_rng_state(state)
            made[key] = _step(form, like, args, shape)
        return made
    return {key: functools.partial(form, *args) for key, form in forms.items()}


def _error(result: Any, wanted: Any) -> float:
    pairs = zip(result, wanted, strict=True) if isinstance(wanted, (list, tuple)) else [(result, wanted)]
    return max(
        ((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30)).item() for a, b in pairs
    )


def measure(name: str, n: int, rounds: int) -> dict[str, float]:
    runs = runs_of(name, n)
    with torch.set_grad_enabled(name in TRAINING):
        wanted = runs["eager"]()
        error = max(_error(runs["dynajit"](), wanted) for _ in range(2))
        runs["torch"](), runs["torch"]()
        once = interleaved(runs, 1, 5)
        number = max(1, int(0.01 / max(once.values())))
        best = interleaved(runs, number, rounds)
    return {**best, "error": error}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", type=float, default=[1e3, 1e4, 1e5, 1e6, 1e7])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    found: dict[str, dict[str, float]] = {}
    heads = ("case", "size", "eager us", "torch us", "dynajit us", "x eager", "x torch", "error")
    print("{:<26}{:>7}{:>11}{:>11}{:>11}{:>9}{:>9}{:>9}".format(*heads))
    for name in CASES:
        if options.only and not any(word in name for word in options.only):
            continue
        for size in options.sizes:
            if size > 1e6 and ("encoder" in name or "MLP" in name):
                continue
            b = found[f"{name} {size:.0e}"] = measure(name, int(size), options.rounds)
            ratios = b["eager"] / b["dynajit"], b["torch"] / b["dynajit"]
            times = "".join(f"{b[key] * 1e6:>11.1f}" for key in ("eager", "torch", "dynajit"))
            mark = " <" if min(ratios) < 0.95 else ""
            print(
                f"{name:<26}{size:>7.0e}{times}{ratios[0]:>9.2f}{ratios[1]:>9.2f}{b['error']:>9.0e}{mark}", flush=True
            )
            dynajit.reset()
    for key in ("eager", "torch"):
        ratios_ = [b[key] / b["dynajit"] for b in found.values()]
        print(f"against {key}: geometric mean {statistics.geometric_mean(ratios_):.2f}, least {min(ratios_):.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
