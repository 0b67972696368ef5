"""Equal calls of a torch-level graph that need to be made only once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, Node

from dynajit.lower.program import leaves

# Functions and methods that always make memory of their own, draw no random numbers and write to nothing.
_PURE = frozenset(
    """
add sub mul div truediv true_divide pow neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal
square sin cos tan tanh sinh cosh asin acos atan sigmoid erf erfc relu gelu silu mish elu selu softplus
hardswish hardsigmoid logsigmoid leaky_relu relu6 maximum minimum where eq ne lt le gt ge logical_and
logical_or logical_not softmax log_softmax logsumexp layer_norm rms_norm group_norm linear matmul mm bmm addmm
baddbmm conv1d conv2d conv3d sum mean amax amin argmax argmin var std cumsum cumprod outer lerp addcmul
addcdiv clamp floor ceil round trunc sign masked_fill
""".split()
)
_MODULES = frozenset(("operator", "_operator", "torch", "torch.nn.functional", "torch._C._nn", "math"))


def without_repeats(graph: Graph) -> Graph:
    """A copy with one call for all that are equal; the graph itself if there are none.

    A graph with a write, or with a call of which nothing is known, is left alone; so is what a result may share memory
    with, because results of equal calls are tensors of their own.
    """
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    keys: dict[Any, int] = {}
    for node in calls:
        if _is_pure(node):
            key = (node.op, node.target, *key_of(node.args), *key_of(node.kwargs))
            keys[key] = keys.get(key, 0) + 1
    if max(keys.values(), default=0) < 2 or any(_may_write(node) for node in calls):
        return graph
    copy = Graph()
    output = copy.graph_copy(graph, {})
    copy.output(output)
    shown = _shown(copy)
    first: dict[Any, Node] = {}
    for node in list(copy.nodes):
        if _is_pure(node) and node not in shown:
            known = first.setdefault((node.op, node.target, *key_of(node.args), *key_of(node.kwargs)), node)
            if known is not node:
                node.replace_all_uses_with(known)
                copy.erase_node(node)
    return copy


def key_of(tree: Any) -> Iterator[Any]:
    """The arguments of a call, as what can be compared: 1, 1.0 and True are three."""
    if isinstance(tree, (tuple, list)):
        yield type(tree)
        for leaf in tree:
            yield from key_of(leaf)
        yield None
    elif isinstance(tree, dict):
        for name, leaf in tree.items():
            yield name
            yield from key_of(leaf)
    elif isinstance(tree, slice):
        yield slice
        yield from key_of((tree.start, tree.stop, tree.step))
    else:
        yield type(tree)
        yield repr(tree) if isinstance(tree, float) else tree


def _name(node: Node) -> str:
    target: Any = node.target
    return target if isinstance(target, str) else str(getattr(target, "__name__", ""))


def _is_known(node: Node) -> bool:
    if node.op == "call_method":
        return callable(getattr(torch.Tensor, str(node.target), None))
    target: Any = node.target
    name = _name(node)
    return getattr(target, "__module__", None) in _MODULES or any(
        getattr(place, name, None) is target for place in (torch, F, torch._C._nn)
    )


def _is_pure(node: Node) -> bool:
    return node.op.startswith("call_") and _name(node) in _PURE and _is_known(node) and not _may_write(node)


def _may_write(node: Node) -> bool:
    """Whether a call may write to a tensor, or do something of which nothing is known."""
    name = _name(node)
    inplace = name.endswith("_") and not name.endswith("__")
    if inplace or name.startswith("__i") or name in ("setitem", "delitem", "setattr"):
        return True
    if getattr(node.target, "__module__", "") in ("operator", "_operator") and name[:1] == "i" and name not in _PURE:
        return name not in ("index", "inv", "invert")
    if node.kwargs.get("inplace") or "out" in node.kwargs or any(arg is True for arg in node.args):
        return True
    # Running statistics, and weights that are made smaller.
    return name in ("batch_norm", "instance_norm", "embedding", "embedding_bag") or not _is_known(node)


def _shown(graph: Graph) -> set[Node]:
    """What the results are, or may be views of."""
    stack = [leaf for leaf in leaves(graph.output_node().args) if isinstance(leaf, Node)]
    found: set[Node] = set()
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            if _name(node) not in _PURE:
                stack.extend(node.all_input_nodes)
    return found
