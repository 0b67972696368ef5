"""Softmax and the normalisations, taken apart into reductions and elementwise formulas."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from dynajit.lower.build import FLOATS, Unsupported, cast, fused, op, opmath
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering
from dynajit.lower.ops.reduction import count, dims_of, moments, reduce

aten: Any = torch.ops.aten
LARGE = 32768  # elements: below this, what eager does at once takes less than the launches of our kernels


def _wide(x: Value) -> Value:
    if x.dtype not in FLOATS or not x.shape:
        raise Unsupported("floats of at least one dimension")
    return cast(x, opmath(x.dtype))


@lowering(aten._softmax.default)
def softmax(x: Value, dim: int, half_to_float: bool) -> Value:
    wide, dims = _wide(x), dims_of(x, dim)
    powers = op("exp", op("sub", wide, reduce("max", wide, dims, True)), arg="sleef")
    return cast(op("div", powers, reduce("total", powers, dims, True)), x.dtype)


@lowering(aten._log_softmax.default)
def log_softmax(x: Value, dim: int, half_to_float: bool) -> Value:
    wide, dims = _wide(x), dims_of(x, dim)
    shifted = op("sub", wide, reduce("max", wide, dims, True))
    total = reduce("total", op("exp", shifted, arg="sleef"), dims, True)
    return cast(op("sub", shifted, op("log", total, arg="sleef")), x.dtype)


@lowering(aten.native_layer_norm.default)
def layer_norm(
    x: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    rank = len(x.shape)
    wide, dims = _wide(x), tuple(range(rank - len(normalized_shape), rank))
    mean, squares = moments(wide, dims)
    rstd = op("rsqrt", op("add", op("div", squares, count(wide, dims, wide.dtype)), eps))
    value = op("mul", op("sub", wide, mean), rstd)
    if weight is not None:
        value = op("mul", value, cast(weight, wide.dtype))
    if bias is not None:
        value = op("add", value, cast(bias, wide.dtype))
    return cast(value, x.dtype), cast(mean, x.dtype), cast(rstd, x.dtype)


@lowering(aten.native_group_norm.default)
def group_norm(
    x: Value, weight: Value | None, bias: Value | None, n: int, c: int, hxw: int, group: int, eps: float
) -> tuple[Value, Value, Value]:
    if weight is not None and weight.dtype != x.dtype:
        raise Unsupported("mixed dtypes")
    wide = _wide(x)
    split = Value("reshape", (wide,), (n, group, c // group, *x.shape[2:]), wide.dtype)
    dims = tuple(range(2, len(split.shape)))
    mean, squares = moments(split, dims)
    rstd = op("rsqrt", op("add", op("div", squares, count(split, dims, wide.dtype)), eps))
    value = Value("reshape", (op("mul", op("sub", split, mean), rstd),), x.shape, wide.dtype)
    for parameter, name in ((weight, "mul"), (bias, "add")):
        if parameter is not None:
            value = op(name, value, _channels(cast(parameter, wide.dtype), x))
    flat = [Value("reshape", (v,), (n, group), wide.dtype) for v in (mean, rstd)]
    return cast(value, x.dtype), cast(flat[0], x.dtype), cast(flat[1], x.dtype)


def _channels(parameter: Value, x: Value) -> Value:
    """A value of one dimension, standing along dimension 1 of `x`."""
    return Value("reshape", (parameter,), (*parameter.shape, *([1] * (len(x.shape) - 2))), parameter.dtype)


@lowering(aten.native_batch_norm.default, aten._native_batch_norm_legit_no_training.default)
def batch_norm(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    *rest: Any,
) -> tuple[Value, Value, Value]:
    training, eps = (rest[0], rest[2]) if len(rest) == 3 else (False, rest[1])
    if training or running_mean is None or running_var is None or x.dtype in (torch.bfloat16, torch.float16):
        raise Unsupported("batch statistics")
    if any(p is not None and p.dtype != x.dtype for p in (weight, bias, running_mean, running_var)):
        raise Unsupported("mixed dtypes")
    # batch_norm_cpu_collect_linear_and_constant_terms (batch_norm_kernel.cpp): x * alpha + beta, both sums contracted.
    alpha = op("rsqrt", op("add", running_var, eps))
    if weight is not None:
        alpha = op("mul", alpha, weight)
    beta = fused(op("neg", running_mean), alpha, bias if bias is not None else 0)
    return fused(x, _channels(alpha, x), _channels(beta, x)), running_mean, running_var


@lowering(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad: Value,
    x: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    saved_mean: Value | None,
    saved_rstd: Value | None,
    train: bool,
    eps: float,
    mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """As batch_norm_backward_cpu_template: sums of gradients and of their products with distances, for each channel."""
    mean, spread = (saved_mean, saved_rstd) if train else (running_mean, running_var)
    if prod(x.shape) < LARGE:
        raise Unsupported("too few elements for more than one pass")
    if mean is None or spread is None or x.dtype not in (torch.float32, torch.float64) or len(x.shape) < 2:
        raise Unsupported("statistics of another kind")
    if any(v is not None and v.dtype != x.dtype for v in (grad, weight, mean, spread)):
        raise Unsupported("mixed dtypes")
    rstd = spread if train else op("rsqrt", op("add", spread, eps))
    dims = (0, *range(2, len(x.shape)))
    distance = op("sub", x, _channels(mean, x))
    total = reduce("total", grad, dims, True)
    product = reduce("total", op("mul", distance, grad), dims, True)
    r = _channels(rstd, x)
    scale = r if weight is None else op("mul", r, _channels(weight, x))
    made: list[Value | None] = [None, None, None]
    if mask[0]:
        rest = grad
        if train:
            n = count(x, dims, x.dtype)
            k = op("div", op("mul", product, op("mul", r, r)), n)
            rest = op("sub", op("sub", grad, op("div", total, n)), op("mul", distance, k))
        made[0] = op("mul", rest, scale)
    flat = (x.shape[1],)
    if mask[1]:
        made[1] = Value("reshape", (op("mul", product, r),), flat, x.dtype)
    if mask[2]:
        made[2] = Value("reshape", (total,), flat, x.dtype)
    return made[0], made[1], made[2]


@lowering(aten.native_group_norm_backward.default)
def group_norm_backward(
    grad: Value,
    x: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """As GroupNormBackwardKernelImplInternal: sums over the elements of each channel, then over the channels of each
    group, make dx a linear function of the gradient and of x.
    """
    if prod(x.shape) < 4 * LARGE:
        raise Unsupported("too few elements for four kernels")
    if x.dtype not in (torch.float32, torch.float64) or len(x.shape) < 3:
        raise Unsupported("another dtype, or nothing in a channel")
    if any(v is not None and v.dtype != x.dtype for v in (grad, mean, rstd, weight)):
        raise Unsupported("mixed dtypes")
    split = (n, group, c // group, *x.shape[2:])
    given, value = (Value("reshape", (v,), split, x.dtype) for v in (grad, x))
    over, channels = tuple(range(3, len(split))), (n, group, c // group, *([1] * len(x.shape[2:])))
    products = reduce("total", op("mul", given, value), over, True)
    totals = reduce("total", given, over, True)
    m, r = (Value("reshape", (v,), (n, group, *([1] * (len(split) - 2))), x.dtype) for v in (mean, rstd))
    made: list[Value | None] = [None, None, None]
    if mask[0]:
        gamma = None if weight is None else Value("reshape", (weight,), (1, *channels[1:]), x.dtype)
        means = [op("div", v, count(value, over, x.dtype)) for v in (products, totals)]
        scaled = [v if gamma is None else op("mul", v, gamma) for v in means]
        ds, db = (op("div", reduce("total", v, (2,), True), count(v, (2,), x.dtype)) for v in scaled)
        second = op("mul", op("sub", op("mul", db, m), ds), op("mul", r, op("mul", r, r)))
        third = op("sub", op("neg", op("mul", second, m)), op("mul", db, r))
        first = r if gamma is None else op("mul", r, gamma)
        dx = op("add", op("add", op("mul", given, first), op("mul", value, second)), third)
        made[0] = Value("reshape", (dx,), x.shape, x.dtype)
    if mask[1]:
        parts = op("mul", op("sub", products, op("mul", totals, m)), r)
        made[1] = Value("reshape", (reduce("total", parts, (0,), True),), (c,), x.dtype)
    if mask[2]:
        made[2] = Value("reshape", (reduce("total", totals, (0,), True),), (c,), x.dtype)
    return made[0], made[1], made[2]
