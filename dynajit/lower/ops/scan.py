"""What comes of the elements up to each along a dimension: added in eager's order, which is one after another.

As ReduceOpsKernel.cpp, cpu_cum_base_kernel: in the accumulation type of the CPU, which is double for float32, float32
for the half types and int64 for integers, rounded for each element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynajit.lower.build import FLOATS, HALVES, INTS, Unsupported, cast, op
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE
from dynajit.lower.ops.conversion import copy

aten: Any = torch.ops.aten


def _accumulated(kind: str) -> Callable[..., Value]:
    def rule(x: Value, dim: int, dtype: torch.dtype | None = None) -> Value:
        result = dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)
        if not x.shape or 0 in x.shape or result not in (*FLOATS, *INTS):
            raise Unsupported("no elements to go along")
        if x.dtype.is_floating_point and not result.is_floating_point:
            raise Unsupported("float to integer")
        wide = torch.float32 if result in HALVES else torch.float64 if result in FLOATS else torch.int64
        source = cast(cast(x, result), wide)
        if x.shape[dim] == 1:
            made = op("add", source, 0) if kind == "sum" else source
        else:
            made = Value("scan", (source,), x.shape, wide, (kind, dim % len(x.shape)))
        return cast(made, result) if made is not x else copy(x)

    return rule


def _extreme(kind: str) -> Callable[..., tuple[Value, Value]]:
    def rule(x: Value, dim: int) -> tuple[Value, Value]:
        if not x.shape or 0 in x.shape or x.shape[dim] == 1 or x.dtype == torch.bool:
            raise Unsupported("no elements to go along")
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32 if x.dtype in FLOATS else torch.int64
        source, at = cast(x, wide), dim % len(x.shape)
        best = Value("scan", (source,), x.shape, wide, (kind, at))
        where = Value("scan", (source,), x.shape, torch.int64, (f"where_{kind}", at))
        return cast(best, x.dtype), where

    return rule


TABLE[aten.cumsum.default], TABLE[aten.cumprod.default] = _accumulated("sum"), _accumulated("prod")
TABLE[aten.cummax.default], TABLE[aten.cummin.default] = _extreme("max"), _extreme("min")
