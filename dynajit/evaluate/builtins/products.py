"""`torch.func.jvp` and `torch.func.vjp`: products of a function's Jacobian, each one node of the graph."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.builtins.transforms import call_node, demand_no_outer_gradients, empty, outputs, values_of
from dynajit.evaluate.callables import Callables
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.values.base import Emitter, Tracer, Value
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue


def _tensors(m: Machine, name: str, items: Sequence[Value]) -> list[TensorValue]:
    found = [m.realize(item) for item in items]
    if not found or not all(isinstance(item, TensorValue) for item in found):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these arguments")
    demand_no_outer_gradients(m, name, found)
    return found  # type: ignore[return-value]


@builtin(torch.func.jvp)
def jvp(m: Machine, function: Value, primals: Value, tangents: Value, **options: Value) -> Value:
    name = "torch.func.jvp"
    if options or not isinstance(primals, TupleValue) or not isinstance(tangents, TupleValue):
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these arguments")
    values = _tensors(m, name, primals.items)
    _tensors(m, name, tangents.items)
    found, in_tuple, random = outputs(m, name, lambda: m.call(function, values, {}))
    results = tuple(empty(item.meta, *item.meta.shape) for item in found)
    one = results if in_tuple else results[0]
    callables = Callables(m, name)
    made = [callables.function(function), callables.argument(primals), callables.argument(tangents)]
    node = callables.finish(torch.func.jvp, made, {}, random)
    return values_of(callables, node, (one, one), values[0].device)


@builtin(torch.func.vjp)
def vjp(m: Machine, function: Value, *primals: Value, **options: Value) -> Value:
    name = "torch.func.vjp"
    if options:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these arguments")
    values = _tensors(m, name, primals)
    found, in_tuple, random = outputs(m, name, lambda: m.call(function, values, {}))
    results = tuple(empty(item.meta, *item.meta.shape) for item in found)
    callables = Callables(m, name)
    made = [callables.function(function), *(callables.argument(value) for value in values)]
    node = callables.finish(torch.func.vjp, made, {}, random)
    output = callables.node(operator.getitem, node, 0)
    product = callables.node(operator.getitem, node, 1)
    device = values[0].device
    shapes = tuple(empty(value.meta, *value.meta.shape) for value in values)
    return TupleValue((
        values_of(callables, output, results if in_tuple else results[0], device),
        VectorProduct(product, shapes, device),
    ))  # fmt: skip


@dataclass(frozen=True, eq=False)
class VectorProduct(Value):
    """The function that `torch.func.vjp` returns. results: what it returns, one for each primal."""

    node: Any
    results: tuple[torch.Tensor, ...]
    device: torch.device

    kind = "transformed function"

    def python_type(self) -> type:
        return type(call_node)

    def truth(self, m: Tracer) -> bool:
        return True

    def call(self, m: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
        name = "the function of torch.func.vjp"
        if kwargs or len(args) != 1:
            raise GraphBreak(reasons.OPAQUE_CALL, f"{name} with these arguments")
        given = m.realize(args[0])
        _tensors(m, name, given.items if isinstance(given, TupleValue) else [given])
        callables = Callables(m, name)
        node = callables.finish(call_node, [self.node, callables.argument(given)], {}, False)
        return values_of(callables, node, self.results, self.device)

    def reload(self, emit: Emitter) -> None:
        emit.load_node(self.node)
