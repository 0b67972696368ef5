"""Arithmetic and mathematical functions, as the formulas of eager's CPU kernels (ATen/native/cpu/*OpsKernel.cpp)."""

from __future__ import annotations

import math
from typing import Any

import torch

from dynajit.lower.build import (
    HALVES,
    INTS,
    Operand,
    Unsupported,
    cast,
    common_dtype,
    const,
    floats_only,
    fused,
    not_bool,
    op,
    pointwise,
    vec,
)
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE, lowering
from dynajit.lower.ops.conversion import copy

aten: Any = torch.ops.aten


def _function(name: str, way: str) -> Any:
    def rule(x: Value) -> Value:
        half = x.dtype in HALVES
        if half and name in ("erf", "erfc", "erfinv"):
            raise Unsupported("eager flushes denormals here")
        how = way if not half or way != "vml" else "exact" if name == "sqrt" else "sleef"
        return pointwise(lambda v: op(name, v, arg=how), x, floating=True)

    return rule


# UnaryOpsKernel.cpp: these are IMPLEMENT_VML_KERNEL, the others below cpu_kernel_vec.
for _name in "exp expm1 log log2 log10 log1p sin cos tan asin acos atan tanh erf erfc erfinv lgamma sqrt".split():
    TABLE[getattr(aten, _name).default] = _function(_name, "vml")
for _name in ("exp2", "sinh", "cosh", "atanh"):
    TABLE[getattr(aten, _name).default] = _function(_name, "vec")


@lowering(aten.reciprocal.default)
def reciprocal(x: Value) -> Value:
    return pointwise(lambda v: op("reciprocal", v), x, floating=True)


@lowering(aten.rsqrt.default)
def rsqrt(x: Value) -> Value:
    if x.dtype in HALVES:
        raise Unsupported("eager rounds the root of some elements, too")
    return pointwise(lambda v: op("rsqrt", v), x, floating=True)


@lowering(aten.neg.default)
def neg(x: Value) -> Value:
    return pointwise(lambda v: op("neg", v), not_bool(x))


@lowering(aten.abs.default)
def abs_(x: Value) -> Value:
    return pointwise(lambda v: op("abs", v), not_bool(x))


@lowering(aten.square.default)
def square(x: Value) -> Value:
    return pow_scalar(x, 2)


def _rounding(name: str) -> Any:
    def rule(x: Value) -> Value:
        return pointwise(lambda v: op(name, v), x) if x.dtype.is_floating_point else copy(not_bool(x))

    return rule


for _name, _op in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("round", "rint")):
    TABLE[getattr(aten, _name).default] = _rounding(_op)


@lowering(aten.sign.default, aten.sgn.default)
def sign(x: Value) -> Value:
    if x.dtype == torch.bool:
        return copy(x)

    def formula(v: Value) -> Value:  # (0 < x) - (x < 0), so that NaN gives 0 (UnaryOpsKernel.cpp, sign_kernel)
        return op("sub", cast(op("lt", 0, v), v.dtype), cast(op("lt", v, 0), v.dtype))

    return pointwise(formula, x)


@lowering(aten.add.Tensor, aten.add.Scalar)
def add(x: Operand, y: Operand, alpha: Any = 1) -> Value:
    return _add(x, y, alpha)


@lowering(aten.sub.Tensor, aten.sub.Scalar)
def sub(x: Operand, y: Operand, alpha: Any = 1) -> Value:
    if torch.bool in (_dtype(x), _dtype(y)):
        raise Unsupported("subtraction of bool")
    if alpha == 1:
        return pointwise(lambda a, b: op("sub", a, b), x, y)
    return _add(x, y, -alpha)


