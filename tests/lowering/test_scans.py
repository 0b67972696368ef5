"""Sums, products and extremes of the elements up to each: eager's bits, since they are taken in its order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from against_eager import Row, check, difference, every_kernel, row, t
from torch.fx import symbolic_trace

from dynajit.backends.forms import MISS

F64, BF16, F16, I64, U8, BOOL = (*(torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool),)
DTYPES = [torch.float32, F64, BF16, F16, I64, torch.int32, torch.int16, torch.int8, U8]
ROWS = [
    *(row(op, t(5, 700, dtype=d), 1) for op in (torch.cumsum, torch.cumprod) for d in (*DTYPES, BOOL)),
    *(row(op, t(5, 700, dtype=d), 1) for op in (torch.cummax, torch.cummin) for d in DTYPES),
    *(row(op, t(5, 6, 7), d) for op in (torch.cumsum, torch.cumprod, torch.cummax, torch.cummin) for d in (0, 1, -1)),
    *(row(op, t(5, 9, dtype=d), 1, dtype=F64) for op in (torch.cumsum, torch.cumprod) for d in (torch.float32, I64)),
    row(torch.cumsum, t(5, 9, dtype=BF16), 1, dtype=torch.float32),
    row(torch.cumsum, t(5, 9, dtype=I64), 1, dtype=torch.int32),
    row(torch.cumsum, t(9), 0),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)


FUSED: list[Callable[[Any], tuple[Any, ...]]] = [
    lambda x: ((x * 2).cumsum(1) + 1,),
    lambda x: ((x * 2).cumsum(0) * x,),
    lambda x: (x.cumsum(1).cumsum(1) + x.cumprod(1),),
    lambda x: (torch.sigmoid(x).cumsum(1).exp() + torch.tanh(x),),
    lambda x: ((x > 0).cumsum(1) * x,),
    lambda x: (x - x.cummax(1)[0], x.cummax(1)[1] + 1),
    lambda x: (x.flip(1).cumsum(1) + 1,),
]


@pytest.mark.parametrize("position", range(len(FUSED)))
def test_fused(position: int) -> None:
    function = FUSED[position]
    graph = every_kernel(symbolic_trace(function), (t(6, 40),))
    assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
    assert len([kernel for kernel in graph.kernels if kernel.launched]) == 1, graph.schedule
    for shape in ((6, 40), (11, 40), (3, 2000), (200, 700)):
        x = t(*shape)
        assert graph.fn.__self__.forms[0](x) is not MISS
        for mine, wanted in zip(graph.fn(x), function(x), strict=True):
            assert difference(mine, wanted) is None


def test_along_two_dimensions() -> None:
    function = lambda x: (x.cumsum(0).cumsum(1) + 1, x.cumsum(1).flip(1) * 2, x.cumsum(1).sum(1))  # noqa: E731
    graph = every_kernel(symbolic_trace(function), (t(6, 40),))
    assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
    for mine, wanted in zip(graph.fn(t(6, 40)), function(t(6, 40)), strict=True):
        assert difference(mine, wanted) is None
