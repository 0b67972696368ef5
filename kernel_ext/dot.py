"""A graph in DOT, for Graphviz and for other programs; the text is made without the `dot` program."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kernel_ext.collapse import groups
from kernel_ext.html import KERNEL_TINTS

if TYPE_CHECKING:
    from dynajit.report import Report


def dot_text(report: Report, graph: int = 0, most: int = 150) -> str:
    """DOT of one graph of a report, collapsed as in the card."""
    if not 0 <= graph < len(report.graphs):
        raise IndexError(f"{report.name} has {len(report.graphs)} graphs, so there is no graph {graph}")
    graphviz = importlib.import_module("graphviz")
    drawing = graphviz.Digraph(
        f"{report.name} graph {graph}", node_attr={"shape": "box", "style": "rounded,filled", "fontname": "monospace"}
    )
    _, boxes = groups(report, report.graphs[graph], most)
    for box in boxes:
        below = " · ".join(filter(None, (box.subtitle, f"line {box.line}" if box.line else "", box.kernel)))
        colour = "#{:02x}{:02x}{:02x}40".format(*_rgb(box.kernel)) if box.kernel else "white"
        text = graphviz.escape(box.title) + (rf"\n{graphviz.escape(below)}" if below else "")
        drawing.node(box.key, graphviz.nohtml(text), fillcolor=colour)
    known = {box.key for box in boxes}
    for box in boxes:
        for key in box.inputs:
            if key in known:
                drawing.edge(key, box.key)
    return str(drawing.source)


def _rgb(kernel: str) -> tuple[int, int, int]:
    red, green, blue = KERNEL_TINTS[int(kernel.split()[0][1:]) % len(KERNEL_TINTS)].split(",")
    return int(red), int(green), int(blue)