@lowering(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(x: Operand, y: Operand, alpha: Any = 1) -> Value:
    return sub(y, x, alpha)


def _add(x: Operand, y: Operand, alpha: Any) -> Value:
    if isinstance(alpha, Value):
        raise Unsupported("alpha is not a constant")
    if alpha == 1:
        both = common_dtype((x, y)) == torch.bool
        return pointwise(lambda a, b: op("or" if both else "add", a, b), x, y)
    if not common_dtype((x, y)).is_floating_point:
        if isinstance(alpha, float):
            raise Unsupported("a float alpha for integers")
        return pointwise(lambda a, b: op("add", a, op("mul", b, alpha)), x, y)
    return pointwise(lambda a, b: fused(b, alpha, a), x, y)  # add_clamp: vec::fmadd(b, alpha, a)


@lowering(aten.mul.Tensor, aten.mul.Scalar)
def mul(x: Operand, y: Operand) -> Value:
    both = common_dtype((x, y)) == torch.bool
    return pointwise(lambda a, b: op("and" if both else "mul", a, b), x, y, wide_last=True)


@lowering(aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor)
def div(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: op("div", a, b), x, y, floating=True, wide_last=True)


@lowering(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return div(x, y)
    if not common_dtype((x, y)).is_floating_point:
        raise Unsupported("integer division: a zero divisor must raise")
    if rounding_mode == "trunc":
        return pointwise(lambda a, b: op("trunc", op("div", a, b)), x, y)
    return pointwise(_div_floor, x, y)


def _div_floor(a: Value, b: Value) -> Value:
    """BinaryOpsKernel.cpp, div_floor_floating_vec."""
    plain, mod = op("div", a, b), vec("fmod", a, b)
    overflow = op("and", op("eq", op("abs", plain), math.inf), op("ne", op("abs", a), math.inf))
    quotient = op("div", op("where", overflow, a, op("sub", a, mod)), b)
    quotient = op("where", _signs_differ(mod, b), op("sub", quotient, 1), quotient)
    floor = op("floor", quotient)
    floor = op("where", op("gt", op("sub", quotient, floor), 0.5), op("add", floor, 1), floor)
    floor = op("where", op("eq", quotient, 0), op("copysign", const(0.0, plain.dtype), plain), floor)
    return op("where", op("eq", b, 0), plain, floor)


def _signs_differ(mod: Value, b: Value) -> Value:
    return op("and", op("ne", mod, 0), op("ne", op("lt", b, 0), op("lt", mod, 0)))


@lowering(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(x: Operand, y: Operand) -> Value:
    return div_mode(x, y, "floor")


@lowering(aten.remainder.Tensor, aten.remainder.Scalar)
def remainder(x: Operand, y: Operand) -> Value:
    def formula(a: Value, b: Value) -> Value:
        mod = vec("fmod", a, b)
        return op("where", _signs_differ(mod, b), op("add", mod, b), mod)

    return pointwise(formula, *floats_only(x, y))


@lowering(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: vec("fmod", a, b), *floats_only(x, y))


@lowering(aten.atan2.default)
def atan2(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("atan2", a, b), *floats_only(x, y))


@lowering(aten.hypot.default)
def hypot(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("hypot", a, b), *floats_only(x, y))


@lowering(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: op("copysign", a, b), *floats_only(x, y))


@lowering(aten.pow.Tensor_Tensor)
def pow_tensor(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("pow", a, b), *floats_only(x, y))


@lowering(aten.pow.Tensor_Scalar)
def pow_scalar(x: Value, exponent: Any) -> Value:
    if isinstance(exponent, Value):
        raise Unsupported("the exponent is not a constant")
    if not x.dtype.is_floating_point:
        if exponent == 2 and isinstance(exponent, int) and x.dtype in INTS:
            return pointwise(lambda v: op("mul", v, v), x)
        raise Unsupported("power of integers")
    # PowKernel.cpp, pow_tensor_scalar_optimized_kernel: these exponents are special, others go through Vec::pow.
    special: dict[float, Any] = {
        2.0: lambda v: op("mul", v, v),
        3.0: lambda v: op("mul", op("mul", v, v), v),
        -1.0: lambda v: op("reciprocal", v),
        -2.0: lambda v: op("reciprocal", op("mul", v, v)),
    }
    if exponent == 0.5:
        root: Value = TABLE[aten.sqrt.default](x)
        return root
    if exponent == -0.5:
        return rsqrt(x)
    if exponent in special:
        return pointwise(special[exponent], x)
    if exponent == 1.0:
        return copy(x)
    return pointwise(lambda v, e: vec("pow", v, e), x, float(exponent))


@lowering(aten.addcmul.default)
def addcmul(x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    # self + value * t1 * t2 with the outer sum contracted to an FMA, as gcc compiles PointwiseOpsKernel.cpp.
    return pointwise(lambda a, b, c: fused(op("mul", b, float(value)), c, a), *floats_only(x, y, z))


@lowering(aten.addcdiv.default)
def addcdiv(x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    return pointwise(lambda a, b, c: op("add", a, op("div", op("mul", b, float(value)), c)), *floats_only(x, y, z))


@lowering(aten.lerp.Scalar)
def lerp(x: Value, end: Value, weight: Any) -> Value:
    if isinstance(weight, Value):
        raise Unsupported("the weight is not a constant")

    def formula(a: Value, b: Value) -> Value:  # Lerp.h, with the contraction the compiler does
        if abs(weight) < 0.5:
            return fused(op("sub", b, a), float(weight), a)
        return fused(op("neg", op("sub", b, a)), op("sub", 1, const(float(weight), a.dtype)), b)

    return pointwise(formula, *floats_only(x, end))


def _dtype(operand: Operand) -> torch.dtype:
    return operand.dtype if isinstance(operand, Value) else torch.bool if isinstance(operand, bool) else torch.float32
