"""What optimizers and gradient clipping ask of PyTorch's C code."""

from __future__ import annotations

from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant
from dynajit.values.mapping import new_dict
from dynajit.values.sequence import TupleValue, new_list
from dynajit.values.tensor import TensorValue

_C: Any = torch._C


@builtin(_C._group_tensors_by_device_and_dtype)
def group_tensors(m: Machine, lists: Value, with_indices: Value | None = None) -> Value:
    """Lists of tensors by the device and dtype of those in the first one; the order of several groups is a hash's."""
    columns = [[m.realize(item) for item in m.unpack(m.realize(column))] for column in m.unpack(lists)]
    first = columns[0] if columns else []
    kinds = {(item.device, item.meta.dtype) for item in first if isinstance(item, TensorValue)}
    if len(kinds) != 1 or not all(isinstance(item, TensorValue) for item in first):
        raise GraphBreak(reasons.OPAQUE_CALL, f"grouping tensors of {len(kinds)} kinds")
    if any(len(column) not in (0, len(first)) for column in columns):
        raise GraphBreak(reasons.OPAQUE_CALL, "grouping lists of different lengths")
    indices = range(len(first)) if with_indices is not None and m.is_true(with_indices) else ()
    group = TupleValue((
        new_list(m, [new_list(m, column) for column in columns]),
        new_list(m, [Constant(i) for i in indices]),
    ))  # fmt: skip
    (kind,) = kinds
    return new_dict(m, [(TupleValue(tuple(map(Constant, kind))), group)])
