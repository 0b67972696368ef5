"""Rows of a table, by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dynajit.lower.build import Unsupported, cast
from dynajit.lower.ir import Value
from dynajit.lower.lowering import lowering

aten: Any = torch.ops.aten


def rows(table: Value, numbers: Value, negative: bool) -> Value:
    if table.op != "buffer" or len(table.shape) < 2:
        raise Unsupported("rows of something that is not in memory as it stands")
    if numbers.dtype not in (torch.int64, torch.int32):
        raise Unsupported(f"numbers of {numbers.dtype}")
    shape = (*numbers.shape, *table.shape[1:])
    return Value("lookup", (table, cast(numbers, torch.int64)), shape, table.dtype, negative)


@lowering(aten.embedding.default)
def embedding(
    table: Value, numbers: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    return rows(table, numbers, False)


@lowering(aten.index_select.default)
def index_select(x: Value, dim: int, numbers: Value) -> Value:
    if dim % max(len(x.shape), 1) or len(numbers.shape) != 1:
        raise Unsupported("another dimension than the first")
    return rows(x, numbers, False)


@lowering(aten.index.Tensor)
def index(x: Value, numbers: Sequence[Value | None]) -> Value:
    if len(numbers) != 1 or numbers[0] is None:
        raise Unsupported("several indices")
    return rows(x, numbers[0], True)
