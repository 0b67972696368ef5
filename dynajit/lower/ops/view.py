"""Views: the same elements under other indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit.lower.build import Unsupported
from dynajit.lower.ir import Value
from dynajit.lower.lowering import RESHAPES, lowering

aten: Any = torch.ops.aten

RESHAPES.update(
    (
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten._reshape_alias.default,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.detach.default,
        aten.alias.default,
        aten.lift_fresh.default,
    )
)


@lowering(aten.permute.default)
def permute(x: Value, dims: Sequence[int]) -> Value:
    order = tuple(dim % len(x.shape) for dim in dims)
    return Value("permute", (x,), tuple(x.shape[dim] for dim in order), x.dtype, order)


@lowering(aten.transpose.int)
def transpose(x: Value, dim0: int, dim1: int) -> Value:
    if not x.shape:
        return x
    order = list(range(len(x.shape)))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(x, order)


@lowering(aten.t.default)
def t(x: Value) -> Value:
    return x if len(x.shape) < 2 else permute(x, (1, 0))


@lowering(aten.expand.default)
def expand(x: Value, size: Sequence[int], implicit: bool = False) -> Value:
    lead = len(size) - len(x.shape)
    shape = tuple(
        (x.shape[i - lead] if i >= lead else 1) if wanted == -1 else int(wanted) for i, wanted in enumerate(size)
    )
    if any(shape[lead + i] != size and size != 1 for i, size in enumerate(x.shape)):
        raise Unsupported("sizes do not expand")
    return Value("expand", (x,), shape, x.dtype)
