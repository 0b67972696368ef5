"""Elementwise operations, as the formulas of eager's CPU kernels (aten/src/ATen/native/cpu/*OpsKernel.cpp).

A mathematical function says how eager gets it: "vml": through vml.h, for whole arrays; "sleef": SLEEF for all elements;
"vec": inside a vectorised kernel, that is SLEEF for whole vectors and libm for what is left at the end of each thread's
part; "vech": the same for half types, whose vectors hold twice as many; "std": libm for all; "inline": our own, where
eager's cannot be had.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from dynajit.lower.build import (
    FLOATS,
    HALVES,
    INTS,
    Operand,
    Unsupported,
    cast,
    common_dtype,
    const,
    is_number,
    op,
    pointwise,
)
from dynajit.lower.ir import Value
from dynajit.lower.lowering import TABLE, lowering

aten: Any = torch.ops.aten


def vec(name: str, *xs: Operand) -> Value:
    """A function as a vectorised kernel calls it."""
    return op(name, *xs, arg="vec")


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
    return pointwise(lambda v: op("neg", v), _not_bool(x))


@lowering(aten.abs.default)
def abs_(x: Value) -> Value:
    return pointwise(lambda v: op("abs", v), _not_bool(x))


@lowering(aten.square.default)
def square(x: Value) -> Value:
    return pow_scalar(x, 2)


def _rounding(name: str) -> Any:
    def rule(x: Value) -> Value:
        return pointwise(lambda v: op(name, v), x) if x.dtype.is_floating_point else copy(_not_bool(x))

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
    return pointwise(lambda a, b: op("fma", b, alpha, a), x, y)  # add_clamp: vec::fmadd(b, alpha, a)


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

    return pointwise(formula, *_floats(x, y))


@lowering(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: vec("fmod", a, b), *_floats(x, y))


@lowering(aten.atan2.default)
def atan2(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("atan2", a, b), *_floats(x, y))


@lowering(aten.hypot.default)
def hypot(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("hypot", a, b), *_floats(x, y))


@lowering(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: Operand, y: Operand) -> Value:
    return pointwise(lambda a, b: op("copysign", a, b), *_floats(x, y))


@lowering(aten.pow.Tensor_Tensor)
def pow_tensor(x: Value, y: Value) -> Value:
    return pointwise(lambda a, b: vec("pow", a, b), *_floats(x, y))


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


@lowering(aten.relu.default)
def relu(x: Value) -> Value:
    return pointwise(lambda v: op("maximum", 0, v), _not_bool(x))


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
    return pointwise(formula, _not_bool(x), *bounds)


@lowering(aten.clamp_min.default)
def clamp_min(x: Value, min: Any) -> Value:
    return clamp(x, min)


@lowering(aten.clamp_max.default)
def clamp_max(x: Value, max: Any) -> Value:
    return clamp(x, None, max)


@lowering(aten.hardtanh.default)
def hardtanh(x: Value, min_val: Any = -1, max_val: Any = 1) -> Value:
    return clamp(x, min_val, max_val)


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


@lowering(aten.sigmoid.default)
def sigmoid(x: Value) -> Value:
    return pointwise(_sigmoid, x, floating=True)


def _sigmoid(v: Value) -> Value:
    return op("reciprocal", op("add", 1, vec("exp", op("sub", 0, v))))


@lowering(aten.silu.default)
def silu(x: Value) -> Value:
    return pointwise(lambda v: op("div", v, op("add", 1, vec("exp", op("neg", v)))), _float(x))


@lowering(aten.gelu.default)
def gelu(x: Value, approximate: str = "none") -> Value:
    if approximate == "none":
        return pointwise(_gelu, _float(x))
    beta = math.sqrt(2.0) * (2.0 / math.sqrt(math.pi)) * 0.5

    def formula(v: Value) -> Value:
        cube = op("mul", op("mul", v, v), v)
        inner = op("mul", beta, op("fma", 0.044715, cube, v))  # contracted by the compiler in eager's kernel
        return op("mul", op("mul", 0.5, v), op("add", 1, vec("tanh", inner)))

    return pointwise(formula, _float(x))


def _gelu(v: Value) -> Value:
    """For float32, eager calls oneDNN, whose approximation cannot be called for a block (and is off by 1e-6)."""
    inside = op("mul", v, math.sqrt(0.5))
    erf = op("erf", inside, arg="inline") if v.dtype == torch.float32 else vec("erf", inside)
    return op("mul", op("mul", v, 0.5), op("add", 1, erf))


@lowering(aten.softplus.default)
def softplus(x: Value, beta: Any = 1, threshold: Any = 20) -> Value:
    def formula(v: Value) -> Value:
        scaled = op("mul", v, float(beta))
        return op("where", op("gt", scaled, threshold), v, op("div", vec("log1p", vec("exp", scaled)), float(beta)))

    return pointwise(formula, _float(x))


@lowering(aten.elu.default)
def elu(x: Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Value:
    def formula(v: Value) -> Value:
        negative = op("mul", vec("expm1", op("mul", v, float(input_scale))), float(alpha) * float(scale))
        return op("where", op("lt", v, 0), negative, op("mul", v, float(scale)))

    return pointwise(formula, _float(x))


@lowering(aten.celu.default)
def celu(x: Value, alpha: Any = 1.0) -> Value:
    return elu(x, alpha, 1.0, 1.0 / float(alpha))


@lowering(aten.log_sigmoid_forward.default)
def log_sigmoid(x: Value) -> tuple[Value, Value]:
    """min(0, x) - log1p(exp(-|x|)); eager's second result is only for its backward."""

    def formula(v: Value) -> Value:
        small = op("exp", op("neg", op("abs", v)), arg="sleef")  # log_sigmoid_cpu_kernel has no scalar tail
        return op("sub", op("minimum", 0, v), op("log1p", small, arg="sleef"))

    return pointwise(formula, _float(x)), x


