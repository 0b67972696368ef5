"""The Passes tab: the program before and after each step from the captured graph to the calls of its kernels."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, fold, later
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, Report

MOST_GRAPHS, MOST = 6, 3_000
STEPS = {
    "captured": "capture: the operations as they were written",
    "lowered": "lower: each operation as values of elements",
    "fused": "fuse: values that share the loops of one kernel; a star is kept in memory",
    "called": "call: the Python that allocates and calls the kernels",
}


@panel("Passes", after="Timeline")
def passes(report: Report) -> str:
    parts = []
    shown: dict[tuple[tuple[str, int], ...], int] = {}
    for graph in report.graphs[:MOST_GRAPHS]:
        shape = tuple((name, _lines(text)) for name, text in stages_of(graph))
        title = f"graph {graph.index}" if len(report.graphs) > 1 else ""
        if shape in shown:
            parts.append(div(f"{title}: the same as graph {shown[shape]}, for other sizes", "padding:4px 0;opacity:.9"))
            continue
        shown[shape] = graph.index
        parts.append(div(title, "font-weight:600;padding:4px 0") + _graph(graph))
    if len(report.graphs) > MOST_GRAPHS:
        parts.append(div(f"… and {len(report.graphs) - MOST_GRAPHS} more graphs: %compile graph prints all"))
    return "".join(parts) or div("No graph, so there are no passes.", "padding:6px 0")


def stages_of(graph: GraphInfo) -> list[tuple[str, str]]:
    """(name, text) of the program after each pass, capture first."""
    found = [("captured", graph.code.strip("\n")), *graph.passes, ("called", graph.wrapper.strip("\n"))]
    return [(name, text) for name, text in found if text]


def _graph(graph: GraphInfo) -> str:
    stages = stages_of(graph)
    if len(stages) < 2:
        return div(f"backend {esc(graph.backend)}: the graph runs as it was captured.", "padding:2px 0")
    return "".join(_step(before, after) for before, after in pairwise(stages))


def _step(before: tuple[str, str], after: tuple[str, str]) -> str:
    counts = f"{_lines(before[1])} → {_lines(after[1])} lines"
    title = f"{esc(STEPS.get(after[0], after[0]))} {html.muted(counts)}"
    sides = div("".join(_side(*stage) for stage in (before, after)), "display:flex;flex-wrap:wrap;gap:12px")
    return fold(title, later("The texts are not kept where no script runs: %compile graph prints them.", sides))


def _side(name: str, text: str) -> str:
    cut = text if len(text) <= MOST else text[:MOST].rpartition("\n")[0] + "\n… (%compile graph prints all)"
    style = f"{html.MONO};white-space:pre;overflow:auto;max-height:420px;font-size:90%"
    return div(div(esc(name), "opacity:.8") + div(esc(cut), style, class_="dj-code"), "flex:1 1 340px;min-width:0")


def _lines(text: str) -> int:
    return text.count("\n") + 1
