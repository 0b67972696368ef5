"""Elements of a tensor in memory, at places that other tensors say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit.lower.build import Unsupported, broadcast, cast
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering
from dynajit.lower.moving import Number, Walk, in_memory, looked_up

aten: Any = torch.ops.aten


def _numbers(value: Value) -> Value:
    if value.dtype not in (torch.int64, torch.int32):
        raise Unsupported(f"numbers of {value.dtype}")
    return cast(value, torch.int64)


def _along(value: Value, first: int, rank: int) -> Value:
    """A value whose dimensions are those of a result from `first` on, to be broadcast in the result's rank."""
    shape = (*value.shape, *([1] * (rank - first - len(value.shape))))
    return value if shape == value.shape else Value("reshape", (value,), shape, value.dtype)


@lowering(aten.embedding.default)
def embedding(
    table: Value, numbers: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    shape = (*numbers.shape, table.shape[1])
    return looked_up(
        in_memory(table), [Number(_along(_numbers(numbers), 0, len(shape)), "row"), Walk(len(shape) - 1)], shape
    )


@lowering(aten.index_select.default)
def index_select(x: Value, dim: int, numbers: Value) -> Value:
    if not x.shape or len(numbers.shape) != 1:
        raise Unsupported("no dimension")
    at = dim % len(x.shape)
    shape = tuple(numbers.shape[0] if d == at else size for d, size in enumerate(x.shape))
    number = Number(_along(_numbers(numbers), at, len(shape)), "row")
    return looked_up(in_memory(x), [number if d == at else Walk(d) for d in range(len(shape))], shape)


@lowering(aten.gather.default)
def gather(x: Value, dim: int, numbers: Value, sparse_grad: bool = False) -> Value:
    if not x.shape or len(numbers.shape) != len(x.shape) or numbers.dtype != torch.int64:
        raise Unsupported("no dimension")
    at = dim % len(x.shape)
    if any(d != at and size != x.shape[d] for d, size in enumerate(numbers.shape)):
        raise Unsupported("a part of the other dimensions")
    places = [Number(numbers, "row") if d == at else Walk(d) for d in range(len(x.shape))]
    return looked_up(in_memory(x), places, numbers.shape)


@lowering(aten.index.Tensor)
def index(x: Value, numbers: Sequence[Value | None]) -> Value:
    """Indices that stand side by side; their common dimensions take the place of those of `x`."""
    given = [d for d, value in enumerate(numbers) if value is not None]
    first, last = given[0], given[-1]
    if given != list(range(first, last + 1)):
        raise Unsupported("indices that do not stand side by side")
    values = [_numbers(value) for value in numbers[first : last + 1] if value is not None]
    common = broadcast([value.shape for value in values])
    shape = (*x.shape[:first], *common, *x.shape[last + 1 :])
    places: list[Any] = [Walk(d) for d in range(first)]
    for value in values:
        whole = Value("reshape", (value,), (*([1] * (len(common) - len(value.shape))), *value.shape), value.dtype)
        places.append(Number(_along(whole if len(common) > len(value.shape) else value, first, len(shape)), "wrap"))
    places += [Walk(d - (last + 1) + first + len(common)) for d in range(last + 1, len(x.shape))]
    return looked_up(in_memory(x), places, shape)
