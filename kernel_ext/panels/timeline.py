"""The Timeline tab: each entry with its cause, how long each of its stages took, and its bytecode."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, fold, later, span
from kernel_ext.panels.table import panel
from kernel_ext.units import duration

if TYPE_CHECKING:
    from dynajit.report import EntryInfo, Report, Stage

MOST = 40
_BARS = {"capture": "31,111,235", "building": "137,87,229", "lowering": "191,75,138", "guards": "27,124,131"}
WIDTH = 260
_HIT = span("from the cache", f"background:{html.TINTS['captured']};border-radius:8px;padding:0 7px")


@panel("Timeline", after="Kernels")
def timeline(report: Report) -> str:
    longest = max((stage.seconds for stage in report.timeline), default=0) or 1
    stages: dict[int, list[Stage]] = {}
    for stage in report.timeline:
        stages.setdefault(stage.entry, []).append(stage)
    known = report.entries[:MOST]
    parts = [_entry(entry, stages.pop(entry.index, []), longest) for entry in known]
    rest = [stage for entry, rows in stages.items() if entry >= len(report.entries) for stage in rows]
    if rest:
        parts.insert(0, _bars(rest, longest))
    if len(report.entries) > MOST:
        parts.append(div(f"… and {len(report.entries) - MOST} more entries"))
    versions = " · ".join(f"{name} {version}" for name, version in report.versions.items())
    return "".join(parts) + div(esc(versions), "opacity:.8;font-size:90%;padding-top:6px")


def _entry(entry: EntryInfo, stages: list[Stage], longest: float) -> str:
    """What runs instead of the function's own code."""
    start = "the beginning" if entry.starts is None else f"line {entry.starts}"
    graph = "no graph" if entry.graph is None else f"graph {entry.graph}"
    ran = "used once" if entry.hits == 1 else f"used {entry.hits} times"
    facts = f"from {start}, {entry.ends} · {graph} · {entry.guards} guards · {ran}"
    cause = div(f"▲ because {esc(entry.cause)}", f"background:{html.TINTS['break']};padding:2px 8px;border-radius:3px")
    return div(
        div(f"<b>entry {entry.index}</b> {span(esc(facts), 'opacity:.85')}")
        + (cause if entry.cause else "")
        + later(_sums(stages), _bars(stages, longest) + _bytecode(entry)),
        "padding:5px 0",
    )


def _sums(stages: list[Stage]) -> str:
    return div(esc(" · ".join(f"{stage.name} {duration(stage.seconds)}" for stage in stages)), "padding-left:2ch")


def _bars(stages: list[Stage], longest: float) -> str:
    return div("".join(_bar(stage, longest) for stage in stages), f"{html.MONO};white-space:pre;line-height:1.5")


def _bar(stage: Stage, longest: float) -> str:
    width = max(2.0, WIDTH * stage.seconds / longest)
    colour = f"rgba({_BARS.get(stage.name, '139,148,158')},.75)"
    style = f"display:inline-block;width:{width:.0f}px;height:.8em;background:{colour};border-radius:2px"
    bar = span(span("", style), f"display:inline-block;width:{WIDTH + 12}px")
    hit = _HIT if stage.cache_hit else span(esc(_one(stage.detail)), "opacity:.8")
    return div(f"  {esc(stage.name):<10}{duration(stage.seconds):>9}  {bar}{hit}")


def _one(text: str) -> str:
    """`1 lines` is one line."""
    return re.sub(r"^1 (\w+)s$", r"1 \1", text)


def _bytecode(entry: EntryInfo) -> str:
    lines = entry.bytecode.splitlines()
    if not lines:
        return ""

    text = "\n".join(lines[:600]) + (f"\n… and {len(lines) - 600} more" if len(lines) > 600 else "")
    style = f"{html.MONO};white-space:pre;font-size:90%;overflow:auto;max-height:420px"
    return fold(f"the code that runs: {len(lines)} instructions", div(esc(text), style, class_="dj-code"))
