"""Short names: kernels as k0, k1 ...; files as the reader knows them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynajit.report import KernelReport, NodeInfo, Report

_LIBRARIES = re.compile(r".*/(?:site-packages|dist-packages|lib/python\d\.\d+)/(.*)")


def kernel_labels(report: Report) -> dict[tuple[str, int], str]:
    """(name, graph) of a kernel -> its short name. Texts of one kernel in C and in Triton share it, and so do equal
    kernels of several graphs."""
    texts: dict[tuple[str, int], list[str]] = {}
    for kernel in report.kernels:
        texts.setdefault((kernel.name, kernel.graph), []).append(kernel.source)
    short: dict[tuple[str, ...], str] = {}
    return {key: short.setdefault((key[0], *sources), f"k{len(short)}") for key, sources in texts.items()}


def kernels_of_line(report: Report, line: int) -> list[str]:
    """Short names of the kernels that run a line."""
    labels = kernel_labels(report)
    found = [
        labels[kernel.name, kernel.graph] for kernel in report.kernels if any(user == line for _, user in kernel.lines)
    ]
    return list(dict.fromkeys(found))


def kernel_of_node(report: Report, graph: int, node: NodeInfo) -> str:
    """The short name of the kernel that a node became, "" if it runs as a library call."""
    labels = kernel_labels(report)
    for kernel in report.kernels:
        if kernel.graph == graph and (kernel.name == node.kernel or (not node.kernel and _covers(kernel, node))):
            return labels[kernel.name, kernel.graph]
    return ""


def _covers(kernel: KernelReport, node: NodeInfo) -> bool:
    return node.target in kernel.ops and any(user == node.line for _, user in kernel.lines)


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
