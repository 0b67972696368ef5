"""An aten graph of one pass, with the same results by fewer calls.

Autograd's calls are those of its C++ code, where a view costs next to nothing; made from Python, each costs a
microsecond. So views of views become one, equal calls become one, and a product with the views around it becomes the
`linear` that eager made it from, where that makes the same aten calls again.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, Node

from dynajit.lower.aten import is_random, meta_like, record
from dynajit.lower.common import key_of
from dynajit.lower.from_fx import HIDDEN_WRITES
from dynajit.lower.program import leaves

aten: Any = torch.ops.aten
RESHAPES = frozenset((aten.view.default, aten._unsafe_view.default))
# What a call may give back is its operand's memory; all other calls make memory of their own.
VIEWS = RESHAPES | {
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default, aten.unsqueeze.default),
    *(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.slice.Tensor, aten.select.int),
    *(aten.unbind.int, aten.split.Tensor, aten.split_with_sizes.default, operator.getitem),
}


def tidy(graph: Graph) -> None:
    """Change a graph of aten calls in place. Every node has a meta tensor or a number in `meta["val"]`, and where sizes
    may differ from call to call, that of the other call in `meta["other"]`.
    """
    if not merge(graph, leaves(graph.output_node().args)):
        return
    for node in list(graph.nodes):
        if node.target in RESHAPES:
            _view_of_view(node)
    for node in list(graph.nodes):
        if node.target is aten.addmm.default:
            _linear(node)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users and not matters(node):
            graph.erase_node(node)


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def matters(node: Node) -> bool:
    """Whether it counts how often a call is made: it draws random numbers, or updates statistics."""
    if node.target in HIDDEN_WRITES:
        return True
    return isinstance(node.target, torch._ops.OpOverload) and is_random(node.target, node.args)


# -- equal calls ---------------------------------------------------------------------------------------------------


def merge(graph: Graph, results: Iterable[Any]) -> bool:
    """One call for all that are equal, if nobody outside can tell: a result must not share memory with another.

    False, and nothing done, where there are writes: which call sees which write is left as it is.
    """
    if any(_writes(node) for node in graph.nodes):
        return False
    shown = _shown(results)
    updated = {x for node in graph.nodes if node.target in HIDDEN_WRITES for x in node.args[3:5] if isinstance(x, Node)}
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node in shown or matters(node) or updated & {*node.all_input_nodes}:
            continue
        known = first.setdefault((node.target, *key_of(node.args), *key_of(node.kwargs)), node)
        if known is not node:
            node.replace_all_uses_with(known)
    return True


def _shown(results: Iterable[Any]) -> set[Node]:
    """What the results are, or are views of."""
    stack = [node for node in results if isinstance(node, Node)]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if node.target in VIEWS or not isinstance(node.target, torch._ops.OpOverload) or _may_alias(node):
                stack.extend(node.all_input_nodes)
    return found


def _may_alias(node: Node) -> bool:
    returns: Sequence[Any] = node.target._schema.returns  # type: ignore[union-attr]
    return any(value.alias_info is not None for value in returns)


# -- views and products --------------------------------------------------------------------------------------------


def _view_of_view(node: Node) -> None:
    """Memory that can be walked in two steps can be walked in one."""
    source = node.args[0]
    while isinstance(source, Node) and source.target in RESHAPES:
        source = source.args[0]
    node.args = (source, *node.args[1:])


def _linear(node: Node) -> None:
    """`addmm(bias, x.view(n, k), weight.t()).view(..., m)` is what eager makes of `linear(x, weight, bias)`."""
    bias, x, turned = node.args[:3]
    if node.kwargs or not isinstance(turned, Node) or turned.target is not aten.t.default:
        return
    source = x.args[0] if x.target in RESHAPES else x  # type: ignore[union-attr]
    users = list(node.users)
    if source is x or not users or any(user.target not in RESHAPES for user in users):
        source, users = x, [node]
    args = source, turned.args[0], bias
    if any(w in node.meta and not _same_calls(node, user, args, w) for w in ("val", "other") for user in users):
        return
    with node.graph.inserting_before(node):
        made = node.graph.call_function(F.linear, args)
    made.meta.update(users[0].meta)
    for user in users:
        user.replace_all_uses_with(made)


def _same_calls(node: Node, result: Node, args: tuple[Any, ...], world: str) -> bool:
    """Does `linear`, called on such tensors, make this product and nothing else, and a result of this shape?"""
    metas = [meta_like(arg.meta.get(world, arg.meta["val"])) for arg in args]
    seen = record(F.linear, metas, {})
    wanted = result.meta[world]
    if seen.error or not isinstance(seen.result, torch.Tensor):
        return False
    rest = [call for call in seen.calls if call.op not in VIEWS]
    if len(rest) != 1 or rest[0].op is not node.target:
        return False
    sources = [arg.meta.get(world, arg.meta["val"]) for arg in node.args]  # type: ignore[union-attr]
    operands = zip(rest[0].args, sources, strict=False)
    alike = all((a.shape, a.stride()) == (b.shape, b.stride()) for a, b in operands)  # type: ignore[union-attr]
    return alike and seen.result.shape == wanted.shape and seen.result.stride() == wanted.stride()
