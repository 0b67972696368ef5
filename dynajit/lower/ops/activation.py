"""Activations, as the formulas of eager's CPU kernels (ATen/native/cpu/Activation.cpp, UnaryOpsKernel.cpp)."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynajit.lower.build import float_only, fused, not_bool, op, pointwise, vec
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering
from dynajit.lower.ops.comparison import clamp

aten: Any = torch.ops.aten


@lowering(aten.relu.default)
def relu(x: Value) -> Value:
    return pointwise(lambda v: op("maximum", 0, v), not_bool(x))


@lowering(aten.hardtanh.default)
def hardtanh(x: Value, min_val: Any = -1, max_val: Any = 1) -> Value:
    return clamp(x, min_val, max_val)


@lowering(aten.sigmoid.default)
def sigmoid(x: Value) -> Value:
    return pointwise(_sigmoid, x, floating=True)


def _sigmoid(v: Value) -> Value:
    return op("reciprocal", op("add", 1, vec("exp", op("sub", 0, v))))


@lowering(aten.silu.default)
def silu(x: Value) -> Value:
    return pointwise(lambda v: op("div", v, op("add", 1, vec("exp", op("neg", v)))), float_only(x))


@lowering(aten.gelu.default)
def gelu(x: Value, approximate: str = "none") -> Value:
    if approximate == "none":
        return pointwise(_gelu, float_only(x))
    beta = math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5

    def formula(v: Value) -> Value:
        cube = op("mul", op("mul", v, v), v)
        inner = op("mul", beta, fused(0.044715, cube, v))  # contracted by the compiler in eager's kernel
        return op("mul", op("mul", 0.5, v), op("add", 1, vec("tanh", inner)))

    return pointwise(formula, float_only(x))


def _gelu(v: Value) -> Value:
    """For float32 of more than one element, eager calls oneDNN, which multiplies in another order and makes NaN of
    infinities. Its approximation of erf (off by 1e-6) cannot be called for a block: ours is inlined.
    """
    inside = op("mul", v, math.sqrt(0.5))
    if v.dtype != torch.float32 or math.prod(v.shape) == 1:
        return op("mul", op("mul", v, 0.5), op("add", 1, vec("erf", inside)))
    erf = op("where", op("eq", op("abs", v), math.inf), math.nan, op("erf", inside, arg="inline"))
    return op("mul", op("mul", v, op("add", 1, erf)), 0.5)


@lowering(aten.softplus.default)
def softplus(x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    def formula(v: Value) -> Value:
        scaled = op("mul", v, float(beta))
        return op("where", op("gt", scaled, threshold), v, op("div", vec("log1p", vec("exp", scaled)), float(beta)))

    return pointwise(formula, float_only(x))


@lowering(aten.elu.default)
def elu(x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    def formula(v: Value) -> Value:
        negative = op("mul", vec("expm1", op("mul", v, float(input_scale))), float(alpha) * float(scale))
        return op("where", op("lt", v, 0), negative, op("mul", v, float(scale)))

    return pointwise(formula, float_only(x))


@lowering(aten.celu.default)
def celu(x: Value, alpha: Any = 1.0) -> Value:
    return elu(x, alpha, 1.0, 1.0 / float(alpha))


@lowering(aten.log_sigmoid_forward.default)
def log_sigmoid(x: Value) -> tuple[Value, Value]:
    """min(0, x) - log1p(exp(-|x|)), and that power for the backward pass."""

    def small(v: Value) -> Value:
        return op("exp", op("neg", op("abs", v)), arg="sleef")  # log_sigmoid_cpu_kernel has no scalar tail

    def formula(v: Value) -> Value:
        return op("sub", op("minimum", 0, v), op("log1p", small(v), arg="sleef"))

    return pointwise(formula, float_only(x)), pointwise(small, x)


@lowering(aten.mish.default)
def mish(x: Value) -> Value:
    return pointwise(lambda v: op("mul", v, vec("tanh", vec("log1p", vec("exp", v)))), float_only(x))


@lowering(aten.hardswish.default)
def hardswish(x: Value) -> Value:
    return pointwise(lambda v: op("div", op("mul", v, _relu6(op("add", v, 3))), 6), float_only(x))


@lowering(aten.hardsigmoid.default)
def hardsigmoid(x: Value) -> Value:
    return pointwise(lambda v: op("div", _relu6(op("add", v, 3)), 6), float_only(x))


def _relu6(v: Value) -> Value:
    return op("minimum", 6, op("maximum", 0, v))


@lowering(aten.leaky_relu.default)
def leaky_relu(x: Value, negative_slope: Any = 0.01) -> Value:
    return pointwise(lambda v: op("where", op("gt", v, 0), v, op("mul", v, float(negative_slope))), float_only(x))
