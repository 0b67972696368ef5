"""Rows looked up by number, inside a kernel; numbers that are out of range raise what eager raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import difference, every_kernel, t
from torch.fx import symbolic_trace

TABLE = t(50, 33)
NUMBERS = torch.randint(0, 50, (6, 7), generator=torch.Generator().manual_seed(1))


def same(function: Callable[..., Any], *args: Any, graph: Any = None) -> Any:
    graph = graph or every_kernel(symbolic_trace(function), args)
    assert len([kernel for kernel in graph.kernels if kernel.launched]) == 1, graph.schedule
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        assert difference(mine, wanted) is None
    return graph


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_embedding(dtype: torch.dtype) -> None:
    same(lambda w, i: (F.embedding(i, w) * 2 + 1,), t(50, 33, dtype=dtype), NUMBERS)


def test_embedding_with_positions_and_a_norm() -> None:
    def function(w: Any, p: Any, i: Any) -> Any:
        h = F.embedding(i, w) + p
        return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6), h

    same(function, TABLE, t(7, 33, seed=2), NUMBERS)


def test_looked_up_rows_that_another_kernel_reads() -> None:
    def function(w: Any, i: Any, m: Any) -> Any:
        h = F.embedding(i, w)
        k = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
        h = h + (k @ m)
        return h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6), (h.mean(1) * 2).sum(0)

    args = TABLE, NUMBERS, t(33, 33)
    graph = every_kernel(symbolic_trace(function), args)
    for mine, wanted in zip(graph.fn(*args), function(*args), strict=True):
        assert difference(mine, wanted, False, 1e-5) is None


def test_index_with_negative_numbers() -> None:
    same(lambda x, i: (x[i] * 2,), TABLE, NUMBERS - 25)
    same(lambda x, i: (x[i] + x[i + 1],), TABLE, NUMBERS - 25)


def test_index_select() -> None:
    same(lambda x, i: (x.index_select(0, i) - 1,), t(50, 4, 6), NUMBERS[0])
    same(lambda x, i: (x.index_select(0, i) - 1,), t(50, 33), NUMBERS[0].int())


def test_a_table_with_gaps() -> None:
    same(lambda x, i: (x[i] * 2,), t(50, 66)[:, ::2], NUMBERS)


def test_other_sizes() -> None:
    graph = same(lambda w, i: (F.embedding(i, w) * 2 + 1,), TABLE, NUMBERS)
    for rows, width in ((60, 33), (50, 20), (9, 5)):
        same(lambda w, i: (F.embedding(i, w) * 2 + 1,), t(rows, width), NUMBERS % rows, graph=graph)
    same(lambda w, i: (F.embedding(i, w) * 2 + 1,), TABLE, NUMBERS[:3], graph=graph)


@pytest.mark.parametrize("bad", [50, -1, 2**40, -(2**40)])
def test_out_of_range(bad: int) -> None:
    graph = same(lambda w, i: (F.embedding(i, w) * 2 + 1,), TABLE, NUMBERS)
    wrong = NUMBERS.clone()
    wrong[3, 3] = bad
    with pytest.raises(IndexError):
        graph.fn(TABLE, wrong)


@pytest.mark.parametrize("bad", [50, -51])
def test_index_out_of_range(bad: int) -> None:
    graph = same(lambda x, i: (x[i] * 2,), TABLE, NUMBERS)
    wrong = NUMBERS.clone()
    wrong[3, 3] = bad
    with pytest.raises(IndexError):
        graph.fn(TABLE, wrong)