@lowering(aten.mish.default)
def mish(x: Value) -> Value:
    return pointwise(lambda v: op("mul", v, vec("tanh", vec("log1p", vec("exp", v)))), _float(x))


@lowering(aten.hardswish.default)
def hardswish(x: Value) -> Value:
    return pointwise(lambda v: op("div", op("mul", v, _relu6(op("add", v, 3))), 6), _float(x))


@lowering(aten.hardsigmoid.default)
def hardsigmoid(x: Value) -> Value:
    return pointwise(lambda v: op("div", _relu6(op("add", v, 3)), 6), _float(x))


def _relu6(v: Value) -> Value:
    return op("minimum", 6, op("maximum", 0, v))


@lowering(aten.leaky_relu.default)
def leaky_relu(x: Value, negative_slope: Any = 0.01) -> Value:
    return pointwise(lambda v: op("where", op("gt", v, 0), v, op("mul", v, float(negative_slope))), _float(x))


@lowering(aten.addcmul.default)
def addcmul(x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    # self + value * t1 * t2 with the outer sum contracted to an FMA, as gcc compiles PointwiseOpsKernel.cpp.
    return pointwise(lambda a, b, c: op("fma", op("mul", b, float(value)), c, a), *_floats(x, y, z))


@lowering(aten.addcdiv.default)
def addcdiv(x: Value, y: Value, z: Value, value: Any = 1) -> Value:
    return pointwise(lambda a, b, c: op("add", a, op("div", op("mul", b, float(value)), c)), *_floats(x, y, z))


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


@lowering(aten.lerp.Scalar)
def lerp(x: Value, end: Value, weight: Any) -> Value:
    if isinstance(weight, Value):
        raise Unsupported("the weight is not a constant")

    def formula(a: Value, b: Value) -> Value:  # Lerp.h, with the contraction the compiler does
        if abs(weight) < 0.5:
            return op("fma", op("sub", b, a), float(weight), a)
        return op("fma", op("neg", op("sub", b, a)), op("sub", 1, const(float(weight), a.dtype)), b)

    return pointwise(formula, *_floats(x, end))


def _dtype(operand: Operand) -> torch.dtype:
    return operand.dtype if isinstance(operand, Value) else torch.bool if isinstance(operand, bool) else torch.float32


def _not_bool(x: Value) -> Value:
    if x.dtype == torch.bool:
        raise Unsupported("not for bool")
    return x


def _float(x: Value) -> Value:
    if x.dtype not in FLOATS:
        raise Unsupported("floats only")
    return x


def _floats(*xs: Operand) -> tuple[Operand, ...]:
    if not common_dtype(xs).is_floating_point:
        raise Unsupported("floats only")
    return xs
