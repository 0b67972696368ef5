"""The Timeline tab: how long each stage of compiling took, and the entries that it made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, fold, span
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import EntryInfo, Report, Stage

MOST = 60
_BARS = {"capture": "31,111,235", "build": "137,87,229", "guards": "27,124,131"}


@panel("Timeline", after="Kernels")
def timeline(report: Report) -> str:
    longest = max((stage.seconds for stage in report.timeline), default=0) or 1
    bars = "".join(_bar(stage, longest) for stage in report.timeline[:MOST])
    if len(report.timeline) > MOST:
        bars += div(f"… and {len(report.timeline) - MOST} more stages")
    versions = " · ".join(f"{name} {version}" for name, version in report.versions.items())
    return (
        div(bars, f"{html.MONO};white-space:pre;line-height:1.5")
        + _entries(report)
        + div(esc(versions), "opacity:.8;font-size:90%;padding-top:4px")
    )


def _bar(stage: Stage, longest: float) -> str:
    width = max(1.0, 240 * stage.seconds / longest)
    colour = _BARS.get(stage.name, "139,148,158")
    bar = span(
        "", f"display:inline-block;width:{width:.0f}px;height:.8em;background:rgba({colour},.75);margin-right:8px"
    )
    hit = " · from the cache" if stage.cache_hit else ""
    return div(span(f"{esc(stage.name):<18}") + bar + f"{_time(stage.seconds)}   {esc(stage.detail)}{hit}")


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _entries(report: Report) -> str:
    if not report.entries:
        return ""
    rows = [({"data-l": entry.starts}, _cells(entry)) for entry in report.entries[:MOST]]
    heads = ["entry", "starts at", "ends", "graph", "guards", "calls", "bytecode"]
    return html.table("Entries: what runs instead of the function's own code.", heads, rows)


def _cells(entry: EntryInfo) -> list[str]:
    lines = entry.bytecode.splitlines()
    shown = "\n".join(lines[:120]) + (f"\n… and {len(lines) - 120} more" if len(lines) > 120 else "")
    listing = (
        fold(f"{len(lines)} instructions", div(esc(shown), f"{html.MONO};white-space:pre;font-size:90%"))
        if lines
        else ""
    )
    start = "the beginning" if entry.starts is None else f"line {entry.starts}"
    graph = "none" if entry.graph is None else str(entry.graph)
    return [str(entry.index), start, esc(entry.ends), graph, str(entry.guards), str(entry.hits), listing]
