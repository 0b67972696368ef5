"""What has to exist in memory: the results, and what calls that run as they stand take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch.fx import Node

from dynajit.lower.ir import LEAVES, VIEWS, Value
from dynajit.lower.program import Compute, Program, leaves, tree_map


@dataclass(frozen=True, eq=False)
class Needs:
    """run: alias nodes whose tensor somebody wants, so that they run. stored: results as values that kernels store, by
    node. roots: all values stored for somebody outside of kernels, with the node they are named after.
    """

    run: frozenset[Node]
    stored: Mapping[Node, Any]
    roots: Mapping[int, tuple[Value, Node]]
    strides: Mapping[int, tuple[int, ...]]


def needs(program: Program) -> Needs:
    """Walk the program backwards from its output."""
    wanted: set[Node] = {leaf for leaf in leaves(program.output) if isinstance(leaf, Node)}
    run: set[Node] = set()
    stored: dict[Node, Any] = {}
    roots: dict[int, tuple[Value, Node]] = {}
    strides = dict(program.strides)
    copies: dict[int, Value] = {}

    def store(value: Any, node: Node) -> Any:
        if not isinstance(value, Value):
            return value
        kept = value
        if value.op in VIEWS or value.op in LEAVES:
            kept = copies.setdefault(value.serial, Value("copy", (value,), value.shape, value.dtype))
            if value.serial in strides:
                strides[kept.serial] = strides[value.serial]
        roots.setdefault(kept.serial, (kept, node))
        return kept

    for item in reversed(program.items):
        if not isinstance(item, Compute):
            wanted.update(item.node.all_input_nodes)
        elif item.node in wanted and item.alias:
            run.add(item.node)
            wanted.update(item.node.all_input_nodes)
    for item in program.items:
        if isinstance(item, Compute) and item.node in wanted and not item.alias:
            stored[item.node] = tree_map(partial(store, node=item.node), item.result)
    return Needs(frozenset(run), stored, roots, strides)
