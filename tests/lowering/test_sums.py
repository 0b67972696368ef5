"""Sums of floats have eager's bits where its order of additions does not depend on the number of threads."""

from __future__ import annotations

import pytest
import torch
from against_eager import Row, check, every_kernel, row, t
from torch.fx import symbolic_trace

FORMS = frozenset(("gaps", "transposed", "special", "one element", "no dimensions", "empty", "one row"))
SHAPES = [
    (3, 5),
    (1000, 3),
    (17, 7),
    (40, 8),
    (33, 31),
    (100, 32),
    (257, 33),
    (1000, 64),
    (70, 100),
    (5000, 40),
    (3, 1100),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_rows_and_columns(shape: tuple[int, int], dim: int, dtype: torch.dtype) -> None:
    narrow = dim == 0 and shape[1] < 16  # these are walked row by row, in another order
    check(row(torch.sum, t(*shape, dtype=dtype), dim, skip="gaps transposed special", exact=not narrow))


@pytest.mark.parametrize("shape", [(4, 5, 26), (9, 40, 17), (20, 3, 300)], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2, (0, 1), (0, 2), (1, 2)], ids=str)
def test_more_dimensions(shape: tuple[int, ...], dim: int | tuple[int, ...]) -> None:
    check(row(torch.sum, t(*shape), dim, skip="gaps transposed special"))


def test_of_broadcast_operands() -> None:
    check(Row(lambda a, b: (a * b).sum((0, 2)), (t(1, 5, 1), t(4, 1, 6)), skip=FORMS))
    check(Row(lambda a, b: (a * b).sum((0, 2)), (t(7, 5, 1), t(7, 1, 60)), skip=FORMS))


def test_with_several_threads() -> None:
    x = t(300, 1000)
    graph = every_kernel(symbolic_trace(lambda v: ((v * 2).sum(0), (v * 3).sum(1), (v * v).mean(0))), [x])
    assert graph.kernels
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(graph.fn(x))
    finally:
        torch.set_num_threads(threads)
    for other in results:
        for mine, wanted in zip(other, ((x * 2).sum(0), (x * 3).sum(1), (x * x).mean(0)), strict=True):
            assert torch.equal(mine, wanted)
