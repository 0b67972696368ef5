"""An aten graph of one pass, with the same results by fewer calls.

Autograd's calls are those of its C++ code, where a view costs next to nothing; made from Python, each costs a
microsecond. So views of views become one, equal calls become one, and a product with the views around it becomes the
call that eager made it from, where that call makes the same aten calls again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, Node

from dynajit.lower.aten import is_random, meta_like, record
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
    if any(_writes(node) for node in graph.nodes):
        return  # which call sees which write is left as it is
    _merge(graph)
    for node in list(graph.nodes):
        if node.target in RESHAPES:
            _view_of_view(node)
    for node in list(graph.nodes):
        if node.target is aten.addmm.default:
            _linear(node)
        elif node.target is aten.mm.default:
            _matmul(node)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and not node.users and not _draws(node):
            graph.erase_node(node)


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _draws(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and is_random(node.target, node.args)


# -- equal calls ---------------------------------------------------------------------------------------------------


def _merge(graph: Graph) -> None:
    """One call for all that are equal, if nobody outside can tell: a result must not share memory with another."""
    shown = _shown(graph)
    first: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or node in shown or _draws(node):
            continue
        known = first.setdefault((node.target, *_key(node.args), *_key(node.kwargs)), node)
        if known is not node:
            node.replace_all_uses_with(known)


def _shown(graph: Graph) -> set[Node]:
    """What the results are, or are views of."""
    stack = [node for node in leaves(graph.output_node().args) if isinstance(node, Node)]
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


def _key(tree: Any) -> Iterator[Any]:
    """The arguments of a call, as what can be compared: 1, 1.0 and True are three."""
    if isinstance(tree, (tuple, list)):
        yield type(tree)
        for leaf in tree:
            yield from _key(leaf)
        yield None
    elif isinstance(tree, dict):
        for name, leaf in tree.items():
            yield name
            yield from _key(leaf)
    else:
        yield type(tree)
        yield repr(tree) if isinstance(tree, float) else tree


# -- views and products --------------------------------------------------------------------------------------------


def _view_of_view(node: Node) -> None:
    """Memory that can be walked in two steps can be walked in one."""
    source = node.args[0]
    while isinstance(source, Node) and source.target in RESHAPES and source.op == "call_function":
        source = source.args[0]
    node.replace_input_with(node.args[0], source) if source is not node.args[0] else None  # type: ignore[arg-type]


def _linear(node: Node) -> None:
    """`addmm(bias, x.view(n, k), weight.t()).view(..., m)` is what eager makes of `linear(x, weight, bias)`."""
    bias, x, turned = node.args[:3]
    if node.kwargs or not isinstance(turned, Node) or turned.target is not aten.t.default:
        return
    _replace(node, F.linear, x, lambda source: (source, turned.args[0], bias))


def _matmul(node: Node) -> None:
    """`mm(x.view(n, k), y).view(..., m)` is what eager makes of `matmul(x, y)`."""
    x, y = node.args
    _replace(node, torch.matmul, x, lambda source: (source, y))


def _replace(node: Node, function: Any, x: Any, arguments: Callable[[Node], tuple[Any, ...]]) -> None:
    """Put `function` in the place of a product and the views around it, where it makes these very calls."""
    source = x.args[0] if x.target in RESHAPES else x
    users = list(node.users)
    views = source is not x and bool(users) and all(user.target in RESHAPES for user in users)
    if not views:
        source, users = x, [node]
    args = arguments(source)
    if source is x and function is torch.matmul:
        return
    for world in ("val", "other"):
        if world in node.meta and not all(_same_calls(node, user, function, args, world) for user in users):
            return
    with node.graph.inserting_before(node):
        made = node.graph.call_function(function, args)
    made.meta.update(users[0].meta)
    for user in users:
        user.replace_all_uses_with(made)


def _same_calls(node: Node, result: Node, function: Any, args: tuple[Any, ...], world: str) -> bool:
    """Does the function, called on such tensors, make this product once, and a result of this shape?"""
    metas = [meta_like(arg.meta.get(world, arg.meta["val"])) for arg in args]
    seen = record(function, metas, {})
    wanted = result.meta[world]
    if seen.error or not isinstance(seen.result, torch.Tensor):
        return False
    rest = [call for call in seen.calls if call.op not in VIEWS]
    if len(rest) != 1 or rest[0].op is not node.target:
        return False
    sources = [arg.meta.get(world, arg.meta["val"]) for arg in node.args]  # type: ignore[union-attr]
    operands = zip(rest[0].args, sources, strict=False)
    alike = all(a.shape == b.shape and a.stride() == b.stride() for a, b in operands)
    return alike and seen.result.shape == wanted.shape and seen.result.stride() == wanted.stride()
