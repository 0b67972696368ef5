"""Reductions and what is made of them. Bits are promised for max, min, any, all and integers; else accuracy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from against_eager import Row, check, difference, every_kernel, row, t
from torch.fx import symbolic_trace

F64, BF16, I64, BOOL = torch.float64, torch.bfloat16, torch.int64, torch.bool
A, B3 = t(7, 33), t(5, 6, 70)
INEXACT = {"exact": False}


def _softmax_rows(op: object) -> list[Row]:
    return [
        *(row(op, t(*shape), dim, **INEXACT) for shape in ((7, 33), (3, 1000), (2, 3, 40)) for dim in (-1, 0)),
        row(op, B3, 1, **INEXACT),
        row(op, t(7, 33, dtype=F64), -1, **INEXACT),
        row(op, t(7, 33, dtype=BF16), -1, **INEXACT),
    ]


ROWS = [
    *(row(op, A, **INEXACT) for op in (torch.sum, torch.mean, torch.var, torch.std)),
    *(row(op, t(3, 5000), **INEXACT) for op in (torch.sum, torch.mean, torch.var, torch.std)),
    *(row(op, B3, dim, **INEXACT) for op in (torch.sum, torch.mean, torch.var, torch.std) for dim in (0, 1, 2, -1)),
    *(row(op, B3, dim, **INEXACT) for op in (torch.sum, torch.mean) for dim in ((0, 1), (0, 2), (1, 2), (0, 1, 2))),
    *(row(op, B3, dim, keepdim=True, **INEXACT) for op in (torch.sum, torch.mean, torch.var) for dim in (0, 2)),
    *(row(op, t(9, 80, dtype=d), -1, **INEXACT) for op in (torch.sum, torch.mean) for d in (F64, BF16, torch.float16)),
    *(row(op, t(300, 5), 0, **INEXACT) for op in (torch.sum, torch.mean, torch.std)),
    *(row(op, t(1000, 3), 0, **INEXACT) for op in (torch.sum, torch.mean, torch.std)),
    *(row(torch.sum, t(9, 80, dtype=d), dim) for d in (I64, torch.int32, torch.uint8, BOOL) for dim in (0, 1)),
    row(torch.sum, A, dtype=F64, exact=False),
    row(torch.sum, t(4, 1, 5), 1),
    row(torch.var, A, -1, correction=0, exact=False),
    row(torch.var_mean, A, -1, exact=False),
    *(row(op, B3, dim) for op in (torch.amax, torch.amin) for dim in (0, 1, 2, (0, 2))),
    *(row(op, A) for op in (torch.amax, torch.amin, torch.max, torch.min)),
    *(row(op, t(9, 80, dtype=d), 1) for op in (torch.amax, torch.amin) for d in (I64, BF16, torch.uint8, BOOL, F64)),
    *(row(op, t(9, 80, dtype=BOOL), dim) for op in (torch.any, torch.all) for dim in (0, 1)),
    *(row(op, A > -2.9) for op in (torch.any, torch.all)),
    row(torch.any, t(9, 8, dtype=I64), 1),
    *(row(op, B3, dim) for op in (torch.argmax, torch.argmin) for dim in (0, 1, 2, -1, None)),
    *(row(op, B3, dim, keepdim=True) for op in (torch.argmax, torch.max, torch.min) for dim in (0, 2)),
    *(row(op, t(9, 80, dtype=d), 1) for op in (torch.argmax, torch.max, torch.min) for d in (I64, BF16, F64)),
    row(torch.argmax, t(3, 5000)),
    row(torch.argmax, t(3, 5000), 1),
    row(torch.max, torch.tensor([[1.0, 3.0, 3.0, 2.0]]).repeat(5, 20), 1),
    *(row(torch.logsumexp, B3, dim, **INEXACT) for dim in (0, 1, 2, (0, 2))),
    row(torch.logsumexp, t(9, 80, dtype=BF16), 1, **INEXACT),
    *(row(torch.linalg.vector_norm, B3, n, dim, **INEXACT) for n in (1, 2, float("inf")) for dim in (0, 2, (1, 2))),
    *(row(torch.prod, t(5, 70, low=0.5, high=1.5), dim, exact=False, tolerance=1e-4) for dim in (0, 1)),
    *(row(torch.prod, t(5, 70, dtype=d), 1) for d in (I64, torch.int32, BOOL)),
    row(torch.prod, t(3, 4, dtype=F64), exact=False),
    *_softmax_rows(torch.softmax),
    *_softmax_rows(torch.log_softmax),
    row(F.layer_norm, A, (33,), exact=False),
    row(F.layer_norm, A, (33,), t(33), t(33, seed=2), exact=False),
    row(F.layer_norm, t(4, 5, 700), (700,), t(700), t(700, seed=2), exact=False),
    row(F.layer_norm, B3, (6, 70), t(6, 70), t(6, 70, seed=2), exact=False),
    row(F.layer_norm, t(7, 33, dtype=BF16), (33,), t(33, dtype=BF16), t(33, dtype=BF16, seed=2), exact=False),
    row(F.rms_norm, A, (33,), t(33), exact=False),
    row(F.rms_norm, t(7, 33, dtype=BF16), (33,), t(33, dtype=BF16), exact=False),
    row(F.group_norm, t(2, 6, 5, 4), 3, t(6), t(6, seed=2), exact=False, tolerance=1e-5),
    row(
        F.batch_norm, t(2, 6, 5, 4), t(6), t(6, low=0.1), t(6, seed=3), t(6, seed=2), skip="gaps"
    ),  # not in one piece: another kernel, without FMA
    row(
        F.batch_norm, t(2, 6), t(6, seed=1), t(6, low=0.1), skip="gaps"
    ),  # not in one piece: another kernel, without FMA
    row(F.mse_loss, A, t(7, 33, seed=1), exact=False, lowered=False),
    row(F.l1_loss, A, t(7, 33, seed=1), exact=False),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("length", [2, 3, 5, 7, 8, 15, 16, 31, 33, 64, 127, 200, 512, 513, 1000, 2047, 4096, 9000])
def test_sums_along_rows_have_eagers_bits(length: int, dtype: torch.dtype) -> None:
    x = t(40, length, dtype=dtype)
    gm = symbolic_trace(lambda x: (x.sum(-1), x.mean(-1)))
    results = every_kernel(gm, (x,)).fn(x)
    for result, wanted in zip(results, (x.sum(-1), x.mean(-1)), strict=True):
        assert difference(result, wanted) is None


def test_rms_norm_has_eagers_bits() -> None:
    x, w = t(40, 768), t(768, seed=1)
    gm = symbolic_trace(lambda x, w: (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,))
    assert difference(every_kernel(gm, (x, w)).fn(x, w)[0], gm(x, w)[0]) is None
