"""Repairs of Triton's CPU interpreter, so that what it computes means something.

Triton 3.6-3.9: float -> bfloat16 truncates instead of rounding, and libdevice functions return None. `tl.fma`
multiplies and adds with two roundings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.language.extra import libdevice
from triton.runtime import interpreter

UNARY = """exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
erf erfc erfinv rsqrt lgamma trunc"""
BINARY = "pow atan2 hypot fmod copysign"


def to_bfloat16(values: Any) -> Any:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where((bits & 0x7FFFFFFF) > 0x7F800000, ((bits >> 16) | 0x40).astype(np.uint16), rounded)


def from_bfloat16(bits: Any) -> Any:
    return (np.ascontiguousarray(bits).astype(np.uint32) << 16).view(np.float32)


def install() -> None:
    builder = interpreter.InterpreterBuilder
    plain_cast = builder.cast_impl

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        source, wanted = src.dtype.scalar, dst_type.scalar
        if source == wanted:
            return src
        if wanted == tl.bfloat16:
            return interpreter.TensorHandle(to_bfloat16(src.data.astype(np.float32)), wanted)
        if source == tl.bfloat16:
            wide = interpreter.TensorHandle(from_bfloat16(src.data), tl.float32)
            return wide if wanted == tl.float32 else plain_cast(self, wide, dst_type)
        return plain_cast(self, src, dst_type)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        wide = x.data.astype(np.float64) * y.data.astype(np.float64) + z.data.astype(np.float64)
        return interpreter.TensorHandle(wide.astype(x.data.dtype), z.dtype.scalar)

    builder.cast_impl, builder.create_fma = cast_impl, create_fma
    for name in UNARY.split():
        setattr(libdevice, name, _through_torch(getattr(torch, name)))
    for name in BINARY.split():
        setattr(libdevice, name, _through_torch(getattr(torch, name)))
    libdevice.rint = _through_torch(torch.round)


def _through_torch(function: Any) -> Any:
    def call(*operands: Any, _semantic: Any = None) -> Any:
        like = next(x for x in operands if isinstance(x, tl.core.tensor))
        arrays = [
            torch.from_numpy(np.ascontiguousarray(x.handle.data))
            if isinstance(x, tl.core.tensor)
            else torch.tensor(x if isinstance(x, float) else x.value, dtype=torch.from_numpy(like.handle.data).dtype)
            for x in operands
        ]
        result = function(*arrays).numpy()
        shape = list(result.shape)
        type_ = tl.block_type(like.dtype.scalar, shape) if shape and like.type.is_block() else like.type
        return tl.core.tensor(interpreter.TensorHandle(result, like.handle.dtype.scalar), type_)

    return call
