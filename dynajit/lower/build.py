"""Building values: broadcasting, promotion and rounding points, so that a lowering reads like the formula it is."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynajit.lower.ir import Value

Operand = Value | int | float | bool

COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "signbit", "lnot"))
HALVES = (torch.bfloat16, torch.float16)
FLOATS = (torch.float32, torch.float64, *HALVES)
INTS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
SUPPORTED = frozenset((*FLOATS, *INTS, torch.bool))


# How eager gets a mathematical function; the `arg` of its value.
FUNCTION_WAYS = {
    "vml": "through vml.h, for whole arrays",
    "sleef": "by SLEEF, all elements",
    "vec": "inside a vectorised kernel: SLEEF for whole vectors, libm for what is left at the end of a thread's part",
    "vech": "the same for half types, whose vectors hold twice as many",
    "std": "by libm, all elements",
    "inline": "our own, because eager's cannot be called for a block",
    "exact": "by one instruction",
}


class Unsupported(Exception):
    """This call has no lowering for these arguments; the torch-level call runs as it is."""


def broadcast(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that tensors of these shapes broadcast to. Raises Unsupported where eager would raise."""
    if len(shapes) == 1:
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    sizes = [1] * rank
    for shape in shapes:
        for position, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if sizes[position] not in (1, size):
                    raise Unsupported(f"shapes {shapes} do not broadcast")
                sizes[position] = size
    return tuple(sizes)


def const(number: int | float | bool, dtype: torch.dtype) -> Value:
    """A number as a value of no dimensions."""
    return Value("const", (), (), dtype, number)


def op(name: str, *operands: Operand, arg: Any = None) -> Value:
    """A scalar operation over broadcast operands. Numbers take the dtype of the first operand that is a value."""
    like = next(operand for operand in operands if isinstance(operand, Value))
    if name == "where":
        like = next((operand for operand in operands[1:] if isinstance(operand, Value)), like)
    srcs = tuple(operand if isinstance(operand, Value) else const(operand, like.dtype) for operand in operands)
    dtype = torch.bool if name in COMPARISONS else like.dtype
    return Value(name, srcs, broadcast([src.shape for src in srcs]), dtype, arg)


def fused(a: Operand, b: Operand, c: Operand) -> Value:
    """a * b + c as eager's compiler contracts it: in one rounding where the processor can."""
    if torch.backends.cpu.get_cpu_capability() == "DEFAULT" and platform.machine() in ("x86_64", "AMD64"):
        return op("add", op("mul", a, b), c)
    return op("fma", a, b, c)


def positions(shape: tuple[int, ...], dim: int) -> Value:
    """The position of each element along a dimension, for a value of this shape."""
    index = Value("index", (), (shape[dim],), torch.int64)
    return Value("reshape", (index,), tuple(size if d == dim else 1 for d, size in enumerate(shape)), torch.int64)


def checked(value: Value, holds: Value) -> Value:
    """The value, if a condition holds everywhere; else eager kernels run the call, and say what is wrong."""
    return op("checked", value, holds)


def cast(value: Value, dtype: torch.dtype) -> Value:
    """The value rounded to another dtype; itself when it has that dtype already."""
    if value.dtype == dtype:
        return value
    if value.op == "const":
        return const(value.arg, dtype)
    return Value("cast", (value,), value.shape, dtype)


def opmath(dtype: torch.dtype) -> torch.dtype:
    """What eager's CPU kernels calculate in (c10 OpMathType): float32 for the half types."""
    return torch.float32 if dtype in HALVES else dtype


def is_number(operand: Any) -> bool:
    """A Python number, or a number that the graph takes as an argument."""
    return isinstance(operand, (int, float)) or (isinstance(operand, Value) and operand.op == "scalar")


def common_dtype(operands: Sequence[Operand]) -> torch.dtype:
    """torch's promotion (c10 result_type): tensors with dimensions, then those without, then numbers, by category."""
    ranked: list[torch.dtype | None] = [None, None, None]
    for operand in operands:
        if isinstance(operand, Value):
            rank, dtype = (2 if operand.op == "scalar" else 0 if operand.shape else 1), operand.dtype
        else:
            rank, dtype = 2, number_dtype(operand)
        if rank == 2 and dtype.is_floating_point:
            dtype = torch.get_default_dtype()
        known = ranked[rank]
        ranked[rank] = dtype if known is None else torch.promote_types(known, dtype)
    result: torch.dtype | None = None
    for dtype_ in ranked:
        if dtype_ is not None and (result is None or category(dtype_) > category(result)):
            result = dtype_
    assert result is not None
    return result


def number_dtype(number: int | float | bool) -> torch.dtype:
    if isinstance(number, bool):
        return torch.bool
    return torch.int64 if isinstance(number, int) else torch.float64


def category(dtype: torch.dtype) -> int:
    if dtype == torch.bool:
        return 0
    return 2 if dtype.is_floating_point else 1


def pointwise(
    formula: Callable[..., Value],
    *operands: Operand,
    floating: bool = False,
    result: torch.dtype | None = None,
    wide_last: bool = False,
) -> Value:
    """Apply a formula as one aten operation: promote, calculate in opmath, round once to the result's dtype.

    floating: integers are promoted to the default float type. result: the dtype if it is not the promoted one.
    wide_last: a number or 0-d tensor as last operand keeps float32 beside half tensors, as in eager's mul and div
    (BinaryOpsKernel.cpp, binary_kernel_reduced_floating_vec_opmath_support); everywhere else it is rounded first.
    """
    common = common_dtype(operands)
    if floating and not common.is_floating_point:
        common = torch.get_default_dtype()
    if common not in SUPPORTED:
        raise Unsupported(f"dtype {common}")
    inside = opmath(common)
    last = len(operands) - 1
    lifted = [
        lift(operand, inside if wide_last and i == last else common, inside) for i, operand in enumerate(operands)
    ]
    if not any(isinstance(operand, Value) and operand.op not in ("const", "scalar") for operand in lifted):
        raise Unsupported("no tensor operand")
    return cast(formula(*lifted), result or common)


def lift(operand: Operand, common: torch.dtype, inside: torch.dtype) -> Operand:
    """An operand as the formula sees it: rounded to the common dtype, then widened to what is calculated in."""
    if not isinstance(operand, Value):
        return const(operand if common == inside else _rounded(operand, common), inside)
    return cast(cast(operand, common), inside)


def _rounded(number: float, dtype: torch.dtype) -> float:
    return float(torch.tensor(number, dtype=dtype))


def vec(name: str, *xs: Operand) -> Value:
    """A mathematical function as a vectorised kernel calls it (see `FUNCTION_WAYS`)."""
    return op(name, *xs, arg="vec")


def not_bool(x: Value) -> Value:
    if x.dtype == torch.bool:
        raise Unsupported("not for bool")
    return x


def float_only(x: Value) -> Value:
    if x.dtype not in FLOATS:
        raise Unsupported("floats only")
    return x


def floats_only(*xs: Operand) -> tuple[Operand, ...]:
    if not common_dtype(xs).is_floating_point:
        raise Unsupported("floats only")
    return xs
