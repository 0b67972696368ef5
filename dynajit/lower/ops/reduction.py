"""Reductions. Half types accumulate in float32 and are rounded once, as eager does."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from dynajit.lower.build import FLOATS, Unsupported, cast, const, op, opmath, positions
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE, lowering
from dynajit.lower.ops.conversion import copy

aten: Any = torch.ops.aten
Dims = Sequence[int] | int | None


def dims_of(x: Value, dim: Dims) -> tuple[int, ...]:
    """Dimensions as positive numbers; None and the empty list mean all of them."""
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return tuple(range(len(x.shape)))
    rank = max(len(x.shape), 1)
    return tuple(sorted({d % rank for d in ([dim] if isinstance(dim, int) else dim)})) if x.shape else ()


def reduce(kind: str, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    """Reduce over dimensions; those of size one only change the shape. "sum" keeps eager's order of additions where it
    can, "total" takes any that is accurate.
    """
    kept = tuple(1 if d in dims else size for d, size in enumerate(x.shape))
    wide = tuple(d for d in dims if x.shape[d] != 1)
    if wide:
        value = Value("reduce", (x,), kept, x.dtype, (kind, wide))
    else:  # a sum starts from zero, which turns -0.0 into 0.0
        value = op("add", x, 0) if kind == "sum" and x.dtype.is_floating_point else copy(x)
    if keepdim or not dims:
        return value
    shape = tuple(size for d, size in enumerate(x.shape) if d not in dims)
    return Value("reshape", (value,), shape, value.dtype)


def count(x: Value, dims: tuple[int, ...], dtype: torch.dtype) -> Value:
    """How many elements a reduction over `dims` takes in."""
    return Value("count", (x,), (), dtype, tuple(d for d in dims if x.shape[d] != 1))


@lowering(aten.sum.dim_IntList)
def sum_dim(x: Value, dim: Dims, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    result = dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)
    if result not in FLOATS and x.dtype.is_floating_point:
        raise Unsupported("float to integer")
    wide = opmath(result) if result in FLOATS else torch.int64
    return cast(reduce("sum", cast(x, wide), dims_of(x, dim), keepdim), result)


@lowering(aten.sum.default)
def sum_(x: Value, dtype: torch.dtype | None = None) -> Value:
    return sum_dim(x, None, False, dtype)


@lowering(aten.mean.dim)
def mean_dim(x: Value, dim: Dims, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    if (dtype or x.dtype) not in FLOATS:
        raise Unsupported("mean of integers raises")
    dims = dims_of(x, dim)
    result = dtype or x.dtype
    total = sum_dim(x, dim, keepdim, opmath(result))  # halves are rounded once, at the end (ReduceOps.cpp, mean)
    return cast(op("div", total, count(x, dims, total.dtype)), result)


@lowering(aten.mean.default)
def mean(x: Value, dtype: torch.dtype | None = None) -> Value:
    return mean_dim(x, None, False, dtype)


@lowering(aten.prod.dim_int)
def prod_dim(x: Value, dim: Dims, keepdim: bool = False, dtype: torch.dtype | None = None) -> Value:
    result = dtype or (x.dtype if x.dtype.is_floating_point else torch.int64)
    if result not in FLOATS and x.dtype.is_floating_point:
        raise Unsupported("float to integer")
    wide = opmath(result) if result in FLOATS else torch.int64
    return cast(reduce("prod", cast(x, wide), dims_of(x, dim), keepdim), result)


@lowering(aten.prod.default)
def prod_(x: Value, dtype: torch.dtype | None = None) -> Value:
    return prod_dim(x, None, False, dtype)


def _extreme(kind: str) -> Callable[..., Value]:
    def rule(x: Value, dim: Dims = (), keepdim: bool = False) -> Value:
        if x.dtype == torch.bool:
            kind_ = {"max": "any", "min": "all"}[kind]
            return reduce(kind_, x, dims_of(x, dim), keepdim)
        wide = opmath(x.dtype) if x.dtype in FLOATS else torch.int64
        return cast(reduce(kind, cast(x, wide), dims_of(x, dim), keepdim), x.dtype)

    return rule


TABLE[aten.amax.default] = TABLE[aten.max.default] = _extreme("max")
TABLE[aten.amin.default] = TABLE[aten.min.default] = _extreme("min")


def _logical(kind: str) -> Callable[..., Value]:
    def rule(x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
        value = reduce(kind, x if x.dtype == torch.bool else op("ne", x, 0), dims_of(x, dim), keepdim)
        return cast(value, torch.uint8) if x.dtype == torch.uint8 else value

    return rule


for _kind in ("any", "all"):
    for _overload in ("default", "dim", "dims"):
        TABLE[getattr(getattr(aten, _kind), _overload)] = _logical(_kind)


FAR = 2**62  # beyond every position


def _first_extreme(kind: str, x: Value, dim: int | None, keepdim: bool) -> tuple[Value, Value]:
    """The extreme along a dimension and where it is first; of NaN, the first one."""
    if dim is None:
        flat = Value("reshape", (x,), (prod(x.shape),), x.dtype)
        value, where = _first_extreme(kind, flat, 0, False)
        return value, Value("reshape", (where,), (1,) * len(x.shape) if keepdim else (), where.dtype)
    if not x.shape:
        raise Unsupported("no dimension")
    if x.dtype == torch.bool:
        raise Unsupported("of bools")
    dims = dims_of(x, dim)
    wide = cast(x, opmath(x.dtype) if x.dtype in FLOATS else torch.int64)
    best = reduce(kind, wide, dims, True)
    found = op("eq", wide, best)
    if x.dtype.is_floating_point:
        found = op("or", found, op("ne", wide, wide))
    where = reduce("min", op("where", found, positions(x.shape, dims[0]), const(FAR, torch.int64)), dims, True)
    values = [cast(best, x.dtype), where]
    if not keepdim:
        shape = tuple(size for d, size in enumerate(x.shape) if d not in dims)
        values = [Value("reshape", (value,), shape, value.dtype) for value in values]
    return values[0], values[1]


def _argument(kind: str) -> Callable[..., Value]:
    def rule(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
        return _first_extreme(kind, x, dim, keepdim)[1]

    return rule


TABLE[aten.argmax.default], TABLE[aten.argmin.default] = _argument("max"), _argument("min")


@lowering(aten.max.dim)
def max_dim(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _first_extreme("max", x, dim, keepdim)


@lowering(aten.min.dim)
def min_dim(x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return _first_extreme("min", x, dim, keepdim)


@lowering(aten.logsumexp.default)
def logsumexp(x: Value, dim: Dims, keepdim: bool = False) -> Value:
    """As ReduceOps.cpp: an infinite maximum is not subtracted, so that nothing becomes infinity less infinity."""
    if x.dtype not in FLOATS or not x.shape:
        raise Unsupported("floats of at least one dimension")
    dims = dims_of(x, dim)
    wide = cast(x, opmath(x.dtype))
    most = reduce("max", wide, dims, True)
    most = op("where", op("eq", op("abs", most), math.inf), 0, most)
    total = reduce("total", op("exp", op("sub", wide, most), arg="sleef"), dims, True)
    return _shaped(op("add", op("log", total, arg="sleef"), most), x, dims, keepdim)


@lowering(aten.linalg_vector_norm.default)
def vector_norm(
    x: Value, ord: Any = 2, dim: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Value:
    if x.dtype not in FLOATS or (dtype or x.dtype) != x.dtype or isinstance(ord, Value):
        raise Unsupported("floats, and a constant order")
    dims = dims_of(x, dim)
    wide = cast(x, opmath(x.dtype))
    if ord == 2:
        value = op("sqrt", reduce("total", op("mul", wide, wide), dims, True), arg="exact")
    elif ord == 1:
        value = reduce("total", op("abs", wide), dims, True)
    elif ord in (math.inf, -math.inf):
        value = reduce("max" if ord > 0 else "min", op("abs", wide), dims, True)
    else:
        raise Unsupported(f"the norm of order {ord}")
    return _shaped(value, x, dims, keepdim)


def moments(x: Value, dims: tuple[int, ...]) -> tuple[Value, Value]:
    """Mean and sum of squared distances from it, kept dimensions, in two passes over `x` as it is."""
    n = count(x, dims, x.dtype)
    mean = op("div", reduce("total", x, dims, True), n)
    distance = op("sub", x, mean)
    return mean, reduce("total", op("mul", distance, distance), dims, True)


@lowering(aten.var_mean.correction)
def var_mean(x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> tuple[Value, Value]:
    """In float64, as eager's WelfordOps accumulates (ReduceOpsKernel.cpp, std_var_kernel)."""
    variance, mean, dims = _variance(x, dim, correction)
    return _shaped(variance, x, dims, keepdim), _shaped(mean, x, dims, keepdim)


