"""The Graph tab: a picture of each captured graph, and the graph as Python text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.collapse import groups
from kernel_ext.html import div, esc, fold
from kernel_ext.panels.table import panel
from kernel_ext.picture import data_uri, draw

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, Report

MOST_BOXES = 150
MOST_TEXT = 20_000


@panel("Graph", after="Source", count=lambda report: len(report.graphs))
def graph(report: Report) -> str:
    if not report.graphs:
        return div("No graph: there was no tensor operation to capture.", "padding:6px 0")
    left = MOST_BOXES
    parts: list[str] = []
    drawn: dict[object, int] = {}
    for info in report.graphs:
        if left < 1:
            parts.append(div(f"… and {len(report.graphs) - len(parts)} more graphs", "padding:4px 0"))
            break
        shape = tuple((node.target, node.line, node.inputs) for node in info.nodes)
        if shape in drawn:
            parts.append(_again(info, drawn[shape]))
            continue
        drawn[shape] = info.index
        text, used = _one(report, info, max(left, 20))
        left -= used
        parts.append(text)
    return "".join(parts)


def _again(info: GraphInfo, first: int) -> str:
    shapes = ", ".join(dict.fromkeys(node.shape for node in info.nodes if node.shape))
    said = f"the operations of graph {first} with other sizes ({shapes[:120]})"
    return div(f"{esc(_title(info))}: {esc(said)}", "padding:4px 0;opacity:.9")


def _title(info: GraphInfo) -> str:
    count = _count(len(info.nodes), "operation")
    return f"graph {info.index}: {count}{_lines(info)} · {info.backend} · calls: {info.calls}"


def _one(report: Report, info: GraphInfo, most: int) -> tuple[str, int]:
    level, boxes = groups(report, info, most)
    cut = len(boxes) - most if len(boxes) > most else 0
    shown = boxes[:most]
    title = _title(info)
    said = {"op": "", "call": " · one box a call", "line": " · one box a line"}[level]
    more = f" · the first {most} boxes" if cut else ""
    picture = data_uri(draw(shown, title))
    alt = f"Picture of graph {info.index}: " + ", then ".join(box.title for box in shown[:8] if not box.is_input)
    image = f'<img class="dj-pic" alt="{esc(alt)}" src="{picture}" style="max-width:none;display:block;margin:0">'
    scroll = div(image, "overflow:auto;max-height:520px", class_="dj-scroll")
    code = info.code if len(info.code) <= MOST_TEXT else info.code[:MOST_TEXT] + "\n…"
    text = fold(
        "as Python",
        div(esc(code.strip("\n")), f"{html.MONO};white-space:pre;overflow:auto;max-height:420px;font-size:92%"),
    )
    return div(div(esc(title + said + more), "padding:4px 0;opacity:.9") + scroll + text, data_graph=info.index), len(
        shown
    )


def _lines(info: GraphInfo) -> str:
    lines = sorted({node.line for node in info.nodes if node.line is not None})
    if not lines:
        return ""
    return f" of line {lines[0]}" if len(lines) == 1 else f" of lines {lines[0]} to {lines[-1]}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
