"""`torch.utils.checkpoint.checkpoint`: one node, which runs the user's function and forgets what it saved."""

from __future__ import annotations

import operator
from typing import Any

import torch.utils.checkpoint

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.callables import Callables, shadow
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue

_checkpoint: Any = torch.utils.checkpoint.checkpoint
_NAME = "torch.utils.checkpoint"
_OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop")


@builtin(_checkpoint)
def checkpoint(m: Machine, function: Value, *args: Value, **kwargs: Value) -> Value:
    options = {name: plain(m, kwargs.pop(name)) for name in _OPTIONS if name in kwargs}
    if options.get("use_reentrant") is not False or "context_fn" in kwargs or "debug" in kwargs:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{_NAME} with these options")
    seen = shadow(m, _NAME, lambda: m.call(function, args, kwargs))
    callables = Callables(m, _NAME)
    callee = callables.function(function)
    real = [callables.argument(arg) for arg in args]
    named = {name: callables.argument(arg) for name, arg in kwargs.items()}
    node = callables.finish(_checkpoint, [callee, *real], {**named, **options}, seen.random)
    inputs = {id(value.meta): value for value in callables.converter.tensors}
    if not isinstance(seen.output, TupleValue):
        return _one(node, seen.output, inputs)
    items = []
    for i, item in enumerate(seen.output.items):
        part = callables.node(operator.getitem, node, i)
        items.append(_one(part, m.realize(item), inputs))
    return TupleValue(tuple(items), seen.output.cls)


def _one(node: Any, item: Value, inputs: dict[int, TensorValue]) -> Value:
    if isinstance(item, Constant):
        return item
    if not isinstance(item, TensorValue):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{_NAME} that returns {item.describe()}")
    if id(item.meta) in inputs:
        return inputs[id(item.meta)]
    node.meta["val"], node.meta["device"] = item.meta, item.device
    return TensorValue(node, item.meta, item.device, item.cls, item.exact_layout)
