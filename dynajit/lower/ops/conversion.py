"""Copies, and values of another dtype."""

from __future__ import annotations

from typing import Any

import torch

from dynajit.lower.build import INTS, Unsupported, cast
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering

aten: Any = torch.ops.aten


@lowering(aten.clone.default, aten.alias_copy.default)
def clone(x: Value, memory_format: Any = None) -> Value:
    return copy(x)


def copy(x: Value) -> Value:
    """A value of its own, so that nobody mistakes it for an alias."""
    return Value("copy", (x,), x.shape, x.dtype)


@lowering(aten._to_copy.default)
def to_copy(
    x: Value,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Value:
    if device is not None or pin_memory or layout not in (None, torch.strided):
        raise Unsupported("a change of device or layout")
    if dtype is None or dtype == x.dtype:
        return copy(x)
    if x.dtype.is_floating_point and dtype in INTS:
        raise Unsupported("float to integer: out-of-range values follow the hardware")
    return cast(x, dtype)
