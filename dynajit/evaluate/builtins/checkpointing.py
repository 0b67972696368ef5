"""`torch.utils.checkpoint.checkpoint`: one node of the graph, which runs the user's function and forgets what it saved.

The function is evaluated only to know what it returns, and that it changes nothing else.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Mapping, Sequence
from typing import Any

import torch.utils.checkpoint

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.arguments import Arguments
from dynajit.evaluate.calls import builtin
from dynajit.evaluate.machine import Machine
from dynajit.graph import meta as metas
from dynajit.source import Known
from dynajit.values import ambient
from dynajit.values.base import Value
from dynajit.values.constant import Constant, plain
from dynajit.values.function import FunctionValue, MethodValue
from dynajit.values.module import ModuleValue
from dynajit.values.partial import PartialValue
from dynajit.values.sequence import TupleValue
from dynajit.values.tensor import TensorValue

_checkpoint: Any = torch.utils.checkpoint.checkpoint
_OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "early_stop")


@builtin(_checkpoint)
def checkpoint(m: Machine, function: Value, *args: Value, **kwargs: Value) -> Value:
    options = {name: plain(m, kwargs.pop(name)) for name in _OPTIONS if name in kwargs}
    if options.get("use_reentrant") is not False or "context_fn" in kwargs or "debug" in kwargs:
        raise GraphBreak(reasons.OPAQUE_CALL, "torch.utils.checkpoint with these options")
    nodes, heap = m.recorder.mark, m.heap.mark
    output = m.realize(m.call(function, args, kwargs))
    inside = m.recorder.nodes[nodes:]
    written = any(node.meta.get("writes") for node in inside)
    random = any(metas.name_of(node.target) in metas.RANDOM or node.meta.get("random") for node in inside)
    if m.heap.changed_since(heap) or written or ambient.state(m).casts:
        raise GraphBreak(reasons.OPAQUE_CALL, "torch.utils.checkpoint of a function with side effects")
    m.recorder.roll_back(nodes)
    m.heap.roll_back(heap)
    call = _Call(m, function, args, kwargs, options)
    call.node.meta["random"] = random
    return call.result(output)


class _Call:
    """The node, and values for what it returns."""

    def __init__(
        self, m: Machine, function: Value, args: Sequence[Value], kwargs: Mapping[str, Value], options: dict[str, Any]
    ) -> None:
        self.m, self.inputs = m, {}
        self.converter = Arguments(m, False)
        callee = self._callee(function)
        real = [self._argument(arg) for arg in args]
        named = {name: self._argument(arg) for name, arg in kwargs.items()}
        if self.converter.differ:
            raise GraphBreak(reasons.OPAQUE_CALL, "torch.utils.checkpoint with symbolic sizes")
        self.inputs = {id(value.meta): value for value in self.converter.tensors}
        self.node = m.recorder.call("call_function", _checkpoint, [callee, *real], {**named, **options}, m.origin())
        self.node.meta["writes"] = False

    def _argument(self, value: Value) -> Any:
        value = self.m.realize(value)
        if isinstance(value, ModuleValue) and value.source is not None:
            return self.m.object_input(value.obj, value.source)
        return self.converter.convert(value)[0]

    def _callee(self, function: Value) -> Any:
        """The function as the graph has it: taken from where it is kept, or bound there."""
        function = self.m.realize(function)
        if isinstance(function, ModuleValue) and function.source is not None:
            return self.m.object_input(function.obj, function.source)
        if isinstance(function, MethodValue) and isinstance(self.m.realize(function.function), FunctionValue):
            plain_function = self.m.realize(function.function)
            assert isinstance(plain_function, FunctionValue)
            return self._made(_binding(self._exactly(plain_function)), self._callee(function.owner))
        if isinstance(function, PartialValue):
            args = [self._argument(arg) for arg in function.args]
            named = {name: self._argument(arg) for name, arg in function.kwargs.items()}
            return self._made(functools.partial, self._callee(function.function), *args, **named)
        if isinstance(function, FunctionValue):
            return self._made(_giving(self._exactly(function)))
        raise GraphBreak(reasons.OPAQUE_CALL, f"torch.utils.checkpoint of {function.describe()}")

    def _exactly(self, function: FunctionValue) -> Any:
        """The function object, which must be the same the next time."""
        assert function.source is not None
        if not isinstance(function.source, Known):
            self.m.guard(function.source, "IS", function.fn)
        return function.fn

    def _made(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        node = self.m.recorder.call("call_function", target, args, kwargs, self.m.origin())
        node.meta["writes"] = False
        return node

    def result(self, output: Value) -> Value:
        if not isinstance(output, TupleValue):
            return self._one(self.node, output)
        items = []
        for i, item in enumerate(output.items):
            part = self.m.recorder.call("call_function", operator.getitem, (self.node, i), {}, self.m.origin())
            part.meta["writes"] = False
            items.append(self._one(part, self.m.realize(item)))
        return TupleValue(tuple(items), output.cls)

    def _one(self, node: Any, item: Value) -> Value:
        if isinstance(item, Constant):
            return item
        if not isinstance(item, TensorValue):
            raise GraphBreak(reasons.OPAQUE_CALL, f"torch.utils.checkpoint that returns {item.describe()}")
        if id(item.meta) in self.inputs:
            return self.inputs[id(item.meta)]
        node.meta["val"], node.meta["device"] = item.meta, item.device
        return TensorValue(node, item.meta, item.device, item.cls, item.exact_layout)


def _binding(function: Any) -> Any:
    """What binds a function to an object, for a printed graph to name."""

    def bind(owner: Any) -> Any:
        return types.MethodType(function, owner)

    bind.__name__ = bind.__qualname__ = f"bind_{function.__name__}"
    return bind


def _giving(function: Any) -> Any:
    def give() -> Any:
        return function

    give.__name__ = give.__qualname__ = f"function_{''.join(filter(str.isalnum, function.__name__))}"
    return give
