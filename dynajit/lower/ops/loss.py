"""Losses over classes."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynajit.lower.build import FLOATS, Unsupported, cast, checked, const, op, opmath, positions
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering
from dynajit.lower.ops.reduction import count, reduce

aten: Any = torch.ops.aten
NONE, MEAN = 0, 1


def _target(x: Value, target: Value, ignore_index: int) -> tuple[Value, Value]:
    """Where in a row its class is, all classes being in range, and which rows count, (rows, 1)."""
    if x.dtype not in FLOATS or len(x.shape) != 2 or target.dtype != torch.int64 or x.shape[1] < 2:
        raise Unsupported("rows of floats and int64 targets only")
    flat = Value("reshape", (target,), (*target.shape, 1), target.dtype)
    counts = op("ne", flat, ignore_index)
    position = positions(x.shape, 1)
    inside = op("and", op("ge", flat, 0), op("lt", flat, count(position, (1,), torch.int64)))
    classes = checked(flat, op("or", op("eq", flat, ignore_index), inside))
    return op("eq", position, classes), counts


def _pick(here: Value, x: Value) -> Value:
    """The one element of each row. What a row has in common is subtracted from that element alone."""
    if x.op == "sub" and x.srcs[1].shape[1:] == (1,):
        return op("sub", _pick(here, x.srcs[0]), x.srcs[1])
    return reduce("max", op("where", here, x, const(-math.inf, x.dtype)), (1,), True)


@lowering(aten.nll_loss_forward.default)
def nll_loss(x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> tuple[Value, Value]:
    if weight is not None:
        raise Unsupported("weights of classes")
    here, counts = _target(x, target, ignore_index)
    wide = cast(x, opmath(x.dtype))
    picked = _pick(here, wide)
    losses = op("where", counts, op("neg", picked), const(0.0, wide.dtype))
    if reduction == NONE:
        return cast(Value("reshape", (losses,), target.shape, losses.dtype), x.dtype), const(0.0, x.dtype)
    loss = reduce("total", losses, (0, 1), False)
    number = reduce("total", cast(counts, wide.dtype), (0, 1), False)
    return cast(op("div", loss, number) if reduction == MEAN else loss, x.dtype), cast(number, x.dtype)


@lowering(aten.nll_loss_backward.default)
def nll_loss_backward(
    grad: Value, x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int, total: Value
) -> Value:
    if weight is not None:
        raise Unsupported("weights of classes")
    here, counts = _target(x, target, ignore_index)
    wide = opmath(x.dtype)
    given = cast(grad, wide)
    if reduction == NONE:
        given = Value("reshape", (given,), (*target.shape, 1), wide)
    elif reduction == MEAN:
        given = op("div", given, cast(total, wide))
    return cast(op("where", op("and", here, counts), op("neg", given), const(0.0, wide)), x.dtype)
