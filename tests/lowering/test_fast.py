"""numerics="fast": within a few units in the last place, and nothing else given up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import SPECIAL, every_kernel, t
from torch.fx import symbolic_trace

from dynajit.options import Options

FAST = Options(backend="native", numerics="fast")


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sqrt"])
def test_functions(name: str) -> None:
    function = getattr(torch, name)
    x = torch.cat([torch.linspace(-110, 95, 20001), torch.linspace(-5, 5, 20001), torch.tensor(SPECIAL)])
    graph = every_kernel(symbolic_trace(lambda x: (function(x),)), (x,), FAST)
    result, wanted = graph.fn(x)[0], function(x.double()).float()
    assert torch.equal(result.isnan(), wanted.isnan())
    ok = ~wanted.isnan()
    steps = (result[ok].view(torch.int32).long() - wanted[ok].view(torch.int32).long()).abs()
    near = (result[ok] - wanted[ok]).abs() < 1e-44  # denormals
    assert steps[~near].max() <= 4 if (~near).any() else True
    assert torch.equal(result[ok].signbit(), wanted[ok].signbit())


def test_halves_are_rounded_once() -> None:
    def function(x: Any) -> Any:
        return ((x * 1.1 + 0.3) * 0.7 - 0.1,)

    x = t(40, 50, dtype=torch.bfloat16)
    graph = every_kernel(symbolic_trace(function), (x,), FAST)
    exact = function(x.double())[0]
    assert (graph.fn(x)[0] - exact).abs().max() < (function(x)[0] - exact).abs().max()


def test_chain() -> None:
    def function(x: Any, b: Any) -> Any:
        g = F.gelu((x + b) * 1.25)
        return (torch.sigmoid(torch.exp(-torch.tanh(g)) + x) * g, torch.softmax(g, -1))

    args = (t(40, 300), t(300))
    graph = every_kernel(symbolic_trace(function), args, FAST)
    for result, wanted in zip(graph.fn(*args), function(*args), strict=True):
        assert (result - wanted).abs().max() < 3e-6
