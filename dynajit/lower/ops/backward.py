"""Gradients of activations, softmax and normalisations, as the formulas of eager's CPU kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from dynajit.lower.build import FLOATS, Unsupported, cast, float_only, fused, op, opmath, pointwise, vec
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering
from dynajit.lower.ops.reduction import count, dims_of, reduce

aten: Any = torch.ops.aten


def _number(value: Any) -> float:
    if isinstance(value, Value):
        raise Unsupported("a number that is not a constant")
    return float(value)


@lowering(aten.tanh_backward.default)
def tanh_backward(grad: Value, y: Value) -> Value:
    return pointwise(lambda g, v: op("mul", g, fused(op("neg", v), v, 1.0)), float_only(grad), y)


@lowering(aten.sigmoid_backward.default)
def sigmoid_backward(grad: Value, y: Value) -> Value:
    def rounded(v: Value) -> Value:  # of the half types, only bfloat16 has a kernel that calculates in float32
        return cast(cast(v, torch.float16), v.dtype) if grad.dtype == torch.float16 else v

    def formula(g: Value, v: Value) -> Value:
        return op("mul", rounded(op("mul", g, rounded(op("sub", 1, v)))), v)

    return pointwise(formula, float_only(grad), y)


@lowering(aten.threshold_backward.default)
def threshold_backward(grad: Value, x: Value, threshold: Any) -> Value:
    bound = _number(threshold)
    return pointwise(lambda g, v: op("where", op("le", v, bound), 0, g), float_only(grad), x)


@lowering(aten.hardtanh_backward.default)
def hardtanh_backward(grad: Value, x: Value, low: Any, high: Any) -> Value:
    def formula(g: Value, v: Value) -> Value:
        return op("where", op("and", op("gt", v, _number(low)), op("lt", v, _number(high))), g, 0)

    return pointwise(formula, float_only(grad), x)


@lowering(aten.leaky_relu_backward.default)
def leaky_relu_backward(grad: Value, x: Value, slope: Any, of_result: bool) -> Value:
    return pointwise(lambda g, v: op("where", op("gt", v, 0), g, op("mul", g, _number(slope))), float_only(grad), x)


@lowering(aten.silu_backward.default)
def silu_backward(grad: Value, x: Value) -> Value:
    def formula(g: Value, v: Value) -> Value:
        sigmoid = op("div", 1, op("add", 1, vec("exp", op("neg", v))))
        return op("mul", op("mul", g, sigmoid), fused(v, op("sub", 1, sigmoid), 1.0))

    return pointwise(formula, float_only(grad), x)


@lowering(aten.gelu_backward.default)
def gelu_backward(grad: Value, x: Value, approximate: str = "none") -> Value:
    return pointwise(_gelu if approximate == "none" else _gelu_tanh, float_only(grad), x)


def _gelu(g: Value, v: Value) -> Value:
    inside = op("mul", v, math.sqrt(0.5))
    beta = 2.0 / math.sqrt(math.pi) * math.sqrt(0.5) * 0.5
    # For float32, eager calls oneDNN, whose erf is off by 1e-6 and cannot be called for a block.
    erf = op("erf", inside, arg="inline") if v.dtype == torch.float32 else vec("erf", inside)
    cdf = op("mul", 0.5, op("add", 1, erf))
    pdf = op("mul", beta, vec("exp", op("mul", op("mul", v, v), -0.5)))
    return op("mul", g, fused(v, pdf, cdf))


def _gelu_tanh(g: Value, v: Value) -> Value:
    beta, kappa = math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5, 0.044715
    square = op("mul", v, v)
    inner = op("mul", beta, fused(kappa, op("mul", square, v), v))
    tanh = vec("tanh", inner)
    left, right = op("mul", 0.5, v), op("add", 1, tanh)
    # The compiler folds 3 * kappa in the type it calculates in.
    triple = 3 * kappa if v.dtype == torch.float64 else (torch.tensor(3.0) * torch.tensor(kappa)).item()
    slope = op("mul", beta, fused(triple, square, 1.0))
    rest = op("mul", op("mul", left, fused(op("neg", tanh), tanh, 1.0)), slope)
    return op("mul", g, fused(0.5, right, rest))


@lowering(aten.mse_loss_backward.default)
def mse_loss_backward(grad: Value, x: Value, target: Value, reduction: int) -> Value:
    def formula(g: Value, v: Value, t: Value) -> Value:
        difference = op("sub", v, t)
        if reduction != 1:
            return op("mul", op("mul", 2.0, difference), g)
        scale = op("div", 2.0, count(x, dims_of(x, None), v.dtype))
        return op("mul", op("mul", scale, difference), g)

    return pointwise(formula, float_only(grad), x, target)


@lowering(aten._softmax_backward_data.default)
def softmax_backward(grad: Value, y: Value, dim: int, dtype: torch.dtype) -> Value:
    wide, value, dims = _wide(grad), _wide(y), dims_of(y, dim)
    total = reduce("total", op("mul", wide, value), dims, True)
    return cast(op("mul", op("sub", wide, total), value), dtype)


@lowering(aten._log_softmax_backward_data.default)
def log_softmax_backward(grad: Value, y: Value, dim: int, dtype: torch.dtype) -> Value:
    wide, value, dims = _wide(grad), _wide(y), dims_of(y, dim)
    total = reduce("total", wide, dims, True)
    return cast(op("sub", wide, op("mul", op("exp", value, arg="sleef"), total)), dtype)


def _wide(x: Value) -> Value:
    if x.dtype not in FLOATS or not x.shape:
        raise Unsupported("floats of at least one dimension")
    return cast(x, opmath(x.dtype))


@lowering(aten.native_layer_norm_backward.default)
def layer_norm_backward(
    grad: Value,
    x: Value,
    shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    mask: Sequence[bool],
) -> tuple[Value | None, Value | None, Value | None]:
    """dx = rstd * (g - mean(g) - x̂ * mean(g * x̂)) with g = grad * weight; the others are sums over rows."""
    if any(v is not None and v.dtype != x.dtype for v in (grad, mean, rstd, weight, bias)) or x.dtype not in FLOATS:
        raise Unsupported("mixed dtypes")
    rank = len(x.shape)
    rows, dims = tuple(range(rank - len(shape))), tuple(range(rank - len(shape), rank))
    wide, given = _wide(x), _wide(grad)
    m, r = (cast(v, wide.dtype) for v in (mean, rstd))
    normal = op("mul", op("sub", wide, m), r)
    scaled = given if weight is None else op("mul", given, cast(weight, wide.dtype))
    n = count(scaled, dims, wide.dtype)
    made: list[Value | None] = [None, None, None]
    if mask[0]:
        first = op("div", reduce("total", scaled, dims, True), n)
        second = op("div", reduce("total", op("mul", scaled, normal), dims, True), n)
        inner = op("sub", op("sub", scaled, first), op("mul", normal, second))
        made[0] = cast(op("mul", r, inner), x.dtype)
    if mask[1]:
        made[1] = cast(reduce("total", op("mul", given, normal), rows, False), x.dtype)
    if mask[2]:
        made[2] = cast(reduce("total", given, rows, False), x.dtype)
    return made[0], made[1], made[2]
