"""Tensors that are counted or filled, as values of a kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from against_eager import Row, check, difference, every_kernel, row, t
from torch.fx import symbolic_trace

ROWS = [
    *(row(torch.arange, *numbers) for numbers in ((9,), (2, 9), (9, 2, -3), (-5, 40, 7))),
    *(row(torch.arange, 9, dtype=d) for d in (torch.float32, torch.float64, torch.int32)),
    row(torch.arange, 9, dtype=torch.bfloat16, lowered=False),
    row(torch.arange, 0.5, 9.0, lowered=False),
    row(torch.arange, 1, lowered=False),
    row(torch.arange, 5, 5, lowered=False),
    *(row(torch.eye, 5, dtype=d) for d in (None, torch.int64, torch.bool)),
    row(torch.eye, 5, 7),
    row("new_zeros", t(3), (4, 5)),
    row("new_ones", t(3, dtype=torch.int64), (4, 5)),
    row("new_full", t(3), (4, 5), 2.5),
    row("new_full", t(3), (4, 5), 2, dtype=torch.int64),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)


def test_a_causal_mask() -> None:
    def function(x: Any) -> Any:
        at = torch.arange(9)
        mask = at[None, :] <= at[:, None]
        return torch.where(mask, x, float("-inf")), x * torch.eye(9) + at[2:5].sum(), at[1:] * 2

    graph = every_kernel(symbolic_trace(function), (t(4, 9, 9),))
    assert not [line for line in graph.schedule if "as it stands" in line], graph.schedule
    for n in (4, 7):
        for mine, wanted in zip(graph.fn(t(n, 9, 9)), function(t(n, 9, 9)), strict=True):
            assert difference(mine, wanted) is None
    with pytest.raises(RuntimeError):
        graph.fn(t(4, 8, 8))


def test_a_constant_beside_tensors_of_the_graph() -> None:
    """It is made by recording; nothing has to wait for it."""

    def function(x: Any) -> Any:
        part = x[:, 1:5]
        cache = torch.cat([torch.tensor([]), x * 2], 0)
        return part + 1, cache

    graph = every_kernel(symbolic_trace(function), (t(6, 9),))
    assert not [line for line in graph.schedule if "nothing moves across it" in line], graph.schedule
    for mine, wanted in zip(graph.fn(t(6, 9)), function(t(6, 9)), strict=True):
        assert difference(mine, wanted) is None
