"""Losses over classes, and targets out of range."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from against_eager import Row, check, difference, every_kernel, row, t
from torch.fx import symbolic_trace

X = t(30, 20)
TARGET = torch.randint(0, 20, (30,), generator=torch.Generator().manual_seed(1))
SOME = torch.where(TARGET < 5, -100, TARGET)

ROWS = [
    *(row(F.cross_entropy, X, TARGET, reduction=how, exact=False) for how in ("mean", "sum", "none")),
    *(row(F.cross_entropy, X, SOME, reduction=how, exact=False) for how in ("mean", "sum", "none")),
    row(F.cross_entropy, X, TARGET, ignore_index=3, exact=False),
    row(F.nll_loss, X, TARGET, reduction="none"),
    row(F.nll_loss, X, SOME, exact=False),
    row(F.nll_loss, t(30, 20, dtype=torch.float64), TARGET, exact=False),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)


@pytest.mark.parametrize("bad", [20, -1, -100 + 1, 2**40])
def test_a_target_out_of_range_raises(bad: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return (F.cross_entropy(x * 2, y),)

    graph = every_kernel(symbolic_trace(function), [X, TARGET])
    assert graph.kernels
    assert difference(graph.fn(X, TARGET)[0], function(X, TARGET)[0], False) is None
    wrong = TARGET.clone()
    wrong[7] = bad
    with pytest.raises(IndexError, match="out of bounds"):
        graph.fn(X, wrong)
    assert difference(graph.fn(X, TARGET)[0], function(X, TARGET)[0], False) is None
