"""Tensors made from a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit.lower.build import Unsupported, cast, const, op
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE, lowering

aten: Any = torch.ops.aten


def _here(layout: Any, device: Any, pin_memory: Any) -> None:
    if layout not in (None, torch.strided) or pin_memory or device is not None:
        raise Unsupported("a tensor somewhere else")


def _full(size: Sequence[int], number: Any, dtype: torch.dtype | None) -> Value:
    if isinstance(number, Value):
        raise Unsupported("a fill value that is not a constant")
    if dtype is None:
        dtype = torch.bool if isinstance(number, bool) else torch.int64 if isinstance(number, int) else None
    shape = tuple(int(extent) for extent in size)
    return Value("full", (), shape, dtype or torch.get_default_dtype(), number)


@lowering(aten.full.default)
def full(
    size: Sequence[int],
    fill_value: Any,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    _here(layout, device, pin_memory)
    return _full(size, fill_value, dtype)


@lowering(aten.scalar_tensor.default)
def scalar_tensor(
    number: Any, dtype: torch.dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Any = None
) -> Value:
    _here(layout, device, pin_memory)
    if isinstance(number, Value):
        raise Unsupported("a number that is not a constant")
    return const(number, dtype or torch.get_default_dtype())


def _filled(number: float) -> Any:
    def rule(
        size: Sequence[int],
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
    ) -> Value:
        _here(layout, device, pin_memory)
        return _full(size, number, dtype)

    return rule


def _filled_like(number: float) -> Any:
    def rule(
        x: Value,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
        memory_format: Any = None,
    ) -> Value:
        _here(layout, device, pin_memory)
        return Value("like", (x,), x.shape, dtype or x.dtype, number)

    return rule


TABLE[aten.zeros.default] = _filled(0.0)
TABLE[aten.ones.default] = _filled(1.0)
TABLE[aten.zeros_like.default] = _filled_like(0.0)
TABLE[aten.ones_like.default] = _filled_like(1.0)


def _new_filled(number: float | None) -> Any:
    def rule(
        x: Value,
        size: Sequence[int],
        *fill: Any,
        dtype: torch.dtype | None = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
    ) -> Value:
        _here(layout, device, pin_memory)
        return _full(size, fill[0] if number is None else number, dtype or x.dtype)

    return rule


TABLE[aten.new_zeros.default] = _new_filled(0.0)
TABLE[aten.new_ones.default] = _new_filled(1.0)
TABLE[aten.new_full.default] = _new_filled(None)


def _counted(size: int) -> Value:
    """0, 1, 2 ...: as many as the program says."""
    if size < 2:
        raise Unsupported("nothing to count")
    return Value("index", (), (size,), torch.int64, "said")


EXACT = {torch.float32: 2**24, torch.float64: 2**53}  # up to where whole numbers are themselves


@lowering(aten.arange.default, aten.arange.start, aten.arange.start_step)
def arange(
    *numbers: Any,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    _here(layout, device, pin_memory)
    if not all(type(number) is int for number in numbers):
        raise Unsupported("numbers that are not constants")
    start, end, step = {1: (0, *numbers, 1), 2: (*numbers, 1), 3: numbers}[len(numbers)]
    result = dtype or torch.int64
    if result not in (torch.int64, torch.int32) and max(map(abs, numbers)) >= EXACT.get(result, 0):
        raise Unsupported(f"rounded numbers of {result}")
    made = _counted(-((start - end) // step))
    made = made if step == 1 else op("mul", made, step)
    return cast(made if start == 0 else op("add", made, start), result)


@lowering(aten.eye.default, aten.eye.m)
def eye(
    n: int,
    m: int | None = None,
    dtype: torch.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Value:
    _here(layout, device, pin_memory)
    row = Value("reshape", (_counted(n),), (n, 1), torch.int64, "free")
    result = dtype or torch.get_default_dtype()
    return cast(op("eq", row, _counted(n if m is None else m)), result)


@lowering(aten.full_like.default)
def full_like(x: Value, fill_value: Any, **kwargs: Any) -> Value:
    if isinstance(fill_value, Value):
        raise Unsupported("a fill value that is not a constant")
    made: Value = _filled_like(fill_value)(x, **kwargs)
    return made
