"""Which boxes stand for a graph: its operations, or runs of operations of one place if there are too many."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING

from kernel_ext.names import kernels_by_node

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, NodeInfo, Report

LEVELS = {
    "op": "one box an operation",
    "call": "one box a call",
    "module": "one box a module",
    "block": "one box a block of modules",
    "line": "one box a line",
}
"""Names of the levels, finest first, in words."""


@dataclass(frozen=True)
class Group:
    """One box. key: the name of its first node; inputs: keys of other boxes, or names of the graph's inputs."""

    key: str
    title: str
    subtitle: str
    inputs: tuple[str, ...]
    line: int | None
    kernel: str
    size: int = 1
    is_input: bool = False


NAMED = ("module", "line", "op", "kernel")
"""The levels that a reader may choose."""


def at_level(report: Report, graph: GraphInfo, level: str) -> list[Group]:
    """All boxes of a level: runs of operations of one module, line or kernel."""
    texts = {line.number: line.text.strip() for line in report.source}
    kernels = kernels_by_node(report, graph)
    key = _KEYS[level] if level in _KEYS else lambda node: kernels.get(node.name, node.name)
    return _merged([list(run) for _, run in groupby(graph.nodes, key)], texts, kernels)


def groups(report: Report, graph: GraphInfo, most: int) -> tuple[str, list[Group]]:
    """The finest level with at most `most` boxes, and the boxes in order. The last level may have more."""
    texts = {line.number: line.text.strip() for line in report.source}
    kernels = kernels_by_node(report, graph)
    level = "op"
    runs: list[list[NodeInfo]] = []
    for level in LEVELS:
        if level in ("module", "block") and not any(node.module for node in graph.nodes):
            continue
        runs = [list(run) for _, run in groupby(graph.nodes, _KEYS[level])]
        if len(runs) <= most:
            break
    found = _merged(runs, texts, kernels)
    return level, _with_inputs(found, graph) if level == "op" and len(found) < 60 else found


_KEYS: dict[str, Callable[[NodeInfo], object]] = {
    "op": lambda node: node.name,
    "call": lambda node: (node.line, node.where),
    "module": lambda node: node.module or node.name,
    "block": lambda node: _block(node) or node.name,
    "line": lambda node: node.line,
}


def _block(node: NodeInfo) -> str:
    """The path of its module up to its place in the first list, or its first part."""
    found = re.match(r"(?:[^.]+\.)*?\d+(?=\.|$)|[^.]+", node.module)
    return found[0] if found else ""


def _merged(runs: Sequence[Sequence[NodeInfo]], texts: dict[int, str], kernels: dict[str, str]) -> list[Group]:
    home = {node.name: run[0].name for run in runs for node in run}
    return [_group(run, home, texts, kernels) for run in runs]


def _group(run: Sequence[NodeInfo], home: dict[str, str], texts: dict[int, str], kernels: dict[str, str]) -> Group:
    first, key = run[0], run[0].name
    inputs = dict.fromkeys(home.get(name, name) for node in run for name in node.inputs)
    inputs.pop(key, None)
    labels = dict.fromkeys(kernels[node.name] for node in run if node.name in kernels)
    if len(run) == 1:
        title, subtitle = first.target, first.shape
    else:
        title = _common(run) or first.where or texts.get(first.line or -1, "") or first.target
        subtitle = f"{len(run)} operations: {', '.join(dict.fromkeys(node.target for node in run))}"
    return Group(key, title, subtitle, tuple(inputs), first.line, " ".join(labels), len(run))


def _common(run: Sequence[NodeInfo]) -> str:
    """The path of the innermost module that all of them belong to."""
    paths = [node.module.split(".") for node in run]
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return ".".join(names[0] for names in shared)


def _with_inputs(found: list[Group], graph: GraphInfo) -> list[Group]:
    """Boxes for what comes in from outside, if they are few."""
    keys = {group.key for group in found}
    outside = list(dict.fromkeys(name for group in found for name in group.inputs if name not in keys))
    if len(outside) > 12:
        return found
    return [Group(name, name, "", (), None, "", is_input=True) for name in outside] + found
