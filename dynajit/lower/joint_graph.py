"""Both passes of a torch-level graph as one graph of aten calls: what `joint.py` records.

Two recordings, in two sizes, become one in which numbers that differ are computed from the sizes of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Graph, Node

from dynajit.lower.formulas import find
from dynajit.lower.from_fx import NotLowerable
from dynajit.lower.tidy import matters, merge

aten: Any = torch.ops.aten
# What is cut into a whole number of parts, by their schema.
QUOTIENTS = frozenset((aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default))


@dataclass(frozen=True, eq=False)
class Joint:
    """graph: inputs, tangents and sizes as placeholders; then the calls of both passes, without an output node.

    results: what the torch-level graph returns, as nodes and constants. differentiable: those of its distinct nodes
    that have a gradient, in the order of `tangents`. gradients: by position of an input, where it has one. Inputs are
    the tensors among them; numbers are constants here.
    sizes: placeholders of the sizes that differ from call to call. numbers: those, and nodes that compute with them.
    written: nodes whose memory is written to after they were made. mutated: positions of inputs that are written to.
    random: does it draw random numbers?
    """

    graph: Graph
    inputs: tuple[Node, ...]
    tangents: tuple[Node, ...]
    results: tuple[Any, ...]
    differentiable: tuple[Node, ...]
    gradients: Mapping[int, Node]
    backward: frozenset[Node]
    written: frozenset[Node]
    mutated: frozenset[int]
    random: bool
    sizes: tuple[Node, ...] = ()
    numbers: frozenset[Node] = frozenset()


@dataclass(frozen=True)
class Root:
    """A size or number that differs from call to call: a dimension of an input, or (None) the input, which is an int.

    example: in this call. other: in the other one.
    """

    position: int
    dim: int | None
    example: int
    other: int


def without_repeats(made: Joint) -> Joint:
    """Without calls that are made twice in the same way: `[head(norm(x)) for head in heads]` keeps one norm."""
    used = [*made.results, *made.gradients.values()]
    if not merge(made.graph, used):
        return made
    for node in reversed(list(made.graph.nodes)):
        if node.op == "call_function" and not node.users and node not in used and not matters(node):
            made.graph.erase_node(node)
    left = frozenset(made.graph.nodes)
    return replace(made, backward=made.backward & left, written=made.written & left, numbers=made.numbers & left)


def with_sizes(made: Joint, other: Joint, roots: Sequence[Root]) -> Joint:
    """The first recording, with what differs from the second computed from the sizes."""
    mine, theirs = list(made.graph.nodes), list(other.graph.nodes)
    twin = dict(zip(mine, theirs, strict=False))
    alike = len(mine) == len(theirs) and made.gradients.keys() == other.gradients.keys()
    alike = alike and all(twin[node] is other.gradients[k] for k, node in made.gradients.items())
    for name in ("results", "differentiable", "backward", "written"):
        pairs = zip(getattr(made, name), getattr(other, name), strict=False)
        if isinstance(getattr(made, name), frozenset):
            alike = alike and {twin.get(node) for node in getattr(made, name)} == getattr(other, name)
        else:
            alike = alike and all(twin[a] is b if isinstance(a, Node) else _same(a, b) for a, b in pairs)
    if not alike or made.mutated != other.mutated:
        raise NotLowerable("with gradients: what is computed depends on the sizes")
    with made.graph.inserting_before(mine[0]):
        sizes = [made.graph.placeholder(f"size_{k}") for k in range(len(roots))]
    writer = _Writer(made.graph, sizes, [(root.example, root.other) for root in roots], twin)
    for size, root in zip(sizes, roots, strict=True):
        size.meta["val"] = root.example
    for node in mine:
        if "val" in twin[node].meta:
            node.meta["other"] = twin[node].meta["val"]
    with made.graph.inserting_before(next(node for node in mine if node.op != "placeholder")):
        for node in mine:
            if node.op != "placeholder":
                writer.rewrite(node)
    return replace(made, sizes=tuple(sizes), numbers=frozenset((*sizes, *writer.formulas.values())))


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or a != a)


@dataclass
class _Writer:
    """Puts numbers that follow from sizes in the place of those that were recorded. twin: nodes of the other call."""

    graph: Graph
    sizes: list[Node]
    pairs: list[tuple[int, int]]
    twin: Mapping[Node, Node]
    formulas: dict[tuple[Any, ...], Node] = field(default_factory=dict)

    def rewrite(self, node: Node) -> None:
        other = self.twin[node]
        if node.op != other.op or node.target is not other.target:
            raise NotLowerable("with gradients: what is computed depends on the sizes")
        node.args = self._argument(node.args, other.args, node)
        node.kwargs = self._argument(dict(node.kwargs), dict(other.kwargs), node)

    def _argument(self, mine: Any, other: Any, node: Node) -> Any:
        if isinstance(mine, (tuple, list)):
            if len(mine) != len(other):
                raise NotLowerable("with gradients: how many there are depends on the sizes")
            return type(mine)(self._argument(a, b, node) for a, b in zip(mine, other, strict=True))
        if isinstance(mine, dict):
            return {name: self._argument(value, other[name], node) for name, value in mine.items()}
        if isinstance(mine, Node):
            if self.twin.get(mine) is not other:
                raise NotLowerable("with gradients: what is computed depends on the sizes")
            return mine
        if type(mine) is not type(other):
            raise NotLowerable("with gradients: what is computed depends on the sizes")
        if not isinstance(mine, (int, float)) or _same(mine, other):
            return mine
        formula = find(self.pairs, mine, other, node.target in QUOTIENTS)
        if formula is None:
            raise NotLowerable(f"with gradients: {mine} of {node.target} follows from the sizes in an unknown way")
        return formula.build(self.sizes, self._call)

    def _call(self, function: Any, *numbers: Any) -> Node:
        found = self.formulas.get((function, *numbers))
        if found is None:
            found = self.formulas[function, *numbers] = self.graph.call_function(function, numbers)
            found.meta["val"] = function(*(n.meta["val"] if isinstance(n, Node) else n for n in numbers))
        return found
