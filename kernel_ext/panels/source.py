"""The Source tab: every line with its verdict, why capture stopped and what to try, the kernels that run it, and their
share of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, later, span
from kernel_ext.names import kernel_labels, kernels_by_line, shares_by_line
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import Line, Report

_NOTE = "white-space:normal;padding:2px 0 5px 20ch"
_MARK = "display:inline-block;width:3ch;text-align:center"
WIDEST = 88


@panel("Source")
def source(report: Report) -> str:
    if not report.source:
        return div(
            "The source of this function is not available (it was not written in a cell or a file).", "padding:6px 0"
        )
    rows = _Rows(report)
    text = f"{html.MONO};white-space:pre;overflow-x:auto;line-height:1.55"
    shown = {line.number for line in report.source}
    elsewhere = "".join(
        _note(f"in line {row.line}" if row.line else "", f"{row.title} ({row.detail})", row.hint, row.code, row.where)
        for row in report.breaks
        if row.line not in shown
    )
    still, alive = ("".join(rows.row(line, links) for line in report.source) for links in (False, True))
    return (
        later(div(still, text), div(alive, text, class_="dj-rows", title="source lines")) + elsewhere + _legend(report)
    )


class _Rows:
    """What all rows of a report have in common."""

    def __init__(self, report: Report) -> None:
        self.report = report
        filled = [line.text for line in report.source if line.text.strip()]
        self.indent = min((len(text) - len(text.lstrip()) for text in filled), default=0)
        self.width = min(max((len(text) for text in filled), default=0) - self.indent, WIDEST)
        self.origins = _origins(report)
        self.kernels = kernels_by_line(report)
        self.shares = shares_by_line(report)
        self.widest = max(map(len, map(_few, self.kernels.values())), default=0) + 1

    def row(self, line: Line, links: bool) -> str:
        """links: with what the script needs."""
        char, word = html.WORDS[line.verdict]
        code = line.text[self.indent :]
        kernels = self.kernels.get(line.number, [])
        if line.verdict == "none" and not kernels:
            return div(esc(f"{line.number:>4}{' ' * 16}{code}"), "padding:0 8px" if links else "")
        mark = span(char, _MARK) if line.verdict == "break" else f" {char} "  # scissors have a width of their own
        gutter = f"{line.number:>4}{mark}{word:<13}"
        tail = self._tail(line.number, kernels)
        code = esc(f"{code:<{self.width}}" if tail else code)
        note = _note("", line.note, line.hint, line.code, _where(self.report, line)) if line.note else ""
        if not links:
            return div(f"{gutter}{code}{esc(tail)}{note}", f"background:{html.TINTS[line.verdict]}")
        inner = span(gutter, "opacity:.75") + code + (span(esc(tail), "opacity:.8") if tail else "")
        style = f"background:{html.TINTS[line.verdict]};margin:1px 0;padding:0 8px"
        return div(inner + note, style, class_="dj-item", data_l=line.number, data_k=" ".join(kernels),
                   data_verdict=line.verdict)  # fmt: skip

    def _tail(self, number: int, kernels: list[str]) -> str:
        """What stands behind the code: kernels, their share of the time, places of inlined text."""
        share = self.shares.get(number)
        text = f"  {_few(kernels):<{self.widest}}{f'{100 * share:>3.0f}%' if share else '':>4}"
        origins = self.origins.get(number, [])
        return f"{text}  from {', '.join(origins)}" if origins else text.rstrip()


def _few(kernels: list[str]) -> str:
    return " ".join(kernels[:3] + (["…"] if len(kernels) > 3 else []))


def _where(report: Report, line: Line) -> str:
    """The place of a break in a function that this line calls."""
    return next((row.where for row in report.breaks if row.line == line.number and row.code == line.code), "")


def _note(line: str, title: str, hint: str, code: str, where: str) -> str:
    said = f"✂ {esc(title)}" + (f", {esc(line)}" if line else "")
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
    if shares_by_line(report):
        shown.append("% = share of the time of a call, measured over the first runs")
    return div(
        esc("   ".join([*shown, *(labels.values() if len(labels) < 4 else [])])),
        "opacity:.8;font-size:90%;padding:6px 8px 2px;white-space:pre-wrap",
    )
