"""The Graph tab: a picture of each captured graph, and the graph as Python text.

Alive, the picture is drawn by the script from the graph itself: any level, boxes that open, search, zoom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.collapse import LEVELS, groups
from kernel_ext.html import div, esc, fold, later
from kernel_ext.panels.table import panel
from kernel_ext.picture import data_uri, draw
from kernel_ext.units import count

if TYPE_CHECKING:
    from dynajit.report import GraphInfo, Report

MOST_BOXES = 14
"""Of all pictures of a card together; alive, every box is there."""
MOST_GRAPHS = 24
MOST_TEXT = 60_000
SHORT_TEXT = 600


@panel("Graph", after="Source", count=lambda report: len(report.graphs))
def graph(report: Report) -> str:
    if not report.graphs:
        return div("No graph: there was no tensor operation to capture.", "padding:6px 0")
    left = MOST_BOXES
    parts: list[str] = []
    drawn: dict[object, int] = {}
    for info in report.graphs:
        shape = tuple((node.target, node.line, node.inputs) for node in info.nodes)
        if shape in drawn:
            parts.append(_again(info, drawn[shape]))
            continue
        if len(drawn) == MOST_GRAPHS:
            parts.append(div(f"… and {len(report.graphs) - len(parts)} more graphs: %compile graph prints all"))
            break
        drawn[shape] = info.index
        text, used = _one(report, info, left)
        left -= used
        parts.append(text)
    return "".join(parts)


def _again(info: GraphInfo, first: int) -> str:
    shapes = ", ".join(dict.fromkeys(node.shape for node in info.nodes if node.shape))
    said = f"the operations of graph {first} with other sizes ({shapes[:120]})"
    return div(f"{esc(_title(info))}: {esc(said)}", "padding:4px 0;opacity:.9")


def _title(info: GraphInfo) -> str:
    operations = count(len(info.nodes), "operation")
    ran = "once" if info.calls == 1 else f"{info.calls} times"
    return f"graph {info.index}: {operations}{_lines(info)} · {info.backend} · ran {ran}"


def _one(report: Report, info: GraphInfo, most: int) -> tuple[str, int]:
    level, boxes = groups(report, info, max(most, 1))
    shown = boxes[:most]
    title = _title(info)
    said = f"{LEVELS[level]} · the first {most} of {len(boxes)} boxes" if len(boxes) > most else LEVELS[level]
    alt = f"Picture of graph {info.index}: " + ", then ".join(box.title for box in boxes[:8] if not box.is_input)
    image = ""
    if shown:
        picture = data_uri(draw(shown, title))
        image = f'<img class="dj-pic" alt="{esc(alt)}" src="{picture}" style="max-width:none;display:block;margin:0">'
    still = div(said if shown else alt, "opacity:.8;padding:2px 0") + div(image, "overflow:auto;max-height:520px")
    code = info.code.strip("\n")
    text = fold("as Python", later(_code(code, SHORT_TEXT), _code(code, MOST_TEXT)))
    head = div(esc(title), "padding:4px 0;font-weight:600")
    return head + div(still, class_="dj-graph", data_graph=info.index, data_title=alt) + text, len(shown)


def _code(code: str, most: int) -> str:
    shown = code if len(code) <= most else code[:most].rpartition("\n")[0] + "\n…"
    return div(
        esc(shown), f"{html.MONO};white-space:pre;overflow:auto;max-height:420px;font-size:92%", class_="dj-code"
    )


def _lines(info: GraphInfo) -> str:
    lines = sorted({node.line for node in info.nodes if node.line is not None})
    if not lines:
        return ""
    return f" of line {lines[0]}" if len(lines) == 1 else f" of lines {lines[0]} to {lines[-1]}"
