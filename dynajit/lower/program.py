"""A graph as a backend sees it: in program order, what runs as it stands and what became values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from dynajit.lower.ir import Origin


@dataclass(frozen=True, eq=False)
class Extern:
    """A torch-level node that runs as it is. barrier: no read of memory may move across it. again: running it a second
    time does no harm. why: in words.
    """

    node: Node
    result: Any
    barrier: bool
    again: bool
    why: str


@dataclass(frozen=True, eq=False)
class Compute:
    """A torch-level node that became values. alias: it made no new tensor, only views of its inputs (or one of them);
    where somebody wants the tensor itself, the node runs as it is, so that storage is shared as in eager.
    """

    node: Node
    result: Any
    alias: bool


Item = Extern | Compute


@dataclass(frozen=True, eq=False)
class Program:
    """inputs: the placeholders; tensors: those that are tensors. bound: what each node is, tensors as `Value`s.

    By serial of a value: strides: those that eager gives it; origins: the user's operation it comes from; ways: how a
    mathematical function is called, where not as the value says; pins: sizes of a view, by dimension, that are written
    in the program, or the name of the graph's number that they are.

    early: nodes that compute numbers from the inputs alone; they run before all else.
    rewritten: nodes that write in place in the user's program and make a new tensor here.
    """

    inputs: tuple[Node, ...]
    tensors: tuple[Node, ...]
    items: tuple[Item, ...]
    output: Any
    bound: Mapping[Node, Any]
    strides: Mapping[int, tuple[int, ...]]
    origins: Mapping[int, Origin]
    ways: Mapping[int, str]
    pins: Mapping[int, Mapping[int, int | str]]
    rewritten: frozenset[Node]
    early: tuple[Node, ...] = ()


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Map the leaves of nested tuples, lists, dicts and slices. Named tuples keep their type."""
    if isinstance(tree, tuple):
        mapped = [tree_map(function, leaf) for leaf in tree]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else tuple(mapped)
    if isinstance(tree, list):
        return [tree_map(function, leaf) for leaf in tree]
    if isinstance(tree, dict):
        return {key: tree_map(function, leaf) for key, leaf in tree.items()}
    if isinstance(tree, slice):
        return slice(*(tree_map(function, leaf) for leaf in (tree.start, tree.stop, tree.step)))
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of the same kinds of nesting, in order."""
    if isinstance(tree, (tuple, list)):
        for leaf in tree:
            yield from leaves(leaf)
    elif isinstance(tree, dict):
        yield from leaves(list(tree.values()))
    elif isinstance(tree, slice):
        yield from leaves([tree.start, tree.stop, tree.step])
    else:
        yield tree
