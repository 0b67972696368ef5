"""What a live card needs beside its HTML, as one compressed text: the graphs as data, and the long parts of panels."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernel_ext.names import kernels_by_node

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, Report

MOST_NODES = 20_000


def pack(report: Report, full: Sequence[str], script: str = "") -> str:
    """full: HTML for the gaps of the card, by number."""
    data = {"script": script, "fill": full, "graphs": graph_data(report)}
    text = json.dumps(data, separators=(",", ":"))
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -15)
    return base64.b64encode(squeezed.compress(text.encode()) + squeezed.flush()).decode()


def graph_data(report: Report) -> dict[str, Any]:
    """By index: `nodes`, rows of name, operation, shape, line, place, kernels, module, inputs (their numbers, or names
    of the graph's own inputs); `lines`: the texts of the lines that they come from.
    """
    texts = {line.number: line.text.strip() for line in report.source}
    left = MOST_NODES
    found: dict[str, Any] = {}
    for graph in report.graphs:
        left -= len(graph.nodes)
        if left < 0:
            break
        lines = sorted({node.line for node in graph.nodes if node.line is not None})
        found[str(graph.index)] = {
            "nodes": _rows(report, graph),
            "lines": {line: texts.get(line, "") for line in lines},
        }
    return found


def _rows(report: Report, graph: GraphInfo) -> list[list[Any]]:
    kernels = kernels_by_node(report, graph)
    number = {node.name: i for i, node in enumerate(graph.nodes)}
    return [
        [node.name, node.target, node.shape, node.line or 0, node.where, kernels.get(node.name, ""), node.module,
         [number.get(name, name) for name in node.inputs]]
        for node in graph.nodes
    ]  # fmt: skip
