"""Elementwise operations: the bits of eager."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from against_eager import Row, check, row, t

F64, BF16, F16, I64, I32, U8, BOOL = (
    *(torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool),
)
A, B = t(7, 33), t(7, 33, seed=1)

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, torch.maximum, torch.minimum]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
MATH = "exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh atanh erf erfc erfinv".split()
ACTIVATIONS = [
    *(torch.relu, torch.sigmoid, F.silu, F.softplus, F.elu, F.mish, F.hardswish, F.hardsigmoid, F.leaky_relu),
    *(F.relu6, F.hardtanh, F.selu, F.celu),
]

ROWS = [
    *(row(op, A, B) for op in BINARY),
    *(row(op, A, t(33, seed=2)) for op in BINARY),
    *(row(op, A, t(7, 1, seed=2)) for op in BINARY[:4]),
    *(row(op, t(4, 1, 5), t(3, 1, seed=3)) for op in BINARY[:4]),
    *(row(op, A, 1.3) for op in BINARY[:4]),
    *(row(op, 2, A) for op in BINARY[:4]),
    *(row(op, t(7, 33, dtype=d), t(7, 33, dtype=d, seed=1)) for op in BINARY for d in (F64, BF16, F16)),
    *(row(op, t(7, 33, dtype=d), 0.3) for op in BINARY[:4] for d in (F64, BF16, F16)),
    *(row(op, t(7, 33, dtype=d), t(7, 33, dtype=d, seed=1)) for op in BINARY[:3] for d in (I64, I32, U8, torch.int8)),
    *(row(op, t(7, 33, dtype=BF16), t(7, 33, seed=1)) for op in BINARY[:4]),
    *(row(op, t(7, 33, dtype=I64), t(7, 33, seed=1)) for op in BINARY[:4]),
    row(operator.truediv, t(7, 33, dtype=I64), 3),
    row(operator.add, t(7, 9, dtype=BOOL), t(7, 9, dtype=BOOL, seed=1)),
    row(operator.mul, t(7, 9, dtype=BOOL), t(7, 9, dtype=BOOL, seed=1)),
    *(row(op, A, B) for op in COMPARE),
    *(row(op, A, 0.1) for op in COMPARE),
    *(row(op, t(7, 33, dtype=BF16), 0.1) for op in COMPARE[2:4]),
    *(row(op, t(7, 33, dtype=I64), 2) for op in COMPARE),
    *(row(op, t(7, 33, dtype=I64), 2.5) for op in COMPARE[2:4]),
    row(torch.add, A, B, alpha=0.3),
    row(torch.sub, A, B, alpha=0.3),
    row(torch.add, t(9, dtype=I64), t(9, dtype=I64, seed=1), alpha=3),
    row(torch.rsub, A, 1.5),
    row(torch.div, A, B, rounding_mode="floor"),
    row(torch.div, A, B, rounding_mode="trunc"),
    row(operator.floordiv, A, 0.7),
    row(torch.remainder, A, B),
    row(torch.remainder, A, 0.7),
    row(torch.fmod, A, B),
    *(row(getattr(torch, name), A) for name in MATH),
    *(row(getattr(torch, name), t(3, 40, dtype=F64)) for name in MATH),
    *(row(getattr(torch, name), t(3, 40, dtype=BF16)) for name in ("exp", "tanh", "log", "sin", "sqrt")),
    row(torch.exp, t(9, dtype=I64)),
    *(row(op, A) for op in (torch.neg, torch.abs, torch.sqrt, torch.rsqrt, torch.reciprocal, torch.sign, torch.square)),
    *(row(op, A) for op in (torch.floor, torch.ceil, torch.trunc, torch.round)),
    *(row(op, t(5, 9, dtype=I64)) for op in (torch.neg, torch.abs, torch.sign, torch.square, torch.relu)),
    *(row(op, t(5, 9, dtype=BF16)) for op in (torch.neg, torch.abs, torch.reciprocal)),
    *(row(op, A) for op in ACTIVATIONS),
    *(row(op, t(3, 300)) for op in ACTIVATIONS),
    *(row(op, t(3, 30, dtype=F64)) for op in ACTIVATIONS),
    *(row(op, t(3, 30, dtype=BF16)) for op in ACTIVATIONS),
    row(F.gelu, A, approximate="tanh"),
    row(F.gelu, A, exact=False, tolerance=3e-4, skip="gaps"),
    row(F.softplus, A, beta=2.0, threshold=1.0),
    row(F.elu, A, alpha=1.7),
    row(F.logsigmoid, A),
    *(row(torch.pow, A, e) for e in (2, 3, 0.5, -0.5, -1, -2, 1)),
    row(torch.pow, t(7, 33, low=0.1), 2.5),
    row(torch.pow, A, B),
    row(torch.atan2, A, B),
    row(torch.hypot, A, B),
    row(torch.copysign, A, B),
    row(torch.clamp, A, -0.5, 0.7),
    row(torch.clamp, A, min=0.1),
    row(torch.clamp, A, max=0.1),
    row(torch.clamp, t(9, dtype=I64), -2, 3),
    row(torch.clamp_min, A, 0.0),
    row(torch.where, A > 0, A, B),
    row(torch.where, A > 0, A, 0.0),
    row("masked_fill", A, A > 0, float("-inf")),
    row(torch.addcmul, A, B, t(7, 33, seed=2)),
    row(torch.addcmul, A, B, t(7, 33, seed=2), value=0.7),
    row(torch.addcdiv, A, B, t(7, 33, seed=2), value=0.7),
    row(torch.lerp, A, B, 0.3),
    row(torch.lerp, A, B, 0.8),
    row(torch.isnan, A),
    row(torch.logical_not, A),
    row(torch.logical_and, A, B),
    row(torch.logical_or, A > 0, B > 0),
    row(operator.and_, A > 0, B > 0),
    row(operator.invert, A > 0),
    row(operator.or_, t(9, dtype=I64), t(9, dtype=I64, seed=1)),
    row(operator.invert, t(9, dtype=U8)),
    row("float", t(9, dtype=I64)),
    row("double", A),
    row("to", A, torch.bfloat16),
    row("to", A, torch.float16),
    row("to", t(9, 3, dtype=BF16), torch.float32),
    row("to", A, torch.bool),
    row("to", A > 0, torch.float32),
    row("to", t(9, dtype=I64), torch.int32),
    row("int", A, lowered=False),
    row("clone", A),
    row(torch.zeros_like, A),
    row(torch.full_like, A, 2.5),
    row(torch.ones, 3, 4),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda r: r.name)
def test_row(case: Row) -> None:
    check(case)
