"""Short names: kernels as k0, k1 ...; files as the reader knows them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, Report

_LIBRARIES = re.compile(r".*/(?:site-packages|dist-packages|lib/python\d\.\d+)/(.*)")


def kernel_labels(report: Report) -> dict[tuple[str, int], str]:
    """(name, graph) of a kernel -> its short name. Texts of one kernel in C and in Triton share it, and so do equal
    kernels of several graphs."""
    texts: dict[tuple[str, int], list[str]] = {}
    for kernel in report.kernels:
        texts.setdefault((kernel.name, kernel.graph), []).append(kernel.source)
    short: dict[tuple[str, ...], str] = {}
    return {key: short.setdefault((key[0], *sources), f"k{len(short)}") for key, sources in texts.items()}


def without_number(name: str) -> str:
    """`backward k3_add_tanh` -> `backward add_tanh`. Numbers start anew in each graph, so the label says it."""
    return re.sub(r"^(backward )?k\d+_?", r"\1", name).strip()


def kernels_by_line(report: Report) -> dict[int, list[str]]:
    """Line -> short names of the kernels that run it."""
    labels = kernel_labels(report)
    found: dict[int, dict[str, None]] = {}
    for kernel in report.kernels:
        for _, line in kernel.lines:
            found.setdefault(line, {})[labels[kernel.name, kernel.graph]] = None
    return {line: list(names) for line, names in found.items()}


def shares_by_line(report: Report) -> dict[int, float]:
    """Line -> the share of the measured time that its kernels take. A kernel of several lines counts for its first."""
    latest = {entry.starts: entry.graph for entry in report.entries if entry.graph is not None and entry.hits}
    graphs = {graph.index: graph for graph in report.graphs if graph.index in latest.values()}
    whole = sum(graph.measured for graph in graphs.values())
    found: dict[int, float] = {}
    for kernel in report.kernels:
        if whole and kernel.measured and kernel.graph in graphs and kernel.lines:
            line = min(line for _, line in kernel.lines)
            found[line] = found.get(line, 0.0) + min(1.0, kernel.measured / whole)
    return found


def kernels_by_node(report: Report, graph: GraphInfo) -> dict[str, str]:
    """Name of a node -> short names of the kernels that compute it; what runs as a library call has none."""
    labels = kernel_labels(report)
    found = {
        node.name: " ".join(
            dict.fromkeys(labels[name, graph.index] for name in node.kernels if (name, graph.index) in labels)
        )
        for node in graph.nodes
    }
    return {name: label for name, label in found.items() if label}


def short_file(name: str) -> str:
    """A library's file without the folder it is installed in; any other file by its last part."""
    found = _LIBRARIES.fullmatch(name.replace("\\", "/"))
    return found[1] if found else name.replace("\\", "/").rpartition("/")[2]


def relabelled(report: Report, label: Callable[[str], str] = short_file) -> Report:
    """The report with every `file:line` as the reader knows it: `In[3]:1`."""

    def place(where: str) -> str:
        file, colon, line = where.rpartition(":")
        return f"{label(file)}{colon}{line}" if colon else where

    graphs = tuple(
        dataclasses.replace(graph, nodes=tuple(dataclasses.replace(n, where=place(n.where)) for n in graph.nodes))
        for graph in report.graphs
    )
    breaks = tuple(dataclasses.replace(row, where=place(row.where)) for row in report.breaks)
    return dataclasses.replace(report, filename=label(report.filename), graphs=graphs, breaks=breaks)
