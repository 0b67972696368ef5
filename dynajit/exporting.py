"""The graph of a whole function as a `torch.fx.GraphModule` that is called as the function is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.fx.graph import _PyTreeCodeGen, _PyTreeInfo
from torch.utils import _pytree as pytree

from dynajit import frame
from dynajit.compile import on_miss
from dynajit.errors import CompileError
from dynajit.guards.explain import words
from dynajit.options import Options
from dynajit.records import CacheEntry, record_of


class Exported(NamedTuple):
    """graph_module: takes the function's arguments, returns what it returned. guards: in words, when that is right."""

    graph_module: fx.GraphModule
    guards: tuple[str, ...]


class _Run:
    """One call of the captured graph: its inputs and what it returned."""

    def __init__(self) -> None:
        self.module: fx.GraphModule | None = None
        self.inputs: tuple[Any, ...] = ()
        self.outputs: tuple[Any, ...] = ()

    def backend(self, module: fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        self.module = module

        def call(*inputs: Any) -> tuple[Any, ...]:
            self.inputs, self.outputs = inputs, tuple(module.forward(*inputs))
            return self.outputs

        return call


def export(function: FunctionType, owner: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Exported:
    """Call the function once and return the one graph that was captured, as a module of its own.

    owner: what the function is bound to, which does not become an input. Tensors that are not arguments become
    parameters and buffers. Raises `CompileError` when the graph breaks or the result is not made of its outputs.
    """
    run = _Run()
    options = Options(backend=run.backend, fullgraph=True, dynamic=False)  # not interned: nobody else sees its entries
    record = record_of(function.__code__)
    was_explicit, before = record.explicit, len(record.entries)
    record.explicit = True
    try:
        result = frame.Dispatcher(function, options, on_miss)(*owner, *args, **kwargs)
        entries = [entry for entry in record.entries[before:] if entry.entry is not None]
    finally:
        record.explicit = was_explicit
        for entry in record.entries[before:]:
            if entry.entry is not None:
                frame.remove(function.__code__, entry.entry)
        del record.entries[before:]
    module = _Builder(function, run, owner, args, kwargs).build(result)
    return Exported(module, tuple(dict.fromkeys(text for entry in entries for text in _guards(entry))))


def _guards(entry: CacheEntry) -> list[str]:
    return [words(guard) for guard in entry.guards]


class _Builder:
    def __init__(
        self, function: FunctionType, run: _Run, owner: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self.function, self.run = function, run
        self.root, self.graph = nn.Module(), fx.Graph()
        leaves, self.spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.names = [*_positional(function, len(owner), len(args)), *kwargs]
        self.leaves = [(leaf, self.graph.placeholder(f"{self._stem(i)}_{i}")) for i, leaf in enumerate(leaves)]
        self.attributes: dict[int, fx.Node] = {}

    def _stem(self, number: int) -> str:
        return "arg" if not self.names else re.sub(r"\W", "_", self.names[min(number, len(self.names) - 1)])

    def build(self, result: Any) -> fx.GraphModule:
        produced: dict[int, Any] = {}
        if self.run.module is not None:
            nodes = dict(self._inputs(self.run.module))
            copied = self.graph.graph_copy(self.run.module.graph, nodes)
            returned = copied if isinstance(copied, (tuple, list)) else (copied,)
            produced = {id(out): node for out, node in zip(self.run.outputs, returned, strict=True)}
        flat, out_spec = pytree.tree_flatten(result)
        self.graph.output([self._output(leaf, produced) for leaf in flat])
        self.graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(list(self.names), self.spec, out_spec)))
        self.graph.eliminate_dead_code(lambda node: node.op not in ("get_attr",))
        return fx.GraphModule(self.root, self.graph, self.function.__name__)

    def _inputs(self, module: fx.GraphModule) -> list[tuple[fx.Node, fx.Node]]:
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        return [(node, self._node(value, node.name)) for node, value in zip(placeholders, self.run.inputs, strict=True)]

    def _node(self, value: Any, name: str) -> fx.Node:
        """The argument that this object is, or an attribute that keeps it."""
        for leaf, node in self.leaves:
            if leaf is value:
                return node
        if id(value) not in self.attributes:
            if isinstance(value, nn.Parameter):
                self.root.register_parameter(name, value)
            else:
                self.root.register_buffer(name, value)
            self.attributes[id(value)] = self.graph.get_attr(name)
        return self.attributes[id(value)]

    def _output(self, leaf: Any, produced: Mapping[int, Any]) -> Any:
        if id(leaf) in produced and not isinstance(leaf, bool):
            return produced[id(leaf)]
        if isinstance(leaf, torch.Tensor):
            return self._node(leaf, f"constant_{len(self.attributes)}")
        if leaf is None or isinstance(leaf, (bool, int, float, str, complex, torch.dtype, torch.device)):
            return leaf
        where = f"{self.function.__code__.co_filename}:{self.function.__code__.co_firstlineno}"
        what = f"{self.function.__qualname__} returns a {type(leaf).__name__}, which a graph cannot return"
        raise CompileError("export", where, what, "return tensors, numbers and containers of them")


def _positional(function: FunctionType, skipped: int, count: int) -> list[str]:
    """A name for each positional argument; those of *args are numbered."""
    found: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[skipped:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [f"{parameter.name}_{i}" for i in range(count - len(found))]
        elif parameter.kind is not parameter.KEYWORD_ONLY:
            found.append(parameter.name)
    return found[:count]
