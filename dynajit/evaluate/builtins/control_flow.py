"""torch.cond on a tensor: one node of the graph, both ways of which are evaluated to know what it returns."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.callables import Callables, shadow
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import ListValue, TupleValue
from dynajit.values.tensor import TensorValue

_cond: Any = torch.cond


@builtin(_cond)
def cond(m: Machine, pred: Value, true_fn: Value, false_fn: Value, operands: Value | None = None) -> Value:
    args = m.unpack(operands) if operands is not None else ()
    pred = m.specialise(pred)
    if isinstance(pred, Constant):
        return m.call(true_fn if plain(m, pred) else false_fn, args, {})
    if not isinstance(pred, TensorValue) or isinstance(operands, ListValue):
        raise GraphBreak(reasons.OPAQUE_CALL, "torch.cond with these arguments")
    seen = [shadow(m, "torch.cond", functools.partial(m.call, way, args, {})) for way in (true_fn, false_fn)]
    first, second = (_tensors(m, way.output) for way in seen)
    if len(first) != len(second) or not all(_alike(a, b) for a, b in zip(first, second, strict=True)):
        raise GraphBreak(reasons.META_FAILED, "torch.cond: the two ways return different things")
    callables = Callables(m, "torch.cond")
    ways = [callables.function(way) for way in (true_fn, false_fn)]
    real = tuple(callables.argument(arg) for arg in args)
    node = callables.finish(_cond, [callables.argument(pred), *ways, real], {}, any(way.random for way in seen))
    if not isinstance(seen[0].output, TupleValue):
        return _value(node, first[0])
    parts = [callables.node(operator.getitem, node, i) for i in range(len(first))]
    return TupleValue(tuple(_value(part, item) for part, item in zip(parts, first, strict=True)))


def _tensors(m: Machine, output: Value) -> list[TensorValue]:
    items = [m.realize(item) for item in (output.items if isinstance(output, TupleValue) else (output,))]
    if not all(isinstance(item, TensorValue) and not item.meta.requires_grad for item in items):
        raise GraphBreak(reasons.AUTOGRAD, "torch.cond of what requires gradients, or of other results")
    return items  # type: ignore[return-value]


def _alike(first: TensorValue, second: TensorValue) -> bool:
    return first.meta.shape == second.meta.shape and first.meta.dtype == second.meta.dtype


def _value(node: Any, like: TensorValue) -> Value:
    meta = torch.empty(like.meta.shape, dtype=like.meta.dtype, device="meta")
    node.meta["val"], node.meta["device"] = meta, like.device
    return TensorValue(node, meta, like.device, torch.Tensor, exact_layout=False)
