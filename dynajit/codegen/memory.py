"""Which results of kernels may stay in memory from one call for the next, so that no call needs more than eager would.

Fresh pages cost more than most kernels, so a kernel's result goes where an earlier one was (runtime/launch.c). Memory
that waits for that is there while other operations need theirs. Both are added up here, for the example's sizes.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch.fx import Node

from dynajit.lower.ir import Value
from dynajit.lower.program import Compute, Program, leaves

WORTH_KEEPING = 1 << 18  # bytes, as in runtime/launch.c


@dataclass(frozen=True)
class Event:
    """Something runs: what it makes, with the bytes of each (views have none), and what is let go after it."""

    makes: tuple[tuple[str, int], ...]
    drops: tuple[str, ...]


def bytes_of(tree: Any) -> int:
    return sum(prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves(tree) if isinstance(leaf, Value))


def is_view(program: Program, node: Node) -> bool:
    """Does a node that runs as it stands make no memory of its own?"""
    return node in _aliases(program) or node.target is operator.getitem


def _aliases(program: Program) -> set[Node]:
    return {item.node for item in program.items if isinstance(item, Compute) and item.alias}


def eager_events(program: Program, owned: bool) -> list[Event]:
    """The graph as it stands. owned: its inputs go as well, after their last use."""
    aliases, base = _aliases(program), dict[Node, Node]()
    last = dict[Node, int]()
    outputs = {leaf for leaf in leaves(program.output) if isinstance(leaf, Node)}
    made: list[tuple[tuple[str, int], ...]] = []
    for position, item in enumerate(program.items):
        node = item.node
        sources = [base.get(source, source) for source in node.all_input_nodes]
        last.update(dict.fromkeys(sources, position))
        last[node] = position
        if sources and (node in aliases or node.target is operator.getitem):
            base[node] = sources[0]
            made.append(())
        else:
            made.append(((node.name, bytes_of(item.result)),))
    kept = {base.get(node, node) for node in outputs} | (set() if owned else set(program.inputs))
    drops: list[list[str]] = [[] for _ in made]
    for node, position in last.items():
        if node not in kept and node not in base:
            drops[position].append(node.name)
    given = ((node.name, bytes_of(program.bound.get(node))) for node in program.inputs)
    return [Event(tuple(given), ()), *(Event(m, tuple(d)) for m, d in zip(made, drops, strict=True))]


def _levels(events: Iterable[Event], waiting: frozenset[str] = frozenset()) -> tuple[list[int], int]:
    """Bytes in use while each runs, without what is made into memory that waits for it, and the bytes of that."""
    live, level, levels = dict[str, int](), 0, list[int]()
    busy, most = Counter[int](), Counter[int]()
    for event in events:
        for name, size in event.makes:
            live[name] = size
            if name in waiting:
                busy[size] += 1
                most[size] = max(most[size], busy[size])
            else:
                level += size
        levels.append(level)
        for name in event.drops:
            size = live.pop(name, 0)
            if name in waiting:
                busy[size] -= 1
            else:
                level -= size
    return levels, sum(size * count for size, count in most.items())


def kept(eager: Sequence[Event], ours: Sequence[Event], candidates: Mapping[str, int]) -> frozenset[str]:
    """Those of the candidates (results of kernels, with their bytes) whose memory may wait, in the order given."""
    limit = max(_levels(eager)[0], default=0)

    def fits(names: frozenset[str]) -> bool:
        levels, waits = _levels(ours, names)
        return max(levels, default=0) + waits <= limit

    large = [name for name, size in candidates.items() if size >= WORTH_KEEPING]
    if fits(frozenset(large)):
        return frozenset(large)
    chosen = frozenset[str]()
    for name in large:
        if fits(chosen | {name}):
            chosen |= {name}
    return chosen
