"""Which values the forward pass keeps for the backward pass: a smallest cut, by bytes moved.

What is cheap to compute again from what is kept anyway is not kept. Random numbers, writes, and what costs more than a
few instructions an element are never computed twice.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynajit.lower.from_fx import HIDDEN_WRITES
from dynajit.lower.joint_graph import Joint
from dynajit.lower.tidy import tidy

aten: Any = torch.ops.aten
INFINITE = 1 << 60
READS = 3  # tensors: what reads more of them is stored rather than computed again
VIEWS = frozenset(
    (
        *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten._reshape_alias.default),
        *(aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default, aten.unsqueeze.default),
        *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.detach.default, aten.alias.default),
        *(aten.slice.Tensor, aten.select.int, aten.unbind.int, aten.split.Tensor, aten.split_with_sizes.default),
    )
)
# A few instructions for each element.
CHEAP = frozenset(
    (
        *(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar, aten.neg.default),
        *(aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar, aten.abs.default, aten.relu.default),
        *(aten.clamp.default, aten.clamp_min.default, aten.clamp_max.default, aten.where.self, aten._to_copy.default),
        *(aten.maximum.default, aten.minimum.default, aten.masked_fill.Scalar, aten.pow.Tensor_Scalar),
        *(aten.logical_not.default, aten.bitwise_not.default, aten.clone.default, aten.addcmul.default),
        *(getattr(aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        *(getattr(aten, name).Scalar for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        *(aten.zeros.default, aten.ones.default, aten.full.default, aten.zeros_like.default, aten.ones_like.default),
        *(aten.full_like.default, aten.arange.default, aten.arange.start, aten.arange.start_step),
    )
)


@dataclass(frozen=True, eq=False)
class Halves:
    """forward: inputs and sizes -> results and saved values. backward: saved values, tangents and sizes -> gradients.

    saved: the nodes of the joint graph that are kept. results: how many distinct results there are.
    """

    forward: GraphModule
    backward: GraphModule
    saved: tuple[Node, ...]
    results: int


def halve(joint: Joint, results: Sequence[Node], saved: Sequence[Node] | None = None) -> Halves | None:
    """Cut a joint graph. saved: what an earlier cut of the same graph kept; None if that is not enough."""
    again = _again(joint)
    wanted = _wanted(joint)
    if saved is None:
        saved = _cut(joint, wanted, again, set(results))
    elif not _reaches(wanted, set(saved), again, joint):
        return None
    backward = _backward(joint, saved)
    return Halves(_forward(joint, results, saved), backward, tuple(saved), len(results))


def _again(joint: Joint) -> set[Node]:
    """What may be computed once more, with few reads of memory."""
    again, reads = set[Node](), dict[Node, frozenset[Node]]()
    for node in joint.graph.nodes:
        reads[node] = frozenset((node,))
        if _may_run_again(node, joint):
            read = frozenset[Node]().union(*(reads[source] for source in _tensors(node, joint)))
            if len(read) <= READS:
                again.add(node)
                reads[node] = read
    return again


def _may_run_again(node: Node, joint: Joint) -> bool:
    """May the backward pass compute this value once more? Only from memory that is still what it was."""
    if node.op != "call_function" or node in joint.backward or node in joint.written or node in joint.numbers:
        return False
    if node.target not in VIEWS and node.target not in CHEAP and not _is_part_of_view(node):
        return False
    return not any(source in joint.written for source in node.all_input_nodes)


def _is_part_of_view(node: Node) -> bool:
    source = node.args[0] if node.args else None
    return node.target is operator.getitem and isinstance(source, Node) and source.target in VIEWS


def _wanted(joint: Joint) -> list[Node]:
    """Values of the forward pass that the backward pass reads."""
    own = joint.backward | set(joint.tangents) | joint.numbers
    found: dict[Node, None] = {}
    for node in joint.graph.nodes:
        if node in joint.backward:
            found.update(dict.fromkeys(source for source in node.all_input_nodes if source not in own))
    found.update(dict.fromkeys(node for node in joint.gradients.values() if node not in own))
    return list(found)


def _tensors(node: Node, joint: Joint) -> list[Node]:
    """What a node reads, but for numbers that any call knows."""
    return [source for source in node.all_input_nodes if source not in joint.numbers]


def _reaches(wanted: Sequence[Node], saved: set[Node], again: set[Node], joint: Joint) -> bool:
    """Can everything that is wanted be computed from what is saved?"""
    stack, seen = list(wanted), set[Node]()
    while stack:
        node = stack.pop()
        if node in saved or node in seen:
            continue
        seen.add(node)
        if node not in again:
            return False
        stack.extend(_tensors(node, joint))
    return True


# -- the cut -----------------------------------------------------------------------------------------------------


def _cost(node: Node, results: set[Node], again: set[Node]) -> int:
    """What keeping a value costs: a write, if it would not be written anyway, and a read."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return INFINITE
    size = max(value.numel(), 1) * value.element_size()
    kept = node.op == "placeholder" or node in results or node.target in VIEWS or _is_part_of_view(node)
    return 1 + size if kept or _is_met_again(node, again) else 1 + 2 * size


