"""Functions of the user as arguments of an operation that calls them: checkpoints and functional transforms.

The operation is one node. What the function does is evaluated beside it (`shadow`), only to know what it returns, what
that depends on, and that it changes nothing else; Python runs it each time.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynajit import reasons
from dynajit.errors import GraphBreak
from dynajit.evaluate.arguments import Arguments
from dynajit.graph import meta as metas
from dynajit.source import Known
from dynajit.values import ambient
from dynajit.values.base import Value
from dynajit.values.builtin import BuiltinValue
from dynajit.values.cell import CellValue
from dynajit.values.constant import Constant
from dynajit.values.function import FunctionValue, MethodValue, NestedFunction
from dynajit.values.module import ModuleValue
from dynajit.values.partial import PartialValue
from dynajit.values.tensor import TensorValue

if TYPE_CHECKING:
    from dynajit.evaluate.machine import Machine


@dataclass(frozen=True)
class Shadow:
    """output: what the function returns; its nodes are gone. random: whether it draws random numbers."""

    output: Value
    random: bool


def shadow(m: Machine, what: str, run: Callable[[], Value]) -> Shadow:
    """Evaluate and undo. Side effects break the graph: they would happen twice, or too early."""
    nodes, heap = m.recorder.mark, m.heap.mark
    output = m.realize(run())
    inside = m.recorder.nodes[nodes:]
    written = any(node.meta.get("writes") for node in inside)
    random = any(node.meta.get("random") or metas.name_of(node.target) in metas.RANDOM for node in inside)
    if m.heap.changed_since(heap) or written or ambient.state(m).casts:
        raise GraphBreak(reasons.OPAQUE_CALL, f"{what} of a function with side effects")
    m.recorder.roll_back(nodes)
    m.heap.roll_back(heap)
    return Shadow(output, random)


class Callables:
    """Turns functions and their arguments into arguments of nodes.

    copies: whether a list or dict that a function has in its cells may be a copy, since it is not changed.
    """

    def __init__(self, m: Machine, what: str, *, copies: bool = True) -> None:
        self.m, self.what, self.copies = m, what, copies
        self.converter = Arguments(m, False)

    def argument(self, value: Value) -> Any:
        value = self.m.realize(value)
        if isinstance(value, ModuleValue) and value.source is not None:
            return self.m.object_input(value.obj, value.source)
        if isinstance(value, (FunctionValue, NestedFunction, MethodValue, PartialValue)):
            return self.function(value)
        if not self.copies and not isinstance(value, (TensorValue, Constant)):
            raise GraphBreak(reasons.OPAQUE_CALL, f"{self.what} that uses {value.describe()}")
        return self.converter.convert(value)[0]

    def function(self, value: Value) -> Any:
        """The function as the graph has it: taken from where it is kept, or made there."""
        value = self.m.realize(value)
        made = getattr(value, "as_node", None)
        if made is not None:
            return made(self)
        if isinstance(value, ModuleValue) and value.source is not None:
            return self.m.object_input(value.obj, value.source)
        if isinstance(value, MethodValue) and isinstance(self.m.realize(value.function), FunctionValue):
            function = self._exactly(self.m.realize(value.function))
            return self.node(_named(f"bind_{function.__name__}", lambda owner: types.MethodType(function, owner)),
                             self.function(value.owner))  # fmt: skip
        if isinstance(value, PartialValue):
            args = [self.argument(arg) for arg in value.args]
            named = {name: self.argument(arg) for name, arg in value.kwargs.items()}
            return self.node(functools.partial, self.function(value.function), *args, **named)
        if isinstance(value, FunctionValue):
            kept = self._exactly(value)
            return self.node(_named(f"function_{kept.__name__}", lambda: kept))
        if isinstance(value, NestedFunction):
            return self._nested(value)
        if isinstance(value, BuiltinValue):
            builtin_function = value.fn
            return self.node(_named("builtin_function", lambda: builtin_function))
        raise GraphBreak(reasons.OPAQUE_CALL, f"{self.what} of {value.describe()}")

    def _nested(self, value: NestedFunction) -> Any:
        """A function that the program makes is made again in the graph, with what its cells contain now."""
        made = value.made
        if made.kwdefaults or self.m.heap[value.key]:
            raise GraphBreak(reasons.OPAQUE_CALL, f"{self.what} of {value.describe()}")
        contents = []
        for cell in made.closure:
            cell = self.m.realize(cell)
            found = self.m.heap[cell.key] if isinstance(cell, CellValue) else None
            if found is None:
                raise GraphBreak(reasons.OPAQUE_CALL, f"{self.what} of {value.describe()}")
            contents.append(self.argument(found))
        defaults = [self.argument(default) for default in made.defaults]
        code, namespace = made.code, made.globals

        def make(cells: Sequence[Any], values: Sequence[Any]) -> Any:
            closure = tuple(types.CellType(item) for item in cells)
            return types.FunctionType(code, namespace, code.co_name, tuple(values) or None, closure)

        return self.node(_named(f"make_{code.co_name}", make), tuple(contents), tuple(defaults))

    def _exactly(self, value: Value) -> Any:
        """The function object, which must be the same the next time."""
        assert isinstance(value, FunctionValue)
        assert value.source is not None
        if not isinstance(value.source, Known):
            self.m.guard(value.source, "IS", value.fn)
        return value.fn

    def node(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        node = self.m.recorder.call("call_function", target, args, kwargs, self.m.origin())
        node.meta["writes"] = False
        return node

    def call(self, target: Any, args: Sequence[Value], kwargs: Mapping[str, Any], random: bool) -> Any:
        """The node of the operation itself."""
        real = [self.argument(arg) for arg in args]
        return self.finish(target, real, kwargs, random)

    def finish(self, target: Any, real: Sequence[Any], kwargs: Mapping[str, Any], random: bool) -> Any:
        if self.converter.differ:
            raise GraphBreak(reasons.OPAQUE_CALL, f"{self.what} with symbolic sizes")
        node = self.node(target, *real, **kwargs)
        node.meta["random"] = random
        return node


def _named(name: str, function: Any) -> Any:
    """With a name that a printed graph can use."""
    function.__name__ = function.__qualname__ = "".join(c if c.isalnum() else "_" for c in name)
    return function
