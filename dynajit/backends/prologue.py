"""What a graph does before it computes: gradients that are let go of, ranges for a profiler. Run as it stands.

`optimizer.zero_grad()` at the beginning of a training step is such a beginning; without it the rest is a graph like
any other, which autograd can be given a function for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

_RANGES = (
    torch.ops.profiler._record_function_enter_new.default,
    torch.ops.profiler._record_function_exit._RecordFunction,
)


@dataclass(frozen=True)
class Parts:
    """The beginning, and the rest; both take all inputs of the graph."""

    beginning: GraphModule
    rest: GraphModule

    def call(self, rest: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
        """The whole again, with what the rest was compiled to."""
        begin = self.beginning.forward

        def run(*inputs: Any) -> tuple[Any, ...]:
            begin(*inputs)
            return rest(*inputs)

        return run


def split(gm: GraphModule) -> Parts | None:
    """None where the graph computes from the beginning."""
    first = _beginning([node for node in gm.graph.nodes if node.op != "placeholder"])
    if not first:
        return None
    return Parts(_copy(gm, lambda node: node in first), _copy(gm, lambda node: node not in first))


def _beginning(nodes: Sequence[Node]) -> set[Node]:
    """The first operations, as far as they compute nothing and nothing after them needs what they return."""
    found: list[Node] = []
    for node in nodes:
        if not _computes_nothing(node):
            break
        found.append(node)
    while any(user not in found for node in found for user in node.users):
        found.pop()
    return set(found)


def _computes_nothing(node: Node) -> bool:
    lets_go = node.target is setattr and node.args[1:] == ("grad", None)
    return node.op == "call_function" and (lets_go or node.target in _RANGES)


def _copy(gm: GraphModule, keep: Callable[[Node], bool]) -> GraphModule:
    graph = Graph()
    made: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder" or (node.op != "output" and keep(node)):
            made[node] = graph.node_copy(node, made.__getitem__)
        elif node.op == "output":
            output = node.args[0] if keep(node) else ()
            graph.output(torch.fx.node.map_arg(output, made.__getitem__))
    return GraphModule(torch.nn.Module(), graph)