@lowering(aten.var.correction)
def var(x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    return var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


@lowering(aten.std.correction)
def std(x: Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Value:
    variance, _, dims = _variance(x, dim, correction)
    return _shaped(op("sqrt", variance, arg="exact"), x, dims, keepdim)


def _variance(x: Value, dim: Dims, correction: Any) -> tuple[Value, Value, tuple[int, ...]]:
    """Variance and mean in float64, with kept dimensions."""
    dims, less = dims_of(x, dim), 1.0 if correction is None else correction
    if x.dtype not in FLOATS or isinstance(less, Value):
        raise Unsupported("floats and a constant correction only")
    if less > 1 or not any(x.shape[d] > 1 for d in dims):
        raise Unsupported("it may have no degrees of freedom, of which eager warns")
    wide = cast(x, torch.float64)
    mean, squares = moments(wide, dims)
    freedom = op("sub", count(wide, dims, torch.float64), float(less))
    return op("div", squares, freedom), mean, dims


def _shaped(value: Value, x: Value, dims: tuple[int, ...], keepdim: bool) -> Value:
    """Rounded to the dtype of `x`, without the reduced dimensions."""
    value = cast(value, x.dtype)
    if keepdim or not dims:
        return value
    return Value("reshape", (value,), tuple(s for d, s in enumerate(value.shape) if d not in dims), value.dtype)
