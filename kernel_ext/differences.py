"""`%compile diff`: two entries of a function, or the program before and after a pass, line by line."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from kernel_ext.arguments import UsageFault
from kernel_ext.panels.passes import stages_of

if TYPE_CHECKING:
    from dynajit.report import Report


def diff_text(report: Report, first: str, second: str) -> str:
    """first, second: numbers of entries, or names of passes of the first graph."""
    (a, before), (b, after) = _text(report, first), _text(report, second)
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), a, b, lineterm="", n=2))
    return "\n".join(lines) if lines else f"{a} and {b} are the same"


def _text(report: Report, what: str) -> tuple[str, str]:
    if what.isdigit():
        if int(what) >= len(report.entries):
            raise UsageFault(f"{report.name} has {len(report.entries)} entries, counted from 0")
        return f"entry {what}", _entry(report, int(what))
    passes = dict(stages_of(report.graphs[0])) if report.graphs else {}
    if what not in passes:
        raise UsageFault(f"{what!r} is neither the number of an entry nor one of the passes {', '.join(passes)}")
    return what, passes[what]


def _entry(report: Report, number: int) -> str:
    """Guards, then the graph with shapes."""
    entry = report.entries[number]
    said = [f"guard: {guard.words}" for guard in report.guards if guard.entry == number]
    for graph in report.graphs:
        if graph.index == entry.graph:
            said += [f"{node.name} = {node.target}({', '.join(node.inputs)})  {node.shape}" for node in graph.nodes]
    return "\n".join([*said, f"ends: {entry.ends}"])
