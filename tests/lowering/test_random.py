"""Random small graphs against eager: what no row thought of."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import difference, every_kernel, source, t
from torch.fx import Graph, GraphModule, Node

SHAPES = [(6, 8), (8,), (6, 1), (2, 6, 8), (6, 8), (2, 1, 8)]

ELEMENTWISE: list[Callable[..., Any]] = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, torch.div]
UNARY: list[Callable[..., Any]] = [torch.neg, torch.abs, torch.relu, torch.sigmoid, torch.tanh, torch.exp, torch.floor]
REDUCTIONS: list[Callable[..., Any]] = [torch.amax, torch.amin, torch.sum, torch.mean]


def grow(rng: random.Random, steps: int, mutate: bool) -> tuple[GraphModule, list[torch.Tensor]]:
    """A graph of calls that eager accepts; the tensors of the trial run say which do."""
    graph = Graph()
    inputs = [t(*rng.choice(SHAPES), seed=rng.randrange(99)) for _ in range(3)]
    nodes = [graph.placeholder(f"x{i}") for i in range(3)]
    values: dict[Node, torch.Tensor] = {n: x.clone() for n, x in zip(nodes, inputs, strict=True)}

    def call(target: Any, args: tuple[Any, ...], **kwargs: Any) -> None:
        real = [values[a] if isinstance(a, Node) else a for a in args]
        try:
            if isinstance(target, str):
                result = getattr(real[0], target)(*real[1:], **kwargs)
                node = graph.call_method(target, args, kwargs)
            else:
                result = target(*real, **kwargs)
                node = graph.call_function(target, args, kwargs)
        except (RuntimeError, IndexError, TypeError):
            return
        if isinstance(result, torch.Tensor) and 0 < result.numel() < 2000:
            nodes.append(node)
            values[node] = result

    while len(nodes) < steps + 3:
        a, b = rng.choice(nodes[-8:]), rng.choice(nodes)
        kind = rng.randrange(12 if mutate else 10)
        rank = values[a].dim()
        if kind < 4:
            call(rng.choice(ELEMENTWISE), (a, b if rng.random() < 0.7 else round(rng.uniform(-2, 2), 2)))
        elif kind < 6:
            call(rng.choice(UNARY), (a,))
        elif kind == 6 and rank:
            call(rng.choice(REDUCTIONS), (a, rng.randrange(rank)), keepdim=rng.random() < 0.6)
        elif kind == 7 and rank:
            call("softmax", (a, rng.randrange(rank)))
        elif kind == 8:
            shape = values[a].shape
            wanted = [(-1,), (*shape, 1), (1, *shape), (*shape[:-1], 2, -1)][rng.randrange(4)]
            call(rng.choice(("reshape", "view")), (a, *wanted))
        elif kind == 9 and rng.random() < 0.3:
            call("contiguous", (a,))
        elif kind == 9 and rank > 1:
            call("transpose", (a, 0, rng.randrange(rank)))
        elif kind == 10:
            call(rng.choice(("add_", "mul_")), (a, round(rng.uniform(-1, 1), 2)))
        elif kind == 11 and rank:
            call("narrow", (a, 0, 0, max(values[a].shape[0] - 1, 1)))
    graph.output(tuple(rng.sample(nodes, min(4, len(nodes)))))
    return GraphModule(torch.nn.Module(), graph), inputs


def close(result: torch.Tensor, wanted: torch.Tensor) -> str | None:
    """Like `difference`, for results that went through sums and differences of rounded values."""
    finite = wanted.isfinite()
    if not torch.equal(finite, result.isfinite()):
        return "NaN or infinity at other places"
    scale = max(wanted[finite].abs().max().item(), 1.0) if finite.any() else 1.0
    worst = ((result - wanted)[finite].abs().max().item() if finite.any() else 0.0) / scale
    if result.stride() != wanted.stride():
        return f"strides {result.stride()}, want {wanted.stride()}"
    return f"error {worst:.3g}" if worst > 1e-4 else None


@pytest.mark.parametrize("mutate", [False, True], ids=["pure", "mutating"])
@pytest.mark.parametrize("seed", range(50))
def test_random_graph(seed: int, mutate: bool) -> None:
    gm, inputs = grow(random.Random(seed), 14, mutate)
    compiled = every_kernel(gm, inputs)
    for _ in range(2):
        mine, theirs = [x.clone() for x in inputs], [x.clone() for x in inputs]
        expected, results = gm(*theirs), compiled.fn(*mine)
        for result, wanted in zip(results, expected, strict=True):
            why = close(result, wanted)
            assert why is None, f"{why}\n{gm.code}\n{source(compiled)}"
        for after, wanted in zip(mine, theirs, strict=True):
            assert difference(after, wanted, exact=False, tolerance=1e-4) is None
        pairs = [
            (a is b, c is d) for a, c in zip(results, expected, strict=True) for b, d in zip(mine, theirs, strict=True)
        ]
        assert all(a == b for a, b in pairs)
        shared = [
            [x.untyped_storage().data_ptr() for x in (*group, *given)]
            for group, given in ((results, mine), (expected, theirs))
        ]
        assert [[a == b for b in shared[0]] for a in shared[0]] == [[a == b for b in shared[1]] for a in shared[1]]
