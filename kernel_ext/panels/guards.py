"""The Guards tab: what must hold for the compiled code to be used, in words; which of them ever failed, and what the
check costs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernel_ext import html
from kernel_ext.html import div, esc, fold, later, span
from kernel_ext.panels.table import panel
from kernel_ext.units import duration

if TYPE_CHECKING:
    from dynajit.report import GuardInfo, Report

MOST, SHORT = 120, 3
"""Rows of each of the two tables, alive and where no script runs."""
_DATA = frozenset({"TENSOR", "EQUALS", "SAME", "NOT_SAME", "NO_OVERLAP", "SIZE", "RELATION", "STATE"})
"""Guards on what a call brings along; the others watch that the program itself stays the same."""


@dataclass
class _Row:
    """Guards of several entries with the same words."""

    guard: GuardInfo
    entries: list[int]


@panel("Guards", after="Graph", count=lambda report: len({guard.words for guard in report.guards}))
def guards(report: Report) -> str:
    if not report.guards:
        return div("No guard: the compiled code fits every call.", "padding:6px 0")
    rows: dict[str, _Row] = {}
    for guard in report.guards:
        row = rows.setdefault(guard.words, _Row(guard, []))
        if guard.entry not in row.entries:
            row.entries.append(guard.entry)
    ordered = sorted(rows.values(), key=lambda row: not row.guard.failed)
    data = [row for row in ordered if row.guard.failed or row.guard.kind in _DATA]
    rest = [row for row in ordered if not (row.guard.failed or row.guard.kind in _DATA)]
    many = len(report.entries) > 1
    tint = f"background:{html.TINTS['break']};padding:3px 8px;margin:3px 0;border-radius:3px"
    parts = [div(f"▲ compiled again: {esc(words)}", tint) for words in report.recompiles[-8:]]
    parts.append(div(_cost(report), "padding:4px 0;opacity:.9"))
    if data:
        parts.append(_table("What a call brings: the compiled code is used while all of these hold.", data, many))
    if rest:
        shown = _table("What the program consists of: nobody has replaced it since.", rest, many)
        parts.append(fold(f"the program is unchanged ({len(rest)})", shown, is_open=len(rest) < 8))
    return "".join(parts)


def _cost(report: Report) -> str:
    """What looking at the guards costs a call."""
    first = [entry for entry in report.entries if entry.starts is None and entry.check_seconds]
    if not first:
        return ""
    taken = max(entry.check_seconds for entry in first)
    return f"{max(entry.guards for entry in first)} guards are checked in {duration(taken)} before each call."


def _table(caption: str, rows: Sequence[_Row], many: bool) -> str:
    heads = ["", "condition", "line", *(["entries"] if many else [])]
    cells = [({"data-l": row.guard.line, "class": "dj-item"}, _cells(row, many)) for row in rows[:MOST]]

    def shown(most: int) -> str:
        more = div(f"… and {len(rows) - most} more: %compile guards lists all") if len(rows) > most else ""
        return html.table(caption, heads, cells[:most]) + more

    return later(shown(SHORT), shown(MOST))


def _cells(row: _Row, many: bool) -> list[str]:
    guard = row.guard
    tint = html.TINTS["failed"] if guard.failed else "transparent"
    mark = span(
        "✗ failed" if guard.failed else "✓ held",
        f"background:{tint};padding:0 4px;border-radius:3px;white-space:nowrap",
    )
    words = span(esc(guard.words), "font-family:monospace")
    if guard.failed:
        times = "once" if guard.failed == 1 else f"{guard.failed} times"
        when = time.strftime(" at %H:%M:%S", time.localtime(guard.when)) if guard.when else ""
        words += div(f"failed {times}; then{when} it was {esc(guard.last)}", "opacity:.9;padding-left:12px")
    line = str(guard.line) if guard.line is not None else ""
    return [mark, words, line, *([_numbers(row.entries)] if many else [])]


def _numbers(entries: list[int]) -> str:
    text = ", ".join(map(str, entries))
    return text if len(text) < 20 else f"{entries[0]} to {entries[-1]}"
