"""The values a lowered graph is made of: frozen nodes of one expression graph over whole tensors.

A `Value` says what each element is; it says nothing about loops or memory. Shapes are those of the example inputs: the
schedule turns them into loop axes, whose sizes are read from the tensors at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch

# The scalar operations, by number of operands. A printer's table has a row for each that it supports.
_UNARY = (
    "neg abs sqrt rsqrt reciprocal floor ceil trunc rint not lnot isnan isinf signbit sign"
    " exp expm1 exp2 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
    " erf erfc erfinv lgamma digamma"
)
_BINARY = "add sub mul div fmod pow atan2 hypot maximum minimum fmax fmin copysign eq ne lt le gt ge and or xor"
UNARY = frozenset(_UNARY.split())
BINARY = frozenset(_BINARY.split())
TERNARY = frozenset(("where", "fma"))
CHECKS = frozenset(("checked",))
POINTWISE = UNARY | BINARY | TERNARY | {"cast", "copy"}
VIEWS = frozenset(("permute", "expand", "reshape"))
LEAVES = frozenset(("buffer", "scalar", "const", "full", "like", "count", "index", "extent"))
REDUCTIONS = frozenset(("sum", "total", "prod", "max", "min", "any", "all"))

_SERIAL = count()


@dataclass(frozen=True, eq=False)
class Value:
    """op: one of the sets above, "reduce" or "scan". arg: what the operation needs beside its operands:

    buffer: the `Buffer`; scalar: the name of the graph's number; const, full, like: a Python number;
    count: dimensions of its operand; permute: the order of dimensions; reduce: (kind, dimensions), which are kept;
    a mathematical function: how eager computes it (`FUNCTION_WAYS`).
    scan is what comes of the elements up to each, one after another: (kind, dimension).
    lookup is elements of its first operand, which is in memory, at places that further operands say; arg: the `Pick`.
    index is the position along its one dimension; arg: is its size written in the program? extent is the size of a
    dimension of a table: (table, dimension).
    checked is its first operand; where the second does not hold, the results of the kernel do not count.
    serial: creation order, which is program order.
    """

    op: str
    srcs: tuple[Value, ...]
    shape: tuple[int, ...]
    dtype: torch.dtype
    arg: Any = None
    serial: int = field(default_factory=lambda: next(_SERIAL))

    def __repr__(self) -> str:
        srcs = ", ".join(f"%{src.serial}" for src in self.srcs)
        arg = "" if self.arg is None else f" [{self.arg}]"
        return f"%{self.serial} = {self.op}({srcs}){arg}: {str(self.dtype)[6:]}{list(self.shape)}"


@dataclass(frozen=True)
class Relation:
    """What holds of sizes where the calculation of a place counts on it: the product of dimensions `dims` of the
    result, times `factor`, is (exact) or is at most `plus` and the sum of the terms: (table, dimension, coefficient).
    pin: it has to hold only if the program writes down the size of this dimension of a view: (its serial, dimension).
    """

    dims: tuple[int, ...]
    factor: int = 1
    plus: int = 0
    terms: tuple[tuple[Value, int, int], ...] = ()
    exact: bool = True
    pin: tuple[int, int] | None = None


@dataclass(frozen=True)
class Pick:
    """How the elements of a lookup are found. dims: for each dimension of the table the dimension of the result that
    walks it; -1: none, it has one element; None: a number says where. checks: of each number, what is wrong with it:
    "" if it cannot be, "row" if it must be one of a row, "wrap" if it may count from the end, too.
    guarded: the operand after the table says where there is anything to read; elsewhere, zero is read.
    """

    dims: tuple[int | None, ...]
    checks: tuple[str, ...]
    guarded: bool = False
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True, eq=False)
class Origin:
    """Where in the user's program a value comes from. name: the fx node; text: the operation, for people.

    plain: it is one aten operation that eager does by one good kernel.
    """

    name: str
    text: str
    position: Any = None
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Buffer:
    """A tensor that exists in memory when a kernel runs. strides: of the example, they describe a class of layouts."""

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


def is_view(value: Value) -> bool:
    return value.op in VIEWS


def base_of(value: Value) -> Value:
    """The value that a chain of views looks at."""
    while value.op in VIEWS:
        value = value.srcs[0]
    return value


def walk(roots: list[Value]) -> Iterator[Value]:
    """Every value the roots depend on, in program order."""
    seen: dict[int, Value] = {}
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value.serial not in seen:
            seen[value.serial] = value
            stack.extend(value.srcs)
    return iter([seen[serial] for serial in sorted(seen)])
