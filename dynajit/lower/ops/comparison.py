"""Comparisons, bounds, selection and logic."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynajit.lower.build import Operand, Unsupported, cast, common_dtype, const, is_number, not_bool, op, pointwise
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE, lowering

aten: Any = torch.ops.aten


def _comparison(name: str) -> Any:
    def rule(x: Operand, y: Operand) -> Value:
        return pointwise(lambda a, b: op(name, a, b), x, y, result=torch.bool)

    return rule


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    for _overload in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, _name), _overload)] = _comparison(_name)


@lowering(aten.maximum.default)
def maximum(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: op("maximum", a, b), x, y)


@lowering(aten.minimum.default)
def minimum(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: op("minimum", a, b), x, y)


@lowering(aten.clamp.default)
def clamp(x: Value, min: Any = None, max: Any = None) -> Value:
    """The bounds are cast to the promoted dtype first; min(max(x, lo), hi) keeps NaN (TensorCompareKernel.cpp)."""
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (min, max)):
        raise Unsupported("NaN as a bound")
    dtype = common_dtype([x, *(bound for bound in (min, max) if bound is not None)])

    def formula(v: Value, *bounds: Value) -> Value:
        rest = list(bounds)
        if min is not None:
            v = op("maximum", rest.pop(0), v)
        if max is not None:
            v = op("minimum", rest.pop(0), v)
        return v

    bounds = [bound if isinstance(bound, Value) else const(bound, dtype) for bound in (min, max) if bound is not None]
    return pointwise(formula, not_bool(x), *bounds)


@lowering(aten.clamp_min.default)
def clamp_min(x: Value, min: Any) -> Value:
    return clamp(x, min)


@lowering(aten.clamp_max.default)
def clamp_max(x: Value, max: Any) -> Value:
    return clamp(x, None, max)


@lowering(aten.where.self)
def where(condition: Value, x: Operand, y: Operand) -> Value:
    if condition.dtype != torch.bool:
        raise Unsupported("a condition that is not bool")
    dtype = common_dtype((x, y))
    x, y = (cast(v, dtype) if isinstance(v, Value) else const(v, dtype) for v in (x, y))
    return op("where", condition, x, y)


@lowering(aten.masked_fill.Scalar)
def masked_fill(x: Value, mask: Value, value: Any) -> Value:
    if mask.dtype != torch.bool or not is_number(value) or isinstance(value, Value):
        raise Unsupported("masked_fill with a tensor")
    return op("where", mask, const(value, x.dtype), x)


@lowering(aten.isnan.default)
def isnan(x: Value) -> Value:
    return op("ne", x, x)


@lowering(aten.logical_not.default)
def logical_not(x: Value) -> Value:
    return op("eq", x, 0)


def _logical(name: str) -> Any:
    def rule(x: Value, y: Value) -> Value:
        return op(name, op("ne", x, 0), op("ne", y, 0))

    return rule


for _name in ("and", "or", "xor"):
    TABLE[getattr(aten, f"logical_{_name}").default] = _logical(_name)


def _bitwise(name: str) -> Any:
    def rule(x: Operand, y: Operand) -> Value:
        if common_dtype((x, y)).is_floating_point:
            raise Unsupported("bits of a float")
        return pointwise(lambda a, b: op(name, a, b), x, y)

    return rule


for _name in ("and", "or", "xor"):
    for _overload in ("Tensor", "Scalar"):
        TABLE[getattr(getattr(aten, f"bitwise_{_name}"), _overload)] = _bitwise(_name)


@lowering(aten.bitwise_not.default)
def bitwise_not(x: Value) -> Value:
    return op("eq", x, 0) if x.dtype == torch.bool else op("not", x)