def _is_met_again(node: Node, again: set[Node]) -> bool:
    """Is it made of several tensors as large as itself, and read more than once? Then the forward pass stores it, too,
    rather than read them all a second time."""
    if node not in again or len(node.users) < 2:
        return False
    size: int = node.meta["val"].numel()
    sources = [source.meta.get("val") for source in node.all_input_nodes]
    return len([v for v in sources if isinstance(v, torch.Tensor) and v.numel() >= size]) > 1


def _cut(joint: Joint, wanted: Sequence[Node], again: set[Node], results: set[Node]) -> list[Node]:
    """The smallest cut between what can't be computed again and what is wanted (Dinic's algorithm)."""
    reach: dict[Node, None] = {}
    stack = list(wanted)
    while stack:
        node = stack.pop()
        if node not in reach:
            reach[node] = None
            stack.extend(_tensors(node, joint) if node in again else ())
    number = {node: 2 + 2 * k for k, node in enumerate(reach)}
    net = _Network(2 + 2 * len(reach))
    for node, at in number.items():
        net.add(at, at + 1, _cost(node, results, again))
        if node in again and _tensors(node, joint):
            for source in _tensors(node, joint):
                net.add(number[source] + 1, at, INFINITE)
        elif node not in again:
            net.add(0, at, INFINITE)
    for node in wanted:
        net.add(number[node] + 1, 1, INFINITE)
    far = net.far_side()
    order = [node for node in joint.graph.nodes if node in number]
    return [node for node in order if number[node] not in far and number[node] + 1 in far]


class _Network:
    """A flow network; 0 is the source, 1 the sink."""

    def __init__(self, size: int) -> None:
        self.edges: list[list[int]] = [[] for _ in range(size)]
        self.to: list[int] = []
        self.left: list[int] = []

    def add(self, start: int, end: int, capacity: int) -> None:
        for a, b, room in ((start, end, capacity), (end, start, 0)):
            self.edges[a].append(len(self.to))
            self.to.append(b)
            self.left.append(room)

    def _levels(self) -> list[int]:
        level, queue = [-1] * len(self.edges), deque([0])
        level[0] = 0
        while queue:
            at = queue.popleft()
            for edge in self.edges[at]:
                if self.left[edge] and level[self.to[edge]] < 0:
                    level[self.to[edge]] = level[at] + 1
                    queue.append(self.to[edge])
        return level

    def far_side(self) -> set[int]:
        """Push as much as goes through; what still reaches the sink. Of several smallest cuts it is the one that leaves
        least to compute again."""
        while (level := self._levels())[1] >= 0:
            tried = [0] * len(self.edges)
            while path := self._path(level, tried):
                room = min(self.left[edge] for edge in path)
                for edge in path:
                    self.left[edge] -= room
                    self.left[edge ^ 1] += room
        found, stack = {1}, [1]
        while stack:
            for edge in self.edges[stack.pop()]:
                if self.left[edge ^ 1] and self.to[edge] not in found:
                    found.add(self.to[edge])
                    stack.append(self.to[edge])
        return found

    def _path(self, level: list[int], tried: list[int]) -> list[int]:
        path: list[int] = []
        at = 0
        while at != 1:
            edges = self.edges[at]
            while tried[at] < len(edges):
                edge = edges[tried[at]]
                if self.left[edge] and level[self.to[edge]] == level[at] + 1:
                    break
                tried[at] += 1
            else:
                if not path:
                    return []
                at = self.to[path.pop() ^ 1]
                tried[at] += 1
                continue
            path.append(edge)
            at = self.to[edge]
        return path


# -- the halves --------------------------------------------------------------------------------------------------


def _forward(joint: Joint, results: Sequence[Node], saved: Sequence[Node]) -> GraphModule:
    nodes = [node for node in joint.graph.nodes if node not in joint.backward and node not in joint.tangents]
    return _module(nodes, [*joint.inputs, *joint.sizes], [*results, *saved])


def _backward(joint: Joint, saved: Sequence[Node]) -> GraphModule:
    nodes = [node for node in joint.graph.nodes if node not in joint.tangents]
    inputs = [*saved, *joint.tangents, *joint.sizes]
    return _module(nodes, inputs, list(joint.gradients.values()), joint.backward)


def _module(
    nodes: Sequence[Node],
    inputs: Sequence[Node],
    outputs: Sequence[Node],
    own: frozenset[Node] | None = None,
) -> GraphModule:
    """What the outputs depend on, and writes to memory. own: the only nodes whose writes count."""
    given = set(inputs)
    needed, stack = set[Node](), [*outputs, *(node for node in nodes if _writes(node) and (own is None or node in own))]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(() if node in given else node.all_input_nodes)
    graph, env = Graph(), dict[Node, Node]()
    for node in inputs:
        env[node] = graph.placeholder(node.name)
        env[node].meta.update(node.meta)
    for node in nodes:
        if node in needed and node not in given:
            env[node] = graph.node_copy(node, lambda source: env[source])
    graph.output(tuple(env[node] for node in outputs))
    tidy(graph)
    return GraphModule(torch.nn.Module(), graph)


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable or node.target in HIDDEN_WRITES)
