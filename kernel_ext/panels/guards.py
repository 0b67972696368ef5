"""The Guards tab: what must hold for the compiled code to be used, in words; which of them ever failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, span
from kernel_ext.panels.table import panel

if TYPE_CHECKING:
    from dynajit.report import GuardInfo, Report


@panel("Guards", after="Graph", count=lambda report: len(report.guards))
def guards(report: Report) -> str:
    if not report.guards:
        return div("No guard: the compiled code fits every call.", "padding:6px 0")
    many = len(report.entries) > 1
    heads = ["", "condition", "line", *(["entry"] if many else []), "history"]
    rows = [({"data-l": guard.line, "class": "dj-item"}, _cells(guard, many)) for guard in report.guards]
    why = "".join(
        div(
            f"▲ compiled again: {esc(words)}",
            f"background:{html.TINTS['break']};padding:3px 8px;margin:2px 0;border-radius:3px",
        )
        for words in report.recompiles
    )
    return why + html.table("The compiled code is used while all of these hold.", heads, rows)  # type: ignore[arg-type]


def _cells(guard: GuardInfo, many: bool) -> list[str]:
    history = f"failed {guard.failed} times, then it was {guard.last}" if guard.failed else "never failed"
    mark = "✗ failed" if guard.failed else "✓ held"
    tint = html.TINTS["failed"] if guard.failed else "transparent"
    style = f"background:{tint};padding:0 4px;border-radius:3px;white-space:nowrap"
    line = str(guard.line) if guard.line is not None else ""
    return [
        span(mark, style),
        span(esc(guard.words), html.MONO),
        line,
        *([str(guard.entry)] if many else []),
        esc(history),
    ]
