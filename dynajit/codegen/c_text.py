"""The C spelling of types, numbers and scalar operations. What a table lacks, the C printer does not support."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import torch

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16

# In memory.
STORAGE = {
    F32: "float",
    F64: "double",
    BF16: "unsigned short",
    F16: "_Float16",
    torch.bool: "unsigned char",
    torch.uint8: "unsigned char",
    torch.int8: "signed char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "long",
}
# In a variable: a half is a float that was rounded to it, a bool is 0 or 1.
REGISTER = {**STORAGE, BF16: "float", F16: "float", torch.bool: "int"}

LOAD = {BF16: "from_bf16({})"}
STORE = {BF16: "to_bf16({})"}

SUFFIX = {F32: "f32", F64: "f64", torch.int64: "i64", torch.bool: "b"}


def literal(number: float | int | bool, dtype: torch.dtype) -> str:
    """A number as eager's kernels see it: converted to the dtype once."""
    if dtype == torch.bool:
        return "1" if number else "0"
    if not dtype.is_floating_point:
        return (
            f"{int(number)}{'L' if dtype == torch.int64 else ''}"
            if int(number) != -(2**63)
            else "(-9223372036854775807L - 1)"
        )
    value = float(number)
    suffix = "" if dtype == F64 else "f"
    if dtype != F64:
        value = float(torch.tensor(value, dtype=dtype)) if dtype in (BF16, F16) else _float32(value)
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    text = _shortest32(value) if dtype != F64 else repr(value)
    return text + suffix


def _float32(value: float) -> float:
    try:
        packed: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return packed


def _shortest32(value: float) -> str:
    """The shortest decimal that a C compiler reads back as this float32."""
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if _float32(float(text)) == value:
            break
    return text if any(c in text for c in ".e") else text + ".0"


def call(name: str) -> Callable[..., str]:
    return lambda *args: f"{name}({', '.join(args)})"


Row = str | dict[torch.dtype, str]

# {0}, {1}, {2}: operands. By dtype of the operands where spellings differ; None: all others.
EXPRESSION: dict[str, Row | dict[torch.dtype | None, str]] = {
    "copy": "{0}",
    "neg": "-{0}",
    "not": "~{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "reciprocal": {F32: "1.0f / {0}", F64: "1.0 / {0}"},
    "sqrt": {F32: "__builtin_sqrtf({0})", F64: "__builtin_sqrt({0})"},
    "rsqrt": {F32: "1.0f / __builtin_sqrtf({0})", F64: "1.0 / __builtin_sqrt({0})"},
    "abs": {F32: "__builtin_fabsf({0})", F64: "__builtin_fabs({0})", None: "{0} < 0 ? -{0} : {0}"},
    "floor": {F32: "__builtin_floorf({0})", F64: "__builtin_floor({0})"},
    "ceil": {F32: "__builtin_ceilf({0})", F64: "__builtin_ceil({0})"},
    "trunc": {F32: "__builtin_truncf({0})", F64: "__builtin_trunc({0})"},
    "rint": {F32: "__builtin_rintf({0})", F64: "__builtin_rint({0})"},
    "fma": {F32: "__builtin_fmaf({0}, {1}, {2})", F64: "__builtin_fma({0}, {1}, {2})"},
    "maximum": {F32: "max_({0}, {1})", F64: "max_d({0}, {1})", None: "{0} > {1} ? {0} : {1}"},
    "minimum": {F32: "min_({0}, {1})", F64: "min_d({0}, {1})", None: "{0} < {1} ? {0} : {1}"},
    "copysign": {F32: "__builtin_copysignf({0}, {1})", F64: "__builtin_copysign({0}, {1})"},
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "where": "{0} ? {1} : {2}",
    "checked": {torch.int64: "checked({0}, {1}, flag)"},
}


def expression(op: str, dtype: torch.dtype) -> str | None:
    """The template for an operation on operands of a dtype (halves are calculated as float32)."""
    dtype = F32 if dtype in (BF16, F16) else dtype
    row = EXPRESSION.get(op)
    if row is None or isinstance(row, str):
        return row
    found: str | None = row.get(dtype, row.get(None))  # type: ignore[call-overload]
    return found


# name -> (text, names it needs). Only what a file uses is printed into it.
PRELUDE: dict[str, tuple[str, tuple[str, ...]]] = {
    "eager_part": (
        """/* the part of n elements that eager gives to one thread (ATen/Parallel.h, TensorIterator's grain) */
static inline long eager_part(long n) {
  const long most = (n + 32767) / 32768, threads = omp_get_max_threads() < most ? omp_get_max_threads() : most;
  return threads > 1 ? (n + threads - 1) / threads : n;
}""",
        (),
    ),
    "tail": (
        """/* which of the m elements from i on eager's vectorised loop leaves to the scalar one */
static inline void tail(long n, long part, long i, long m, long period, long *from, long *to) {
  const long start = i / part * part, length = n - start < part ? n - start : part;
  const long end = start + length, body = start + length / period * period;
  *from = body > i ? (body < i + m ? body - i : m) : 0;
  *to = end < i + m ? end - i : m;
}""",
        (),
    ),
    "share": (
        """/* this thread's part of n */
static inline void share(long n, long *lo, long *hi) {
  const long threads = omp_get_num_threads(), each = (n + threads - 1) / threads, at = omp_get_thread_num() * each;
  *lo = at < n ? at : n;
  *hi = at + each < n ? at + each : n;
}""",
        (),
    ),
    "row_of": (
        """/* a row that is not there leaves a mark */
INLINE long row_of(long i, long rows, long *flag) {
  if (i >= 0 && i < rows) return i;
  *flag = 1;
  return 0;
}""",
        (),
    ),
    "checked": (
        """/* what fails a check leaves a mark */
INLINE long checked(long value, int holds, long *flag) {
  if (!holds) *flag = 1;
  return value;
}""",
        (),
    ),
    "max_": ("INLINE float max_(float a, float b) { return a > b || a != a ? a : b; }", ()),
    "min_": ("INLINE float min_(float a, float b) { return a < b || a != a ? a : b; }", ()),
    "max_d": ("INLINE double max_d(double a, double b) { return a > b || a != a ? a : b; }", ()),
    "min_d": ("INLINE double min_d(double a, double b) { return a < b || a != a ? a : b; }", ()),
    "from_bf16": (
        """INLINE float from_bf16(unsigned short h) {
  union { unsigned int i; float f; } u = {(unsigned int)h << 16};
  return u.f;
}""",
        (),
    ),
    "to_bf16": (
        """/* round to nearest even; NaN becomes the one that c10::BFloat16 makes of it */
INLINE unsigned short to_bf16(float f) {
  union { float f; unsigned int i; } u = {f};
  const unsigned int rounded = (u.i + 0x7fff + (u.i >> 16 & 1)) >> 16;
  return f != f ? 0x7fc0 : (unsigned short)rounded;
}""",
        (),
    ),
    "round_bf16": ("INLINE float round_bf16(float f) { return from_bf16(to_bf16(f)); }", ("from_bf16", "to_bf16")),
    "round_f16": ("INLINE float round_f16(float f) { return (float)(_Float16)f; }", ()),
}
