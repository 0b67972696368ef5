"""The Source tab: every line with its verdict, why capture stopped and what to try, and the kernels that run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, span
from kernel_ext.names import kernel_labels, kernels_by_line
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import Line, Report

_ROW = "display:flex;align-items:baseline;padding:1px 8px;border-radius:3px;margin:1px 0"
_NOTE = "white-space:normal;padding:2px 8px 4px 15ch;border-left:3px solid rgba(210,140,20,.9)"


@panel("Source")
def source(report: Report) -> str:
    if not report.source:
        return div(
            "The source of this function is not available (it was not written in a cell or a file).", "padding:6px 0"
        )
    indent = min((len(line.text) - len(line.text.lstrip()) for line in report.source if line.text.strip()), default=0)
    width = max(len(line.text) for line in report.source) - indent
    origins = _origins(report)
    shown = {line.number for line in report.source}
    kernels = kernels_by_line(report)
    rows = "".join(
        _row(report, line, indent, min(width, 88), origins.get(line.number, []), kernels.get(line.number, []))
        for line in report.source
    )
    elsewhere = "".join(
        _note(f"in line {row.line}" if row.line else "", f"{row.title} ({row.detail})", row.hint, row.code, row.where)
        for row in report.breaks
        if row.line not in shown
    )
    text = f"{html.MONO};white-space:pre;overflow-x:auto;line-height:1.5"
    return div(rows, text, class_="dj-rows", title="source lines") + elsewhere + _legend(report)


def _row(report: Report, line: Line, indent: int, width: int, origins: list[str], kernels: list[str]) -> str:
    char, word = html.WORDS[line.verdict]
    code = line.text[indent:]
    right = esc("  ".join(kernels[:6] + (["…"] if len(kernels) > 6 else [])))
    if origins:
        right += ("  " if right else "") + span(f"from {esc(', '.join(origins))}", "opacity:.8")
    cells = (
        span(str(line.number), "min-width:4ch;text-align:right;opacity:.8")
        + span(f" {char} ", "padding:0 1ch")
        + span(f"{word:<12}", "opacity:.8;min-width:12ch;font-size:90%")
        + span(esc(f"{code:<{width}}"), "flex:0 0 auto")
        + span(right, "padding-left:2ch;flex:0 0 auto")
    )
    note = _note("", line.note, line.hint, line.code, _where(report, line)) if line.note else ""
    if line.verdict == "none" and not kernels:
        return div(cells, _ROW + ";background:transparent")
    style = f"background:{html.TINTS[line.verdict]};border-radius:3px;margin:1px 0"
    inner = div(cells, "display:flex;align-items:baseline;padding:1px 8px") + note
    return div(inner, style, class_="dj-item", data_l=line.number, data_k=" ".join(kernels), data_verdict=line.verdict)


def _where(report: Report, line: Line) -> str:
    return next((row.where for row in report.breaks if row.line == line.number and row.where), "")


def _note(place: str, text: str, hint: str, code: str, where: str) -> str:
    said = f"╰ {esc(place)} {esc(text)}" if place else f"╰ {esc(text)}"
    if where:
        said += f", in {esc(where)}"
    tried = f"<br>try: {esc(hint)}" if hint and hint != "nothing" else ""
    return div(f"{said} {html.badge(code, 'rgba(210,140,20,.25)')}{tried}", _NOTE, class_="dj-note")


def _origins(report: Report) -> dict[int, list[str]]:
    """line -> where the text of what was inlined there stands; of a deep call, the first places."""
    found: dict[int, list[str]] = {}
    for graph in report.graphs:
        for node in graph.nodes:
            if node.where and node.line is not None:
                places = found.setdefault(node.line, [])
                if node.where not in places:
                    places.append(node.where)
    return {line: places[:2] + (["…"] if len(places) > 2 else []) for line, places in found.items()}


def _legend(report: Report) -> str:
    used = {line.verdict for line in report.source}
    shown = [f"{char} {word}" for key, (char, word) in html.WORDS.items() if key in used and word]
    labels = {short: f"{short} = {name}" for (name, _), short in kernel_labels(report).items()}
    return div(
        esc("   ".join([*shown, *(labels.values() if len(labels) < 4 else [])])),
        "opacity:.8;font-size:90%;padding:5px 8px;white-space:pre-wrap",
    )
