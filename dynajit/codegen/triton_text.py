"""The Triton spelling of types, numbers and scalar operations.

Exact where eager is: `tl.div_rn` and `tl.sqrt_rn` (plain `/` and `tl.sqrt` are approximations for float32), libdevice
instead of `tl.exp` (which is ex2.approx), NaN kept by max and min.
"""

from __future__ import annotations

import math

import torch

from dynajit.codegen.c_text import BF16, F16, F32, F64

TYPE = {
    F32: "tl.float32",
    F64: "tl.float64",
    BF16: "tl.bfloat16",
    F16: "tl.float16",
    torch.bool: "tl.int1",
    torch.uint8: "tl.uint8",
    torch.int8: "tl.int8",
    torch.int16: "tl.int16",
    torch.int32: "tl.int32",
    torch.int64: "tl.int64",
}
HALVES = (BF16, F16)
# In a register, a half is a float32 that was rounded to it.
REGISTER = {**TYPE, BF16: "tl.float32", F16: "tl.float32"}

NAN = "propagate_nan=tl.PropagateNan.ALL"
_MAXIMUM, _MINIMUM = f"tl.maximum({{0}}, {{1}}, {NAN})", f"tl.minimum({{0}}, {{1}}, {NAN})"

# {0}, {1}, {2}: operands. By dtype where spellings differ; None: all others.
EXPRESSION: dict[str, str | dict[torch.dtype | None, str]] = {
    "copy": "{0}",
    "neg": "-{0}",
    "not": "~{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": {F32: "tl.div_rn({0}, {1})", None: "{0} / {1}"},
    "reciprocal": {F32: "tl.div_rn(1.0, {0})", None: "1.0 / {0}"},
    "sqrt": {F32: "tl.sqrt_rn({0})", None: "tl.sqrt({0})"},
    "rsqrt": "libdevice.rsqrt({0})",
    "abs": "tl.abs({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "trunc": "libdevice.trunc({0})",
    "rint": "libdevice.rint({0})",
    "fma": "tl.fma({0}, {1}, {2})",
    "maximum": {
        F32: f"tl.maximum({{0}}, {{1}}, {NAN})",
        F64: f"tl.maximum({{0}}, {{1}}, {NAN})",
        None: "tl.maximum({0}, {1})",
    },
    "minimum": {
        F32: f"tl.minimum({{0}}, {{1}}, {NAN})",
        F64: f"tl.minimum({{0}}, {{1}}, {NAN})",
        None: "tl.minimum({0}, {1})",
    },
    "copysign": "libdevice.copysign({0}, {1})",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "where": "tl.where({0}, {1}, {2})",
}
_FUNCTIONS = """exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
erf erfc erfinv lgamma"""
EXPRESSION |= {name: f"libdevice.{name}({{0}})" for name in _FUNCTIONS.split()}
EXPRESSION |= {name: f"libdevice.{name}({{0}}, {{1}})" for name in ("pow", "atan2", "hypot", "fmod")}

# kind of reduction -> (value that changes nothing, function of two values); by category of dtype.
COMBINE = {
    "sum": "add",
    "total": "add",
    "prod": "times",
    "max": "larger",
    "min": "smaller",
    "any": "either",
    "all": "both",
}
HELPERS = {
    "add": "a + b",
    "times": "a * b",
    "larger": f"tl.maximum(a, b, {NAN})",
    "smaller": f"tl.minimum(a, b, {NAN})",
    "larger_int": "tl.maximum(a, b)",
    "smaller_int": "tl.minimum(a, b)",
    "either": "a | b",
    "both": "a & b",
}


def expression(op: str, dtype: torch.dtype) -> str | None:
    row = EXPRESSION.get(op)
    if row is None or isinstance(row, str):
        return row
    return row.get(dtype, row.get(None))


def literal(number: float | int | bool, dtype: torch.dtype) -> str:
    """A number of a dtype. Triton makes float32 of a Python float, so a double says that it is one."""
    if dtype == torch.bool:
        return "True" if number else "False"
    if not dtype.is_floating_point:
        return repr(int(number))
    value = float(number)
    text = repr(value) if math.isfinite(value) else f'float("{value}")'
    return f"tl.full([], {text}, tl.float64)" if dtype == F64 else text


def neutral(kind: str, dtype: torch.dtype) -> str:
    """The value that a reduction does not notice."""
    if kind in ("any", "all"):
        return "False" if kind == "any" else "True"
    if kind in ("sum", "total"):
        return "0.0" if dtype.is_floating_point else "0"
    if kind == "prod":
        return "1.0" if dtype.is_floating_point else "1"
    if dtype.is_floating_point:
        return f'float("{"-" if kind == "max" else ""}inf")'
    limits = torch.iinfo(dtype)
    return str(limits.min if kind == "max" else limits.max)
